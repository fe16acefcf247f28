package diagnose

import (
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/compose"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// Beside a fault only what has shown that it is well is called unaffected.
func TestWhoIsUnaffected(t *testing.T) {
	crash := stuckAlike{spec: onNode + "containers: [{name: app}]", status: statusWaits("CrashLoopBackOff", "back-off 5m0s"), made: made}
	starts := stuckAlike{spec: onNode + "containers: [{name: app}]", status: statusWaits("ContainerCreating", ""), made: made}
	stuck := stuckAlike{spec: onNode + "containers: [{name: app, envFrom: [{configMapRef: {name: conf}}]}]", status: statusWaits("CreateContainerConfigError", `configmap "conf" not found`), made: made}
	all := []string{crash.docs("broken"), starts.docs("young"), stuck.docs("a", "b"), scenetest.WellWorkload("fine", "{name: A, value: b}", "")}
	r := nightcrier.Resource{Kind: scene.NamespaceKind, Name: "shop"}
	f := &scene.Facts{Now: scenetest.Now, Scene: scenetest.New(t, scenetest.JoinDocs(all...)), Target: r, Owner: r, OwnerRead: true}
	found := explainFacts(f)
	scope := compose.AssembleReport(compose.Case{Incident: &nightcrier.Incident{}, Mask: func(s string) string { return s }}, f, found, nil, nil).Scope
	for _, c := range []struct {
		word string
		got  []nightcrier.Object
		want string
	}{
		{"affected", scope.Affected, "ConfigMap conf, Deployment a, Deployment b, Deployment broken"},
		{"suspected", scope.Suspected, ""},
		{"unaffected", scope.Unaffected, "Deployment fine"},
		{"coming up", scope.ComingUp, "Deployment young"},
	} {
		var names []string
		for _, o := range c.got {
			names = append(names, o.Kind+" "+o.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.word, got, c.want)
		}
	}
}

// What has only begun is not called well, and what else there is does not hide it.
func TestOnlyComingUpIsNotHealthy(t *testing.T) {
	starts := stuckAlike{spec: onNode + "containers: [{name: app}]", status: statusWaits("ContainerCreating", ""), made: made}
	r := nightcrier.Resource{Kind: scene.NamespaceKind, Name: "shop"}
	f := &scene.Facts{Now: scenetest.Now, Scene: scenetest.New(t, scenetest.JoinDocs(starts.docs("young"), scenetest.WellWorkload("fine", "{name: A, value: b}", ""))), Target: r, Owner: r, OwnerRead: true}
	rep := compose.AssembleReport(compose.Case{Incident: &nightcrier.Incident{}, Mask: func(s string) string { return s }}, f, explainFacts(f), nil, nil)
	if rep.Verdict != nightcrier.VerdictUndetermined || !strings.Contains(rep.Hypotheses[0].Statement, "Deployment shop/young is in progress") || !strings.Contains(rep.Actions[0].Action, "Look again") {
		t.Errorf("verdict %s, %q, %+v", rep.Verdict, rep.Hypotheses[0].Statement, rep.Actions)
	}
}
