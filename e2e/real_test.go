package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/check/doctor"
	"nightcrier.dev/nightcrier/internal/oneshot"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/test/clitest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// realKey is the key that only the model API may see.
const realKey = "sk-ant-api03-e2e-only-the-model-may-see-this"

// patient is a Deployment on a real API server whose Pod is ill.
type patient struct {
	kube *kubetest.Server
	ns   string
	pod  *corev1.Pod
}

func newPatient(t *testing.T, kube *kubetest.Server) *patient {
	t.Helper()
	p := &patient{kube: kube, ns: kube.Namespace(t)}
	_, rs := kube.Deployment(t, p.ns, "cart")
	p.pod = kube.Pod(t, p.ns, rs.Name+"-x2k9q", rs)
	kube.SetLogs(p.pod, false, "starting\n")
	kube.SetLogs(p.pod, true, "starting\nFATAL: cannot open /data/ledger: permission denied\n")
	kube.CrashLoop(t, p.pod, 7, 4)
	kube.Warn(t, p.pod, "BackOff", "Back-off restarting failed container app in pod "+p.pod.Name)
	return p
}

// fault is what the cluster's MCP server would push about the Pod.
func (p *patient) fault(t *testing.T) []byte {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"subscriptionId": "sub-1", "cluster": "what-the-sender-says", "faultId": "f-" + p.ns, "faultType": "CrashLoop", "severity": "critical",
		"resource":  map[string]any{"apiVersion": "v1", "kind": "Pod", "name": p.pod.Name, "namespace": p.ns, "uid": p.pod.UID},
		"context":   "Container entered CrashLoopBackOff state, restart count: 4",
		"timestamp": "2026-11-20T03:05:00Z",
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// newRealSite is an installation that watches one cluster, called real.
func newRealSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t, "")
	s.clusters = []string{"real"}
	return s
}

// investigate starts the product with a credential of the cluster, lets the
// patient's fault arrive, and returns the incident once it has ended and people
// were told.
func (s *site) investigate(t *testing.T, p *patient, kubeconfig string) nightcrier.Incident {
	t.Helper()
	s.app(func(o *app.Options) {
		o.Reach = nil
		o.Config.Clusters[0].Kubeconfig = kubeconfig
	})
	s.push("real", p.fault(t))
	inc := s.ended()
	s.eventually(func() string {
		if posts := s.slack.got(); len(posts) != 1 {
			return fmt.Sprintf("%d posts", len(posts))
		}
		return ""
	})
	return inc
}

func (s *site) file(inc nightcrier.Incident, rel string) []byte {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(s.root, "incident-"+inc.ID, rel))
	s.must(err)
	return data
}

func (s *site) report(inc nightcrier.Incident) nightcrier.Report {
	s.Helper()
	var rep nightcrier.Report
	s.must(json.Unmarshal(s.file(inc, "output/report.json"), &rep))
	return rep
}

// checkReport demands a valid report of the source that names the Deployment.
func (s *site) checkReport(inc nightcrier.Incident, p *patient, source string, causes ...string) nightcrier.Report {
	s.Helper()
	rep := s.report(inc)
	want := nightcrier.Object{Kind: "Deployment", Namespace: p.ns, Name: "cart"}
	if inc.Status != nightcrier.Resolved || !rep.Valid || rep.Source != source {
		s.Errorf("incident %s (%s), report valid %v, source %s, problems %v", inc.Status, inc.FailureReason, rep.Valid, rep.Source, rep.Problems)
	}
	if rep.RootCause == nil || !slices.Contains(causes, rep.RootCause.Cause) || rep.RootCause.Object != want || rep.Target != want {
		s.Errorf("root cause %+v of target %+v, want one of %v in %+v", rep.RootCause, rep.Target, causes, want)
	}
	if fp := "real/" + p.ns + "/Deployment/cart/workload"; inc.Fingerprint != fp {
		s.Errorf("fingerprint %s, want %s", inc.Fingerprint, fp)
	}
	return rep
}

func checks(rep nightcrier.Report) map[nightcrier.Check]int {
	n := map[nightcrier.Check]int{}
	for _, f := range rep.Facts {
		n[f.Check]++
	}
	return n
}

func TestBuiltinOnARealCluster(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	for name, c := range map[string]struct {
		make   func(*patient)
		causes []string
		says   string
	}{
		"crash": {func(*patient) {}, []string{"permission-denied"}, "permission denied"},
		"oom":   {func(p *patient) { kube.OOMKill(t, p.pod, 5) }, []string{"oom-killed"}, "memory"},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := newRealSite(t), newPatient(t, kube)
			c.make(p)
			inc := s.investigate(t, p, kube.ReadOnly(t))
			rep := s.checkReport(inc, p, "builtin", c.causes...)
			if n := checks(rep); n[nightcrier.Verified] == 0 || n[nightcrier.Unseen] > 0 {
				t.Errorf("facts %v: %+v", n, rep.Facts)
			}
			if !strings.Contains(rep.RootCause.Summary, c.says) {
				t.Errorf("summary %q does not say %q", rep.RootCause.Summary, c.says)
			}
			if rep.Permissions["canWrite"] == true || rep.Permissions["canWrite"] == "yes" {
				t.Errorf("permissions of a read-only credential: %v", rep.Permissions)
			}
			s.checkWorkspace(inc)
			s.checkIncident(inc, p)
		})
	}
}

// layout is every file of a workspace that has one name; what else is there must
// be below one of the directories that end in a slash.
var (
	layout = []string{
		"incident.json", "incident_cluster_permissions.json", "PROMPT.md", "prompt-sent.md",
		".claude/skills/k8s-troubleshooter/SKILL.md", ".claude/skills/k8s-troubleshooter/agentura.config.yaml",
		"context/incident.json", "context/event.json", "context/logs.txt", "context/cluster-info.json",
		"context/system-instructions.txt", "context/initial_triage_report.md", "context/diagnosis.json",
		"output/investigation.md", "output/report.json", "output/final-report.md", "output/agent.log", "output/audit.jsonl", "output/evidence/index.jsonl",
		"logs/agent-commands-executed.log",
	}
	layoutDirs = []string{".claude/commands", "output/artifacts", "output/evidence", "home", "tmp"}
	layoutFree = []string{"output/evidence/", "output/artifacts/", "home/", "tmp/", "logs/final-message.md", "logs/model.jsonl", ".gemini/", ".claude/skills/k8s-troubleshooter/references/", "context/repair.md", "logs/report-before-repair.md", "record/"}
)

// checkWorkspace holds a finished workspace to its layout: who may read it, what
// is in it, and what is not.
func (s *site) checkWorkspace(inc nightcrier.Incident) {
	s.Helper()
	dir := filepath.Join(s.root, "incident-"+inc.ID)
	missing := map[string]bool{}
	for _, f := range layout {
		missing[f] = true
	}
	s.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 && !strings.HasPrefix(rel, "home/") && !strings.HasPrefix(rel, "tmp/") {
			s.Errorf("others may use %s: %v", rel, info.Mode())
		}
		if d.IsDir() {
			return nil
		}
		free := slices.ContainsFunc(layoutFree, func(prefix string) bool { return strings.HasPrefix(rel, prefix) })
		if !missing[rel] && !free {
			s.Errorf("%s is no part of a workspace", rel)
		}
		delete(missing, rel)
		return nil
	}))
	for f := range missing {
		s.Errorf("%s is missing", f)
	}
	for _, d := range layoutDirs {
		if info, err := os.Stat(filepath.Join(dir, d)); err != nil || !info.IsDir() {
			s.Errorf("directory %s: %v", d, err)
		}
	}
	if to, err := os.Readlink(filepath.Join(s.root, inc.ID)); err != nil || to != "incident-"+inc.ID {
		s.Errorf("the link %s leads to %q, %v", inc.ID, to, err)
	}
}

// checkIncident holds incident.json to what users rely on.
func (s *site) checkIncident(inc nightcrier.Incident, p *patient) {
	s.Helper()
	var got map[string]any
	s.must(json.Unmarshal(s.file(inc, "incident.json"), &got))
	for _, field := range []string{
		"incidentId", "id", "eventId", "triggeringEventId", "eventIds", "faultId", "fingerprint", "status", "state", "condition", "cluster",
		"namespace", "resource", "owner", "faultType", "severity", "context", "timestamp", "createdAt", "startedAt", "completedAt",
		"executor", "attempts", "skills",
	} {
		if v := got[field]; v == nil || v == "" {
			s.Errorf("incident.json has %s: %v", field, v)
		}
	}
	for field, want := range map[string]any{
		"incidentId": inc.ID, "id": inc.ID, "cluster": "real", "namespace": p.ns, "status": "resolved", "state": "success", "severity": "critical",
		"faultType": "CrashLoop", "faultId": "f-" + p.ns, "timestamp": "2026-11-20T03:05:00Z",
	} {
		if got[field] != want {
			s.Errorf("incident.json has %s %v, want %v", field, got[field], want)
		}
	}
	owner, _ := got["owner"].(map[string]any)
	resource, _ := got["resource"].(map[string]any)
	if owner["kind"] != "Deployment" || owner["name"] != "cart" || resource["uid"] != string(p.pod.UID) {
		s.Errorf("incident.json has owner %v and resource %v", owner, resource)
	}
	if raw := s.file(inc, "incident.json"); bytes.Contains(raw, []byte(`: ""`)) || bytes.Contains(raw, []byte(`0001-01-01`)) {
		s.Errorf("incident.json has empty values:\n%s", raw)
	}
}

func TestScriptOnARealCluster(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	s, p := newRealSite(t), newPatient(t, kube)
	s.script(`echo kept > "$OUTPUT_DIR/artifacts/notes.txt"; env > "$OUTPUT_DIR/artifacts/env.txt"; echo "$@" > "$OUTPUT_DIR/artifacts/args.txt"
` + reports)
	inc := s.investigate(t, p, kube.ReadOnly(t))
	rep := s.checkReport(inc, p, "agent", "permission-denied")
	if n := checks(rep); n[nightcrier.Unseen] > 0 || n[nightcrier.Seen] < 3 || rep.CheckedShare != 1 {
		t.Errorf("facts %v, share %v: %+v", n, rep.CheckedShare, rep.Facts)
	}
	s.checkWorkspace(inc)
	s.checkIncident(inc, p)
	if inc.ExitCode == nil || *inc.ExitCode != 0 || len(inc.Artifacts) != 3 || inc.Artifacts[2].Path != "output/artifacts/notes.txt" {
		t.Errorf("exit code %v, artifacts %+v", inc.ExitCode, inc.Artifacts)
	}
	s.checkScriptEnv(inc, p)
}

// checkScriptEnv holds the environment of a script to what is promised, and to
// nothing else.
func (s *site) checkScriptEnv(inc nightcrier.Incident, p *patient) {
	s.Helper()
	ws := filepath.Join(s.root, "incident-"+inc.ID)
	want := map[string]string{
		"INCIDENT_ID": inc.ID, "INCIDENT_WORKSPACE": ws, "KUBERNETES_CLUSTER": "real", "KUBERNETES_NAMESPACE": p.ns,
		"CLAUDE_READ_ONLY_MODE": "true", "WORKSPACE_DIR": ws, "OUTPUT_DIR": filepath.Join(ws, "output"), "AGENT_CLI": "claude", "AGENT_MODEL": "sonnet",
		"AGENT_TIMEOUT": "240", "SKILLS_DIR": filepath.Join(ws, ".claude/skills"), "DISABLE_TRIAGE_PRELOAD": "false",
		"HOME": filepath.Join(ws, "home"), "TMPDIR": filepath.Join(ws, "tmp"), "LANG": "C.UTF-8", "KUBECONFIG": filepath.Join(ws, "home/kubeconfig"),
		"PWD": ws,
	}
	marked := regexp.MustCompile(`^nightcrier\.[0-9a-f]+\.[0-9a-f-]+\.[0-9-]+$`) // says whose box it is, by ids alone
	got := map[string]string{}
	for line := range strings.Lines(string(s.file(inc, "output/artifacts/env.txt"))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		got[name] = value
	}
	for name, value := range want {
		if got[name] != value {
			s.Errorf("a script has %s=%q, want %q", name, got[name], value)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok && !slices.Contains([]string{"PATH", "AGENT_ALLOWED_TOOLS", "NIGHTCRIER_SANDBOX", "OLDPWD", "SHLVL", "_"}, name) {
			s.Errorf("a script has %s=%q, which nobody promised", name, got[name])
		}
	}
	if !strings.Contains(got["AGENT_ALLOWED_TOOLS"], "kubectl") || !strings.Contains(got["PATH"], "/usr/bin") {
		s.Errorf("a script has AGENT_ALLOWED_TOOLS=%q and PATH=%q", got["AGENT_ALLOWED_TOOLS"], got["PATH"])
	}
	if mark := got["NIGHTCRIER_SANDBOX"]; !marked.MatchString(mark) {
		s.Errorf("a script has NIGHTCRIER_SANDBOX=%q", mark)
	}
	if args := strings.TrimSpace(string(s.file(inc, "output/artifacts/args.txt"))); args != ws {
		s.Errorf("a script has the arguments %q, want the workspace", args)
	}
}

// claude lets the real CLI do the work, against a scripted model.
func (s *site) claude(t *testing.T, m *fakemodel.Server, scenario string) {
	t.Helper()
	s.env["NIGHTCRIER_AGENT_EXECUTOR"], s.env["NIGHTCRIER_AGENT_COMMAND"] = "claude-code", clitest.Claude(t)
	s.env["ANTHROPIC_API_KEY"], s.env["ANTHROPIC_BASE_URL"] = realKey, m.URL(scenario)
}

// checkSent compares what the model API received with what is recorded, and the
// key with which it came.
func (s *site) checkSent(inc nightcrier.Incident, calls []fakemodel.Request) {
	s.Helper()
	if len(calls) == 0 {
		s.Fatal("the model was never called")
	}
	system, user := string(s.file(inc, "context/system-instructions.txt")), string(s.file(inc, "PROMPT.md"))
	sent := string(s.file(inc, "prompt-sent.md"))
	if !strings.Contains(sent, system) || !strings.Contains(sent, user) || !strings.Contains(system+user, "<initial_triage_report>") {
		s.Error("prompt-sent.md does not hold what was sent, or the facts were not preloaded")
	}
	with := 0
	for _, c := range calls {
		if key := c.Header.Get("X-Api-Key") + c.Header.Get("X-Goog-Api-Key") + c.Header.Get("Authorization"); key != realKey && key != "Bearer "+realKey {
			s.Errorf("the model was called without its key: %v", c.Header)
		}
		if len(c.Tools) > 0 && strings.Contains(c.Text, strings.TrimSpace(system)) && strings.Contains(c.Text, strings.TrimSpace(user)) {
			with++
		}
	}
	if with == 0 {
		s.Error("no request held the system instructions and the prompt as recorded")
	}
}

// noKeyIn looks for the real key in everything below a directory.
func (s *site) noKeyIn(dir string) {
	s.Helper()
	s.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(realKey)) {
			s.Errorf("the real key stands in %s", path)
		}
		return err
	}))
}

// The agent sees a token of the run where its key would be.
func TestScriptSeesNoRealKey(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	s, p := newRealSite(t), newPatient(t, kube)
	s.script(`[ -n "$ANTHROPIC_API_KEY" ] && [ "$ANTHROPIC_API_KEY" != "` + realKey + `" ] && echo "$ANTHROPIC_BASE_URL" > "$OUTPUT_DIR/artifacts/url"
` + reports)
	s.env["ANTHROPIC_API_KEY"] = realKey
	inc := s.investigate(t, p, kube.ReadOnly(t))
	if url := string(s.file(inc, "output/artifacts/url")); !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Errorf("the model's address is %q", url)
	}
	s.must(os.Remove(filepath.Join(filepath.Dir(s.root), "agent.sh"))) // it holds the key itself
	s.noKeyIn(s.root)
}

// What goes wrong with an agent still ends with the facts in people's hands.
func TestClaudeFailsAndTheFactsAreDelivered(t *testing.T) {
	t.Parallel()
	clitest.Claude(t)
	kube := kubetest.Start(t)
	for _, c := range []struct {
		scenario string
		status   nightcrier.IncidentStatus
		class    nightcrier.FailureClass
		reason   string
	}{
		{"bad-key", nightcrier.Failed, nightcrier.FailAuth, "key"},
		{"plain", nightcrier.AgentFailed, nightcrier.FailInvalidOutput, "output/investigation.md is missing"},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			s, p, m := newRealSite(t), newPatient(t, kube), fakemodel.New(t)
			s.claude(t, m, c.scenario)
			inc := s.investigate(t, p, kube.ReadOnly(t))
			if inc.Status != c.status || inc.FailureClass != c.class || !strings.Contains(inc.FailureReason, c.reason) || inc.Attempts != 1 {
				t.Errorf("incident %s, %s after %d attempts: %s", inc.Status, inc.FailureClass, inc.Attempts, inc.FailureReason)
			}
			rep := s.report(inc)
			if rep.Source != "builtin" || rep.RootCause == nil || len(rep.Problems) == 0 {
				t.Errorf("report of %s, root cause %+v, problems %v", rep.Source, rep.RootCause, rep.Problems)
			}
			if final := s.file(inc, "output/final-report.md"); !bytes.Contains(final, []byte("permission denied")) {
				t.Errorf("the facts are not in what people get:\n%s", final)
			}
		})
	}
}

func TestClusterThatCannotBeRead(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	gone := filepath.Join(t.TempDir(), "gone.kubeconfig")
	config, err := os.ReadFile(kube.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config = bytes.ReplaceAll(config, []byte(kube.URL), []byte("https://127.0.0.1:1"))
	if err := os.WriteFile(gone, config, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kubeconfig  string
		why, doctor string
	}{
		"unreachable":       {gone, "connection refused", "connection refused"},
		"may not list":      {kube.CannotList(t), "may not read", "may not list Pods and Events"},
		"no such file":      {filepath.Join(t.TempDir(), "none"), "no such file", "no such file"},
		"no credential set": {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := newRealSite(t), newPatient(t, kube)
			inc := s.investigate(t, p, c.kubeconfig)
			rep := s.report(inc)
			if inc.Status != nightcrier.Resolved || !rep.Valid || inc.ContextIncomplete == "" {
				t.Errorf("incident %s, report valid %v, incomplete %q", inc.Status, rep.Valid, inc.ContextIncomplete)
			}
			why := fmt.Sprintf("%+v", rep.NotChecked)
			if len(rep.NotChecked) == 0 || !strings.Contains(why, c.why) {
				t.Errorf("not checked: %s, want %q in it", why, c.why)
			}
			cfg, err := s.order().config()
			s.must(err)
			cfg.Clusters[0].Kubeconfig = c.kubeconfig
			found := false
			for _, check := range doctor.Run(t.Context(), cfg, doctor.Options{ListTools: oneshot.ListTools}) {
				if check.Code == doctor.CheckCluster {
					found = check.Status != "ok" && check.Hint != "" && strings.Contains(check.Detail, c.doctor)
					if !found {
						t.Errorf("doctor says %+v", check)
					}
				}
			}
			if !found {
				t.Error("doctor has no word on the cluster")
			}
		})
	}
}
