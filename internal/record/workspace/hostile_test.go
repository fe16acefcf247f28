package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

// A directory in the report's place would end the run without any report, and
// be in the way of every later one.
func TestReportIsNoDirectory(t *testing.T) {
	w := create(t, openRoot(t))
	put(t, w, ".scratch/investigation.md/x", "x")
	put(t, w, ".scratch/artifacts/a", "a")
	c, err := w.Collect()
	if err != nil || len(c.Refused) != 1 || len(c.Artifacts) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := w.ReadFile("output/investigation.md"); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("the report is %v", err)
	}
	if err := w.Remove("output/investigation.md"); err != nil {
		t.Error(err)
	}
}

// An agent's home is its own for one attempt: its settings, hooks and profiles
// do not reach the next one.
func TestHomeIsForOneAttempt(t *testing.T) {
	w := create(t, openRoot(t))
	planted := put(t, w, "home/.claude/settings.json", "{}")
	if err := os.Symlink("../output/evidence", filepath.Join(w.Dir(), "home", "link")); err != nil {
		t.Fatal(err)
	}
	kept := put(t, w, "output/evidence/E1", "fact")
	if err := w.ClearScratch(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(planted); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the settings are there: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(w.Dir(), "home")); err != nil || !info.IsDir() {
		t.Errorf("there is no home: %v", err)
	}
}

// Whoever owns the root can put another directory in a workspace's place.
func TestRootOfSomebodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED ALOUD: only root can give a directory to somebody else")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRoot(dir); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("%v", err)
	}
}
