package run

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// roomFor makes room when an agent is made ready, as somebody does who sees a disk full.
type roomFor struct {
	*site
	ballast string
}

// PrepareSkill implements Skills.
func (r roomFor) PrepareSkill(context.Context, *Session, Task) error {
	if err := os.Remove(r.ballast); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// How a step ended is shown when there is room for it, and is not forgotten meanwhile: a retry goes
// by it.
func TestStepsAreShownWhenThereIsRoom(t *testing.T) {
	disk, dir := t.TempDir(), t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("SKIPPED ALOUD: a full disk: this test needs root to mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	if err := os.Symlink(filepath.Join(disk, store.FileName), filepath.Join(dir, store.FileName)); err != nil {
		t.Fatal(err)
	}
	s := &site{dir: dir}
	r := roomFor{s, filepath.Join(disk, "ballast")}
	s.skills = r
	s.agents = map[string]script{"a": func(int, backend.Spec) nightcrier.AgentResult {
		if err := fill(r.ballast); err != nil {
			t.Error(err)
		}
		return well("done")
	}}
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	run, rows := s.executed(t, steps("  - {id: a, skill: x/a}\n  - {id: b, skill: x/b}\n"), "")
	if want := []string{"a success", "b success"}; run.Outcome != nightcrier.StateSuccess || !slices.Equal(rows, want) {
		t.Errorf("%s: %s, %q", run.Outcome, run.FailureReason, rows)
	}
}

// fill leaves no room on path's file system.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		if _, err := f.Write(chunk); err != nil {
			chunk = chunk[:len(chunk)/2]
		}
	}
	return f.Close()
}
