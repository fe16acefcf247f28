package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A check names the file and the field of every runbook that is never joined to a
// report; a server starts all the same.
func TestRunbooksAreChecked(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good.md": "---\nmatch: {kind: Pod}\n---\ntext", "typo.md": "---\nmatch: {class: pods}\n---\ntext", "none.md": "# A page",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, warnings := mustLoad(t, "runbooks: {dir: "+dir+"}")
	for _, want := range []string{"typo.md: match.class:", "none.md: has no front matter"} {
		if !slices.ContainsFunc(warnings, func(w Warning) bool {
			return w.FailsCheck && w.Key == "runbooks.dir" && strings.Contains(w.Text, want)
		}) {
			t.Errorf("%q is not told: %v", want, warnings)
		}
	}
	if len(warnings) != 2 {
		t.Errorf("warnings %v", warnings)
	}
	if _, warnings := mustLoad(t, "runbooks: {dir: "+dir+"/none}"); len(warnings) != 1 || !warnings[0].FailsCheck || !strings.Contains(warnings[0].Text, "is not a directory") {
		t.Errorf("warnings %v", warnings)
	}
}

// A pipeline that is left out is a warning, by file and line; a server starts all the same.
func TestPipelinesAreChecked(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"good.yaml": "name: good\nsteps: [{skill: a}]\n", "bad.yaml": "name: bad\nstep: [{skill: a}]\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, warnings := mustLoad(t, "pipelines_dir: "+dir)
	for _, want := range []string{"bad.yaml:1: steps: is missing", "bad.yaml:2: step: is not a key: did you mean steps?"} {
		if !slices.ContainsFunc(warnings, func(w Warning) bool {
			return w.FailsCheck && w.Key == "pipelines_dir" && strings.Contains(w.Text, want)
		}) {
			t.Errorf("%q is not told: %v", want, warnings)
		}
	}
	if len(warnings) != 2 {
		t.Errorf("warnings %v", warnings)
	}
}
