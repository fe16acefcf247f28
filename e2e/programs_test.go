package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// program holds the directory of the real binary, which is built once. What is left of
// it, the next run sweeps.
var program = sync.OnceValues(func() (*testproc.Scratch, error) {
	scratch, err := testproc.NewScratch("nightcrier-e2e-")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(scratch.Path, "nightcrier"), "./cmd/nightcrier")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w: %s", err, out)
	}
	return scratch, nil
})

// binary is the real binary.
func binary(t *testing.T) string {
	t.Helper()
	scratch, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(scratch.Path, "nightcrier")
}
