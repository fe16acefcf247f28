package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// Without a model, and without an incident, our rules look at a cluster and say what is in trouble. People
// are told of that, of what could not be looked at, and of a pipeline of their own that does the same.
func TestClusterHealth(t *testing.T) {
	t.Parallel()
	kube, h := kubetest.Start(t), newHouse(t)
	well, ill := kube.Namespace(t), kube.Namespace(t)
	starves(t, kube, ill, "ledger")
	dir := filepath.Join(t.TempDir(), "pipelines")
	own := "name: own-health\nnotifications: [{channel: slack, on: [failure]}]\nsteps:\n  - {id: a, action: health, with: {cluster: '\"real\"', namespace: '\"" + well + "\"'}}\n" +
		"  - {id: b, action: health, with: {cluster: '\"real\"', namespace: input.ns}, if: steps.a.output.healthy}\n"
	h.must(os.MkdirAll(dir, 0o700))
	h.must(os.WriteFile(filepath.Join(dir, "own.yaml"), []byte(own), 0o600))
	_, err := h.load(nil, "listen: 127.0.0.1:0", "clusters: [{name: real, kubeconfig: "+kube.ReadOnly(t)+"}]", "slack: {webhook_url: "+h.slack.URL+"}", "pipelines_dir: "+dir, "agent: {executor: builtin}")
	h.must(err)
	h.run(nil)
	check := func(pipeline, input string, outcome nightcrier.State, posts int, says ...string) {
		t.Helper()
		r, err := h.StartRun(t.Context(), api.Call{Pipeline: pipeline, Input: json.RawMessage(input), By: "ann"})
		h.must(err)
		h.eventually(func() string {
			r, err = h.Store().Run(t.Context(), r.ID)
			if h.must(err); r.Status != nightcrier.Finished {
				return "the run is " + string(r.Status)
			}
			return ""
		})
		steps, err := h.Store().Steps(t.Context(), r.ID)
		h.must(err)
		said := r.FailureReason
		for _, s := range steps {
			said += string(s.Output)
		}
		h.want(r.Outcome == outcome, "%s of %s ended as %s: %s", pipeline, input, r.Outcome, said)
		h.eventually(func() string {
			if got := h.slack.got(); len(got) < posts {
				return "people were not told"
			}
			return ""
		})
		got := h.slack.got()
		h.want(len(got) == posts, "%d messages, want %d: %s", len(got), posts, got)
		if posts > 0 {
			said += got[posts-1]
		}
		for _, want := range says {
			h.want(strings.Contains(said, want), "no word of %q in %s", want, said)
		}
	}
	check("own-health", `{"ns":"`+well+`"}`, nightcrier.StateSuccess, 0, `"healthy":true`)
	check("cluster-health", `{"namespace":"`+well+`"}`, nightcrier.StateSuccess, 0, `"cluster":"real"`, `"healthy":true`)
	check("cluster-health", `{"cluster":"real"}`, nightcrier.StateSuccess, 1, `"healthy":false`, "ledger", "in trouble", "nightcrier runs show", "*About*\\nhealth of real", "*Started by*\\nann")
	check("own-health", `{"ns":"`+ill+`"}`, nightcrier.StateSuccess, 1, `"healthy":false`, "settings")
	check("cluster-health", `{"cluster":"elsewhere"}`, nightcrier.StateFailed, 2, "which is not configured: name one of real", "cluster-health failed")
}
