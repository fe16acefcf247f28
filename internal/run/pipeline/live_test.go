package pipeline

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// What changes in the directory is there for the next who asks; what did not change is not
// read again, and what is wrong is said once.
func TestChangesAreRead(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"a.yaml": "name: a\nsteps: [{skill: x}]\n"})
	var said []string
	l := Open(dir, func(p Problem) { said = append(said, strings.TrimPrefix(p.String(), dir+"/")) })
	names := func() (all []string) {
		for _, e := range slices.DeleteFunc(l.Library().List(), isBuildDeploy) {
			all = append(all, e.Name)
		}
		return all
	}
	change := func(name, text string, at time.Time) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	first := l.Library()
	if got := names(); !slices.Equal(got, []string{"a", "cluster-health", Triage}) || l.Library() != first {
		t.Errorf("%q, or read again", got)
	}
	later := time.Now().Add(time.Hour)
	change("a.yaml", "name: b\nsteps: [{skill: x}]\n", later) // of the same size
	if got := names(); !slices.Equal(got, []string{"b", "cluster-health", Triage}) {
		t.Errorf("%q", got)
	}
	change("c.yaml", "name: c\nstep: [{skill: x}]\n", later)
	if got := names(); !slices.Equal(got, []string{"b", "cluster-health", Triage}) {
		t.Errorf("%q", got)
	}
	names()
	if want := []string{"c.yaml:1: steps: is missing: write a list of skills or actions below it", "c.yaml:2: step: is not a key: did you mean steps?"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := names(); !slices.Equal(got, []string{"cluster-health", Triage}) {
		t.Errorf("%q", got)
	}
}

// Who asks while it changes gets one of the two states whole.
func TestAReloadIsWhole(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"a.yaml": "name: build-deploy\nsteps: [{skill: x}]\n", "b.yaml": "name: b\nsteps: [{skill: x}]\n"})
	l := Open(dir, func(Problem) {})
	if err := os.Rename(filepath.Join(dir, "b.yaml"), filepath.Join(dir, "b.off")); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if n := len(l.Library().List()); n != 4 {
					t.Errorf("%d pipelines", n)
				}
			}
		})
	}
	all.Wait()
}
