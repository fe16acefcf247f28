package worker

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// The tools of an agent without a shell read as its kubectl would: through the
// cluster's guard, on the run's record and into its evidence.
func TestToolsReadThroughTheRunsGuard(t *testing.T) {
	c := newCluster(t)
	ns := c.Namespace(t)
	c.Pod(t, ns, "cart", nil)
	c.secret(t, ns)
	b := newBench(t, "")
	b.sec.Cluster = c.cred
	b.must(os.Mkdir(filepath.Join(b.ws, "home"), 0o700))
	w, calls := b.keeper()
	calls.close()
	a := &attempt{worker: w, executor: agent.Executor{UsesTools: true}}
	defer a.endUpTo(endOfAll)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		b.must(err)
		return l
	}
	var err error
	a.records, err = w.openRecords()
	b.must(err)
	a.cluster, err = w.openCluster(listen(), c.cred, a.records)
	b.must(err)
	b.must(a.openTools(t.Context(), listen()))
	if names := a.tools.Names(); len(names) < 9 {
		t.Errorf("the agent is offered %v", names)
	}
	if got := a.sandboxPolicy(agent.Invocation{}).ConnectPorts; len(got) != 2 {
		t.Errorf("it may connect to %v", got)
	}
	call := func(tool string, args map[string]any) string {
		t.Helper()
		msg, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": args}})
		b.must(err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.tools.URL(), bytes.NewReader(msg))
		b.must(err)
		req.Header.Set("Authorization", "Bearer "+a.tools.Token())
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(req)
		b.must(err)
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		b.must(err)
		return string(answer)
	}
	if got := call("kubernetes_get", map[string]any{"kind": "pod", "name": "cart", "namespace": ns}); !strings.Contains(got, "[evidence E") {
		t.Errorf("the pod: %s", got)
	}
	if got := call("kubernetes_get", map[string]any{"kind": "secret", "name": "api", "namespace": ns}); strings.Contains(got, "hunter2") {
		t.Errorf("the secret: %s", got)
	}
	if got := call("read_file", map[string]any{"path": "context/incident.json"}); !strings.Contains(got, `{\"x\":1}`) {
		t.Errorf("the incident: %s", got)
	}
	for range maxToolDenials + 5 {
		if got := call("read_file", map[string]any{"path": "home/kubeconfig"}); !strings.Contains(got, "not open to you") {
			t.Fatalf("the kubeconfig: %s", got)
		}
	}
	token := a.tools.Token()
	a.endUpTo(endOfAll)
	b.must(w.spool.Close())
	spool, err := os.ReadFile(b.dir().PathOf("spool.jsonl"))
	b.must(err)
	if n := strings.Count(string(spool), `"tool":"read_file"`); n != maxToolDenials {
		t.Errorf("%d denials are journaled", n)
	}
	for _, want := range []string{`"resource":"pods"`, `"name":"cart"`, `"evidence":"E`, "no more of it is recorded"} {
		if !strings.Contains(string(spool), want) {
			t.Errorf("the journal lacks %s", want)
		}
	}
	c.onlyReads(t)
	b.nowhere(t, canary, "hunter2-in-the-cluster", token)
}

// The real CLIs that have no shell look into a real cluster with our tools, are told
// the ids of what they saw, and see no Secret.
func TestCLIsWithoutAShellLookIntoTheCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, row := range clis() {
		if row.run != nil {
			continue
		}
		t.Run(row.named(), func(t *testing.T) {
			ns := c.Namespace(t)
			c.Pod(t, ns, "cart", nil)
			c.secret(t, ns)
			b := row.bench(t, append([]fakemodel.Step{
				{Text: "What is there?", Tools: []fakemodel.ToolCall{row.ours("kubernetes_list", map[string]any{"kind": "pods", "namespace": ns})}},
				{Text: "And its secret?", Tools: []fakemodel.ToolCall{row.ours("kubernetes_get", map[string]any{"kind": "secret", "name": "api", "namespace": ns})}},
				{Text: "And mine?", Tools: []fakemodel.ToolCall{row.ours("read_file", map[string]any{"path": "home/kubeconfig"})}},
			}, row.report("# Report\n")...)...)
			b.spec.Namespace, b.sec.Cluster = ns, c.cred
			r, entries := b.ends(t, nightcrier.StateSuccess, "")
			asked := b.model.Requests("it")
			last := asked[len(asked)-1].Text
			list := requestsOf(t, entries)
			pods := find(list, "list", "pods", true)
			if pods == nil || pods.Evidence == "" || !strings.Contains(last, "[evidence "+pods.Evidence+"]") || !strings.Contains(last, "cart") {
				t.Errorf("the read is journaled as %+v; the model was told\n%s", pods, clip(last))
			}
			if secret := find(list, "get", "secrets", true); secret == nil {
				t.Error("the read of the secret is not journaled")
			}
			denied := slices.ContainsFunc(entries, func(e nightcrier.JournalEntry) bool {
				d, err := journal.Decode[journal.Denial](e)
				return err == nil && e.Type == nightcrier.EntryDenial && d.Tool == "read_file" && d.Command == "home/kubeconfig"
			})
			if !denied || r.State != nightcrier.StateSuccess {
				t.Errorf("the denial is not journaled:\n%s", clip(text(entries)))
			}
			c.onlyReads(t)
			b.nowhere(t, canary, "hunter2-in-the-cluster", "aHVudGVyMi1pbi10aGUtY2x1c3Rlcg")
		})
	}
}
