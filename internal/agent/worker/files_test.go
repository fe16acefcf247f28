package worker

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What is about to become another file is not shown to an agent: it would be gone when the
// sandbox is made.
func TestReadablePathsLastAsLongAsTheAgent(t *testing.T) {
	ws := t.TempDir()
	for _, name := range []string{"event.json", ".new-01a219c3-8228-737b-a704-a3feb44fe72e", ".newly"} {
		if err := os.WriteFile(filepath.Join(ws, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"context", "output", "record"} {
		if err := os.Mkdir(filepath.Join(ws, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{filepath.Join(ws, ".newly"), filepath.Join(ws, "context"), filepath.Join(ws, "event.json")}
	if got := readablePaths(ws); !slices.Equal(got, want) {
		t.Errorf("an agent reads %q, want %q", got, want)
	}
}
