package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/check/selftest/probe"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// guardRun is one command line, run to its end in this process.
type guardRun struct {
	code        int
	out, errors string
}

func runProgram(t *testing.T, environ []string, stdin string, args ...string) guardRun {
	t.Helper()
	var out, errs together
	p := &program{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs, environ: environ, now: time.Now}
	code := p.runCommandLine(t.Context(), args)
	return guardRun{code, out.String(), errs.String()}
}

// together is written to by us and, through a pipe, by a command that we run.
type together struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *together) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *together) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func environ(extra ...string) []string { return append(os.Environ(), extra...) }

func TestGuardRunsACommand(t *testing.T) {
	kube := kubetest.Start(t)
	kubectl := kubetest.Kubectl(t)
	ns := kube.Namespace(t)
	kube.Pod(t, ns, "cart", nil)
	out := filepath.Join(t.TempDir(), "look")
	script := `read line; echo "said $line"; "$1" get pods; "$1" delete pod cart --now; env; exit 7`
	r := runProgram(t, environ("AWS_SECRET_ACCESS_KEY=cloud-canary", "KUBERNETES_SERVICE_HOST=10.0.0.1", "ANTHROPIC_API_KEY=model-key"), "hello\n",
		"guard", "--kubeconfig", kube.Kubeconfig, "-n", ns, "--out", out, "--", "sh", "-c", script, "sh", kubectl)
	if r.code != 7 {
		t.Errorf("exit code %d, want the command's", r.code)
	}
	for _, want := range []string{"said hello", "cart", "KUBECONFIG=" + out, "ANTHROPIC_API_KEY=model-key"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("stdout lacks %q:\n%s", want, r.out)
		}
	}
	for _, want := range []string{"Warning: evidence E", "reads only", "1 denied", "kept as evidence in " + out, "audit head "} {
		if !strings.Contains(r.errors, want) {
			t.Errorf("stderr lacks %q:\n%s", want, r.errors)
		}
	}
	for _, unwanted := range []string{"cloud-canary", "KUBERNETES_SERVICE_HOST"} {
		if strings.Contains(r.out, unwanted) {
			t.Errorf("the command has %s", unwanted)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "kubeconfig")); err == nil {
		t.Error("the guard's kubeconfig was left behind")
	}
	checkGuardAudit(t, out, strings.TrimSpace(r.errors[strings.LastIndex(r.errors, " "):]))
}

// checkGuardAudit verifies the audit, and that a change in it is found.
func checkGuardAudit(t *testing.T, out, head string) {
	t.Helper()
	file := filepath.Join(out, auditFile)
	if r := runProgram(t, nil, "", "audit", "verify", file, "--head", head); r.code != 0 || !strings.Contains(r.out, "1 denied") {
		t.Errorf("verify: %+v", r)
	}
	raw, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, bytes.Replace(raw, []byte(`"deny"`), []byte(`"allow"`), 1), 0o600))
	r := runProgram(t, nil, "", "audit", "verify", file, "--head", head, "-o", "json")
	var v verified
	must(t, json.Unmarshal([]byte(r.out), &v))
	if r.code != foundExit || v.OK || len(v.Problems) != 1 || v.Problems[0].Line == 0 {
		t.Errorf("a changed line: exit code %d, %+v", r.code, v)
	}
	// The second guard does not write over the first one's record.
	if r := runProgram(t, environ(), "", "guard", "--kubeconfig", os.DevNull, "--out", out, "--", "true"); r.code == 0 {
		t.Errorf("a guard without a credential: %+v", r)
	}
}

func TestGuardPassesTheWayOfDying(t *testing.T) {
	kube := kubetest.Start(t)
	out := t.TempDir()
	for script, want := range map[string]int{"exit 0": 0, "exit 42": 42, "kill -TERM $$": 128 + int(syscall.SIGTERM)} {
		dir := filepath.Join(out, strings.ReplaceAll(script, " ", "-"))
		if r := runProgram(t, environ(), "", "guard", "--kubeconfig", kube.Kubeconfig, "--out", dir, "sh", "-c", script); r.code != want {
			t.Errorf("%s: exit code %d, want %d: %s", script, r.code, want, r.errors)
		}
	}
	if r := runProgram(t, environ(), "", "guard", "--kubeconfig", kube.Kubeconfig, "--", "no-such-command"); r.code != 4 {
		t.Errorf("a command that does not exist: %+v", r)
	}
}

func TestGuardRefusesWhatItCannotDo(t *testing.T) {
	taken := filepath.Join(t.TempDir(), "mine.yaml")
	must(t, os.WriteFile(taken, []byte("apiVersion: v1\nkind: Config\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"nothing":      {[]string{"guard"}, 2, "which command?"},
		"no budget":    {[]string{"guard", "--budget-usd", "x", "--", "true"}, 2, `flag --budget-usd: "x" is not an amount of dollars`},
		"a budget":     {[]string{"guard", "--budget-usd", "-2", "--", "true"}, 2, "an amount of dollars"},
		"both":         {[]string{"guard", "--serve", "--out-kubeconfig", "x", "--", "true"}, 2, "runs no command"},
		"no file":      {[]string{"guard", "--serve"}, 2, "--out-kubeconfig"},
		"listen alone": {[]string{"guard", "--listen", "127.0.0.1:0", "--", "true"}, 2, "belong to --serve"},
		"no cluster":   {[]string{"guard", "--kubeconfig", "/does/not/exist", "--", "true"}, 2, "/does/not/exist"},
	} {
		t.Run(name, func(t *testing.T) {
			if r := runProgram(t, environ(), "", c.args...); r.code != c.code || !strings.Contains(r.errors, c.says) {
				t.Errorf("%+v, want %d and %q", r, c.code, c.says)
			}
		})
	}
	if err := writeGuardKubeconfig(taken, []byte("token: "+tokenMark)); err == nil {
		t.Error("somebody's kubeconfig was overwritten")
	}
}

// The guard serves until it is told to stop; its kubeconfig goes with it.
func TestGuardServes(t *testing.T) {
	kube := kubetest.Start(t)
	kubectl := kubetest.Kubectl(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "read-only.yaml")
	cmd := exec.Command("nightcrier", "guard", "--kubeconfig", kube.Kubeconfig, "--serve", "--out-kubeconfig", file, "--out", filepath.Join(dir, "out"))
	cmd.Env = environ()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line := make([]byte, len(file)+1)
	if _, err := stdout.Read(line); err != nil || string(line) != file+"\n" {
		t.Fatalf("stdout %q, %v\n%s", line, err, errs.String())
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	look := exec.Command(kubectl, "get", "namespaces", "-o", "name")
	look.Env = environ("KUBECONFIG="+file, "HOME="+dir)
	if got, err := look.CombinedOutput(); err != nil || !strings.Contains(string(got), "namespace/default") {
		t.Errorf("%v: %s", err, got)
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil || !strings.Contains(errs.String(), "audit head") {
		t.Errorf("%v\n%s", err, errs.String())
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the kubeconfig was left behind")
	}
}

// What a service manager or a shell sends to the guard is for the command.
func TestGuardPassesSignals(t *testing.T) {
	kube := kubetest.Start(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		cmd := exec.Command("nightcrier", "guard", "--kubeconfig", kube.Kubeconfig, "--out", filepath.Join(t.TempDir(), "out"), "--",
			"sh", "-c", "trap 'exit 31' INT TERM HUP; echo up; while :; do sleep 0.02; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		stdout, err := cmd.StdoutPipe()
		must(t, err)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		must(t, cmd.Start())
		if _, err := io.ReadFull(stdout, make([]byte, 3)); err != nil {
			t.Fatalf("%v: %s", err, errs.String())
		}
		must(t, cmd.Process.Signal(sig))
		_ = cmd.Wait() // its code is looked at
		if code := cmd.ProcessState.ExitCode(); code != 31 || !strings.Contains(errs.String(), "audit head") {
			t.Errorf("%s: exit code %d\n%s", sig, code, errs.String())
		}
	}
}

// What logs in to a cluster or a cloud is taken away; what an agent needs for its model
// stays, whatever it is called.
func TestGuardedEnv(t *testing.T) {
	agents := []string{"ANTHROPIC_API_KEY=k"}
	for _, p := range []nightcrier.Provider{nightcrier.Anthropic, nightcrier.OpenAI, nightcrier.Google} {
		for _, name := range slices.Concat(config.KeyVariables(p), config.AddressVariables(p)) {
			agents = append(agents, name+"=k")
		}
	}
	if got := guardedEnv(agents); !slices.Equal(got, agents) || !slices.Contains(agents, "GOOGLE_API_KEY=k") || !slices.Contains(agents, "GOOGLE_GEMINI_BASE_URL=k") {
		t.Errorf("of %q the command gets %q", agents, got)
	}
	got := guardedEnv([]string{"PATH=/bin", "KUBECONFIG=x", "KUBERNETES_SERVICE_HOST=x", "KUBE_TOKEN=x", "HELM_KUBETOKEN=x", "AWS_PROFILE=x",
		"GOOGLE_APPLICATION_CREDENTIALS=x", "ANTHROPIC_API_KEY=k", "AWSOME=1"})
	if want := []string{"PATH=/bin", "ANTHROPIC_API_KEY=k", "AWSOME=1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Who asks for a triage lends the agent's guard a credential, and is told when it
// could do more than read.
func TestTriageLetsItsAgentLook(t *testing.T) {
	kube := kubetest.Start(t)
	ns := kube.Namespace(t)
	kube.Pod(t, ns, "cart", nil)
	dir := t.TempDir()
	script := filepath.Join(dir, "agent.sh")
	must(t, os.WriteFile(script, []byte(`#!/bin/sh
"`+kubetest.Kubectl(t)+`" get pods -o name > "$OUTPUT_DIR/artifacts/seen.txt" 2>&1
"`+kubetest.Kubectl(t)+`" delete pod cart >> "$OUTPUT_DIR/artifacts/seen.txt" 2>&1
cp context/initial_triage_report.md "$OUTPUT_DIR/investigation.md"
`), 0o755))
	path := "PATH=" + filepath.Dir(kubetest.Kubectl(t)) + ":" + os.Getenv("PATH")
	t.Setenv("PATH", strings.TrimPrefix(path, "PATH="))
	out := filepath.Join(dir, "out")
	r := runProgram(t, environ("AGENT_SCRIPT_PATH="+script), "", "triage", "pod/cart", "-n", ns, "--kubeconfig", kube.Kubeconfig, "--executor", "script", "--out", out)
	if r.code != 0 || !strings.Contains(r.errors, "not read-only") {
		t.Errorf("%+v", r)
	}
	seen, err := filepath.Glob(filepath.Join(out, "incident-*", "output", "artifacts", "seen.txt"))
	if err != nil || len(seen) != 1 {
		t.Fatalf("%v, %v", seen, err)
	}
	text, err := os.ReadFile(seen[0])
	must(t, err)
	if !strings.Contains(string(text), "pod/cart") || !strings.Contains(string(text), "Warning: evidence E") || !strings.Contains(string(text), "reads only") {
		t.Errorf("the agent saw\n%s", text)
	}
	file := filepath.Join(filepath.Dir(filepath.Dir(seen[0])), auditFile)
	if v := runProgram(t, nil, "", "audit", "verify", file); v.code != 0 || v.errors != "" || !strings.Contains(v.out, "1 denied") {
		t.Errorf("audit: %+v", v)
	}
}

// With a budget the configuration says what models cost: by file or environment, and one
// that is wrong is told.
func TestGuardTakesPricesOfTheConfiguration(t *testing.T) {
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"usage":{"input_tokens":1000,"output_tokens":200}}`)
	}))
	defer u.Close()
	file := filepath.Join(t.TempDir(), "nightcrier.yaml")
	must(t, os.WriteFile(file, []byte("agent: {prices: [\"house-model=3/10\"]}\n"), 0o600))
	ask := `curl -s -o /dev/null -w '%{http_code}' -H "X-Api-Key: $ANTHROPIC_API_KEY" -d '{"model":"house-model","max_tokens":300,"messages":[]}' "$ANTHROPIC_BASE_URL/v1/messages"`
	for name, c := range map[string]struct {
		args  []string
		env   []string
		code  int
		wants string
	}{
		"by file":        {[]string{"--config", file}, nil, 0, "$0.005 spent"},
		"by environment": {nil, []string{"NIGHTCRIER_AGENT_PRICES=house-model=3/10"}, 0, "$0.005 spent"},
		"none":           {nil, nil, 5, "in the file that --config names, or to NIGHTCRIER_AGENT_PRICES"},
		"nonsense":       {nil, []string{"NIGHTCRIER_AGENT_PRICES=nonsense"}, 2, "NIGHTCRIER_AGENT_PRICES"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append(c.args, "guard", "--budget-usd", "1", "--", "sh", "-c", ask)
			env := append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "ANTHROPIC_API_KEY=sk-ant-real-key-0123456789", "ANTHROPIC_BASE_URL=" + u.URL}, c.env...)
			if r := runProgram(t, env, "", args...); r.code != c.code || !strings.Contains(r.errors, c.wants) {
				t.Errorf("%+v, want %d and %q", r, c.code, c.wants)
			}
		})
	}
}

// A temporary directory goes when nothing is in it, and is named when something is,
// however the guard ends.
func TestGuardLeavesNoEmptyDirectory(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"usage":{"input_tokens":10,"output_tokens":20}}`)
	}))
	defer model.Close()
	key := []string{"ANTHROPIC_API_KEY=sk-ant-no-key-0123456789", "ANTHROPIC_BASE_URL=" + model.URL}
	dead := filepath.Join(t.TempDir(), "dead")
	must(t, os.WriteFile(dead, []byte("apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"+
		"users: [{name: u, user: {token: t}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"), 0o600))
	spend := []string{"nightcrier", probe.Command, "spend", "1", "100"}
	for name, c := range map[string]struct {
		environ, args, command []string
		code                   int
		named                  bool
	}{
		"nothing spent":          {key, []string{"--budget-usd", "1"}, []string{"true"}, 0, false},
		"no key":                 {nil, []string{"--budget-usd", "1"}, []string{"true"}, 2, false},
		"no command":             {key, []string{"--budget-usd", "1"}, []string{"no-such-command"}, 4, false},
		"spent":                  {key, []string{"--budget-usd", "1"}, spend, 0, true},
		"too much":               {key, []string{"--budget-usd", "0.0000001"}, spend, 5, true}, // the refusal is on record
		"nothing asked":          {nil, []string{"--kubeconfig", dead}, []string{"true"}, 0, false},
		"asked":                  {nil, []string{"--kubeconfig", dead}, []string{kubetest.Kubectl(t), "get", "--raw", "/api/v1/pods"}, 1, true},
		"no command at cluster":  {nil, []string{"--kubeconfig", dead}, []string{"no-such-command"}, 4, false},
		"spent beside a cluster": {key, []string{"--kubeconfig", dead, "--budget-usd", "1"}, spend, 0, true},
		"no context":             {nil, []string{"--kubeconfig", dead, "--context", "y"}, []string{"true"}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			t.Setenv("KUBECONFIG", filepath.Join(tmp, "none"))
			r := runProgram(t, append(c.environ, "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir()), "", slices.Concat([]string{"guard"}, c.args, []string{"--"}, c.command)...)
			left, err := filepath.Glob(filepath.Join(tmp, "nightcrier-guard-*"))
			must(t, err)
			if r.code != c.code || len(left) > 1 || (len(left) == 1) != c.named || c.named && !strings.Contains(r.errors, " in "+left[0]) || !c.named && strings.Contains(r.errors, tmp) {
				t.Errorf("exit code %d, want %d; left %q: %s", r.code, c.code, left, r.errors)
			}
		})
	}
}
