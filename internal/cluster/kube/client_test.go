package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"nightcrier.dev/nightcrier"
)

const token = "hunter2-the-token"

var cart = nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: "cart"}

// dial returns a client of a scripted API server.
func dial(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return client(t, s.URL)
}

func client(t *testing.T, url string) *Client {
	t.Helper()
	c, err := New(&rest.Config{Host: url, BearerToken: token}, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func TestAnswersBecomeCodes(t *testing.T) {
	status := func(msg string) string { return `{"kind":"Status","message":` + fmt.Sprintf("%q", msg) + `}` }
	cases := []struct {
		status int
		body   string
		want   nightcrier.Code
		says   string
	}{
		{404, `{"kind":"Status","reason":"NotFound","message":"pods \"cart\" not found","details":{"name":"cart","kind":"pods"}}`, nightcrier.NotFound, `pods "cart" not found`},
		{404, `{"kind":"Status","reason":"NotFound","message":"the server could not find the requested resource","details":{}}`, nightcrier.Invalid, "the cluster does not serve it"},
		{404, "404 page not found", nightcrier.Invalid, "kubectl api-resources"},
		{404, "", nightcrier.Invalid, "the cluster does not serve it"},
		{410, status("gone"), nightcrier.NotFound, "gone"},
		{403, status(`pods "cart" is forbidden`), nightcrier.Refused, "is forbidden"},
		{401, status("Unauthorized"), nightcrier.Unreachable, "does not accept the credential"},
		{400, status("previous terminated container not found"), nightcrier.Invalid, "previous"},
		{500, "boom\x1b[2J\n", nightcrier.Unreachable, "answered 500: boom"},
		{429, status("slow down"), nightcrier.Unreachable, "slow down"},
		{302, "", nightcrier.Unreachable, "302"},
		{502, strings.Repeat("<html>", 10000), nightcrier.Unreachable, "<html>"},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%d %.20s", c.status, c.body), func(t *testing.T) {
			_, err := dial(t, answer(c.status, c.body)).Get(t.Context(), cart)
			if nightcrier.CodeOf(err) != c.want || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", nightcrier.CodeOf(err), err)
			}
			if len(err.Error()) > 700 || strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("the server's text went through unbounded: %q", err)
			}
		})
	}
}

// TestAKindThatIsNotServed: that nothing serves a kind says nothing about an object of it.
func TestAKindThatIsNotServed(t *testing.T) {
	rollout := nightcrier.Resource{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Namespace: "shop", Name: "cart"}
	for name, h := range map[string]http.HandlerFunc{
		"no such group": answer(404, "404 page not found"),
		"no such kind":  answer(200, `{"resources":[{"name":"workflows","kind":"Workflow","namespaced":true}]}`),
	} {
		if _, err := dial(t, h).Get(t.Context(), rollout); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), `no kind "Rollout" in argoproj.io/v1alpha1`) {
			t.Errorf("%s: %s: %v", name, nightcrier.CodeOf(err), err)
		}
	}
}

func TestCredentialNeverLeaves(t *testing.T) {
	var seen []string
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization"))
	}))
	defer thief.Close()
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL, http.StatusFound)
	})
	_, err := c.Get(t.Context(), cart)
	if err == nil || len(seen) > 0 {
		t.Errorf("a redirect was followed with %q: %v", seen, err)
	}
	down := client(t, "http://user:"+token+"@127.0.0.1:1")
	_, err = down.Get(t.Context(), cart)
	if nightcrier.CodeOf(err) != nightcrier.Unreachable || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("down: %v", err)
	}
	if strings.Contains(err.Error(), "http://") || strings.Contains(err.Error(), token) || strings.Contains(down.Host(), token) {
		t.Errorf("the error holds the credential: %v", err)
	}
}

func TestCallsEndInTime(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	defer close(release)
	c, err := New(&rest.Config{Host: s.URL}, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err = c.Get(t.Context(), cart); nightcrier.CodeOf(err) != nightcrier.Unreachable || !strings.Contains(err.Error(), "did not answer within 50ms") {
		t.Errorf("silent server: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = c.Get(ctx, cart); !errors.Is(err, context.Canceled) || nightcrier.CodeOf(err) == nightcrier.Unreachable {
		t.Errorf("cancelled: %v", err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	c := dial(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := []byte(strings.Repeat("x", 1<<20))
		for range 40 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	if _, err := c.Get(t.Context(), cart); nightcrier.CodeOf(err) != nightcrier.Exhausted {
		t.Errorf("40 MiB object: %v", err)
	}
	if _, err := c.Logs(t.Context(), "shop", "cart", "app", false, 10, 1000); nightcrier.CodeOf(err) != nightcrier.Exhausted {
		t.Errorf("a log that ignores limitBytes: %v", err)
	}
}

func TestRequests(t *testing.T) {
	var got string
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Method + " " + r.URL.RequestURI()
		if r.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("%s without the credential", got)
		}
		if strings.Contains(r.URL.Path, "secrets") && !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
			t.Errorf("%s asks for a Secret's data", got)
		}
		fmt.Fprint(w, `{"resources":[{"name":"rollouts/status","kind":"Rollout","namespaced":true},{"name":"rollouts","kind":"Rollout","namespaced":true}]}`)
	})
	get := func(r nightcrier.Resource) func() error {
		return func() error { _, err := c.Get(t.Context(), r); return err }
	}
	list := func(kind, ns, labels, fields string, n int) func() error {
		return func() error { _, err := c.List(t.Context(), kind, ns, labels, fields, n); return err }
	}
	logs := func(previous bool, tail, limit int64) func() error {
		return func() error {
			_, err := c.Logs(t.Context(), "shop", "cart", "app", previous, tail, limit)
			return err
		}
	}
	cases := []struct {
		name string
		do   func() error
		want string
	}{
		{"pod", get(cart), "GET /api/v1/namespaces/shop/pods/cart"},
		{"node", get(nightcrier.Resource{Kind: "Node", Name: "n1"}), "GET /api/v1/nodes/n1"},
		{"node with a namespace", get(nightcrier.Resource{Kind: "Node", Namespace: "shop", Name: "n1"}), "GET /api/v1/nodes/n1"},
		{"deployment", get(nightcrier.Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "cart"}), "GET /apis/apps/v1/namespaces/shop/deployments/cart"},
		{"secret", get(nightcrier.Resource{Kind: "Secret", Namespace: "shop", Name: "db"}), "GET /api/v1/namespaces/shop/secrets/db"},
		{"discovered", get(nightcrier.Resource{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Namespace: "shop", Name: "cart"}), "GET /apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/cart"},
		{"list", list("Pod", "shop", "app=cart", "", 5), "GET /api/v1/namespaces/shop/pods?labelSelector=app%3Dcart&limit=5"},
		{"list everywhere", list("Event", "", "", "involvedObject.name=cart", 0), "GET /api/v1/events?fieldSelector=involvedObject.name%3Dcart&limit=500"},
		{"list of too many", list("Secret", "shop", "", "", 100000), "GET /api/v1/namespaces/shop/secrets?limit=500"},
		{"selector with tricks", list("Pod", "shop", "a&watch=true#", "", 1), "GET /api/v1/namespaces/shop/pods?labelSelector=a%26watch%3Dtrue%23&limit=1"},
		{"log", logs(false, 0, 0), "GET /api/v1/namespaces/shop/pods/cart/log?container=app&limitBytes=4194304&tailLines=200"},
		{"previous log", logs(true, 9, 99), "GET /api/v1/namespaces/shop/pods/cart/log?container=app&limitBytes=99&previous=true&tailLines=9"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if err := tc.do(); err != nil || got != tc.want {
				t.Errorf("%s, %v; want %s", got, err, tc.want)
			}
		})
	}
}

// Any kind can be meant that the cluster serves, by whatever it is called; it is asked once.
func TestServedKind(t *testing.T) {
	asked := 0
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.URL.Path != "/apis" {
			t.Errorf("sent: %s", r.URL.RequestURI())
		}
		io.WriteString(w, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":"cert-manager.io"},"versions":[
			{"version":"v1","resources":[{"resource":"certificates","responseKind":{"kind":"Certificate"},"scope":"Namespaced","shortNames":["cert"]},{"resource":"clusterissuers","responseKind":{"kind":"ClusterIssuer"},"scope":"Cluster"}]},
			{"version":"v1alpha2","resources":[{"resource":"certificates","responseKind":{"kind":"Certificate"},"scope":"Namespaced"}]}]}]}`)
	})
	for word, want := range map[string]string{
		"certificate": "cert-manager.io/v1 certificates false", "Certificate.cert-manager.io": "cert-manager.io/v1 certificates false", "cert": "cert-manager.io/v1 certificates false",
		"clusterissuers": "cert-manager.io/v1 clusterissuers true", "deployment": "apps/v1 deployments false",
	} {
		if k, err := c.ServedKind(t.Context(), word); err != nil || fmt.Sprint(k.APIVersion(), " ", k.Plural, " ", k.ClusterWide) != want {
			t.Errorf("%s: %+v, %v; want %s", word, k, err, want)
		}
	}
	for _, word := range []string{"certificat", "certificate.example.com", ""} {
		if _, err := c.ServedKind(t.Context(), word); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%s: %v", word, err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

func TestHostileNamesAreNotSent(t *testing.T) {
	c := dial(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("sent: %s", r.URL.RequestURI()) })
	for _, name := range []string{"", "..", "../../secrets/x", "a/b", "a?watch=1", "a%2fb", "@/etc/shadow", "a\nb"} {
		res := nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: name}
		if _, err := c.Get(t.Context(), res); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("Get(%q): %v", name, err)
		}
		if _, err := c.Logs(t.Context(), "shop", name, "app", false, 1, 1); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("Logs(%q): %v", name, err)
		}
	}
	for _, kind := range []string{"", "pods/exec"} {
		if _, err := c.List(t.Context(), kind, "shop", "", "", 1); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("List(%q): %v", kind, err)
		}
	}
	if _, err := c.List(t.Context(), "Pod", "shop/pods/x", "", "", 1); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("List in a hostile namespace: %v", err)
	}
	if _, err := c.Get(t.Context(), nightcrier.Resource{Kind: "Pod", Name: "cart"}); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("Get without a namespace: %v", err)
	}
}

func TestServerBelowAPath(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.Path
		fmt.Fprint(w, `{"gitVersion":"v1.36.3"}`)
	}))
	defer s.Close()
	v, err := client(t, s.URL+"/k8s/clusters/c-1/").Version(t.Context())
	if err != nil || v != "v1.36.3" || got != "/k8s/clusters/c-1/version" {
		t.Errorf("%s from %s, %v", v, got, err)
	}
}

func TestSomethingElseAnswers(t *testing.T) {
	c := dial(t, answer(200, "<html>welcome to the captive portal</html>"))
	if err := c.Check(t.Context()); nightcrier.CodeOf(err) != nightcrier.Unreachable || !strings.Contains(err.Error(), "does not speak like") {
		t.Errorf("Check: %v", err)
	}
}

func TestDialNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("{{{"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(dir, "good")
	if err := os.WriteFile(good, []byte(`{"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],"contexts":[{"name":"k","context":{"cluster":"c"}},{"name":"shop","context":{"cluster":"c","namespace":"shop"}}],"current-context":"k"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct{ name, file, context, says string }{
		{"missing", filepath.Join(dir, "missing"), "", "missing"},
		{"broken", broken, "", broken},
		{"context", good, "nope", "nope"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Dial(c.file, c.context, 0)
			if nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
	for context, want := range map[string]string{"": "default", "k": "default", "shop": "shop"} {
		if c, err := Dial(good, context, 0); err != nil || c.Namespace() != want {
			t.Errorf("namespace of context %q: %+v, %v", context, c, err)
		}
	}
	c, err := Dial(good, "k", 0)
	if err != nil || c.Host() != "127.0.0.1:1" || c.timeout != DefaultTimeout {
		t.Errorf("%+v, %v", c, err)
	}
}
