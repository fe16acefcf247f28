package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/test/clitest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// TestCLI is the product as a user has it: the binary, a file, a terminal.
func TestCLI(t *testing.T) {
	t.Parallel()
	bin := binary(t)
	tests := map[string]func(*cli){
		"a server's life":      aServersLife,
		"without a subcommand": withoutSubcommand,
		"interrupted":          interruptedServer,
		"captured events":      capturedEvents,
		"an object":            anObject,
		"exit codes":           exitCodes,
		"configuration":        configuration,
		"demo":                 demoOnce,
		"demo without claude":  demoWithoutClaude,
		"Ctrl-C":               interruptedCommands,
		"Ctrl-C in a demo":     interruptedDemo,
	}
	for _, e := range agent.CLIs() {
		if e.Name != "goose" { // it asks as claude does
			tests["demo with "+e.Name] = func(c *cli) { demoWith(c, e) }
		}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&cli{site: newSite(t, ""), t: t, bin: bin})
		})
	}
}

const oneCluster = `
workspace_root: %s
listen: none
slack: {webhook_url: %s}
clusters:
  - name: demo-east
    labels: {env: prod, team: shop}
    mcp: {endpoint: %s}
agent: {executor: script, script_path: ./agent.sh, graceful_shutdown: 300ms}
`

// below is an event that is not severe enough.
const below = `{"faultId":"b","faultType":"PodCrash","severity":"info","resource":{"apiVersion":"v1","kind":"Pod","name":"quiet-0","namespace":"shop"}}`

func aServersLife(c *cli) {
	c.write("agent.sh", "#!/bin/sh\necho \"agent at work\"\n"+waits+reports)
	c.write("nightcrier.yaml", fmt.Sprintf(oneCluster, c.root, c.slack.URL, c.peer.URL(cluster)))
	with := func(args ...string) []string { return append(args, "--config", "nightcrier.yaml") }

	c.run(with("incidents", "list")...).exits(7).tells("no server runs", "nightcrier serve")
	d := c.daemon(cluster, with("serve")...)
	c.ok(with("incidents", "list")...).tells("No incidents")
	c.ok(with("clusters", "list")...).has(`demo-east +mcp +subscribed`, `env=prod,team=shop`)
	var clusters struct{ Clusters []nightcrier.SourceStatus }
	c.ok(with("clusters", "list", "-o", "json")...).decode(&clusters)
	if len(clusters.Clusters) != 1 || clusters.Clusters[0].Labels["team"] != "shop" {
		c.t.Errorf("clusters %+v", clusters)
	}

	c.push(cluster, []byte(below))
	c.push(cluster, fault(c.t, oom))
	var incidents list
	c.eventually(func() string {
		incidents = list{}
		c.ok(with("incidents", "list", "-o", "json")...).decode(&incidents)
		return strings.Repeat("no incident", 1-min(1, len(incidents.Incidents)))
	})
	id := incidents.Incidents[0].ID
	c.until(id, running)
	c.ok(with("incidents", "list")...).has(id + ` +\d+s +critical +investigating +active +demo-east +CrashLoop`)
	c.ok(with("incidents", "show", id)...).has("Status +investigating").tells("incidents tail " + id)
	c.ok(with("events", "list", "--suppressed")...).has("quiet-0 +suppressed: below threshold", "severity_threshold warning")
	c.ok(with("events", "list", "-o", "jsonl")...).has(`(?m)^\{.*"below_threshold".*\}$`)
	c.run(with("incidents", "report", id)...).exits(3).tells("has no report")

	tail := c.command(with("incidents", "tail", id)...)
	var seen bytes.Buffer
	tail.Stdout = &seen
	c.must(tail.Start())
	c.release(id)
	c.must(tail.Wait())
	if !strings.Contains(seen.String(), "agent at work") || !strings.Contains(seen.String(), "incident closed: report ready") {
		c.t.Errorf("tail showed\n%s", &seen)
	}
	c.checkRead(with, id)

	c.ok(with("incidents", "retry", id, "--executor", "builtin")...).has(`^run \S+ queued`)
	if inc := c.until(id, closed); inc.Executor != "builtin" || inc.Status != nightcrier.Resolved {
		c.t.Errorf("retried: %+v", inc)
	}
	c.ok(with("incidents", "retry", id)...)
	c.until(id, running)
	c.ok(with("incidents", "cancel", id)...).tells("Cancel requested")
	if inc := c.until(id, closed); inc.FailureClass != nightcrier.FailCancelled {
		c.t.Errorf("cancelled: %+v", inc)
	}
	c.run(with("incidents", "cancel", id)...).exits(1).tells("there is nothing to cancel")
	c.run(with("serve")...).exits(1).tells("owns this store.*stop it first")
	c.ok(with("incidents", "retry", id, "--executor", "builtin")...)
	c.until(id, closed)
	if code := c.end(d, syscall.SIGTERM); code != 0 {
		c.t.Errorf("exit code %d after SIGTERM", code)
	}

	// Nobody serves: the same answers, read from the store.
	c.checkRead(with, id)
	c.ok(with("clusters", "list")...).has(`demo-east +mcp +stopped`, `env=prod,team=shop`)
	c.run(with("incidents", "cancel", id)...).exits(7).tells("only a server can change anything")
}

// checkRead reads a resolved incident in every way there is.
func (c *cli) checkRead(with func(...string) []string, id string) {
	c.t.Helper()
	c.ok(with("incidents", "list", "--cluster", cluster, "--status", "resolved", "--since", "1h")...).has(id)
	c.ok(with("incidents", "list", "-o", "jsonl")...).has(`(?m)^\{.*\}$`)
	c.ok(with("incidents", "show", id)...).has("Status +report ready", "Owner +shop/Deployment/cart").tells("incidents report " + id)
	c.ok(with("incidents", "events", id)...).has("CrashLoop.*opened")
	c.ok(with("incidents", "report", id)...).has("(?m)^Status +● ", "oom-killed", "incidents report "+id+" -o full")
	c.ok(with("incidents", "report", id, "-o", "full")...).has("^Kubernetes Incident Triage Report", "6. Supporting Evidence")
	c.ok(with("incidents", "report", id, "-o", "markdown")...).has("## 6. Supporting Evidence")
	c.ok(with("incidents", "tail", id, "--no-follow")...).has("incident closed: report ready")
	var rep nightcrier.Report
	c.ok(with("incidents", "report", id, "-o", "json")...).decode(&rep)
	if !rep.Valid || rep.IncidentID != id || rep.RootCause == nil || rep.RootCause.Cause != "oom-killed" {
		c.t.Errorf("report %+v", rep)
	}
	var entries []nightcrier.JournalEntry
	c.ok(with("incidents", "tail", id, "-o", "json")...).decode(&entries)
	var events struct{ Events []nightcrier.Event }
	c.ok(with("incidents", "events", id, "-o", "json")...).decode(&events)
	if len(entries) < 5 || len(events.Events) != 1 {
		c.t.Errorf("%d entries, %d events", len(entries), len(events.Events))
	}
}

func withoutSubcommand(c *cli) {
	c.vars = []string{"K8S_CLUSTER_MCP_ENDPOINT=" + c.peer.URL("bare"), "WORKSPACE_ROOT=" + c.root, "NIGHTCRIER_LISTEN=none"}
	d := c.daemon("bare", "--log-level", "debug")
	c.push("bare", fault(c.t, oom))
	inc := c.ended()
	if inc.Cluster != "default" || inc.Status != nightcrier.Resolved {
		c.t.Errorf("%+v", inc)
	}
	c.ok("incidents", "list").has(inc.ID)
	if code := c.end(d, syscall.SIGTERM); code != 0 {
		c.t.Errorf("exit code %d after SIGTERM", code)
	}
}

func interruptedServer(c *cli) {
	c.vars = []string{"K8S_CLUSTER_MCP_ENDPOINT=" + c.peer.URL("bare"), "WORKSPACE_ROOT=" + c.root, "NIGHTCRIER_LISTEN=none"}
	d := c.daemon("bare")
	if code := c.end(d, syscall.SIGINT); code != 130 {
		c.t.Errorf("exit code %d after Ctrl-C", code)
	}
}

// triaged is what `triage -o json` prints.
type triaged struct {
	Incident nightcrier.Incident
	Report   *nightcrier.Report
}

// Any notification that was captured from a server can be investigated.
func capturedEvents(c *cli) {
	files, err := filepath.Glob("testdata/notifications/*.json")
	c.must(err)
	if len(files) < 20 {
		c.t.Fatalf("only %d notifications", len(files))
	}
	for _, f := range files {
		f, err = filepath.Abs(f)
		c.must(err)
		var got triaged
		c.ok("triage", "--event", f, "-o", "json").decode(&got)
		if got.Report == nil || !got.Report.Valid || got.Incident.Status != nightcrier.Resolved || got.Report.IncidentID != got.Incident.ID {
			c.t.Errorf("%s: %+v", filepath.Base(f), got)
		}
		if got.Incident.Resource.Name == "" || len(got.Report.NotChecked) == 0 {
			c.t.Errorf("%s: resource %v, not checked %v", filepath.Base(f), got.Incident.Resource, got.Report.NotChecked)
		}
	}
	raw, err := os.ReadFile(files[0])
	c.must(err)
	c.stdin = string(raw)
	c.ok("triage", "--event", "-").has("^No cluster was looked at: .*give --kubeconfig", "(?m)^Status +● ")
	c.ok("triage", "--event", "-", "-o", "full").has("^Kubernetes Incident Triage Report", "No cluster was looked at: ")
	c.ok("triage", "--event", "-", "-o", "markdown").has("^# Kubernetes Incident Triage Report", "No cluster was looked at:")
	for text, says := range map[string]string{
		"":          "empty|not a JSON|JSON",
		"{":         "JSON",
		`{"a": 1}`:  "no known shape",
		`{"data":5`: "JSON",
		`{"data":{"faultType":"CrashLoop","resource":{"kind":"Pod","name":"../../x"}}}`: "name",
	} {
		c.stdin = text
		c.run("triage", "--event", "-").exits(2).tells(says)
	}
}

func anObject(c *cli) {
	kube := kubetest.Start(c.t)
	p := newPatient(c.t, kube)
	reader := kube.ReadOnly(c.t)
	c.ok("triage", "deployment/cart", "-n", p.ns, "--kubeconfig", reader).has("permission-denied", "permission denied", "Deployment "+p.ns+"/cart")
	c.ok("triage", "deployment/cart", "-n", p.ns, "--kubeconfig", kube.Kubeconfig).tells("not read-only: it can change everything", "rbac kubeconfig")
	var got triaged
	c.ok("triage", "pod/"+p.pod.Name, "-n", p.ns, "--kubeconfig", reader, "--cluster", "prod-9", "--out", "kept", "-o", "json").decode(&got)
	if got.Report.RootCause == nil || got.Report.RootCause.Object.Kind != "Deployment" || got.Report.Cluster != "prod-9" || got.Report.CheckedShare != 1 {
		c.t.Errorf("%+v", got.Report)
	}
	if _, err := os.Stat(filepath.Join(got.Incident.Workspace, "output/report.json")); err != nil || !strings.Contains(got.Incident.Workspace, "/kept/") {
		c.t.Errorf("workspace %s: %v", got.Incident.Workspace, err)
	}
	c.ok("triage", "node/"+kubetest.NodeName, "--kubeconfig", reader).has("Node " + kubetest.NodeName)
	c.run("triage", "deployment/nobody", "-n", p.ns, "--kubeconfig", reader).exits(4).tells("nobody", "there is deployment/cart")
	c.run("triage", "deploy", "crat", "-n", p.ns, "--kubeconfig", reader).exits(4).tells("did you mean deployment/cart")
	c.run("triage", "deplyment/cart", "-n", p.ns, "--kubeconfig", reader).exits(2).tells("did you mean deployment/cart")
	usual := filepath.Join(filepath.Dir(c.root), ".kube") // where kubectl looks
	c.must(os.Mkdir(usual, 0o700))
	c.must(os.Symlink(reader, filepath.Join(usual, "config")))
	c.ok("triage", "Deployment", "cart", "-n", p.ns).has("Deployment " + p.ns + "/cart")
	c.stdin = `[{"labels": {"alertname": "KubePodCrashLooping", "namespace": "` + p.ns + `", "deployment": "cart", "severity": "critical"}, "startsAt": "2026-01-02T03:04:05Z", "status": "firing"}]`
	if got := c.ok("triage", "--alert", "-").tells("Looked into the cluster at "); strings.Contains(got.out, "No cluster was looked at") {
		c.t.Errorf("an alert is not read with the default kubeconfig: %s", got.out)
	}
	c.run("triage", "secret/x", "-n", p.ns, "--kubeconfig", reader).tells("(?i)secret")
	c.run("triage", "deployment/cart", "-n", p.ns, "--kubeconfig", kube.CannotList(c.t)).exits(7).tells("forbidden|may read")
	raw, err := os.ReadFile(kube.Kubeconfig)
	c.must(err)
	gone := c.write("gone", strings.ReplaceAll(string(raw), kube.URL, "https://127.0.0.1:1"))
	c.run("triage", "deployment/cart", "-n", p.ns, "--kubeconfig", gone).exits(7).tells("connection refused|does not answer")
	c.write("none.sh", "#!/bin/sh\nexit 0\n")
	c.vars = []string{"AGENT_SCRIPT_PATH=./none.sh"}
	c.run("triage", "deployment/cart", "-n", p.ns, "--kubeconfig", reader).exits(3).has("permission denied").tells("no valid report", "investigation.md is missing")
}

// exitCodes shows each code, and that the message says what to do.
func exitCodes(c *cli) {
	c.write("bad.yaml", "clusters:\n  - name: a\n    mcp: {endpoint: ':::'}\nagent: {executor: nobody}\n")
	c.write("unsafe.yaml", "agent_runtime: {read_only_mode: false}\n")
	c.write("ill.yaml", "clusters:\n  - name: a\n    mcp: {endpoint: http://127.0.0.1:1/mcp}\n")
	for _, x := range []struct {
		code  int
		tells string
		args  []string
	}{
		{2, "unknown command|--help", []string{"nonsense"}},
		{2, "--help", []string{"incidents", "list", "--nonsense"}},
		{2, "--help", []string{"incidents", "show"}},
		{2, "nobody", []string{"serve", "--config", "bad.yaml"}},
		{2, "no-such.yaml", []string{"serve", "--config", "no-such.yaml"}},
		{2, "KIND/NAME|deployment/cart", []string{"triage"}},
		{2, "KIND/NAME", []string{"triage", "deployment"}},
		{2, "--event", []string{"triage", "--event", "no-such-file"}},
		{2, "not one of", []string{"version", "-o", "xml"}},
		{5, "read-only", []string{"serve", "--config", "unsafe.yaml"}},
		{7, "nightcrier serve", []string{"incidents", "list"}},
		{7, "no answer", []string{"clusters", "list", "--server", "http://127.0.0.1:1"}},
	} {
		got := c.run(x.args...).exits(x.code).tells(x.tells, "^nightcrier: |warning: ")
		if got.out != "" {
			c.t.Errorf("%v: an error is on stdout: %s", x.args, got.out)
		}
	}
	c.run("doctor", "--config", "ill.yaml").exits(6).has(`fail +source +a +127.0.0.1:1 does not answer as a fault source does: initialize: .*refused`, `→ start kubernetes-mcp-server`)
	var checks struct {
		Checks []struct{ Code, Name, Status, Detail, Hint string }
	}
	c.run("doctor", "--config", "ill.yaml", "-o", "json").exits(6).decode(&checks)
	if len(checks.Checks) < 6 {
		c.t.Errorf("%+v", checks)
	}
	c.ok("doctor").has("none is configured")
}

func configuration(c *cli) {
	c.write("nightcrier.yaml", fmt.Sprintf(oneCluster, c.root, c.slack.URL, c.peer.URL(cluster)))
	c.write("agent.sh", "#!/bin/sh\n")
	c.ok("config", "check", "--config", "nightcrier.yaml").has("The configuration is valid.")
	c.write("typo.yaml", "workspace_rot: x\nagent: {timeout: 5}\n")
	c.run("config", "check", "--config", "typo.yaml").exits(2).tells("typo.yaml:1.*workspace_root", "typo.yaml:2.*no unit")
	var schema map[string]any
	c.ok("config", "schema").decode(&schema)
	if schema["$schema"] == nil {
		c.t.Error("no schema")
	}
	c.vars = []string{"AGENT_TIMEOUT=90", "ANTHROPIC_API_KEY=" + realKey}
	got := c.ok("config", "print", "--config", "nightcrier.yaml", "--log-level", "debug").has(`timeout: 1m30s +# .*AGENT_TIMEOUT`, `level: debug +# .*--log-level`, "retention: 72h +# default")
	if strings.Contains(got.out, realKey) || strings.Contains(got.out, "/hook") {
		c.t.Errorf("a secret is printed:\n%s", got.out)
	}
	var printed map[string]any
	c.ok("config", "print", "--config", "nightcrier.yaml", "-o", "json").decode(&printed)
	var v struct{ Version string }
	c.ok("version", "-o", "json").decode(&v)
	c.ok("version").has("^nightcrier " + regexp.QuoteMeta(v.Version))
}

func demoOnce(c *cli) {
	got := c.ok("demo", "--once", "--out", "kept")
	got.has(`(?m)^report ready +critical +demo-east +shop/Deployment/cart`, `(?m)^report ready +critical +demo-cascade .*storefront/api.*readiness probe`,
		`(?m)^report ready +critical +demo-mended .*recovered: nothing needs mending now`, `(?m)^report ready +warning +demo-calm .*healthy: nothing needs mending`,
		`(?m)^report ready +critical +demo-noisy .*key password`, `(?m)^storm, listed +error +demo-storm`,
		"Kubernetes Incident Triage Report", `27 events: 25 incidents opened`)
	reports, err := filepath.Glob(filepath.Join(filepath.Dir(c.root), "kept/incident-*/output/report.json"))
	if err != nil || len(reports) < 17 { // of the storm at least three
		c.t.Errorf("%d reports were kept, %v", len(reports), err)
	}
	c.ok("incidents", "list", "--workspace-root", "kept").has("report ready")
}

func demoWithoutClaude(c *cli) {
	c.vars = []string{"PATH=/nowhere"}
	c.run("demo", "--once", "--executor", "claude-code").exits(2).tells("claude.*not found|cannot be run|install")
}

// Whoever is interrupted leaves nothing running.
func interruptedCommands(c *cli) {
	c.write("agent.sh", "#!/bin/sh\n"+stubborn+waits)
	notification, err := filepath.Abs("testdata/notifications/current.faults.CrashLoop.synth.json")
	c.must(err)
	c.vars = []string{"AGENT_SCRIPT_PATH=./agent.sh", "NIGHTCRIER_AGENT_GRACEFUL_SHUTDOWN=100ms"}
	interrupted(c, c.command("triage", "--event", notification, "--out", c.root))
}

// A demo ends what it began too, agents of several incidents at once.
func interruptedDemo(c *cli) {
	c.vars = []string{"PATH=" + filepath.Dir(clitest.CLI(c.t, "gemini")) + ":" + os.Getenv("PATH")}
	interrupted(c, c.command("demo", "--executor", "gemini", "--out", c.root))
}

// interrupted runs a command until an agent works, and presses Ctrl-C.
func interrupted(c *cli, cmd *exec.Cmd) {
	c.must(cmd.Start())
	c.eventually(func() string {
		if agents, _ := filepath.Glob(filepath.Join(c.root, "incident-*/home/kubeconfig")); len(agents) > 0 && len(c.left()) > 1 {
			return ""
		}
		return "no agent runs"
	})
	c.must(cmd.Process.Signal(syscall.SIGINT))
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		c.t.Errorf("%v ended with %v", cmd.Args, err)
	}
	if left := c.left(); len(left) > 0 {
		c.t.Errorf("left running: %v", left)
	}
}

// The agent is real, its model is scripted: no key is needed to see it work.
func demoWith(c *cli, e agent.Executor) {
	c.vars = []string{"PATH=" + filepath.Dir(clitest.CLI(c.t, e.Command)) + ":" + os.Getenv("PATH")}
	c.ok("demo", "--once", "--executor", e.Name, "--out", "kept").has(`7 events: 6 incidents opened`).tells("scripted model")
	files, err := filepath.Glob(filepath.Join(filepath.Dir(c.root), "kept/incident-*/output/report.json"))
	if err != nil || len(files) != 6 {
		c.t.Fatalf("%d reports were kept, %v", len(files), err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		c.must(err)
		var rep nightcrier.Report
		c.must(json.Unmarshal(raw, &rep))
		if !rep.Valid || rep.Source != "agent" || rep.CheckedShare != 1 || rep.RootCause == nil {
			c.t.Errorf("report of %v: valid %v, source %s, share %v", rep.Target, rep.Valid, rep.Source, rep.CheckedShare)
		}
	}
}
