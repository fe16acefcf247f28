package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/test/clitest"
)

func ask(h http.Handler, method, target string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(method, "http://localhost"+target, nil))
	return rec
}

func decode(t *testing.T, rec *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, rec.Body)
	}
	return v
}

// schemaOf compiles a named schema of the description that the server serves.
func schemaOf(t *testing.T, a *API, name string) *jsonschema.Resolved {
	t.Helper()
	const place = "#/components/schemas/"
	text := strings.ReplaceAll(ask(a, "GET", path("openapi.json")).Body.String(), place, "#/$defs/")
	var doc struct {
		Components struct{ Schemas map[string]*jsonschema.Schema }
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	s, err := (&jsonschema.Schema{Ref: "#/$defs/" + name, Defs: doc.Components.Schemas}).Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// describes reports whether the description names status for what serves a target.
func describes(t *testing.T, a *API, method, target string, status int) bool {
	t.Helper()
	asked, _, _ := strings.Cut(target, "?")
	for p, operations := range decode(t, ask(a, "GET", path("openapi.json")))["paths"].(map[string]any) {
		pattern := regexp.MustCompile("^" + regexp.MustCompile(`\{\w+\}`).ReplaceAllString(p, "[^/]+") + "$")
		if op, ok := operations.(map[string]any)[strings.ToLower(method)].(map[string]any); ok && pattern.MatchString(asked) {
			return op["responses"].(map[string]any)[strconv.Itoa(status)] != nil
		}
	}
	return false
}

// What the recommended rules of a public linter find is an error here, and a warning
// too. A description without what they ask for shows that they are applied.
func TestDescriptionPassesALinter(t *testing.T) {
	description := ask(newFake().api(t), "GET", path("openapi.json")).Body.Bytes()
	if found := clitest.Lint(t, description); found != "" {
		t.Error(found)
	}
	if strings.Contains(string(description), `"null"`) {
		t.Error("the description says that something may be null, and nothing is")
	}
	var poor map[string]any
	if err := json.Unmarshal(description, &poor); err != nil {
		t.Fatal(err)
	}
	delete(poor, "security")
	delete(poor["info"].(map[string]any), "license")
	if description, err := json.Marshal(poor); err != nil {
		t.Fatal(err)
	} else if found := clitest.Lint(t, description); !strings.Contains(found, "security") || !strings.Contains(found, "license") {
		t.Errorf("the linter finds nothing wrong: %s", found)
	}
}

// TestAnswersMatchTheDescription holds every JSON answer against the OpenAPI
// document, unknown properties included.
func TestAnswersMatchTheDescription(t *testing.T) {
	a := newFake().api(t)
	for _, c := range []struct {
		method, target string
		status         int
		schema         string
	}{
		{"GET", path("incidents"), 200, "IncidentList"},
		{"GET", path("incidents?status=pending&cluster=dev&limit=5"), 200, "IncidentList"},
		{"GET", path("incidents", id1), 200, "Incident"},
		{"GET", path("incidents", id2), 200, "Incident"},
		{"GET", path("incidents", id1, "status"), 200, "IncidentStatus"},
		{"GET", path("incidents", id2, "status"), 200, "IncidentStatus"},
		{"GET", path("incidents", id1, "notifications"), 200, "NotificationList"},
		{"GET", path("incidents", id2, "notifications"), 200, "NotificationList"},
		{"GET", path("incidents", none, "notifications"), 404, "Problem"},
		{"GET", path("incidents", id1, "notes"), 200, "NoteList"},
		{"GET", path("incidents", none, "notes"), 404, "Problem"},
		{"POST", path("incidents", id1, "cancel"), 202, "Run"},
		{"POST", path("incidents", id1, "retry?executor=builtin"), 202, "Run"},
		{"GET", path("runs"), 200, "RunList"},
		{"GET", path("runs?status=queued&subjectKind=call&limit=5"), 200, "RunList"},
		{"GET", path("runs", run1), 200, "Run"},
		{"GET", path("runs", run2), 200, "Run"},
		{"GET", path("runs", none), 404, "Problem"},
		{"GET", path("runs", "x"), 400, "Problem"},
		{"GET", path("runs", none, "journal"), 404, "Problem"},
		{"GET", path("runs?status=weird"), 422, "Problem"},
		{"POST", path("runs", run1, "cancel"), 202, "Run"},
		{"POST", path("runs", run1, "retry?fromStep=collect"), 202, "Run"},
		{"POST", path("runs", "x", "retry"), 400, "Problem"},
		{"GET", path("events"), 200, "EventList"},
		{"GET", path("events?raw=true"), 200, "EventList"},
		{"GET", path("clusters"), 200, "ClusterList"},
		{"GET", path("incidents", none), 404, "Problem"},
		{"GET", path("incidents", "..%2f..%2fetc"), 400, "Problem"},
		{"GET", path("incidents?status=weird"), 422, "Problem"},
		{"GET", path("incidents?limit=0"), 422, "Problem"},
		{"GET", path("incidents?typo=1"), 422, "Problem"},
		{"GET", path("incidents", id2, "report"), 404, "Problem"},
		{"POST", path("incidents", "x", "cancel"), 400, "Problem"},
		{"GET", path("incidents", id2, "journal"), 404, "Problem"},
		{"GET", path("incidents", id1, "journal?run="+none), 404, "Problem"},
	} {
		rec := ask(a, c.method, c.target)
		if rec.Code != c.status {
			t.Errorf("%s %s: status %d, want %d: %s", c.method, c.target, rec.Code, c.status, rec.Body)
			continue
		}
		if !describes(t, a, c.method, c.target, rec.Code) {
			t.Errorf("%s %s: the description knows no answer %d", c.method, c.target, rec.Code)
		}
		want := "application/json"
		if c.schema == "Problem" {
			want = problemType
		}
		if got := rec.Header().Get("Content-Type"); got != want {
			t.Errorf("%s %s: content type %s", c.method, c.target, got)
		}
		var v any
		if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		if err := schemaOf(t, a, c.schema).Validate(v); err != nil {
			t.Errorf("%s %s: %v\n%s", c.method, c.target, err, rec.Body)
		}
	}
}

func TestDescriptionNamesEveryRoute(t *testing.T) {
	a := newFake().api(t)
	paths := decode(t, ask(a, "GET", path("openapi.json")))["paths"].(map[string]any)
	for _, p := range []string{"/incidents", "/incidents/{id}", "/incidents/{id}/status", "/incidents/{id}/report", "/incidents/{id}/notifications", "/incidents/{id}/notifications/again", "/incidents/{id}/notes",
		"/incidents/{id}/journal", "/incidents/{id}/cancel", "/incidents/{id}/clear", "/incidents/{id}/retry", "/events", "/clusters"} {
		if paths["/api/v1"+p] == nil {
			t.Errorf("%s is not described", p)
		}
	}
}

func TestStatusAnswer(t *testing.T) {
	got := decode(t, ask(newFake().api(t), "GET", path("incidents", id1, "status")))
	want := map[string]any{"incidentId": id1, "status": "resolved", "startedAt": "2026-05-01T10:00:00Z", "durationSeconds": 90.0, "workspace": "/w/incident-" + id1}
	if len(got) != len(want) {
		t.Errorf("fields %v", got)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s = %v, want %v", k, got[k], v)
		}
	}
}

func TestDuration(t *testing.T) {
	a := newFake().api(t)
	for name, c := range map[string]struct {
		inc  nightcrier.Incident
		want time.Duration
	}{
		"not started":  {nightcrier.Incident{}, 0},
		"running":      {nightcrier.Incident{StartedAt: start}, time.Hour},
		"ended":        {nightcrier.Incident{StartedAt: start, CompletedAt: start.Add(time.Minute)}, time.Minute},
		"retried":      {nightcrier.Incident{StartedAt: start.Add(30 * time.Minute), CompletedAt: start}, 30 * time.Minute},
		"clock behind": {nightcrier.Incident{StartedAt: start.Add(2 * time.Hour)}, 0},
	} {
		if got := a.durationOf(c.inc); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestReport(t *testing.T) {
	f := newFake()
	a := f.api(t)
	if rec := ask(a, "GET", path("incidents", id1, "report")); rec.Body.String() != f.reports[id1] || rec.Header().Get("Content-Type") != "application/json" {
		t.Errorf("report.json must come byte for byte: %s %s", rec.Header(), rec.Body)
	}
	if rec := ask(a, "GET", path("incidents", id1, "report?format=markdown")); rec.Body.String() != "# Report of "+id1 {
		t.Errorf("markdown: %s", rec.Body)
	}
	if code := decode(t, ask(a, "GET", path("incidents", id2, "report")))["code"]; code != "no_report" {
		t.Errorf("code %v", code)
	}
}

// A browser gets a page that may do nothing but show itself.
func TestReportAsAPage(t *testing.T) {
	f := newFake()
	f.reports[id1] = `{"schema":"nightcrier.report/v1","target":{"kind":"Deployment","name":"<script>alert(1)</script>"}}`
	a := f.api(t, func(o *Options) {
		o.Markdown = func(context.Context, nightcrier.Incident, []byte) ([]byte, error) {
			return []byte("<script>alert(1)</script> [x](javascript:alert(1))"), nil
		}
	})
	browser := httptest.NewRequest("GET", "http://localhost"+path("incidents", id1, "report"), nil)
	browser.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	rec := httptest.NewRecorder()
	a.ServeHTTP(rec, browser)
	for name, rec := range map[string]*httptest.ResponseRecorder{"browser": rec, "format": ask(a, "GET", path("incidents", id1, "report?format=html"))} {
		policy := rec.Header().Get("Content-Security-Policy")
		if rec.Code != 200 || !strings.HasPrefix(rec.Header().Get("Content-Type"), "text/html") || !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: %d %v", name, rec.Code, rec.Header())
		}
		if page := rec.Body.String(); strings.Contains(page, "<script") || strings.Contains(page, `href="javascript`) || !strings.Contains(page, "alert(1)") {
			t.Errorf("%s:\n%s", name, page)
		}
	}
	if rec := ask(a, "GET", path("incidents", id1, "report")); rec.Header().Get("Content-Type") != "application/json" || rec.Header().Get("Vary") != "Accept" || rec.Header().Values("Content-Security-Policy") != nil {
		t.Errorf("a program gets %v", rec.Header())
	}
}

func TestFiltersReachTheStore(t *testing.T) {
	f := newFake()
	a := f.api(t)
	ask(a, "GET", path("incidents?status=failed&cluster=prod&since=2026-05-01T09:00:00Z&limit=7&cursor=abc"))
	if q := f.asked; q.Status != nightcrier.Failed || q.Cluster != "prod" || !q.Since.Equal(start.Add(-time.Hour)) || q.Limit != 7 || q.Cursor != "abc" {
		t.Errorf("incidents: %+v", q)
	}
	ask(a, "GET", path("runs?pipeline=p&subjectKind=call&subject=s&status=queued&key=k&since=2026-05-01T09:00:00Z&until=2026-05-01T10:00:00Z&limit=7&cursor=abc"))
	if q := f.askedRuns; q != (store.RunFilter{Pipeline: "p", SubjectKind: nightcrier.SubjectCall, SubjectID: "s", Status: nightcrier.Queued, Key: "k",
		Since: start.Add(-time.Hour), Until: start, Limit: 7, Cursor: "abc"}) {
		t.Errorf("runs: %+v", q)
	}
	ask(a, "GET", path("events?suppressed=true&incident=i&cluster=c&reason=malformed&limit=3"))
	if q := f.askedEv; q.Suppressed == nil || !*q.Suppressed || q.IncidentID != "i" || q.Cluster != "c" || q.Reason != nightcrier.Malformed || q.Limit != 3 {
		t.Errorf("events: %+v", q)
	}
	ask(a, "GET", path("events"))
	if f.askedEv.Suppressed != nil {
		t.Error("without the parameter all events are asked for")
	}
	if rec := ask(a, "GET", path("events")); strings.Contains(rec.Body.String(), "secret") {
		t.Error("payloads are listed without having been asked for")
	}
}

func TestControl(t *testing.T) {
	f := newFake()
	a := f.api(t)
	ask(a, "POST", path("incidents", id1, "cancel"))
	ask(a, "POST", path("incidents", id1, "retry?executor=builtin"))
	ask(a, "POST", path("incidents", id1, "notifications/again"))
	if !strings.HasPrefix(f.cancelled, id1+" ") || f.retried != id1+" builtin" || f.toldAgain != id1 {
		t.Errorf("cancelled %q, retried %q, told again %q", f.cancelled, f.retried, f.toldAgain)
	}
	ask(a, "POST", path("runs", run2, "cancel"))
	ask(a, "POST", path("runs", run1, "retry?fromStep=collect"))
	if !strings.HasPrefix(f.cancelled, run2+" ") || f.retried != run1+" collect" {
		t.Errorf("cancelled %q, retried %q", f.cancelled, f.retried)
	}
	readOnly := f.api(t, func(o *Options) { o.Control = nil })
	if rec := ask(readOnly, "POST", path("incidents", id1, "cancel")); rec.Code != 503 || decode(t, rec)["code"] != "unreachable" {
		t.Errorf("without a server: %d %s", rec.Code, rec.Body)
	}
	if rec := ask(a, "GET", path("incidents", id1, "cancel")); rec.Code != 405 {
		t.Errorf("GET must not cancel: %d", rec.Code)
	}
}

// A run says what it waits for, and has its steps where it is shown alone.
func TestRuns(t *testing.T) {
	f := newFake()
	a := f.api(t)
	list := decode(t, ask(a, "GET", path("runs")))["runs"].([]any)
	waiting, going := list[0].(map[string]any), list[1].(map[string]any)
	wait, ok := waiting["waitsFor"].(map[string]any)
	if !ok || wait["for"] != "limit" || !strings.Contains(wait["text"].(string), "runs under way") || going["waitsFor"] != nil || going["incidentId"] != id1 || waiting["steps"] != nil {
		t.Errorf("runs %v", list)
	}
	one := decode(t, ask(a, "GET", path("runs", run2)))
	steps, ok := one["steps"].([]any)
	if !ok || len(steps) != 1 || steps[0].(map[string]any)["output"].(map[string]any)["facts"] != 3.0 || one["waitsFor"] == nil || one["incidentId"] != nil {
		t.Errorf("run %v", one)
	}
	blind := f.api(t, func(o *Options) { o.Limits = nil })
	if one := decode(t, ask(blind, "GET", path("runs", run2))); one["waitsFor"] != nil {
		t.Errorf("without limits it waits for %v", one["waitsFor"])
	}
	f.write(3)
	for _, target := range []string{path("runs", run1, "journal?follow=false"), path("incidents", id1, "journal?follow=false")} {
		if rec := ask(a, "GET", target); strings.Count(rec.Body.String(), "\nid: ") != 3 {
			t.Errorf("%s: %s", target, rec.Body)
		}
	}
}

func TestNotes(t *testing.T) {
	f := newFake()
	a := f.api(t)
	post := func(h http.Handler, id, body string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		req := httptest.NewRequest("POST", "http://localhost"+path("incidents", id, "notes"), strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(rec, req)
		return rec
	}
	rec := post(a, id1, `{"text":"raised the \u202elimit","by":"ana"}`)
	if got := decode(t, rec); rec.Code != 201 || got["text"] != "raised the limit" || got["by"] != "ana" || got["at"] == nil {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if body := ask(a, "GET", path("incidents", id1, "notes")).Body.String(); !strings.Contains(body, "raised the limit") {
		t.Errorf("not listed: %s", body)
	}
	for name, c := range map[string]struct {
		h        http.Handler
		id, body string
		status   int
	}{
		"no JSON":      {a, id1, `text`, 400},
		"no text":      {a, id1, `{"by":"ana"}`, 422},
		"empty":        {a, id1, `{"text":" "}`, 400},
		"a typo":       {a, id1, `{"text":"x","author":"ana"}`, 422},
		"too long":     {a, id1, `{"text":"` + strings.Repeat("x", nightcrier.MaxNote+1) + `"}`, 400},
		"far too long": {a, id1, `{"text":"` + strings.Repeat("x", 1<<20) + `"}`, 413},
		"no id":        {a, "x", `{"text":"x"}`, 400},
		"no server":    {f.api(t, func(o *Options) { o.Control = nil }), id1, `{"text":"x"}`, 503},
	} {
		if rec := post(c.h, c.id, c.body); rec.Code != c.status || rec.Header().Get("Content-Type") != problemType {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
	if n := len(f.notes[id1]); n != 1 {
		t.Errorf("%d notes are kept", n)
	}
}

// TestEveryCodeHasAStatus holds for the codes of the root package.
func TestEveryCodeHasAStatus(t *testing.T) {
	for code, status := range statusOf {
		f := newFake()
		f.fail = nightcrier.Errorf(code, "the text")
		rec := ask(f.api(t), "GET", path("incidents"))
		p := decode(t, rec)
		if rec.Code != status || p["code"] != string(code) || p["status"] != float64(status) || p["title"] == "" {
			t.Errorf("%s: %d %v", code, rec.Code, p)
		}
		if told := p["detail"] == "the text"; told == (code == nightcrier.Internal) {
			t.Errorf("%s: detail %v", code, p["detail"])
		}
	}
	if len(statusOf) != 9 {
		t.Errorf("%d codes; is a new one without a status?", len(statusOf))
	}
}

func TestInternalTextGoesToTheLogOnly(t *testing.T) {
	f := newFake()
	f.fail = errors.New("disk /dev/sda password=x")
	var log bytes.Buffer
	a := f.api(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	rec := ask(a, "GET", path("incidents"))
	if rec.Code != 500 || strings.Contains(rec.Body.String(), "password") || !strings.Contains(log.String(), "password") {
		t.Errorf("%d %s, log %s", rec.Code, rec.Body, log.String())
	}
}

func TestHealth(t *testing.T) {
	f := newFake()
	a := f.api(t, func(o *Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("m 1")) })
	})
	for _, h := range []http.Handler{a, a.Health()} {
		for target, want := range map[string]string{"/healthz": `"ok"`, "/readyz": `"ok"`, "/health/clusters": `"subscribed":1`, "/metrics": "m 1"} {
			if rec := ask(h, "GET", target); rec.Code != 200 || !strings.Contains(rec.Body.String(), want) {
				t.Errorf("%s: %d %s", target, rec.Code, rec.Body)
			}
		}
	}
	if body := ask(a.Health(), "GET", "/health/clusters").Body.String(); strings.Contains(body, "secret-host") || !strings.Contains(body, `"readOnly":"no"`) {
		t.Errorf("the health listener tells addresses: %s", body)
	}
	if rec := ask(a.Health(), "GET", path("incidents")); rec.Code != 404 {
		t.Errorf("the health listener serves the API: %d", rec.Code)
	}
	f.fail = nightcrier.Errorf(nightcrier.Unreachable, "store gone at /secret")
	if rec := ask(a, "GET", "/readyz"); rec.Code != 503 || strings.Contains(rec.Body.String(), "/secret") {
		t.Errorf("unready: %d %s", rec.Code, rec.Body)
	}
	if rec := ask(a, "GET", "/healthz"); rec.Code != 200 {
		t.Errorf("an unready process is still alive: %d", rec.Code)
	}
}

func TestCancelledRequestIsNoInternalError(t *testing.T) {
	a := newFake().api(t)
	var p *Problem
	if err := a.problemFor(t.Context(), context.Canceled); !errors.As(err, &p) || p.Code != nightcrier.Interrupted {
		t.Errorf("%v", err)
	}
}
