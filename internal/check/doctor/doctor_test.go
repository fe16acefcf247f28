package doctor

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/config"
)

// kubeconfigFor leads to a cluster that answers every question about its credential with rules.
func kubeconfigFor(t *testing.T, rules string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"gitVersion":"v1.36.0","status":{"resourceRules":[`+rules+`]}}`)
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: a\nusers: [{name: u, user: {token: t}}]\n" +
		"clusters: [{name: a, cluster: {server: '" + server.URL + "'}}]\ncontexts: [{name: a, context: {cluster: a, user: u}}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDoctorLooksAtCredentials(t *testing.T) {
	tests := map[string]struct {
		rules  string
		allow  bool
		status string
		says   string
		hint   string
	}{
		"reader":         {`{"verbs":["get","list","watch"],"apiGroups":[""],"resources":["pods"]}`, false, statusOK, "read-only", ""},
		"writer":         {`{"verbs":["delete"],"apiGroups":[""],"resources":["pods"]}`, false, statusWarn, "agents get no access: its credential is not read-only (namespace default): it can start, change and delete workloads", "nightcrier rbac kubeconfig"},
		"allowed writer": {`{"verbs":["delete"],"apiGroups":[""],"resources":["pods"]}`, true, statusWarn, "allowed by allow_write_credential", "nightcrier rbac manifest"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			checks := checkAccess(t.Context(), config.Cluster{Name: "prod", Kubeconfig: kubeconfigFor(t, tt.rules), AllowWriteCredential: tt.allow})
			if len(checks) != 2 || checks[0].Status != statusOK {
				t.Fatalf("%+v", checks)
			}
			if c := checks[1]; c.Code != CheckCredential || c.Status != tt.status || !strings.Contains(c.Detail, tt.says) || !strings.Contains(c.Hint, tt.hint) {
				t.Errorf("%+v", c)
			}
			if n := strings.Count(checks[1].Detail+checks[1].Hint, "nightcrier rbac kubeconfig"); n > 1 {
				t.Errorf("the remedy is told %d times: %+v", n, checks[1])
			}
		})
	}
}

// What the machine grants is judged by what is required, and where no agent would be
// started at all, that is a failure whatever is required.
func TestDoctorJudgesTheSandbox(t *testing.T) {
	floor := []string{"env", "no_new_privs", "caps", "seccomp", "modes", "landlock", "landlock-net", "landlock-scope", "rlimits", "cgroup-memory", "cgroup-pids"}
	full := append([]string{"pidns", "mountns", "netns", "proc", "root", "uid"}, floor...)
	without := func(layers []string, l string) []string {
		return slices.DeleteFunc(slices.Clone(layers), func(s string) bool { return s == l })
	}
	for name, c := range map[string]struct {
		held                  []string
		strict, effort, none  string
		says, hint, saysUnder string
	}{
		"all":                   {full, statusOK, statusOK, statusOK, "cgroup-memory", "", ""},
		"memory is watched":     {append(without(full, "cgroup-memory"), "memory-watch"), statusFail, statusWarn, statusWarn, "missing: cgroup-memory", "control group", "the group has processes"},
		"the floor":             {floor, statusFail, statusWarn, statusWarn, "missing: pidns", "namespaces", "the group has processes"},
		"a floor with open TCP": {without(floor, "landlock-net"), statusFail, statusWarn, statusWarn, "landlock-net", "namespaces", ""},
		"no limit of memory":    {without(full, "cgroup-memory"), statusFail, statusWarn, statusWarn, "missing: cgroup-memory", "control group", ""},
		"no seccomp":            {without(full, "seccomp"), statusFail, statusFail, statusWarn, "missing: seccomp", "seccomp", ""},
		"below the floor":       {without(floor, "landlock"), statusFail, statusFail, statusWarn, "landlock", "Linux 5.13", ""},
	} {
		for require, want := range map[string]string{"strict": c.strict, "best-effort": c.effort, "none": c.none} {
			got := judgeSandbox(Check{}, require, c.held, []string{"the group has processes"})
			if got.Status != want || !strings.Contains(got.Detail, c.says) || !strings.Contains(got.Detail, c.saysUnder) || !strings.Contains(got.Hint, c.hint) {
				t.Errorf("%s, %s: %+v, want %s", name, require, got, want)
			}
			if told := strings.Contains(got.Detail, "no agent is started without"); told != (want == statusFail && c.effort == statusFail) {
				t.Errorf("%s, %s: %+v", name, require, got)
			}
		}
	}
}

func TestDoctorReadsRunbooks(t *testing.T) {
	dir := t.TempDir()
	write := func(name, match string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("---\nmatch: "+match+"\n---\ntext"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func() Check { return checkRunbooks(&config.Config{Runbooks: config.Runbooks{Dir: dir}}) }
	write("good.md", "{cause: oom-killed}")
	if c := check(); c.Status != statusOK || c.Detail != "1 files" {
		t.Errorf("%+v", c)
	}
	write("typo.md", "{cause: oom-kiled}")
	write("bad.md", "{kinds: Pod}")
	if c := check(); c.Status != statusFail || !strings.Contains(c.Detail, `typo.md: match.cause: no rule finds "oom-kiled"`) || !strings.Contains(c.Detail, "bad.md: front matter") || !strings.Contains(c.Hint, "2 problems") {
		t.Errorf("%+v", c)
	}
	if c := checkRunbooks(&config.Config{}); c.Status != statusOK {
		t.Errorf("%+v", c)
	}
}
