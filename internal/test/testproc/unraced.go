package testproc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"sync"
	"testing"
)

// Raced reports whether this program has the race detector, which makes it five
// to ten times as slow.
func Raced() bool {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

// Unraced returns the path of this test binary without the race detector: its own
// where it has none, else one that is built once. It is called in the directory of
// its package, as tests run.
func Unraced() (string, error) {
	if !Raced() {
		return os.Executable()
	}
	scratch, err := unraced()
	if err != nil {
		return "", err
	}
	return filepath.Join(scratch.Path, unracedName), nil
}

const unracedName = "unraced.test"

// unraced holds the scratch directory, whose lock ends with it.
var unraced = sync.OnceValues(func() (*Scratch, error) {
	scratch, err := NewScratch("nightcrier-unraced-")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", filepath.Join(scratch.Path, unracedName), ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the tests without the race detector: %w\n%s", err, out)
	}
	return scratch, nil
})

// Self is Unraced for a test that cannot be without it: the program that its workers,
// sandboxes and attackers are started from. Nobody hears there what a race detector says,
// and with it each start takes five times as long. What runs in the tests' own process
// has it.
func Self() string {
	path, err := Unraced()
	if err != nil {
		panic(err)
	}
	return path
}

// Rerun runs the test once more, without the race detector; it fails when that
// run does. A test of many objects does so, and is itself a smaller one where it has
// the detector.
func Rerun(t *testing.T) {
	t.Helper()
	path, err := Unraced()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, "-test.v", "-test.count=1", "-test.run=^"+t.Name()+"$").CombinedOutput()
	t.Logf("without the race detector:\n%s", out)
	if err != nil {
		t.Error(err)
	}
}
