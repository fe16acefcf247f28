package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// command runs the program with no environment.
func command(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	p := &program{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	code = p.runCommandLine(context.Background(), args)
	return code, out.String(), errs.String()
}

// TestRBACFromManifestToKubeconfig is what an operator does: print, apply, make.
func TestRBACFromManifestToKubeconfig(t *testing.T) {
	s := kubetest.Start(t)
	dir := t.TempDir()
	code, text, stderr := command("rbac", "manifest", "--name", "eye", "--namespace", "watchers")
	if code != 0 || stderr != "" {
		t.Fatalf("%d %s", code, stderr)
	}
	out := filepath.Join(dir, "reader.yaml")
	make := []string{"rbac", "kubeconfig", "--kubeconfig", s.Kubeconfig, "--name", "eye", "--namespace", "watchers", "--duration", "1h", "--out", out}
	if code, _, stderr := command(make...); code != 4 || !strings.Contains(stderr, "nightcrier rbac manifest") {
		t.Errorf("before the account is there: %d %s", code, stderr)
	}
	apply := exec.Command(kubetest.Kubectl(t), "apply", "-f", "-")
	apply.Env, apply.Stdin = []string{"KUBECONFIG=" + s.Kubeconfig, "HOME=" + dir}, strings.NewReader(text)
	if said, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if err := os.WriteFile(out, []byte("an older one, open to all"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := command(make...)
	if code != 0 || stdout != out+"\n" || !strings.Contains(stderr, "valid until") || !strings.Contains(stderr, "Read-only: it can change nothing") {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	made, err := os.ReadFile(out)
	info, statErr := os.Stat(out)
	if err != nil || statErr != nil || info.Mode().Perm() != 0o600 || !bytes.Contains(made, []byte("token: ")) {
		t.Errorf("%v %v %v", err, statErr, info)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 2 { // kubectl keeps a cache in its HOME
		t.Errorf("%v: %v", err, left)
	}
	code, stdout, stderr = command(make[:len(make)-2]...)
	if code != 0 || !strings.HasPrefix(stdout, "apiVersion: v1") || strings.Contains(stderr, "eyJ") {
		t.Errorf("to stdout: %d %s", code, stderr)
	}
}

func TestRBACRefusesWrongWords(t *testing.T) {
	for _, args := range [][]string{
		{"rbac", "manifest", "--name", "a/b"}, {"rbac", "manifest", "--namespaces", "shop,"}, {"rbac", "manifest", "extra"},
		{"rbac", "kubeconfig", "--duration", "1s"}, {"rbac", "kubeconfig", "--duration", "soon"}, {"rbac", "kubeconfig", "--kubeconfig", "/nowhere"}, {"rbac", "kubectl"},
	} {
		if code, stdout, stderr := command(args...); code != 2 || stdout != "" || stderr == "" {
			t.Errorf("%v: %d %q %q", args, code, stdout, stderr)
		}
	}
}

func TestClustersListTellsOfCredentials(t *testing.T) {
	var out, errs bytes.Buffer
	p := &program{stdout: &out, stderr: &errs}
	p.printClusters([]nightcrier.SourceStatus{
		{Cluster: "a", Access: &nightcrier.Access{ReadOnly: "yes", Agents: true}},
		{Cluster: "b", Access: &nightcrier.Access{ReadOnly: "no", Detail: "its credential is not read-only"}},
		{Cluster: "b", Source: "another", Access: &nightcrier.Access{ReadOnly: "no", Detail: "its credential is not read-only"}},
		{Cluster: "c", Access: &nightcrier.Access{ReadOnly: "none", Detail: "no credential"}},
		{Cluster: "d"},
	})
	for _, want := range []string{"READ-ONLY", "yes", "no", "none"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
	if got := errs.String(); got != "b: agents get no access: its credential is not read-only\n" {
		t.Errorf("%q", got)
	}
}
