package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	agents "nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/check/selftest"
	"nightcrier.dev/nightcrier/internal/test/clitest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// runApart runs the program as a process of its own: what reads and masks much takes a
// tenth of the time without the race detector. It finds other programs in path.
func runApart(t *testing.T, path string, args ...string) guardRun {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), testproc.Self(), args...)
	cmd.Args[0], cmd.Stdout, cmd.Stderr = "nightcrier", &out, &errs
	cmd.Env = append(os.Environ(), "PATH="+path)
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return guardRun{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// Before a real cluster all attacks are stopped, and those of a bare shell are not; the
// cluster is only read by either. What this machine does not have is told.
func TestSelftestBeforeARealCluster(t *testing.T) {
	t.Parallel()
	kube := kubetest.Audited(t)
	ns := kube.Namespace(t)
	kube.Pod(t, ns, "cart-0", nil)
	path := filepath.Dir(kubetest.Kubectl(t)) + ":/usr/bin:/bin"
	before := len(kube.Audit(t))

	own := runApart(t, path, "selftest", "readonly", "--kubeconfig", kube.Kubeconfig)
	if own.code != 0 || !strings.Contains(own.out, "\nRBAC alone would stop 0 of ") { // the credential may do all
		t.Errorf("exit code %d: %s%s", own.code, own.out, own.errors)
	}
	for _, cli := range agents.CLIs() {
		if !strings.Contains(own.out, "not exercised: readonly by "+cli.Name+": it is not installed: npm install -g ") {
			t.Errorf("stdout does not tell that %s is missing:\n%s", cli.Name, own.out)
		}
	}
	bare := runApart(t, path, "selftest", "readonly", "--kubeconfig", kube.Kubeconfig, "--against", "bash -c {command}", "-o", "json")
	if bare.code != 6 {
		t.Errorf("against a bare shell: exit code %d: %s", bare.code, bare.errors)
	}
	var found selftest.Report
	if err := json.Unmarshal([]byte(bare.out), &found); err != nil {
		t.Fatal(err)
	}
	for _, a := range found.Attacks {
		if !a.ReachedAPI || a.Passed {
			t.Errorf("%+v", a)
		}
	}
	ours := 0
	for _, e := range kube.Audit(t)[before:] {
		if strings.HasPrefix(e.UserAgent, "kube-apiserver/") {
			continue // which asks itself
		}
		asks := e.Verb == "create" && strings.HasPrefix(e.RequestURI, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews") // what it may do, which changes nothing
		if ours++; !asks && !slices.Contains([]string{"get", "list"}, e.Verb) {
			t.Errorf("the cluster was asked to %s %s", e.Verb, e.RequestURI)
		}
	}
	if ours == 0 {
		t.Error("the cluster was not asked at all")
	}
}

// What needs a kubectl is told where there is none, with its number.
func TestSelftestWithoutKubectl(t *testing.T) {
	t.Parallel()
	r := runApart(t, t.TempDir(), "selftest", "injection")
	if r.code != 0 || !strings.Contains(r.out, "; 2 are not exercised\n") || !strings.Contains(r.out, "\nnot exercised: 2 attacks of injection by shell: kubectl is not in PATH\n") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
	}
}

// What cannot be attacked is no success.
func TestSelftestExitCodes(t *testing.T) {
	t.Parallel()
	path := filepath.Dir(kubetest.Kubectl(t)) + ":/usr/bin:/bin"
	for line, c := range map[string]struct {
		code int
		says string
	}{
		"true {command}": {7, "nothing was ordered"},
		"true":           {7, "never asked its model"},
		"no-such-agent":  {2, "no-such-agent"},
		"bash $x":        {2, "would replace"},
		"":               {2, "empty"},
	} {
		r := runApart(t, path, "selftest", "--against", line)
		if r.code != c.code || !strings.Contains(r.errors, c.says) || r.out != "" {
			t.Errorf("%q: exit code %d, want %d: %s%s", line, r.code, c.code, r.out, r.errors)
		}
	}
	dead := filepath.Join(t.TempDir(), "dead.yaml")
	text := `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: a, user: {}}]}`
	if err := os.WriteFile(dead, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := runApart(t, path, "selftest", "readonly", "--kubeconfig", dead); r.code != 7 {
		t.Errorf("a cluster that does not answer: exit code %d: %s", r.code, r.errors)
	}
}

// Planted secrets are in no message, report, file or request to a model, whoever reads.
func TestSelftestRedaction(t *testing.T) {
	t.Parallel()
	claude := filepath.Dir(clitest.CLI(t, "claude"))
	r := runApart(t, filepath.Dir(kubetest.Kubectl(t))+":"+claude+":/usr/bin:/bin", "selftest", "redaction", "-o", "json")
	var found selftest.Report
	if err := json.Unmarshal([]byte(r.out), &found); err != nil {
		t.Fatal(err, r.errors)
	}
	if r.code != 0 {
		t.Errorf("exit code %d: %s", r.code, r.out)
	}
	var by []string
	for _, s := range found.Totals {
		by = append(by, s.By)
		if s.Attacks != 64 {
			t.Errorf("%+v", s)
		}
	}
	if want := []string{"builtin", "raw", "shell", "claude-code", "claude-code without a shell"}; !slices.Equal(by, want) {
		t.Errorf("read by %q, want %q", by, want)
	}
	if len(found.NotExercised) != 3 {
		t.Errorf("not exercised: %+v", found.NotExercised)
	}
}
