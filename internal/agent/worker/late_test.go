package worker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A worker that Launch took for failed starts no agent when it wakes up later:
// by then another attempt may be under way.
func TestLateWorkerStartsNothing(t *testing.T) {
	b := newBench(t, `touch "$OUTPUT_DIR/ran"`)
	if err := b.launchWith("/bin/false"); err == nil {
		t.Fatal("a worker that does not answer counts as launched")
	}
	late := exec.Command(os.Args[0], "worker", string(b.dir()))
	late.Stdin = strings.NewReader("{}\n")
	if out, err := late.CombinedOutput(); err != nil {
		t.Errorf("the late worker: %v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(b.ws, ".scratch", "ran")); err == nil {
		t.Error("the late worker started the agent")
	}
	b.noneLeft()
}
