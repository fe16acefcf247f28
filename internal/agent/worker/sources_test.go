package worker

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/guard/data"
)

// Every real CLI asks for metrics where there are some, with a shell and without, and
// learns neither the token nor another way there.
func TestCLIsAskForMetrics(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, row := range clis() {
		t.Run(row.named(), func(t *testing.T) {
			source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer token-of-prometheus" {
					t.Errorf("asked with %v", r.Header)
				}
				_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"cart-1"},"value":[1700000000,"4711"]}]}}`)
			}))
			t.Cleanup(source.Close)
			b := row.bench(t, append([]fakemodel.Step{
				{Text: "How long is the queue?", Tools: []fakemodel.ToolCall{row.ours("prometheus_query", map[string]any{"query": "queue_length"})}},
			}, row.report("# Report\n")...)...)
			b.spec.Namespace, b.sec.Cluster = c.Namespace(t), c.cred
			b.sec.Sources = &data.Access{Prometheus: &data.Endpoint{URL: source.URL, Token: "token-of-prometheus"}}
			_, entries := b.ends(t, nightcrier.StateSuccess, "")
			asked := b.model.Requests("it")
			last := asked[len(asked)-1].Text
			q := find(requestsOf(t, entries), "get", data.Prometheus, true)
			if q == nil || q.Evidence == "" || !strings.Contains(last, "[evidence "+q.Evidence+"]") || !strings.Contains(last, "4711") {
				t.Errorf("the question is journaled as %+v; the model was told\n%s", q, clip(last))
			}
			b.nowhere(t, "token-of-prometheus")
		})
	}
}
