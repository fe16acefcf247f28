package e2e

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"nightcrier.dev/nightcrier/internal/test/apitest"
)

// sourceEffects are the rows of what metrics and logs are asked for with. Keys that go
// together are set at once, and the product is started once for all of them.
func sourceEffects() map[string]func(*house) {
	all := map[string]func(*house){}
	for _, name := range []string{"prometheus", "loki"} {
		rows := func(env, settings string, seen map[string]func(*http.Request) bool) {
			for key := range seen {
				all["clusters[].sources."+name+"."+key] = func(*house) {} // shown with the first of them
			}
			first := slices.Min(slices.Collect(maps.Keys(seen)))
			all["clusters[].sources."+name+"."+first] = func(h *house) {
				asked := h.questions([]string{env}, name, settings)
				for key, shows := range seen {
					h.want(slices.ContainsFunc(asked, shows), "no question shows %s.%s", name, key)
				}
			}
		}
		login := func(r *http.Request) bool {
			user, password, _ := r.BasicAuth()
			return user == "me" && password == "password-abcdef"
		}
		rows("THE_TOKEN=token-abcdef", ", token_env: THE_TOKEN, tenant: team-a, namespace_label: k8s_ns", map[string]func(*http.Request) bool{
			"url":             func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/api/v1/query_range") },
			"token_env":       func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer token-abcdef" },
			"tenant":          func(r *http.Request) bool { return r.Header.Get("X-Scope-OrgID") == "team-a" },
			"namespace_label": func(r *http.Request) bool { return strings.Contains(r.FormValue("query"), `k8s_ns="made-up"`) },
		})
		rows("THE_PASSWORD=password-abcdef", ", username: me, password_env: THE_PASSWORD", map[string]func(*http.Request) bool{"username": login, "password_env": login})
	}
	return all
}

// questions lets a fault arrive of a workload that was killed for its memory, and
// returns what a source was asked for it.
func (h *house) questions(env []string, name, setting string) []*http.Request {
	h.Helper()
	var mu sync.Mutex
	var asked []*http.Request
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		mu.Lock()
		asked = append(asked, r)
		mu.Unlock()
		_, _ = io.WriteString(w, `{"status": "success", "data": {"resultType": "matrix", "result": []}}`)
	}))
	h.t.Cleanup(source.Close)
	cluster := apitest.New(h.t)
	cluster.Put("deployments", "made-up", "d1", []byte(`{"apiVersion": "apps/v1", "kind": "Deployment", "metadata":{"name": "d1", "namespace": "made-up", "uid": "u1"},
		"spec": {"replicas": 1, "selector": {"matchLabels": {"app": "d1"}}}}`))
	cluster.Put("pods", "made-up", "d1-0", []byte(`{"apiVersion": "v1", "kind": "Pod", "metadata":{"name": "d1-0", "namespace": "made-up", "uid": "u2", "labels": {"app": "d1"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
		"spec": {"nodeName": "n1", "containers": [{"name": "app", "resources": {"limits": {"memory": "64Mi"}}}]},
		"status": {"phase": "Running", "containerStatuses": [{"name": "app", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
			"lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:10:00Z"}}}]}}`))
	_, err := h.load(env, "clusters: [{name: c1, kubeconfig: "+cluster.Kubeconfig(h.t)+", sources: {"+name+": {url: "+source.URL+setting+"}}}]")
	h.must(err)
	h.run(nil)
	h.done()
	mu.Lock()
	defer mu.Unlock()
	return asked
}
