package target

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What is no plain read ends at the door, on record, whatever stands behind it.
func TestDoorLetsReadsPassAlone(t *testing.T) {
	behind := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "behind") })
	d, err := OpenDoor(behind, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, c := range []struct {
		request string
		passes  bool
	}{
		{"GET /api/v1/namespaces/a/pods/b", true},
		{"GET /api/v1/namespaces/a/pods/b/log?tailLines=5", true},
		{"GET /api/v1/namespaces/proxy/pods", true},
		{"GET /apis/apps/v1/namespaces/a/deployments/d/scale", true},
		{"GET /apis", true},
		{"GET /version", true},
		{"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", true},
		{"POST /apis/authorization.k8s.io/v1/subjectaccessreviews", false},
		{"POST /api/v1/namespaces/a/pods", false},
		{"DELETE /api/v1/namespaces/a/pods/b", false},
		{"PATCH /api/v1/nodes/n", false},
		{"HEAD /api/v1/nodes/n", false},
		{"get /api/v1/nodes/n", false},
		{"GET /api/v1/namespaces/a/pods/b/exec?command=id", false},
		{"GET /api/v1/namespaces/a/pods/b/attach", false},
		{"GET /api/v1/namespaces/a/pods/b/portforward", false},
		{"GET /api/v1/namespaces/a/pods/b/proxy/x", false},
		{"GET /api/v1/nodes/n/proxy/", false},
		{"GET /api/v1/proxy/nodes/n", false},
		{"GET /api/v1/watch/pods", false},
		{"GET /api/v1/namespaces/a/pods/b/newthing", false},
		{"GET /api/v1/namespaces/a/pods/b%2fexec", false},
		{"GET /api/v1//pods", false},
		{"GET /metrics", false},
		{"GET /logs/x", false},
		{"GET /healthz/etcd", false},
		{"GET /", false},
	} {
		method, target, _ := strings.Cut(c.request, " ")
		from := time.Now()
		req, err := http.NewRequestWithContext(t.Context(), method, d.URL()+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		seen := d.VisitsBetween(from, time.Now())
		if passed := string(body) == "behind"; passed != c.passes || len(seen) != 1 || seen[0].Plain != c.passes || seen[0].String() != c.request {
			t.Errorf("%s: %d %s, on record %+v", c.request, resp.StatusCode, body, seen)
		}
	}
	for _, h := range []string{"Upgrade", "Impersonate-User", "X-Remote-User"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, d.URL()+"/api/v1/pods", nil)
		req.Header.Set(h, "x")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", h, resp.StatusCode)
		}
	}
	// Nothing that follows the way at once can become a part of the cluster's host.
	for _, follows := range []string{"api/v1/pods", "@evil.example/api/v1/pods", ""} {
		resp, err := http.Get(d.URL() + follows)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%q: %d", follows, resp.StatusCode)
		}
	}
	// Whoever was not told the way comes to nothing.
	resp, err := http.Get("http://" + d.addr + "/api/v1/pods")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("without the way: %d", resp.StatusCode)
	}
}

// A secret is found in the spellings in which it could be carried out.
func TestSecretsAreFoundInSpellings(t *testing.T) {
	const secret = "CnryAbC123+/=zq9"
	sieve := NewSieve([]Canary{{Where: "another", Value: "CnryAbC124+/=zq9"}, {Where: "this", Value: secret}})
	for _, text := range []string{
		"x CnryAbC123+/=zq9 y", "436E72794162433132332B2F3D7A7139", "436e72794162433132332b2f3d7a7139", "CnryAbC123%2B%2F%3Dzq9", "9qz=/+321CbAyrnC",
		"Q25yeUFiQzEyMysvPXpxOQ==", encodeBase64("x" + secret + "yz"), encodeBase64("xy" + secret), encodeBase64("password=" + secret + "\n"),
	} {
		if found := sieve.FindIn(text); len(found) != 1 || found[0].Where != "this" {
			t.Errorf("%v in %s", found, text)
		}
	}
	for _, text := range []string{"", "CnryAbC123", "Q25yeUFi", encodeBase64("CnryAbC124")} {
		if found := sieve.FindIn(text); len(found) > 0 {
			t.Errorf("%v in %q", found, text)
		}
	}
}
