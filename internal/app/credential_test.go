package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"nightcrier.dev/nightcrier"
)

// twoClusters is a kubeconfig with files, a plugin, and somebody else's secret.
const twoClusters = `apiVersion: v1
kind: Config
current-context: prod
clusters:
- {name: prod, cluster: {server: https://prod.example, certificate-authority: ca.pem}}
- {name: other, cluster: {server: https://other.example}}
users:
- {name: prod, user: {client-certificate: cert.pem, client-key: key.pem}}
- {name: other, user: {token: token-of-another-cluster}}
- {name: cloud, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./bin/plugin, interactiveMode: Never, env: [{name: REGION, value: eu}]}}}
- {name: pod, user: {tokenFile: token}}
contexts:
- {name: prod, context: {cluster: prod, user: prod, namespace: shop}}
- {name: other, context: {cluster: other, user: other}}
- {name: cloud, context: {cluster: prod, user: cloud}}
- {name: pod, context: {cluster: prod, user: pod}}
- {name: broken, context: {cluster: absent, user: prod}}
`

func credentialFile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"config": twoClusters, "ca.pem": "CA", "cert.pem": "CERT", "key.pem": "KEY", "token": "T"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "config")
}

func TestCredentialHasOneContextAndNoFiles(t *testing.T) {
	path := credentialFile(t)
	cred, err := ReadCredential(path, "", []string{"HTTPS_PROXY=http://proxy", "AWS_PROFILE=p", "PATH=/bin", "ANTHROPIC_API_KEY=k"})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.Load(cred.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	u, c := cfg.AuthInfos["prod"], cfg.Clusters["prod"]
	if len(cfg.Contexts) != 1 || u == nil || c == nil || string(u.ClientKeyData) != "KEY" || string(c.CertificateAuthorityData) != "CA" || u.ClientKey != "" {
		t.Errorf("%s", cred.Kubeconfig)
	}
	if strings.Contains(string(cred.Kubeconfig), "token-of-another-cluster") {
		t.Error("the credential of another cluster goes along")
	}
	if want := []string{"HTTPS_PROXY=http://proxy"}; !slices.Equal(cred.Env, want) {
		t.Errorf("without a plugin the guard has %q, want %q", cred.Env, want)
	}
}

func TestCredentialOfAPlugin(t *testing.T) {
	path := credentialFile(t)
	cred, err := ReadCredential(path, "cloud", []string{"AWS_PROFILE=p", "PATH=/bin", "HOME=/h", "ANTHROPIC_API_KEY=k", "DATABASE_URL=d", "AWSOME=1",
		"GOOGLE_CLOUD_PROJECT=g", "GOOGLE_API_KEY=k", "GOOGLE_GEMINI_BASE_URL=u"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"AWS_PROFILE=p", "PATH=/bin", "HOME=/h", "GOOGLE_CLOUD_PROJECT=g"}; !slices.Equal(cred.Env, want) {
		t.Errorf("the plugin has %q, want %q", cred.Env, want)
	}
	cfg, err := clientcmd.Load(cred.Kubeconfig)
	if err != nil || cfg.AuthInfos["cloud"].Exec.Command != filepath.Join(filepath.Dir(path), "bin/plugin") {
		t.Errorf("%v: %s", err, cred.Kubeconfig)
	}
}

// A token file is renewed by others: its place goes along, not what it holds now.
func TestCredentialOfATokenFile(t *testing.T) {
	path := credentialFile(t)
	cred, err := ReadCredential(path, "pod", nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.Load(cred.Kubeconfig)
	if err != nil || cfg.AuthInfos["pod"].TokenFile != filepath.Join(filepath.Dir(path), "token") {
		t.Errorf("%v: %s", err, cred.Kubeconfig)
	}
}

func TestUnusableCredentials(t *testing.T) {
	path := credentialFile(t)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ file, context, says string }{
		"no file":    {"/does/not/exist", "", "/does/not/exist"},
		"no context": {path, "absent", "absent"},
		"no cluster": {path, "broken", "absent"},
		"empty":      {empty, "", "no kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ReadCredential(c.file, c.context, nil); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}
