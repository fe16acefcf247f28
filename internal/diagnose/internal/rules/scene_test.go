package rules

import (
	"slices"
	"testing"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// foundOf are the findings of one cause.
func foundOf(all []scene.Finding, cause string) (of []scene.Finding) {
	for _, n := range all {
		if n.Cause == cause {
			of = append(of, n)
		}
	}
	return of
}

// checkScene runs all rules about the surroundings and compares the causes, as
// "cause Kind name", the best first.
func checkScene(t *testing.T, s *scene.Scene, want ...string) {
	t.Helper()
	var got []string
	for _, f := range ApplySceneRules(s) {
		got = append(got, f.Cause+" "+f.Object.Kind+" "+f.Object.Name)
		scenetest.CheckFinding(t, f)
	}
	if !slices.Equal(got, want) {
		t.Errorf("findings %q, want %q", got, want)
	}
}
