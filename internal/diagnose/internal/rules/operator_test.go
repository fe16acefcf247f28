package rules

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// What objects of operators say by the customs that all of them share is found, whatever
// their kind; what they say while they work is not.
func TestSaysTrouble(t *testing.T) {
	for name, c := range map[string]struct{ status, want string }{
		"not ready":              {`conditions: [{type: Ready, status: "False", reason: Failed, message: "no such bucket"}]`, "custom-resource-failing no such bucket"},
		"the one that says why":  {`conditions: [{type: Ready, status: "False", reason: RetriesExceeded, message: "retries exhausted"}, {type: Released, status: "False", reason: UpgradeFailed, message: "spec.selector: field is immutable"}]`, "custom-resource-failing field is immutable"},
		"a condition of trouble": {`conditions: [{type: Stalled, status: "True", reason: X, message: "bad spec"}]`, "custom-resource-failing bad spec"},
		"without a status":       {`conditions: [{type: SyncError, message: "no matches for kind Vault"}]`, "custom-resource-failing no matches for kind"},
		"a phase":                {`phase: Failed, message: "disk gone"`, "custom-resource-failing disk gone"},
		"waits":                  {`conditions: [{type: Ready, status: "False", reason: HealthCheckFailed, message: "timeout waiting for: [Deployment/shop/cart]", lastTransitionTime: "2026-03-01T11:00:00Z"}]`, "custom-resource-waiting timeout waiting"},
		"has begun":              {`conditions: [{type: Ready, status: "False", reason: Progressing, message: "reconciling", lastTransitionTime: "2026-03-01T11:59:00Z"}]`, ""},
		"ready":                  {`conditions: [{type: Ready, status: "True"}, {type: Stalled, status: "False"}], phase: Running`, ""},
		"rests":                  {`conditions: [{type: Active, status: "False", reason: ScalerNotActive, message: "Scaling is not performed because triggers are not active"}]`, ""},
		"nothing said":           {`observedGeneration: 3`, ""},
	} {
		s := scenetest.New(t, `{apiVersion: example.com/v1, kind: Thing, metadata: {namespace: shop, name: x}, status: {`+c.status+`}}`)
		got := ""
		for _, n := range ApplySceneRules(s) {
			scenetest.CheckFinding(t, n)
			got = n.Cause + " " + n.Summary
		}
		cause, words, _ := strings.Cut(c.want, " ")
		if !strings.HasPrefix(got, cause) || !strings.Contains(got, words) || (c.want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
