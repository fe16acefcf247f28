package kube_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nightcrier.dev/nightcrier"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
)

// file writes a kubeconfig of one context.
func file(tb testing.TB, cluster clientcmdapi.Cluster, user clientcmdapi.AuthInfo) []byte {
	tb.Helper()
	out, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"c": &cluster},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": &user},
		Contexts:  map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// cluster is a TLS server that tells who asked, and how to reach it.
func cluster(tb testing.TB, h http.HandlerFunc) clientcmdapi.Cluster {
	tb.Helper()
	srv := httptest.NewTLSServer(h)
	tb.Cleanup(srv.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	return clientcmdapi.Cluster{Server: srv.URL, CertificateAuthorityData: ca}
}

// authorization returns what a read sends as its credential.
func authorization(tb testing.TB, up guardkube.Upstream) (string, error) {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, up.Base.JoinPath("version").String(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := up.Transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func tellAuthorization(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, r.Header.Get("Authorization"), " as ", r.Header.Get("Impersonate-User"))
}

func TestDial(t *testing.T) {
	c := cluster(t, tellAuthorization)
	for name, test := range map[string]struct {
		user clientcmdapi.AuthInfo
		want string
	}{
		"a token":           {clientcmdapi.AuthInfo{Token: "t0"}, "Bearer t0 as "},
		"a password":        {clientcmdapi.AuthInfo{Username: "u", Password: "p"}, "Basic dTpw as "},
		"a user to act for": {clientcmdapi.AuthInfo{Token: "t0", Impersonate: "viewer"}, "Bearer t0 as viewer"},
		"nothing":           {clientcmdapi.AuthInfo{}, " as "},
	} {
		up, err := guardkube.Dial(file(t, c, test.user), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := authorization(t, up); err != nil || got != test.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, test.want)
		}
	}
}

func TestDialRefuses(t *testing.T) {
	good := clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	plugin := func(e clientcmdapi.ExecConfig) clientcmdapi.AuthInfo { return clientcmdapi.AuthInfo{Exec: &e} }
	const v1 = "client.authentication.k8s.io/v1"
	for want, kubeconfig := range map[string][]byte{
		"kubeconfig":                []byte("{"),
		`no context ""`:             []byte("apiVersion: v1\nkind: Config\n"),
		`no cluster "c"`:            []byte("apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"),
		`no user "u"`:               []byte("apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'https://x'}}]\n"),
		"use an exec plugin":        file(t, good, clientcmdapi.AuthInfo{AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "gcp"}}),
		"certificate-authority":     file(t, clientcmdapi.Cluster{Server: "https://x", CertificateAuthority: "ca.crt"}, clientcmdapi.AuthInfo{}),
		"tokenFile":                 file(t, good, clientcmdapi.AuthInfo{TokenFile: "../token"}),
		"client-key":                file(t, good, clientcmdapi.AuthInfo{ClientKey: "k", ClientCertificate: "/c"}),
		"without credentials":       file(t, clientcmdapi.Cluster{Server: "https://a:b@x"}, clientcmdapi.AuthInfo{}),
		"server is not":             file(t, clientcmdapi.Cluster{Server: "ftp://x"}, clientcmdapi.AuthInfo{}),
		"exec.apiVersion":           file(t, good, plugin(clientcmdapi.ExecConfig{Command: "/bin/true", APIVersion: "client.authentication.k8s.io/v1alpha1", InteractiveMode: "Never"})),
		"interactiveMode is Always": file(t, good, plugin(clientcmdapi.ExecConfig{Command: "/bin/true", APIVersion: v1, InteractiveMode: "Always"})),
		"relative path":             file(t, good, plugin(clientcmdapi.ExecConfig{Command: "./login", APIVersion: v1, InteractiveMode: "Never"})),
		"not in the PATH that":      file(t, good, plugin(clientcmdapi.ExecConfig{Command: "sh", APIVersion: v1, InteractiveMode: "Never"})),
		"proxy":                     file(t, clientcmdapi.Cluster{Server: "https://x", ProxyURL: "gopher://x"}, clientcmdapi.AuthInfo{}),
	} {
		_, err := guardkube.Dial(kubeconfig, []string{"PATH=/nowhere:relative"})
		if err == nil || nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an invalid one with %q", err, want)
		}
	}
}

func TestDialNotes(t *testing.T) {
	up, err := guardkube.Dial(file(t, clientcmdapi.Cluster{Server: "http://c.invalid", InsecureSkipTLSVerify: true, ProxyURL: "http://user:word@proxy.invalid:3128"}, clientcmdapi.AuthInfo{Token: "t", Impersonate: "viewer"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(up.Notes, "\n")
	for _, want := range []string{"insecure-skip-tls-verify", "not encrypted", "proxy.invalid:3128", "viewer"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not tell of %s: %s", want, notes)
		}
	}
	if strings.Contains(notes, "word") {
		t.Errorf("the notes hold a password: %s", notes)
	}
}

// TestProxyOfTheBuiltEnvironment: what this process has does not count.
func TestProxyOfTheBuiltEnvironment(t *testing.T) {
	asked := make(chan string, 2)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked <- r.Host }))
	defer proxy.Close()
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	up, err := guardkube.Dial(file(t, clientcmdapi.Cluster{Server: "https://cluster.invalid"}, clientcmdapi.AuthInfo{}), []string{"HTTPS_PROXY=" + proxy.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authorization(t, up); err == nil {
		t.Error("a proxy that opens no tunnel led to the cluster")
	}
	select {
	case host := <-asked:
		if host != "cluster.invalid:443" {
			t.Errorf("the proxy was asked for %s", host)
		}
	default:
		t.Error("the proxy of the built environment was not asked")
	}
}

// script writes a credential plugin: a shell script that counts its calls.
func script(t *testing.T, body string) (path string, calls func() int) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "login")
	text := "#!/bin/sh\necho x >> " + filepath.Join(dir, "calls") + "\n" + body
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path, func() int {
		log, err := os.ReadFile(filepath.Join(dir, "calls"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(log), "x")
	}
}

func pluginUser(command string) clientcmdapi.AuthInfo {
	return clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		Command: command, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never", ProvideClusterInfo: true,
		Env: []clientcmdapi.ExecEnvVar{{Name: "PROFILE", Value: "prod"}},
	}}
}

const giveToken = `printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "$TOKEN"` + "\n"

// TestPlugin: a credential plugin runs with the built environment alone, once.
func TestPlugin(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-of-this-process")
	dir := t.TempDir()
	path, calls := script(t, "/usr/bin/env > "+dir+"/env\n"+giveToken)
	c := cluster(t, tellAuthorization)
	up, err := guardkube.Dial(file(t, c, pluginUser(filepath.Base(path))), []string{"PATH=" + filepath.Dir(path), "TOKEN=t1"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got, err := authorization(t, up); err != nil || got != "Bearer t1 as " {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if calls() != 1 {
		t.Errorf("the plugin ran %d times for a credential that lasts", calls())
	}
	env, err := os.ReadFile(dir + "/env")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(env)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "PATH", "TOKEN", "PWD", "SHLVL", "_", "OLDPWD":
		case "PROFILE":
			if value != "prod" {
				t.Errorf("PROFILE=%s", value)
			}
		case "KUBERNETES_EXEC_INFO":
			var info struct {
				Kind string
				Spec struct {
					Interactive bool
					Cluster     struct{ Server string }
				}
			}
			if err := json.Unmarshal([]byte(value), &info); err != nil || info.Kind != "ExecCredential" || info.Spec.Interactive || info.Spec.Cluster.Server != c.Server {
				t.Errorf("told the plugin %s", value)
			}
		default:
			t.Errorf("the plugin saw %s", line)
		}
	}
}

// TestPluginIsAskedAgain: when the cluster does not accept a token any more, and
// when it ends.
func TestPluginIsAskedAgain(t *testing.T) {
	refuse := true
	c := cluster(t, func(w http.ResponseWriter, r *http.Request) {
		if refuse {
			refuse = false
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		tellAuthorization(w, r)
	})
	path, calls := script(t, giveToken)
	up, err := guardkube.Dial(file(t, c, pluginUser(path)), []string{"TOKEN=t1"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := authorization(t, up); err != nil || got != "Bearer t1 as " || calls() != 2 {
		t.Errorf("%q, %v after %d calls of the plugin", got, err, calls())
	}

	ended, calls := script(t, strings.Replace(giveToken, `"token"`, `"expirationTimestamp":"2020-01-01T00:00:00Z","token"`, 1))
	if up, err = guardkube.Dial(file(t, c, pluginUser(ended)), []string{"TOKEN=t2"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := authorization(t, up); err != nil || got != "Bearer t2 as " {
			t.Errorf("%q, %v", got, err)
		}
	}
	if calls() < 2 {
		t.Errorf("a token that had ended was used again: %d calls", calls())
	}
}

func TestPluginsThatFail(t *testing.T) {
	c := cluster(t, tellAuthorization)
	for want, body := range map[string]string{
		"login first":         "echo login first >&2; exit 3",
		"no ExecCredential":   "echo hello",
		"neither token nor":   `echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{}}'`,
		"with a status":       `echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"}'`,
		"certificate and key": `echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"clientCertificateData":"x","clientKeyData":"y"}}'`,
		"its output is no":    "head -c 3000000 /dev/zero",
	} {
		path, _ := script(t, body)
		up, err := guardkube.Dial(file(t, c, pluginUser(path)), []string{"PATH=/usr/bin:/bin"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := authorization(t, up); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 {
			t.Errorf("%v, want one with %q", err, want)
		}
	}
}

// TestPluginsCertificate: a plugin may give a certificate, which is replaced when
// the cluster does not accept it any more.
func TestPluginsCertificate(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"first", "second"} {
		writeCredential(t, filepath.Join(dir, name), name)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 || r.TLS.PeerCertificates[0].Subject.CommonName == "first" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	srv.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	c := clientcmdapi.Cluster{Server: srv.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})}
	path, calls := script(t, "if [ -e "+dir+"/again ]; then cat "+dir+"/second; else touch "+dir+"/again; cat "+dir+"/first; fi")
	up, err := guardkube.Dial(file(t, c, pluginUser(path)), []string{"PATH=/usr/bin:/bin"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := authorization(t, up); err != nil || got != "second" {
			t.Errorf("known as %q, %v", got, err)
		}
	}
	if calls() != 2 {
		t.Errorf("the plugin ran %d times, want 2", calls())
	}
}

// writeCredential writes what a plugin answers that has a certificate for name.
func writeCredential(t *testing.T, path, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
		"status": map[string]string{
			"clientCertificateData": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
			"clientKeyData":         string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})),
		},
	})
	if err == nil {
		err = os.WriteFile(path, out, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
