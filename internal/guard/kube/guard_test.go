package kube_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/mask"
)

// scripted is a cluster that answers what a test wants.
func scripted(tb testing.TB, h http.HandlerFunc) guardkube.Upstream {
	tb.Helper()
	srv := httptest.NewTLSServer(h)
	tb.Cleanup(srv.Close)
	base, err := url.Parse(srv.URL + "/prefix/")
	if err != nil {
		tb.Fatal(err)
	}
	return guardkube.Upstream{Base: base, Transport: srv.Client().Transport}
}

func says(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

// ask makes one read with the run's token.
func (g *guarded) ask(tb testing.TB, target string, header ...string) *http.Response {
	tb.Helper()
	cfg, err := clientcmd.RESTConfigFromKubeConfig(g.server.Kubeconfig())
	if err != nil {
		tb.Fatal(err)
	}
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, cfg.Host+target, nil)
	if err != nil {
		tb.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := web.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { resp.Body.Close() })
	return resp
}

func text(tb testing.TB, resp *http.Response) string {
	tb.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return string(body)
}

const (
	onePod  = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"cart-1"},"spec":{"containers":[{"env":[{"name":"DB_PASSWORD","value":"correct-horse-7"}]}]}}`
	podURL  = "/api/v1/namespaces/shop/pods/cart-1"
	podsURL = "/api/v1/namespaces/shop/pods"
)

func TestNewRequestIsBuilt(t *testing.T) {
	var got *http.Request
	g := serve(t, scripted(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(context.Background())
		says("application/json", onePod)(w, r)
	}), nil)
	g.ask(t, podsURL+"?limit=100000&watch=0&labelSelector=a%3db,c&pretty=true", "X-Remote-User", "admin", "Cookie", "a=b", "Accept-Encoding", "br", "User-Agent", "me", "Accept", "application/vnd.kubernetes.protobuf, application/json")
	if want := "/prefix/api/v1/namespaces/shop/pods?labelSelector=a%3Db%2Cc&limit=500"; got.RequestURI != want {
		t.Errorf("asked for %s, want %s", got.RequestURI, want)
	}
	got.Header.Del("Accept-Encoding") // the transport's own
	if want := (http.Header{"Accept": {"application/json"}, "User-Agent": {guardkube.UserAgent}}); fmt.Sprint(got.Header) != fmt.Sprint(want) {
		t.Errorf("with headers %v, want %v", got.Header, want)
	}
}

// TestRecord: the decision is on record before the cluster is asked, the outcome
// before the agent is answered; and it is the answer that is kept.
func TestRecord(t *testing.T) {
	var atRequest []guardkube.AuditRecord
	var g *guarded
	g = serve(t, scripted(t, func(w http.ResponseWriter, r *http.Request) {
		atRequest = g.audited()
		says("application/json", onePod)(w, r)
	}), nil)
	resp := g.ask(t, podURL)
	body := text(t, resp)
	if len(atRequest) != 1 || atRequest[0].Done || atRequest[0].Decision != guardkube.Allow || atRequest[0].Name != "cart-1" {
		t.Errorf("on record when the cluster is asked: %+v", atRequest)
	}
	if !strings.Contains(body, "‹secret:") || strings.Contains(body, "correct-horse") {
		t.Errorf("the answer is not masked: %s", body)
	}
	end := g.outcome(t)
	if end.ID != atRequest[0].ID || !end.Done || end.Status != 200 || end.Masked != 1 || end.Bytes != int64(len(body)) || end.Evidence != "E1" || end.Verb != "get" || end.Namespace != "shop" {
		t.Errorf("outcome: %+v", end)
	}
	if kept, err := g.evidence.Load("E1"); err != nil || string(kept) != body {
		t.Errorf("evidence: %v: %s", err, kept)
	}
	if item := g.evidence.Items()[0]; item.SHA256 != end.SHA256 || item.Source != "kubectl get pods cart-1 -n shop" || item.Kind != "object" {
		t.Errorf("evidence: %+v, digest on record %s", item, end.SHA256)
	}
	if got := resp.Header.Get("Warning"); got != `299 - "evidence E1"` {
		t.Errorf("Warning: %s", got)
	}
}

// Whoever cites no evidence is not told its ids; it is kept all the same.
func TestEvidenceIsNotAnnounced(t *testing.T) {
	g := serve(t, scripted(t, says("application/json", onePod)), func(c *guardkube.Config) { c.Unannounced = true })
	resp := g.ask(t, podURL)
	_ = text(t, resp)
	if got := resp.Header.Get("Warning"); got != "" || g.outcome(t).Evidence != "E1" {
		t.Errorf("Warning %q, kept as %q", got, g.outcome(t).Evidence)
	}
}

func TestNoRecordNoRequest(t *testing.T) {
	var asked atomic.Int32
	g := serve(t, scripted(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		says("application/json", onePod)(w, r)
	}), nil)
	g.broken = true
	if resp := g.ask(t, podURL); resp.StatusCode != 503 || asked.Load() != 0 {
		t.Errorf("without a record: %d, the cluster was asked %d times", resp.StatusCode, asked.Load())
	}
	if resp := g.ask(t, podURL+"/exec"); resp.StatusCode != 503 {
		t.Errorf("a denial without a record: %d", resp.StatusCode)
	}
}

func TestNoOutcomeNoAnswer(t *testing.T) {
	calls := 0
	g := serve(t, scripted(t, says("application/json", onePod)), func(c *guardkube.Config) {
		c.Audit = func(_ context.Context, r guardkube.AuditRecord) error {
			if calls++; r.Done {
				return errors.New("disk full")
			}
			return nil
		}
	})
	if resp := g.ask(t, podURL); resp.StatusCode != 503 || strings.Contains(text(t, resp), "cart-1") || calls != 2 {
		t.Errorf("answered %d after %d records", resp.StatusCode, calls)
	}
}

type fullRecorder struct{}

func (fullRecorder) Record(string, string, []byte) (string, error) { return "", errors.New("full") }

func TestNoEvidenceNoAnswer(t *testing.T) {
	g := serve(t, scripted(t, says("application/json", onePod)), func(c *guardkube.Config) { c.Evidence = fullRecorder{} })
	if resp := g.ask(t, podURL); resp.StatusCode != 503 || strings.Contains(text(t, resp), "cart-1") {
		t.Errorf("answered %d", resp.StatusCode)
	}
}

// TestAnswersOfOddClusters: what a cluster should not answer is not passed on.
func TestAnswersOfOddClusters(t *testing.T) {
	status := func(code int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Location", "https://evil.invalid/")
			w.Header().Set("Set-Cookie", "a=b")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	for name, c := range map[string]struct {
		target string
		answer http.HandlerFunc
		want   int
		say    string
		never  string
	}{
		"HTML":                      {podURL, says("text/html", "<b>secretive</b>"), 502, "not JSON", "secretive"},
		"text instead of an object": {podURL, says("text/plain", "secretive"), 502, "not JSON", "secretive"},
		"protobuf":                  {podURL, says("application/vnd.kubernetes.protobuf", "k8s\x00secretive"), 502, "not JSON", "secretive"},
		"broken JSON":               {podURL, says("application/json", `{"a":"secretive"`), 502, "not JSON", "secretive"},
		"two documents":             {podURL, says("application/json", `{} {"a":"secretive"}`), 502, "not JSON", "secretive"},
		"deep JSON":                 {podURL, says("application/json", `{"a":`+deep+`}`), 502, "nested deeper", "[[["},
		"a redirect":                {podURL, status(302, "application/json", `{}`), 502, "302", "evil"},
		"an unasked compression": {podURL, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			says("application/json", "secretive")(w, r)
		}, 502, "compressed", "secretive"},
		"a refused credential":         {podURL, status(401, "application/json", `{"kind":"Status","message":"secretive"}`), 502, "credential", "secretive"},
		"an error with a secret":       {podURL, status(403, "application/json", `{"kind":"Status","code":403,"message":"no: password=correct-horse-7"}`), 403, "‹secret:", "correct-horse"},
		"an error as text":             {podURL, status(404, "text/plain", "404 page not found password=correct-horse-7"), 404, "page not found", "correct-horse"},
		"a busy cluster":               {podURL, status(429, "application/json", `{"kind":"Status","code":429}`), 429, "429", "evil"},
		"a larger answer":              {podURL, says("application/json", `{"a":"`+strings.Repeat("x", 1<<20)+`"}`), 413, "--chunk-size", "xxxx"},
		"a Secret with data":           {"/api/v1/namespaces/shop/secrets/db", says("application/json", `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"db"},"data":{"a":"c2VjcmV0aXZl"}}`), 502, "more than the metadata", "c2VjcmV0aXZl"},
		"Secrets with data":            {"/api/v1/secrets", says("application/json", `{"kind":"SecretList","apiVersion":"v1","items":[{"metadata":{"name":"db"},"data":{"a":"c2VjcmV0aXZl"}}]}`), 502, "more than the metadata", "c2VjcmV0aXZl"},
		"metadata with data":           {"/api/v1/namespaces/shop/secrets/db", says("application/json", `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"db"},"stringData":{"a":"secretive"},"data":{"a":"secretive"}}`), 200, `"kind":"Secret"`, "secretive"},
		"a Secret in a List":           {podsURL, says("application/json", `{"kind":"List","items":[{"kind":"Secret","data":{"a":"c2VjcmV0aXZl"}}]}`), 200, `"data":{}`, "c2VjcmV0aXZl"},
		"a Secret in an unusual order": {podURL, says("application/json", `{"spec":{"data":{"a":"c2VjcmV0aXZl"},"stringData" : {"b":{"c":["secretive"]}}, "k\u0069nd":"Secret"}}`), 200, `"data":{}`, "secretive"},
		"a tokens' list":               {"/apis/oauth.openshift.io/v1/oauthaccesstokens", says("application/json", `{"kind":"OAuthAccessTokenList","items":[{"authorizeToken":"secretive"}]}`), 502, "more than the metadata", "secretive"},
		"a Secret in a string":         {podURL, says("application/json", `{"a":"{\"kind\":\"Secret\",\"data\":{\"x\":\"c2VjcmV0aXZl\"}}"}`), 200, `{\"kind\":\"Secret\",\"data\":{}}`, "c2VjcmV0aXZl"},
		"a number that is a secret":    {podURL, says("application/json", `{"spec":{"port":5432,"password":73219046,"a":{"api_key":-7.3219046e7}}}`), 200, `"port":5432,"password":"‹secret:`, "3219046"},
		"a log that is HTML":           {podURL + "/log", says("text/html", "<b>secretive</b>"), 502, "not JSON", "secretive"},
		"a log":                        {podURL + "/log", says("text/plain", "DB_PASSWORD=correct-horse-7\nup\n"), 200, "up", "correct-horse"},
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, scripted(t, c.answer), func(cfg *guardkube.Config) { cfg.Limits.Body = 1 << 20 })
			resp := g.ask(t, c.target)
			body := text(t, resp)
			if resp.StatusCode != c.want || !strings.Contains(body, c.say) {
				t.Errorf("answered %d: %.300s; want %d with %q", resp.StatusCode, body, c.want, c.say)
			}
			if all := body + fmt.Sprint(resp.Header) + g.written(t); strings.Contains(all, c.never) {
				t.Errorf("%q came through: %.600s", c.never, all)
			}
			if resp.Header.Get("Set-Cookie")+resp.Header.Get("Location") != "" {
				t.Errorf("headers of the cluster came through: %v", resp.Header)
			}
			if c.target != podURL+"/log" && !json.Valid([]byte(body)) {
				t.Errorf("the answer is not JSON: %s", body)
			}
			if end := g.outcome(t); end.Status != c.want || !end.Done {
				t.Errorf("outcome on record: %+v", end)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	up := scripted(t, nil)
	up.Base = &url.URL{Scheme: "https", Host: "127.0.0.1:1"}
	g := serve(t, up, nil)
	if resp := g.ask(t, podURL); resp.StatusCode != 503 || strings.Contains(text(t, resp), "127.0.0.1") {
		t.Errorf("answered %d", resp.StatusCode)
	}
}

func TestSlowCluster(t *testing.T) {
	hold := make(chan struct{})
	g := serve(t, scripted(t, func(http.ResponseWriter, *http.Request) { <-hold }), func(c *guardkube.Config) { c.Limits.CallTime = time.Millisecond })
	defer close(hold)
	if resp := g.ask(t, podURL); resp.StatusCode != 504 {
		t.Errorf("answered %d", resp.StatusCode)
	}
}

// TestSources: evidence says how to get it again.
func TestSources(t *testing.T) {
	g := serve(t, scripted(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/log") {
			says("text/plain", "up")(w, r)
			return
		}
		says("application/json", onePod)(w, r)
	}), nil)
	for target, want := range map[string]string{
		podURL:                             "kubectl get pods cart-1 -n shop",
		podsURL + "?labelSelector=app%3Dx": "kubectl get pods -n shop --selector=app=x",
		"/apis/apps/v1/deployments?fieldSelector=metadata.name%3Da": "kubectl get deployments.apps -A --field-selector=metadata.name=a",
		podURL + "/log?previous=true&container=app&sinceSeconds=30": "kubectl logs cart-1 -n shop --container=app --previous=true --since=30s",
		podURL + "/status": "kubectl get --raw '" + podURL + "/status'",
		"/version":         "kubectl get --raw '/version'",
	} {
		g.ask(t, target)
		items := g.evidence.Items()
		if got := items[len(items)-1].Source; got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}

// TestCutAnswersSaySo: what the guard bounded on its own.
func TestCutAnswersSaySo(t *testing.T) {
	g := serve(t, scripted(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/log") {
			says("text/plain", strings.Repeat("line\n", 20))(w, r)
			return
		}
		says("application/json", `{"kind":"PodList","metadata":{"continue":"abc"},"items":[]}`)(w, r)
	}), func(c *guardkube.Config) { c.Limits.Items, c.Limits.LogBytes = 5, 100 })
	for target, want := range map[string]string{
		podsURL: "the list goes on", podsURL + "?limit=500": "the list goes on", podsURL + "?limit=5": "",
		podURL + "/log": "the log goes on", podURL + "/log?limitBytes=50": "",
	} {
		got := strings.Join(g.ask(t, target).Header["Warning"], "\n")
		if strings.Contains(got, "goes on") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s warns %q, want %q", target, got, want)
		}
	}
}

func TestNamespaces(t *testing.T) {
	g := serve(t, scripted(t, says("application/json", onePod)), func(c *guardkube.Config) { c.Namespaces = []string{"shop"} })
	for target, want := range map[string]int{
		podURL: 200, podsURL: 200, "/api/v1/nodes": 200, "/api/v1/nodes/n": 200, "/apis": 200, "/api/v1/namespaces/shop": 200,
		"/api/v1/pods": 403, "/api/v1/namespaces/other/pods": 403, "/api/v1/pods?watch=true": 403, "/apis/example.com/v1/widgets": 403, "/api/v1/secrets": 403,
	} {
		if resp := g.ask(t, target); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", target, resp.StatusCode, want)
		}
	}
}

// event is one line of a watch.
func event(name string) string {
	return `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"` + name + `"},"spec":{"password":"correct-horse-7"}}}` + "\n"
}

func TestWatch(t *testing.T) {
	next := make(chan string)
	var query string
	g := serve(t, scripted(t, func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		w.Header().Set("Content-Type", "application/json;stream=watch")
		for text := range next {
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
		}
	}), nil)
	next2 := make(chan *http.Response)
	go func() { next2 <- g.ask(t, podsURL+"?watch=1&timeoutSeconds=99999&limit=5") }()
	next <- event("first")
	resp := <-next2
	lines := bufio.NewReader(resp.Body)
	first, err := lines.ReadString('\n')
	if err != nil || !strings.Contains(first, `"first"`) || strings.Contains(first, "correct-horse") {
		t.Errorf("first event: %v: %s", err, first)
	}
	if query != "timeoutSeconds=300&watch=true" {
		t.Errorf("watched with %s", query)
	}
	if got := resp.Header.Get("Content-Type"); got != "application/json;stream=watch" {
		t.Errorf("Content-Type: %s", got)
	}
	next <- `{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"cut`
	close(next)
	rest, _ := io.ReadAll(lines)
	if !strings.Contains(string(rest), `"type":"ERROR"`) || strings.Contains(string(rest), "cut") {
		t.Errorf("a torn event: %s", rest)
	}
	await(t, "the watch is on record", func() bool { return g.outcome(t).Done })
	end := g.outcome(t)
	kept, err := g.evidence.Load(end.Evidence)
	if err != nil || string(kept) != first+string(rest) || end.Bytes != int64(len(kept)) || end.Masked != 1 {
		t.Errorf("kept %v %s; on record %+v", err, kept, end)
	}
}

func TestWatchIsBounded(t *testing.T) {
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, event("again")); err != nil {
				return
			}
		}
	}
	g := serve(t, scripted(t, endless), func(c *guardkube.Config) { c.Limits.StreamBytes = 100_000 })
	if body := text(t, g.ask(t, podsURL+"?watch=true")); len(body) > 100_000 || len(body) < 90_000 {
		t.Errorf("%d bytes came", len(body))
	}
}

func TestStreamsAreCounted(t *testing.T) {
	hold := make(chan struct{})
	g := serve(t, scripted(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, event("x"))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}), func(c *guardkube.Config) { c.Limits.Streams, c.Limits.Calls = 1, 1 })
	defer close(hold)
	one := g.ask(t, podsURL+"?watch=true")
	if two := g.ask(t, podsURL+"?watch=true"); one.StatusCode != 200 || two.StatusCode != 429 {
		t.Errorf("answered %d and %d", one.StatusCode, two.StatusCode)
	}
	one.Body.Close()
	await(t, "the stream's place is free", func() bool { return g.ask(t, podsURL+"?watch=true").StatusCode == 200 })
}

// standing is a cluster whose watches say one thing and then stand.
func standing(t *testing.T, say func(*http.Request) string) guardkube.Upstream {
	return scripted(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, say(r))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
}

// A browser of clusters watches each kind that was looked at once, and a server of ours
// each kind that can be at fault, in each namespace.
func TestManyWatchesStandAtOnce(t *testing.T) {
	g := serve(t, standing(t, func(*http.Request) string { return event("x") }), nil)
	for i := range 150 {
		if resp := g.ask(t, podsURL+"?watch=true"); resp.StatusCode != 200 {
			t.Fatalf("watch %d is answered %d", i+1, resp.StatusCode)
		}
	}
}

// Where open streams hold too much together, those end that hold the most, and what
// they held is free.
func TestStreamsShareWhatIsKept(t *testing.T) {
	g := serve(t, standing(t, func(r *http.Request) string {
		if r.URL.Query().Get("labelSelector") == "size=large" {
			return strings.Repeat(event("large"), 1000)
		}
		return event("small")
	}), func(c *guardkube.Config) { c.Limits.Kept, c.Limits.Streams = 10_000, 10 })
	one := bufio.NewReader(g.ask(t, podsURL+"?watch=true").Body)
	if _, err := one.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	large := text(t, g.ask(t, podsURL+"?watch=true&labelSelector=size=large")) // ends
	if len(large) < 9_000 || len(large) > 20_000 {
		t.Errorf("the large one ended after %d bytes", len(large))
	}
	await(t, "the large one is on record", func() bool { return g.outcome(t).Done })
	again := bufio.NewReader(g.ask(t, podsURL+"?watch=true&labelSelector=size=large").Body)
	if line, err := again.ReadString('\n'); err != nil {
		t.Errorf("another is told nothing: %q, %v", line, err)
	}
}

// TestFollowedKey: a private key that comes line by line is held back until its end
// shows what it is.
func TestFollowedKey(t *testing.T) {
	key := "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEowIBAAKCAQEAq1w2e3r4t5y6u7i8o9p0\n", 12) + "-----END RSA PRIVATE KEY-----\n"
	g := serve(t, scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		for line := range strings.Lines("up\n" + key + "down\n") {
			_, _ = io.WriteString(w, line)
			_ = http.NewResponseController(w).Flush()
		}
	}), nil)
	body := text(t, g.ask(t, podURL+"/log?follow=true"))
	if strings.Contains(body, "MIIE") || !strings.Contains(body, "up\n") || !strings.Contains(body, "down") {
		t.Errorf("the log: %s", body)
	}
}

// TestHungUp: a caller that goes away ends the request to the cluster.
func TestHungUp(t *testing.T) {
	gone := make(chan struct{})
	g := serve(t, scripted(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, event("x"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}), nil)
	resp := g.ask(t, podsURL+"?watch=true")
	resp.Body.Close()
	<-gone
	await(t, "the end is on record", func() bool { return g.outcome(t).Done })
}

// TestClosedWhileRead: a reader of this process may close a watch from elsewhere.
func TestClosedWhileRead(t *testing.T) {
	g := serve(t, scripted(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, event("x"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}), nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://cluster.invalid"+podsURL+"?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := g.guard.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan struct{})
	ended := make(chan error)
	go func() {
		lines := bufio.NewReader(resp.Body)
		_, _ = lines.ReadString('\n')
		close(first)
		_, err := lines.ReadString('\n')
		ended <- err
	}()
	<-first
	resp.Body.Close()
	if err := <-ended; err == nil {
		t.Error("a closed watch goes on")
	}
	if end := g.outcome(t); !end.Done || end.Evidence == "" {
		t.Errorf("on record: %+v", end)
	}
	if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
		t.Error("a closed watch can be read")
	}
}

func TestTokenDiesWithTheServer(t *testing.T) {
	g := serve(t, scripted(t, says("application/json", onePod)), nil)
	if err := g.server.Close(); err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequest(http.MethodGet, podURL, nil)
	req.Header.Set("Authorization", "Bearer "+g.guard.Token())
	w := httptest.NewRecorder()
	g.guard.ServeHTTP(w, req)
	if w.Code != http.StatusUnauthorized {
		t.Errorf("the token of a closed server: %d", w.Code)
	}
}

func TestServerWantsTLS(t *testing.T) {
	g := serve(t, scripted(t, says("application/json", onePod)), nil)
	if resp, err := http.Get("http://" + g.addr + "/version"); err == nil && resp.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %d", resp.StatusCode)
	}
	if _, err := tls.Dial("tcp", g.addr, &tls.Config{}); err == nil {
		t.Error("the certificate is trusted by everybody")
	}
}

// TestRoundTrip: readers of this process need no token and get the same policy.
func TestRoundTrip(t *testing.T) {
	g := serve(t, scripted(t, says("application/json", onePod)), nil)
	web := &http.Client{Transport: g.guard}
	get := func(method, target string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, "https://cluster.invalid"+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	if resp := get("GET", podURL); resp.StatusCode != 200 || !strings.Contains(text(t, resp), "‹secret:") || resp.Header.Get("Warning") == "" {
		t.Errorf("a read: %d", resp.StatusCode)
	}
	for _, target := range []string{podURL + "/exec", "/api/v1/%2e%2e/pods", "/api/v1/namespaces/a%2fb/pods", "//evil/api"} {
		if resp := get("GET", target); resp.StatusCode != 403 {
			t.Errorf("%s: %d", target, resp.StatusCode)
		}
	}
	if resp := get("DELETE", podURL); resp.StatusCode != 403 {
		t.Errorf("a delete: %d", resp.StatusCode)
	}
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := guardkube.New(guardkube.Config{
			Upstream: guardkube.Upstream{Base: &url.URL{Scheme: "https", Host: "x"}, Transport: answering(onePod)},
			Mask:     bytes.Clone, MaskLog: mask.New([]byte("key")).Log, Audit: func(context.Context, guardkube.AuditRecord) error { return nil },
			Logger: discard, Limits: guardkube.Limits{PerSecond: 10},
		})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for range 150 {
			req, _ := http.NewRequest(http.MethodGet, "https://x"+podURL, nil)
			resp, err := g.RoundTrip(req)
			if err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
		}
		if took := time.Since(start); took < 4*time.Second || took > 6*time.Second {
			t.Errorf("150 requests at 10 a second after a burst of 100 took %s", took)
		}
	})
}

// answering is a transport that always has this answer.
type answering string

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}

func TestManyAtOnce(t *testing.T) {
	var now, most atomic.Int32
	g := serve(t, scripted(t, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		says("application/json", onePod)(w, r)
	}), func(c *guardkube.Config) { c.Limits.Calls = 3 })
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			if resp := g.ask(t, podURL); resp.StatusCode != 200 {
				t.Errorf("answered %d", resp.StatusCode)
			}
		})
	}
	wg.Wait()
	if most.Load() > 3 {
		t.Errorf("%d requests were at the cluster at once", most.Load())
	}
}

func TestNewNeedsItsParts(t *testing.T) {
	up := guardkube.Upstream{Base: &url.URL{Scheme: "https", Host: "x"}, Transport: answering("{}")}
	whole := guardkube.Config{Upstream: up, Mask: bytes.Clone, MaskLog: mask.New([]byte("key")).Log, Audit: func(context.Context, guardkube.AuditRecord) error { return nil }, Logger: discard}
	if _, err := guardkube.New(whole); err != nil {
		t.Fatal(err)
	}
	for name, take := range map[string]func(*guardkube.Config){
		"Upstream": func(c *guardkube.Config) { c.Upstream = guardkube.Upstream{} },
		"Mask":     func(c *guardkube.Config) { c.Mask = nil },
		"MaskLog":  func(c *guardkube.Config) { c.MaskLog = nil },
		"Audit":    func(c *guardkube.Config) { c.Audit = nil },
		"Logger":   func(c *guardkube.Config) { c.Logger = nil },
	} {
		c := whole
		take(&c)
		if _, err := guardkube.New(c); err == nil {
			t.Errorf("a guard without %s", name)
		}
	}
}

// TestServesWhereItListens: the kubeconfig names an address that the certificate
// is for.
func TestServesWhereItListens(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "127.0.0.2:0", "[::1]:0"} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Logf("SKIPPED ALOUD: this machine has no %s: %v", addr, err)
			continue
		}
		var cfg guardkube.Config
		g := serve(t, scripted(t, says("application/json", onePod)), func(c *guardkube.Config) { cfg = *c })
		other, err := guardkube.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if g.server, err = guardkube.Serve(l, other); err != nil {
			t.Fatal(err)
		}
		if resp := g.ask(t, podURL); resp.StatusCode != 200 {
			t.Errorf("%s: %d", addr, resp.StatusCode)
		}
		if err := g.server.Close(); err != nil {
			t.Error(err)
		}
	}
}
