package arch

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// phases are the packages of a diagnosis, each with those of them that it may import: a
// rule is a function of the scene alone, and a report knows no rule.
var phases = map[string][]string{
	"scene":           nil,
	"collect":         {"scene"},
	"rules":           {"scene", "rules/network", "rules/nodes", "rules/pods", "rules/volumes", "rules/workloads"},
	"rules/network":   {"scene"},
	"rules/nodes":     {"scene"},
	"rules/pods":      {"scene"},
	"rules/volumes":   {"scene"},
	"rules/workloads": {"scene"},
	"compose":         {"scene"},
	"scenetest":       {"scene"},
}

func TestPhasesOfADiagnosisMeetInTheScene(t *testing.T) {
	const home = "internal/diagnose/internal/"
	seen := map[string]bool{}
	for _, src := range sources(t) {
		phase, is := strings.CutPrefix(src.folder, home)
		if !is {
			continue
		}
		seen[phase] = true
		allowed, known := phases[phase]
		if !known {
			t.Errorf("%s is no phase of a diagnosis", src.folder)
		}
		for _, imp := range src.imports {
			folder, _ := ours(imp)
			if other, is := strings.CutPrefix(folder, home); is && !slices.Contains(allowed, other) || folder == path.Dir(path.Dir(home)) {
				t.Errorf("%s imports %s: %s may import %q of the phases", src.file, folder, phase, allowed)
			}
		}
	}
	if len(seen) != len(phases) {
		t.Errorf("found the phases %v, want %v", seen, phases)
	}
}
