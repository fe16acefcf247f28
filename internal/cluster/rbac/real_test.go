package rbac_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/preflight"
	"nightcrier.dev/nightcrier/internal/cluster/rbac"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// apply does what a person does with a manifest.
func apply(t *testing.T, s *kubetest.Server, text []byte) {
	t.Helper()
	cmd := exec.Command(kubetest.Kubectl(t), "apply", "-f", "-")
	cmd.Env, cmd.Stdin = []string{"KUBECONFIG=" + s.Kubeconfig, "HOME=" + t.TempDir()}, bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v: %s", err, out)
	}
}

// made applies an account's manifest and makes its kubeconfig.
func made(t *testing.T, s *kubetest.Server, a rbac.Account) (rbac.Made, string) {
	t.Helper()
	apply(t, s, manifest(t, a))
	m, err := rbac.Kubeconfig(t.Context(), rbac.Request{Account: a, Kubeconfig: s.Kubeconfig, Duration: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "reader")
	if err := os.WriteFile(path, m.Kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return m, path
}

func dial(t *testing.T, kubeconfig string) *kube.Client {
	t.Helper()
	c, err := kube.Dial(kubeconfig, "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// unused is an account of this test alone.
func unused() rbac.Account {
	unique := strings.ToLower(rand.Text())
	return rbac.Account{Namespace: "ops-" + unique, Name: "eye-" + unique}
}

// TestTheMadeCredential: what the manifest and the kubeconfig give reads
// everything that is read, and a real API server refuses it everything else.
func TestTheMadeCredential(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	pod := s.Pod(t, ns, "cart", nil)
	s.CrashLoop(t, pod, 1, 4)
	s.SetLogs(pod, true, "FATAL: the environment variable DATABASE_URL is not set\n")
	m, path := made(t, s, unused())
	if m.Known.CanWrite != preflight.No || len(m.Known.Risks) > 0 || time.Until(m.ExpiresAt) > time.Hour || time.Until(m.ExpiresAt) < 30*time.Minute {
		t.Errorf("%+v", m)
	}
	c := dial(t, path)
	r, err := preflight.Check(t.Context(), c, "real", ns, time.Now())
	if err != nil || r.CanWrite != preflight.No {
		t.Fatalf("%v %+v", err, r)
	}
	for what, a := range r.Can {
		if a != preflight.Yes {
			t.Errorf("%s: %s", what, a)
		}
	}
	if err := c.Check(t.Context()); err != nil {
		t.Error(err)
	}
	refuses(t, path, ns)
	diagnoses(t, c, nightcrier.Resource{Kind: "Pod", Namespace: ns, Name: "cart"})
}

// refuses shows that the API server refuses changes, Secrets and ways around.
func refuses(t *testing.T, kubeconfig, ns string) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	pods := "/api/v1/namespaces/" + ns + "/pods"
	for _, try := range []struct{ method, path, body string }{
		{"POST", pods, `{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i"}]}}`},
		{"POST", pods + "?dryRun=All", `{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i"}]}}`},
		{"DELETE", pods + "/cart", ""}, {"PATCH", pods + "/cart", `{}`}, {"DELETE", pods, ""},
		{"POST", pods + "/cart/exec?command=id", ""}, {"GET", pods + "/cart/exec?command=id", ""}, {"GET", pods + "/cart/attach", ""},
		{"POST", pods + "/cart/portforward", ""}, {"GET", pods + "/cart/proxy/", ""}, {"POST", pods + "/cart/eviction", `{}`},
		{"PATCH", pods + "/cart/ephemeralcontainers", `{}`}, {"GET", "/api/v1/nodes/node/proxy/pods", ""},
		{"GET", "/api/v1/secrets", ""}, {"GET", "/api/v1/namespaces/" + ns + "/secrets/x", ""},
		{"POST", "/api/v1/namespaces/" + ns + "/serviceaccounts/default/token", `{"spec":{}}`},
		{"POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", `{}`},
		{"POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{}`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), try.method, cfg.Host+try.path, strings.NewReader(try.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if try.method == "PATCH" {
			req.Header.Set("Content-Type", "application/merge-patch+json")
		}
		resp, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s %s: %s", try.method, try.path, resp.Status)
		}
	}
}

// reader reads a cluster over its API.
type reader struct{ *kube.Client }

func (r reader) Permissions(ctx context.Context, ns string) (map[string]any, error) {
	known, err := preflight.Check(ctx, r.Client, "real", ns, time.Now())
	return known.Permissions(), err
}

func diagnoses(t *testing.T, c *kube.Client, target nightcrier.Resource) {
	t.Helper()
	ev, err := evidence.Open(filepath.Join(t.TempDir(), "evidence"))
	if err != nil {
		t.Fatal(err)
	}
	defer ev.Close()
	d, err := diagnose.Run(t.Context(), diagnose.Input{
		Incident: &nightcrier.Incident{ID: nightcrier.NewID(), Cluster: "real", Resource: target, Severity: nightcrier.Critical},
		Event:    nightcrier.Event{ID: "e1", Cluster: "real", FaultType: "CrashLoopBackOff", Resource: target},
		Reader:   reader{c}, Evidence: ev,
	})
	if err != nil {
		t.Fatal(err)
	}
	if d.Report.RootCause == nil || len(d.Report.NotChecked) > 0 || d.Report.BlastRadius["credential"] != "it can change nothing" {
		t.Errorf("%+v, not checked %+v, blast radius %v", d.Report.RootCause, d.Report.NotChecked, d.Report.BlastRadius)
	}
}

// TestACredentialOfSomeNamespaces reads these, and what has none.
func TestACredentialOfSomeNamespaces(t *testing.T) {
	s := kubetest.Start(t)
	here, there := s.Namespace(t), s.Namespace(t)
	a := unused()
	a.Namespaces = []string{here}
	m, path := made(t, s, a)
	if m.Known.Namespace != here || m.Known.CanWrite != preflight.No {
		t.Errorf("%+v", m.Known)
	}
	c := dial(t, path)
	for _, read := range []struct {
		kind, ns string
		code     nightcrier.Code
	}{{"Pod", here, ""}, {"Node", "", ""}, {"Pod", there, nightcrier.Refused}, {"Pod", "", nightcrier.Refused}, {"Secret", here, nightcrier.Refused}} {
		if _, err := c.List(t.Context(), read.kind, read.ns, "", "", 1); nightcrier.CodeOf(err) != read.code && (err != nil || read.code != "") {
			t.Errorf("%s in %q: %v", read.kind, read.ns, err)
		}
	}
}

func TestWhoMayNotMakeTokens(t *testing.T) {
	s := kubetest.Start(t)
	nobody := unused()
	apply(t, s, manifest(t, nobody))
	tests := map[string]struct {
		r    rbac.Request
		code nightcrier.Code
		says string
	}{
		"a reader":          {rbac.Request{Account: nobody, Kubeconfig: s.ReadOnly(t), Duration: time.Hour}, nightcrier.Unreachable, "serviceaccounts/token"},
		"no such account":   {rbac.Request{Account: unused(), Kubeconfig: s.Kubeconfig, Duration: time.Hour}, nightcrier.NotFound, "rbac manifest"},
		"no such context":   {rbac.Request{Account: nobody, Kubeconfig: s.Kubeconfig, Context: "moon", Duration: time.Hour}, nightcrier.Invalid, "moon"},
		"no such file":      {rbac.Request{Account: nobody, Kubeconfig: "/nowhere", Duration: time.Hour}, nightcrier.Invalid, "/nowhere"},
		"too short a life":  {rbac.Request{Account: nobody, Kubeconfig: s.Kubeconfig, Duration: time.Minute}, nightcrier.Invalid, "10m"},
		"too long a life":   {rbac.Request{Account: nobody, Kubeconfig: s.Kubeconfig, Duration: 9000 * time.Hour}, nightcrier.Invalid, "8760h"},
		"a negative length": {rbac.Request{Account: nobody, Kubeconfig: s.Kubeconfig, Duration: -time.Hour}, nightcrier.Invalid, "cannot be valid"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := rbac.Kubeconfig(t.Context(), tt.r)
			if err == nil || nightcrier.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) || len(m.Kubeconfig) > 0 {
				t.Errorf("%v", err)
			}
			if err != nil && strings.Contains(err.Error(), s.Config.BearerToken) {
				t.Errorf("the error holds a token: %v", err)
			}
		})
	}
}
