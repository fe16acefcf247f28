package kube_test

import (
	"crypto/x509"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/guard/kube/attack"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

func (g *guarded) mark(tb testing.TB, sc scene) attack.Mark {
	tb.Helper()
	file, err := clientcmd.Load(g.server.Kubeconfig())
	if err != nil {
		tb.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(file.Clusters["nightcrier"].CertificateAuthorityData)
	return attack.Mark{
		Addr: g.addr, Roots: roots, Token: g.guard.Token(),
		Names: map[string]string{"ns": sc.ns, "pod": sc.pod.Name, "node": kubetest.NodeName, "secret": "db"},
	}
}

// TestAttacks makes every attack on a guard that holds cluster-admin, and looks
// into the API server's own audit log for what came through.
func TestAttacks(t *testing.T) {
	s := kubetest.Audited(t)
	sc := setScene(t, s)
	g := inFront(t, s)
	m := g.mark(t, sc)
	answered := 0
	names := map[string]bool{}
	for _, a := range attack.Requests() {
		if names[a.String()] {
			t.Errorf("two attacks are called %s", a)
		}
		names[a.String()] = true
		r, err := a.Send(t.Context(), m)
		if err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		if !a.Held(r) {
			t.Errorf("%s: answered %d: %.200s", a, r.Status, r.Body)
		}
		if a.Harmless && r.Status == 200 {
			answered++
		}
		for where, canary := range canaries {
			if strings.Contains(string(r.Body), canary) || strings.Contains(string(r.Body), base64.StdEncoding.EncodeToString([]byte(canary))) {
				t.Errorf("%s: shows the canary of the %s", a, where)
			}
		}
	}
	plainRead := func(uri string) bool {
		return slices.Contains([]string{
			"/api/v1/namespaces/" + sc.ns + "/pods/" + sc.pod.Name, "/api/v1/namespaces/" + sc.ns + "/pods?limit=500",
			"/api/v1/namespaces/" + sc.ns + "/secrets/db", "/api/v1/secrets?limit=500",
		}, uri)
	}
	reached := 0
	for _, e := range s.Audit(t) {
		if e.UserAgent != guardkube.UserAgent {
			if e.UserAgent == "" || strings.Contains(e.RequestURI, "intruder") {
				t.Errorf("a request came under another name: %+v", e)
			}
			continue
		}
		if !plainRead(e.RequestURI) || e.Verb != "get" && e.Verb != "list" || e.ImpersonatedUser != nil || e.User.Username != "admin" {
			t.Errorf("the API was asked for more than a plain read: %+v", e)
		}
		if e.Stage == "RequestReceived" {
			reached++
		}
	}
	if answered == 0 || reached != answered {
		t.Errorf("%d attacks may be answered and were, %d requests reached the API", answered, reached)
	}
	t.Logf("%d attacks, %d of them answered as plain reads", len(names), answered)
}
