package ui_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/ui"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// world is a server with a page, on a store of its own.
type world struct {
	t     testing.TB
	store *store.Store
	key   []byte
	now   time.Time
	ui    *ui.UI
	http  *httptest.Server
	// body is what every evidence holds.
	body []byte
}

// token is that of ada, by its digest.
const tokenDigest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" // of "test"

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, key: []byte("a key of thirty-two bytes, or so"), now: time.Now()}
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "n.db"), Logger: slog.New(slog.DiscardHandler)})
	w.must(err)
	t.Cleanup(func() { _ = s.Close() })
	w.store = s
	w.start()
	return w
}

// start serves the page, in the place of one that was served before, on the same port.
func (w *world) start() {
	w.ui = ui.New(ui.Options{
		Version: "test", Incidents: w.store, Runs: w.store, Events: w.store, Control: w, Server: w,
		Access: ui.Access{Key: w.key, URL: "https://night.example", Tokens: []ui.Token{{Name: "ada", SHA256: tokenDigest}}},
		Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return w.now },
	})
	if w.http == nil {
		w.http = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.ui.ServeHTTP(rw, r) }))
		w.t.Cleanup(func() { w.ui.EndStreams(); w.http.Close() })
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// The world answers as a server does.
func (w *world) Cancel(ctx context.Context, id, cause string) (nightcrier.Run, error) {
	return w.store.RequestCancel(ctx, id, cause)
}
func (w *world) CancelRun(ctx context.Context, id, cause string) (nightcrier.Run, error) {
	return w.store.RequestCancelRun(ctx, id, cause)
}
func (w *world) Retry(ctx context.Context, id, executor string) (nightcrier.Run, error) {
	return w.store.Retry(ctx, id, "builtin")
}
func (w *world) RetryRun(ctx context.Context, id, from string) (nightcrier.Run, error) {
	return w.store.RetryRun(ctx, id, from)
}
func (w *world) MarkCleared(ctx context.Context, id, _ string) (nightcrier.Incident, error) {
	return w.store.MarkCleared(ctx, id)
}
func (w *world) Note(ctx context.Context, id, by, text string) (nightcrier.Note, error) {
	n, err := nightcrier.NewNote(by, text, w.now)
	if err == nil {
		err = w.store.AddNote(ctx, id, n)
	}
	return n, err
}
func (w *world) Statuses() []nightcrier.SourceStatus { return nil }
func (w *world) ListSkills() []api.SkillInfo         { return nil }
func (w *world) Evidence(_ context.Context, _, id string) (evidence.Item, []byte, error) {
	return evidence.Item{ID: id, Source: "kubectl get pod cart-1 -n shop -o json", At: w.now}, w.body, nil
}
func (w *world) ReportMarkdown(_ context.Context, inc nightcrier.Incident, raw []byte) ([]byte, error) {
	var r nightcrier.Report
	err := json.Unmarshal(raw, &r)
	return report.Final(&r, report.Detail{Incident: &inc, Now: w.now}), err
}
func (w *world) Graphs() []ui.Graph                         { return nil }
func (w *world) Spending() (ui.Spending, error)             { return ui.Spending{}, nil }
func (w *world) RunSpending(string) (ui.Spent, error)       { return ui.Spent{USD: 0.12, Limit: 2}, nil }
func (w *world) Settings() ([]ui.Setting, error)            { return nil, nil }
func (w *world) Doctor(context.Context) ([]ui.Check, error) { return nil, nil }

// fault opens an incident of a Deployment.
func (w *world) fault(cluster, name, context string, severity nightcrier.Severity) nightcrier.Incident {
	w.t.Helper()
	res := nightcrier.Resource{Kind: "Deployment", Namespace: "shop", Name: name}
	d, err := w.store.Accept(w.t.Context(), nightcrier.Event{ID: nightcrier.NewID(), ReceivedAt: w.now, Source: "mcp", Cluster: cluster, FaultType: "CrashLoop", Severity: severity,
		Resource: res, Owner: res, Context: context, Fingerprint: cluster + name, Class: nightcrier.ClassWorkload}, store.AcceptPolicy{Pipeline: "k8s-incident-triage", Executor: "builtin", QueueMax: 100_000})
	w.must(err)
	return d.Incident
}

// begin has the next incident investigated.
func (w *world) begin() nightcrier.Run {
	w.t.Helper()
	run, err := w.store.AdmitNext(w.t.Context(), store.Limits{Total: 100, PerKey: 100})
	w.must(err)
	_, err = w.store.BeginRun(w.t.Context(), run.ID)
	w.must(err)
	return *run
}

// say writes to a run's journal.
func (w *world) say(run string, items ...journal.Item) {
	w.t.Helper()
	for _, i := range items {
		data, err := i.JSON()
		w.must(err)
		_, err = w.store.AppendJournal(w.t.Context(), run, nightcrier.JournalEntry{Run: run, Time: w.now, Type: i.Type, Data: data, Key: nightcrier.NewID()})
		w.must(err)
	}
}

// end ends a run with a report.
func (w *world) end(run nightcrier.Run, rep nightcrier.Report) {
	w.t.Helper()
	rep.IncidentID = run.IncidentID()
	raw, err := report.JSON(&rep)
	w.must(err)
	w.must(w.store.FinishRun(w.t.Context(), store.Finish{RunID: run.ID, Status: nightcrier.Resolved, Outcome: nightcrier.StateSuccess, RootCause: rep.RootCause.Summary, Report: raw}))
}

// browser is a client that is logged in.
func (w *world) browser() *http.Client {
	w.t.Helper()
	jar, err := cookiejar.New(nil)
	w.must(err)
	c := &http.Client{Jar: jar}
	resp, err := c.Get(w.ui.LoginLink(w.http.URL))
	w.must(err)
	w.must(resp.Body.Close())
	if resp.StatusCode != http.StatusOK {
		w.t.Fatalf("the link answers %d", resp.StatusCode)
	}
	return c
}

// read reads a page.
func (w *world) read(c *http.Client, path string) (int, string) {
	w.t.Helper()
	resp, err := c.Get(w.http.URL + path)
	w.must(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	w.must(err)
	return resp.StatusCode, string(body)
}

// post posts a form, from an origin.
func (w *world) post(c *http.Client, path, origin string, form url.Values) (int, string) {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodPost, w.http.URL+path, strings.NewReader(form.Encode()))
	w.must(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	resp, err := c.Do(r)
	w.must(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	w.must(err)
	return resp.StatusCode, string(body)
}

var formRE = regexp.MustCompile(`name="form" value="([^"]+)"`)

func TestTheDoor(t *testing.T) {
	w := newWorld(t)
	inc := w.fault("prod", "cart", "", nightcrier.Critical)
	ask := func(path, host string) *http.Response {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = host
		rec := httptest.NewRecorder()
		w.ui.ServeHTTP(rec, r)
		return rec.Result()
	}
	for _, path := range []string{"/", "/incidents", "/incidents/" + inc.ID, "/runs", "/settings", "/spend", "/nowhere"} {
		if got := ask(path, "127.0.0.1:8090"); got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(got.Header.Get("Location"), "/login?to=") {
			t.Errorf("%s without a session: %d to %s", path, got.StatusCode, got.Header.Get("Location"))
		}
	}
	for _, path := range []string{"/live/incidents", "/live/runs/" + inc.RunID} {
		if got := ask(path, "localhost"); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a session: %d", path, got.StatusCode)
		}
	}
	for host, want := range map[string]int{"127.0.0.1:8090": 200, "localhost:1": 200, "[::1]:8090": 200, "night.example": 200, "evil.example": 421, "127.0.0.1.evil.example": 421, "evil.example:8090": 421, "": 421} {
		got := ask("/login", host)
		if got.StatusCode != want {
			t.Errorf("host %q: %d, want %d", host, got.StatusCode, want)
		}
		if policy := got.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "require-trusted-types-for 'script'") {
			t.Errorf("host %q: the policy is %q", host, policy)
		}
	}
	link, err := url.Parse(ui.LoginLink(w.key, "http://x", w.now))
	w.must(err)
	good := link.RequestURI()
	forged, err := url.Parse(ui.LoginLink([]byte("another key"), "http://x", w.now))
	w.must(err)
	late, err := url.Parse(ui.LoginLink(w.key, "http://x", w.now.Add(-time.Hour)))
	w.must(err)
	for name, c := range map[string]struct {
		path string
		want int
	}{"forged": {forged.RequestURI(), 401}, "late": {late.RequestURI(), 401}, "empty": {"/login?code=.", 401}, "cut": {good[:len(good)-2], 401}} {
		if got := ask(c.path, "localhost"); got.StatusCode != c.want || len(got.Cookies()) > 0 {
			t.Errorf("a %s link: %d, %v", name, got.StatusCode, got.Cookies())
		}
	}
	first, again := ask(good, "localhost"), ask(good, "localhost")
	if first.StatusCode != http.StatusSeeOther || len(first.Cookies()) != 1 || again.StatusCode != http.StatusUnauthorized {
		t.Errorf("a link works at first %d and then %d", first.StatusCode, again.StatusCode)
	}
	if c := first.Cookies()[0]; !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" {
		t.Errorf("cookie %+v", c)
	}
	other, err := url.Parse(ui.LoginLink(w.key, "http://x", w.now))
	w.must(err)
	if c := ask(other.RequestURI(), "night.example").Cookies()[0]; c.Name != "__Host-nightcrier" || !c.Secure {
		t.Errorf("by TLS the cookie is %+v", c)
	}
}

func TestOnlyOurPagesPost(t *testing.T) {
	w := newWorld(t)
	inc := w.fault("prod", "cart", "", nightcrier.Critical)
	path, c := "/incidents/"+inc.ID, w.browser()
	_, page := w.read(c, path)
	form := formRE.FindStringSubmatch(page)
	if form == nil {
		t.Fatalf("no form on\n%s", page)
	}
	_, others := w.read(w.browser(), path)
	for name, try := range map[string]struct {
		client       *http.Client
		origin, form string
		want         int
	}{
		"another page's":         {c, "https://evil.example", form[1], 403},
		"nobody's":               {c, "", form[1], 403},
		"one of another port":    {c, "http://127.0.0.1:1", form[1], 403},
		"a sandboxed frame's":    {c, "null", form[1], 403},
		"without a token":        {c, w.http.URL, "", 403},
		"with a session's other": {c, w.http.URL, formRE.FindStringSubmatch(others)[1], 403},
		"without a session":      {http.DefaultClient, w.http.URL, form[1], 401},
		"ours":                   {c, w.http.URL, form[1], 200},
	} {
		got, said := w.post(try.client, path+"/notes", try.origin, url.Values{"form": {try.form}, "text": {"from " + name}})
		if got != try.want {
			t.Errorf("a post of %s: %d, want %d: %.200s", name, got, try.want, said)
		}
	}
	notes, err := w.store.Notes(t.Context(), inc.ID)
	if err != nil || len(notes) != 1 || notes[0].Text != "from ours" || notes[0].By != "local" {
		t.Errorf("notes %v, %v", notes, err)
	}
}

func TestLoginIsBounded(t *testing.T) {
	w := newWorld(t)
	login := func(token string) int {
		c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		code, _ := w.post(c, "/login", w.http.URL, url.Values{"token": {token}, "to": {"//evil.example/x"}})
		return code
	}
	if got := login("test"); got != http.StatusSeeOther {
		t.Errorf("the right token: %d", got)
	}
	for i := range 5 {
		if got := login(fmt.Sprint("guess", i)); got != http.StatusUnauthorized {
			t.Errorf("guess %d: %d", i, got)
		}
	}
	if got := login("test"); got != http.StatusTooManyRequests {
		t.Errorf("behind five wrong ones the right token is answered %d", got)
	}
	w.browser() // a link still works
	w.now = w.now.Add(6 * time.Minute)
	if got := login("test"); got != http.StatusSeeOther {
		t.Errorf("after the lock: %d", got)
	}
}

func TestFiltersAreInTheAddress(t *testing.T) {
	w := newWorld(t)
	w.fault("prod", "cart", "", nightcrier.Critical)
	w.fault("prod", "ledger_x", "100% of calls fail", nightcrier.Warning)
	w.fault("test", "cart", "", nightcrier.ErrorSeverity)
	c := w.browser()
	count := func(query string) int {
		code, page := w.read(c, "/incidents"+query)
		if code != 200 {
			t.Errorf("%s: %d", query, code)
		}
		return strings.Count(page, `class="row-link"`)
	}
	for query, want := range map[string]int{"": 3, "?cluster=prod": 2, "?text=cart": 2, "?text=CART+prod": 1, "?severity=error": 2, "?severity=critical": 1, "?status=pending": 3, "?status=resolved": 0,
		"?condition=active": 3, "?condition=cleared": 0, "?since=1h": 3, "?namespace=shop": 3, "?namespace=x": 0, "?text=100%25": 1, "?text=_x": 1, "?text=r_x": 1, "?text=%25%25": 0} {
		if got := count(query); got != want {
			t.Errorf("%s shows %d, want %d", query, got, want)
		}
	}
	for _, query := range []string{"?severity=loud", "?status=odd", "?since=ever", "?cursor=x"} {
		if code, page := w.read(c, "/incidents"+query); code != http.StatusBadRequest || !strings.Contains(page, "not") {
			t.Errorf("%s: %d", query, code)
		}
	}
	for _, path := range []string{"/incidents/x", "/incidents/" + nightcrier.NewID(), "/runs/x", "/nowhere"} {
		if code, page := w.read(c, path); code != http.StatusNotFound || !strings.Contains(page, "Not here") {
			t.Errorf("%s: %d", path, code)
		}
	}
}

func TestPagingAndStorms(t *testing.T) {
	w := newWorld(t)
	for i := range 70 {
		w.fault("prod", fmt.Sprint("app-", i), "", nightcrier.Warning)
	}
	c := w.browser()
	_, page := w.read(c, "/incidents?cluster=prod")
	next := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(page)
	if strings.Count(page, `class="row-link"`) != 50 || next == nil || !strings.Contains(next[1], "cluster=prod") {
		t.Fatalf("the first page has %d, next %v", strings.Count(page, `class="row-link"`), next)
	}
	_, page = w.read(c, strings.ReplaceAll(next[1], "&amp;", "&"))
	if n := strings.Count(page, `class="row-link"`); n != 20 || strings.Contains(page, `rel="next"`) {
		t.Errorf("the second page has %d", n)
	}
}

// TestFirstPageIsSmall holds what a browser loads at first under 60 KB, all together.
func TestFirstPageIsSmall(t *testing.T) {
	w := newWorld(t)
	for i := range 60 {
		w.fault("prod", fmt.Sprint("app-", i), strings.Repeat("Back-off restarting failed container ", 5)+nightcrier.NewID(), nightcrier.Warning)
	}
	c, total := w.browser(), 0
	get := func(path string) string {
		r, err := http.NewRequest(http.MethodGet, w.http.URL+path, nil)
		w.must(err)
		r.Header.Set("Accept-Encoding", "gzip")
		resp, err := c.Do(r)
		w.must(err)
		defer resp.Body.Close()
		small, err := io.ReadAll(resp.Body)
		w.must(err)
		total += len(small)
		z, err := gzip.NewReader(strings.NewReader(string(small)))
		w.must(err)
		body, err := io.ReadAll(z)
		w.must(err)
		return string(body)
	}
	page := get("/incidents")
	base := regexp.MustCompile(`/static/\w+/`).FindString(page)
	for _, file := range []string{"page.css", "page.js", "live.js", "html.js", "icon.svg"} {
		get(base + file)
	}
	t.Logf("%d bytes", total)
	if total > 60_000 {
		t.Errorf("the first page has %d bytes", total)
	}
	if strings.Contains(page, "<script>") || strings.Contains(page, " style=") || regexp.MustCompile(`\son\w+=`).MatchString(page) {
		t.Error("there is script or style in the page")
	}
}
