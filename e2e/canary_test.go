package e2e

//lint:file-ignore SA1019 Log messages are how faults are pushed.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/test/clitest"
)

// What is planted in a cluster, said by senders, and held by our processes stands
// in no sink: workspaces, evidence, audit, prompts, workers' directories, both
// databases, logs, messages to people and to the model, answers of the API and of
// MCP, and what commands print.
func TestCanaries(t *testing.T) {
	t.Parallel()
	g, bin := newGarden(t), binary(t)
	g.readable()
	for name, test := range map[string]func(*garden, *cli){
		"builtin": serveBuiltin, "script": serveScript, "claude": serveClaude,
		"triage": triageCanaries, "mcp": mcpCanaries, "guard": guardCanaries,
	} {
		t.Run(name, func(t *testing.T) {
			own := *g
			own.t = t
			c := &cli{site: newSite(t, ""), t: t, bin: bin}
			c.vars = []string{"TMPDIR=" + t.TempDir()}
			test(&own, c)
			own.scan(filepath.Dir(c.root))
		})
	}
}

// keep makes what somebody was given a file among those that are looked at.
func (c *cli) keep(name string, data []byte) {
	c.t.Helper()
	path := filepath.Join(filepath.Dir(c.root), "sinks", name)
	c.must(os.MkdirAll(filepath.Dir(path), 0o700))
	c.must(os.WriteFile(path, data, 0o600))
}

const gardenConfig = `
workspace_root: %s
listen: 127.0.0.1:0
log: {level: debug}
slack: {webhook_url: ""}
clusters:
  - name: real
    kubeconfig: %s
    allow_write_credential: true
    watch: true
    mcp: {endpoint: %s, api_key_env: MCP_KEY}
    alertmanager: {token_env: ALERT_TOKEN}
webhooks: [{name: pager, token_env: HOOK_TOKEN, cluster: "'real'", type: "'Paged'", text: body.text, key: body.id}]
agent: {graceful_shutdown: 300ms, timeout: 120s}
`

// serve runs a server of the garden's cluster until every report is there, with
// every source saying something, and keeps all that it answers.
func (g *garden) serve(c *cli, vars ...string) []nightcrier.Incident {
	c.write("nightcrier.yaml", strings.Replace(fmt.Sprintf(gardenConfig, c.root, g.door.kubeconfig, c.peer.URL("real")), "slack: {webhook_url: \"\"}\n", "", 1))
	c.vars = append(append(c.vars, vars...), "MCP_KEY="+g.held["MCP API key"], "ALERT_TOKEN="+g.held["token of Alertmanager"],
		"HOOK_TOKEN="+g.held["token of a webhook"], "SLACK_WEBHOOK_URL="+g.held["Slack webhook"])
	d := c.daemon("real", "serve", "--config", "nightcrier.yaml")
	if got := c.peer.Stats("real").Authorization; got != "Bearer "+g.held["MCP API key"] {
		c.t.Errorf("the MCP server was shown %q", got)
	}
	before := len(g.slack.got())
	addr := g.address(c)
	g.tell(c, addr)
	c.eventually(func() string {
		if missing := g.waiting(c); missing != "" {
			return missing
		}
		if n := len(g.slack.got()) - before; n < 4 {
			return fmt.Sprintf("%d messages", n)
		}
		return ""
	})
	for i, post := range g.slack.got()[before:] {
		c.keep(fmt.Sprintf("slack/%d", i), []byte(post))
	}
	var all list
	c.ok("incidents", "list", "--config", "nightcrier.yaml", "-o", "json").decode(&all)
	g.answers(c, addr, all.Incidents)
	g.prints(c, all.Incidents)
	g.scan(filepath.Dir(c.root)) // also what a database has not yet put in its place
	c.end(d, 15)
	return all.Incidents
}

// address is where a server's log says that it listens.
func (g *garden) address(c *cli) (addr string) {
	c.eventually(func() string {
		log, err := os.ReadFile(c.logFile)
		c.must(err)
		m := regexp.MustCompile(`"listen":"(127[^"]+)"`).FindSubmatch(log)
		if m == nil {
			return "it does not say where it listens"
		}
		addr = string(m[1])
		return ""
	})
	return addr
}

// waiting says what is still to come: four faults have four reports.
func (g *garden) waiting(c *cli) string {
	var all list
	c.ok("incidents", "list", "--config", "nightcrier.yaml", "-o", "json").decode(&all)
	open := slices.ContainsFunc(all.Incidents, func(inc nightcrier.Incident) bool { return inc.Status.Open() })
	if len(all.Incidents) < 4 || open {
		return fmt.Sprintf("%d incidents, open %t", len(all.Incidents), open)
	}
	return ""
}

// tell has every sender say something with secrets in it: about the Pod that
// crashes, about what is not there, about nothing, and nonsense.
func (g *garden) tell(c *cli, addr string) {
	said := g.render(`login failed: password={{human "what a sender says: password"}} at https://u:{{word "what a sender says: URL"}}@db, Authorization: Bearer {{word "what a sender says: bearer"}},
		{{shaped "what a sender says: token" "ghp_" 36}} {{held "cluster token"}} {{held "MCP API key"}} {{held "Slack webhook"}} {{held "token of Alertmanager"}}`, bySender)
	resource := map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": g.ns, "name": g.pod.Name, "uid": g.pod.UID}
	for _, about := range []string{g.pod.Name, "gone-0"} {
		resource["name"] = about
		c.push("real", g.json(map[string]any{"faultId": "f-" + about, "faultType": "CrashLoop", "severity": "critical", "context": said, "resource": resource}))
	}
	c.push("real", g.json(map[string]any{"event": map[string]any{"type": "Warning", "reason": "BackOff", "message": said, "involvedObject": resource},
		"logs": []any{map[string]any{"container": "app", "sample": said}}}))
	c.push("real", g.json(map[string]any{"unknown": said}))
	crash := alert("KubePodCrashLooping", "firing", "2026-11-20T10:00:00Z", "namespace="+g.ns, "pod="+g.pod.Name, "api_token="+g.render(`{{word "label of an alert"}}`, bySender))
	lone := alert("KubeAPIErrorBudgetBurn", "firing", "2026-11-20T10:00:00Z")
	for _, a := range []map[string]any{crash, lone} {
		a["annotations"] = map[string]string{"summary": said, "db_password": g.render(`{{human "annotation of an alert"}}`, bySender)}
		a["generatorURL"] = "http://u:" + g.render(`{{word "generatorURL"}}`, bySender) + "@prometheus/graph"
	}
	for _, x := range []struct {
		path, token string
		body        any
		status      int
	}{
		{"alertmanager/real", "token of Alertmanager", notification(crash, lone), 200},
		{"alertmanager/real", "token of a webhook", notification(crash), 401},
		{"alertmanager/real", "token of Alertmanager", []byte(`{"version":"4","said":"` + said), 400},
		{"pager", "token of a webhook", map[string]any{"id": "1", "text": said, "headers": map[string]string{"authorization": "Bearer " + g.render(`{{word "unread field of a webhook"}}`, bySender)}}, 200},
		{"pager", "token of a webhook", map[string]any{"nothing": said}, 200},
	} {
		status, body := g.post(addr, hooks+x.path, g.held[x.token], x.body)
		if status != x.status {
			c.t.Errorf("%s answers %d %s", x.path, status, body)
		}
		c.keep("webhooks/"+strings.ReplaceAll(x.path, "/", "-")+fmt.Sprint(status), []byte(body))
	}
}

func (g *garden) json(v any) []byte {
	raw, err := json.Marshal(v)
	g.must(err)
	return raw
}

func (g *garden) post(addr, path, token string, body any) (int, string) {
	raw, ok := body.([]byte)
	if !ok {
		raw = g.json(body)
	}
	req, err := http.NewRequestWithContext(g.t.Context(), http.MethodPost, "http://"+addr+path, bytes.NewReader(raw))
	g.must(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	return g.answer(req)
}

func (g *garden) answer(req *http.Request) (int, string) {
	resp, err := http.DefaultClient.Do(req)
	g.must(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	g.must(err)
	return resp.StatusCode, string(body)
}

// answers keeps what the API says.
func (g *garden) answers(c *cli, addr string, incidents []nightcrier.Incident) {
	paths := []string{"/metrics", "/health/clusters", "/api/v1/incidents", "/api/v1/events?raw=true", "/api/v1/events?suppressed=true&raw=true", "/api/v1/clusters"}
	for _, inc := range incidents {
		for _, what := range []string{"", "/status", "/notifications", "/report", "/report?format=markdown", "/journal"} {
			paths = append(paths, "/api/v1/incidents/"+inc.ID+what)
		}
	}
	raw := ""
	for i, path := range paths {
		req, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, "http://"+addr+path, nil)
		g.must(err)
		status, body := g.answer(req)
		if status != 200 {
			c.t.Errorf("%s answers %d %s", path, status, body)
		}
		c.keep(fmt.Sprintf("api/%d", i), []byte(body))
		if strings.Contains(path, "raw=true") {
			raw += body
		}
	}
	if strings.Count(raw, `login failed: password=‹secret:`) < 6 {
		c.t.Errorf("payloads are not stored as they were said: %s", raw)
	}
}

// prints keeps what the commands print.
func (g *garden) prints(c *cli, incidents []nightcrier.Incident) {
	lines := [][]string{{"events", "list"}, {"events", "list", "-o", "json"}, {"events", "list", "--suppressed", "-o", "json"}, {"clusters", "list", "-o", "json"},
		{"clusters", "list"}, {"config", "print"}, {"config", "print", "-o", "json"}, {"doctor"}}
	for _, inc := range incidents {
		for _, what := range []string{"show", "events", "report", "tail"} {
			lines = append(lines, []string{"incidents", what, inc.ID}, []string{"incidents", what, inc.ID, "-o", map[string]string{"tail": "jsonl"}[what]})
		}
		lines = append(lines, []string{"audit", "verify", inc.ID})
	}
	for i, args := range lines {
		if args[len(args)-1] == "" {
			args[len(args)-1] = "json"
		}
		got := c.run(append(args, "--config", "nightcrier.yaml")...)
		if got.code != 0 && args[0] != "doctor" {
			c.t.Errorf("%v: exit code %d: %s", args, got.code, got.errout)
		}
		c.keep(fmt.Sprintf("cli/%d", i), []byte(got.out+got.errout))
	}
}

func serveBuiltin(g *garden, c *cli) {
	g.serve(c, "NIGHTCRIER_AGENT_EXECUTOR=builtin")
}

// look is an agent that goes round the cluster.
func (g *garden) look(c *cli) string {
	source, err := os.ReadFile("testdata/canaries/look.sh")
	g.must(err)
	once := `[ "$(cat "$WORKSPACE_DIR"/context/incident.json | grep -c ` + g.pod.Name + `)" = 0 ] || {` + "\n"
	return c.write("agent.sh", "#!/bin/sh\n"+once+g.render(string(source), inCluster)+"}\n"+reports)
}

// sawMuch fails unless a round through the cluster showed what is no secret.
func (g *garden) sawMuch(c *cli, path string) {
	round, err := os.ReadFile(path)
	g.must(err)
	for what, least := range map[string]int{"‹secret:": 200, "debug-is-seen": 10, "helm.sh/release.v1": 3, "cart-7d4b9c8f6d-x2k9q": 50, "permission denied": 3} {
		if n := bytes.Count(round, []byte(what)); n < least {
			c.t.Errorf("%q was seen %d times in %d bytes", what, n, len(round))
		}
	}
}

func serveScript(g *garden, c *cli) {
	incidents := g.serve(c, "NIGHTCRIER_AGENT_EXECUTOR=script", "AGENT_SCRIPT_PATH="+g.look(c), "ANTHROPIC_API_KEY="+g.held["model key"])
	i := slices.IndexFunc(incidents, func(inc nightcrier.Incident) bool { return inc.Owner.Name == "cart" })
	if i < 0 {
		c.t.Fatalf("%+v", incidents)
	}
	g.sawMuch(c, filepath.Join(c.root, "incident-"+incidents[i].ID, "output/artifacts/round.txt"))
}

func serveClaude(g *garden, c *cli) {
	cmd, m := clitest.Claude(c.t), fakemodel.New(c.t)
	m.MustAdd(c.t, "look", looking(c.t))
	g.serve(c, "NIGHTCRIER_AGENT_EXECUTOR=claude-code", "NIGHTCRIER_AGENT_COMMAND="+cmd, "ANTHROPIC_API_KEY="+g.held["model key"], "ANTHROPIC_BASE_URL="+m.URL("look"))
	calls := m.Requests("look")
	for i, r := range calls {
		c.keep(fmt.Sprintf("model/%d", i), r.Body)
	}
	if len(calls) == 0 || calls[0].Header.Get("X-Api-Key")+calls[0].Header.Get("Authorization") == "" {
		c.t.Errorf("%d calls of the model", len(calls))
	}
}

func triageCanaries(g *garden, c *cli) {
	round := g.look(c)
	c.vars = append(c.vars, "NIGHTCRIER_AGENT_EXECUTOR=script", "AGENT_SCRIPT_PATH="+round, "ANTHROPIC_API_KEY="+g.held["model key"],
		"SLACK_WEBHOOK_URL="+g.held["Slack webhook"])
	c.write("nightcrier.yaml", "clusters: [{name: real, mcp: {endpoint: 'http://127.0.0.1:1/mcp', api_key_env: MCP_KEY}}]\n")
	c.vars = append(c.vars, "MCP_KEY="+g.held["MCP API key"])
	for i, form := range []string{"text", "markdown", "json"} {
		got := c.run("triage", "pod/"+g.pod.Name, "-n", g.ns, "--kubeconfig", g.door.kubeconfig, "--cluster", "real", "--config", "nightcrier.yaml",
			"--out", fmt.Sprintf("out-%d", i), "-o", form, "--log-level", "debug")
		if !strings.Contains(got.out, "permission denied") || got.code != 0 {
			c.t.Errorf("triage: %d %s %s", got.code, got.out, got.errout)
		}
		c.keep("triage/"+form, []byte(got.out+got.errout))
		c.must(os.WriteFile(round, []byte("#!/bin/sh\n"+reports), 0o700)) // once round is enough: the forms differ in what is printed
	}
}

func guardCanaries(g *garden, c *cli) {
	g.unheld()
	c.must(os.MkdirAll(filepath.Join(filepath.Dir(c.root), "guarded/artifacts"), 0o700))
	c.vars = append(c.vars, "OUTPUT_DIR="+filepath.Join(filepath.Dir(c.root), "guarded"))
	source, err := os.ReadFile("testdata/canaries/look.sh")
	g.must(err)
	kubectl, _, ok := strings.Cut(g.render(string(source), inCluster), "\nenv >") // no sandbox holds it
	if !ok {
		c.t.Fatal("the script is not what it was")
	}
	c.must(os.MkdirAll(filepath.Join(filepath.Dir(c.root), "kept"), 0o700))
	got := c.run("guard", "--kubeconfig", g.door.kubeconfig, "--out", "kept", "--log-level", "debug", "--", c.write("round.sh", "#!/bin/sh\n"+kubectl+"\n"))
	c.keep("guard", []byte(got.out+got.errout))
	if got.code != 0 {
		c.t.Errorf("guard: %d %s", got.code, got.errout)
	}
	g.sawMuch(c, filepath.Join(filepath.Dir(c.root), "guarded/artifacts/round.txt"))
}

// unheld leaves out what a process without a configuration cannot hold.
func (g *garden) unheld() {
	g.canaries = slices.DeleteFunc(slices.Clone(g.canaries), func(c canary) bool {
		return c.from == ourOwn && c.where != "cluster token" && c.where != "client key" && c.where != "token of our MCP server"
	})
}

// mcpCanaries asks every tool for everything, and listens to events and faults.
func mcpCanaries(g *garden, c *cli) {
	g.unheld()
	cmd := c.command("mcp", "--kubeconfig", g.door.kubeconfig, "--stdio", "--workspace-root", c.root, "--evidence", "kept", "--log-level", "debug")
	var stderr lines
	cmd.Stderr = &stderr
	var told lines
	client := sdk.NewClient(&sdk.Implementation{Name: "e2e", Version: "1"}, &sdk.ClientOptions{
		LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) {
			raw, _ := json.Marshal(r.Params)
			_, _ = told.Write(append(raw, '\n'))
		},
	})
	s, err := client.Connect(c.t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	c.must(err)
	c.must(s.SetLoggingLevel(c.t.Context(), &sdk.SetLoggingLevelParams{Level: "debug"}))
	seen := 0
	for i, q := range g.questions() {
		text, isError := ask(c.t, s, q.tool, q.args)
		if isError && !q.mayFail {
			c.t.Errorf("%s %v: %s", q.tool, q.args, text)
		}
		seen += strings.Count(text, "‹secret:")
		c.keep(fmt.Sprintf("mcp/%d", i), []byte(text))
	}
	g.kube.Warn(c.t, g.pod, "Failed", g.render(`cannot pull: password={{human "message of a later Event"}} {{held "cluster token"}}`, inCluster))
	c.eventually(func() string {
		if strings.Contains(told.String(), "cannot pull") && strings.Contains(told.String(), "CrashLoop") {
			return ""
		}
		return "not told: " + told.String()
	})
	c.must(s.Close())
	c.keep("mcp/told", []byte(told.String()))
	c.keep("mcp/stderr", []byte(stderr.String()))
	if seen < 40 {
		c.t.Errorf("only %d tags in what the tools said", seen)
	}
}

type question struct {
	tool    string
	args    map[string]any
	mayFail bool
}

func (g *garden) questions() (list []question) {
	in := func(more ...any) map[string]any {
		m := map[string]any{"namespace": g.ns}
		for i := 0; i < len(more); i += 2 {
			m[more[i].(string)] = more[i+1]
		}
		return m
	}
	for _, mode := range []string{"events", "faults"} {
		list = append(list, question{"events_subscribe", map[string]any{"mode": mode}, false})
	}
	for kind, names := range map[string][]string{
		"pod": {g.pod.Name}, "deployment": {"cart"}, "replicaset": {"cart-7d4b9c8f6d"}, "job": {"migrate"}, "cronjob": {"nightly"}, "configmap": {"cart", "cart.v1"},
		"secret": {"db", "db-tls", "registry", "cart-token", "sh.helm.release.v1.cart.v1"}, "serviceaccount": {"cart"}, "controllerrevision": {"cart-1"}, "database": {"main"},
	} {
		list = append(list, question{"kubernetes_list", in("kind", kind), false})
		for _, name := range names {
			list = append(list, question{"kubernetes_describe", in("kind", kind, "name", name), false})
			for _, path := range []string{"", "metadata", "spec", "data"} {
				list = append(list, question{"kubernetes_get", in("kind", kind, "name", name, "path", path), true},
					question{"kubernetes_get", in("kind", kind, "name", name, "path", path, "output", "json"), true})
			}
		}
	}
	for _, more := range [][]any{{}, {"previous", true}, {"previous", true, "tail", 9}, {"previous", true, "tail", 12}, {"previous", true, "grep", "[A-Za-z0-9+/]{60}"}, {"grep", "PASSWORD"}} {
		list = append(list, question{"kubernetes_logs", in(append(more, "name", g.pod.Name)...), false})
	}
	return append(list, question{"kubernetes_events", in(), false}, question{"events_list", in(), false}, question{"kubernetes_top", in(), true},
		question{"kubernetes_changes", in(), false}, question{"kubernetes_changes", in("kind", "deployment", "name", "cart"), true}, question{"kubernetes_changes", in("release", "cart"), true},
		question{"investigate", in("kind", "pod", "name", g.pod.Name), false}, question{"search_incidents", map[string]any{"query": "cart"}, true})
}
