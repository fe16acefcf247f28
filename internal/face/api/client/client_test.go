package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/inprocess"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// world is a store with one investigated incident and one suppressed event,
// and an API over it.
type world struct {
	store *store.Store
	api   *api.API
	inc   nightcrier.Incident
	run   nightcrier.Run
}

// control lets the API change the store, as the app does.
type control struct{ *store.Store }

func (c control) Cancel(ctx context.Context, id, cause string) (nightcrier.Run, error) {
	return c.RequestCancel(ctx, id, cause)
}

func (c control) CancelRun(ctx context.Context, id, cause string) (nightcrier.Run, error) {
	return c.RequestCancelRun(ctx, id, cause)
}

func (c control) MarkCleared(ctx context.Context, id, _ string) (nightcrier.Incident, error) {
	return c.Store.MarkCleared(ctx, id)
}

func (c control) TellAgain(ctx context.Context, id string) ([]store.Notification, error) {
	return c.RenewNotifications(ctx, id)
}

func (c control) Note(ctx context.Context, id, by, text string) (nightcrier.Note, error) {
	n, err := nightcrier.NewNote(by, text, time.Now())
	if err != nil {
		return n, err
	}
	return n, c.AddNote(ctx, id, n)
}

type noClusters struct{}

func (noClusters) Statuses() []nightcrier.SourceStatus {
	return []nightcrier.SourceStatus{{Cluster: "prod", State: nightcrier.SourceDown}}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx := t.Context()
	s, err := store.Open(ctx, store.Options{Path: filepath.Join(t.TempDir(), "n.db"), Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	ev := nightcrier.Event{ID: nightcrier.NewID(), ReceivedAt: time.Now(), Source: "mcp", Cluster: "prod", FaultType: "CrashLoop", Severity: nightcrier.Critical,
		Resource: nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: "cart-0"}, Fingerprint: "f", Class: nightcrier.ClassWorkload}
	d, err := s.Accept(ctx, ev, store.AcceptPolicy{Pipeline: "k8s-incident-triage", Executor: "builtin", QueueMax: 10})
	must(t, err)
	ev.ID, ev.Outcome, ev.Reason = nightcrier.NewID(), nightcrier.Suppressed, nightcrier.BelowThreshold
	_, err = s.Suppress(ctx, ev)
	must(t, err)
	w := &world{store: s, inc: d.Incident, run: d.Run}
	w.api = api.New(api.Options{Version: "test", Incidents: s, Events: s, Runs: s, Control: control{s}, Clusters: noClusters{}, Logger: slog.New(slog.DiscardHandler),
		Markdown: func(context.Context, nightcrier.Incident, []byte) ([]byte, error) { return []byte("# R"), nil }, Poll: 5 * time.Millisecond})
	return w
}

func (w *world) write(t *testing.T, n int) {
	t.Helper()
	for range n {
		_, err := w.store.AppendJournal(t.Context(), w.run.ID, nightcrier.JournalEntry{Run: w.run.ID, Time: time.Now(), Type: nightcrier.EntryLog,
			Key: nightcrier.NewID(), Data: json.RawMessage(`{"text":"x"}`)})
		must(t, err)
	}
}

func (w *world) finish(t *testing.T) {
	t.Helper()
	_, err := w.store.AdmitNext(t.Context(), store.Limits{Total: 1, PerKey: 1})
	must(t, err)
	_, err = w.store.BeginRun(t.Context(), w.run.ID)
	must(t, err)
	must(t, w.store.FinishRun(t.Context(), store.Finish{RunID: w.run.ID, Status: nightcrier.Resolved,
		Result: nightcrier.AgentResult{State: nightcrier.StateSuccess}, Report: []byte(`{"valid":true}`)}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// transports returns a client for w by every way there is.
func (w *world) transports(t *testing.T) map[string]*Client {
	socket := filepath.Join(t.TempDir(), "s.sock")
	srv := api.NewServer(api.ServerConfig{API: w.api, Listen: "127.0.0.1:0", Socket: socket, Logger: slog.New(slog.DiscardHandler)})
	must(t, srv.Start(t.Context()))
	t.Cleanup(func() { srv.Stop(context.Background()) })
	overTCP, err := HTTP("http://" + srv.Addr() + "/")
	must(t, err)
	return map[string]*Client{"unix": Unix(socket), "tcp": overTCP, "in process": InProcess(w.api)}
}

func TestEveryCallOverEveryTransport(t *testing.T) {
	w := newWorld(t)
	w.write(t, 3)
	w.finish(t)
	ctx := t.Context()
	for name, c := range w.transports(t) {
		t.Run(name, func(t *testing.T) {
			list, err := c.Incidents(ctx, IncidentQuery{Status: "resolved", Cluster: "prod", Since: time.Now().Add(-time.Hour), Limit: 5})
			must(t, err)
			if len(list.Incidents) != 1 || list.Incidents[0].ID != w.inc.ID {
				t.Errorf("incidents %+v", list)
			}
			inc, err := c.Incident(ctx, w.inc.ID)
			must(t, err)
			if inc.Resource.Name != "cart-0" || inc.Severity != nightcrier.Critical || inc.Status != nightcrier.Resolved {
				t.Errorf("incident %+v", inc)
			}
			md, err := c.Report(ctx, w.inc.ID, "markdown")
			must(t, err)
			js, err := c.Report(ctx, w.inc.ID, "json")
			must(t, err)
			if string(md) != "# R" || string(js) != `{"valid":true}` {
				t.Errorf("report %s, %s", md, js)
			}
			runs, err := c.Runs(ctx, RunQuery{Pipeline: "k8s-incident-triage", SubjectKind: "incident", Subject: w.inc.ID, Status: "finished", Key: "prod", Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)})
			must(t, err)
			run, err := c.Run(ctx, w.run.ID)
			must(t, err)
			if len(runs.Runs) != 1 || runs.Runs[0].ID != w.run.ID || run.Outcome != nightcrier.StateSuccess || run.IncidentID() != w.inc.ID {
				t.Errorf("runs %+v, run %+v", runs, run)
			}
			entries := 0
			must(t, c.RunJournal(ctx, w.run.ID, JournalQuery{From: 2, Follow: true}, func(nightcrier.JournalEntry) error { entries++; return nil }))
			if entries != 2 {
				t.Errorf("%d entries from the second on", entries)
			}
			if _, err := c.CancelRun(ctx, w.run.ID); nightcrier.CodeOf(err) != nightcrier.Conflict {
				t.Errorf("cancel of what has ended: %v", err)
			}
			if _, err := c.RetryRun(ctx, w.run.ID, "nowhere"); nightcrier.CodeOf(err) != nightcrier.Invalid {
				t.Errorf("retry from a step that there is not: %v", err)
			}
			events, err := c.Events(ctx, EventQuery{Suppressed: true})
			must(t, err)
			if len(events.Events) != 1 || events.Events[0].Reason != nightcrier.BelowThreshold {
				t.Errorf("events %+v", events)
			}
			clusters, err := c.Clusters(ctx)
			must(t, err)
			if len(clusters.Clusters) != 1 {
				t.Errorf("clusters %+v", clusters)
			}
			if got := collect(t, c, w, true); len(got) != 3 {
				t.Errorf("journal %v", got)
			}
		})
	}
}

func collect(t *testing.T, c *Client, w *world, follow bool) []int64 {
	t.Helper()
	var seqs []int64
	must(t, c.Journal(t.Context(), w.inc.ID, JournalQuery{Follow: follow}, func(e nightcrier.JournalEntry) error {
		seqs = append(seqs, e.Seq)
		return nil
	}))
	return seqs
}

// A journal is read from any number on, while its run goes on and after it ended.
func TestAJournalIsReadFromAnyNumber(t *testing.T) {
	w := newWorld(t)
	w.write(t, 3)
	w.finish(t)
	for name, c := range w.transports(t) {
		for _, follow := range []bool{true, false} {
			for from, want := range map[int64][]int64{0: {1, 2, 3}, 1: {1, 2, 3}, 2: {2, 3}, 3: {3}, 4: nil, 1 << 40: nil} {
				var got []int64
				must(t, c.Journal(t.Context(), w.inc.ID, JournalQuery{From: from, Follow: follow, Run: w.run.ID}, func(e nightcrier.JournalEntry) error {
					got = append(got, e.Seq)
					return nil
				}))
				if !slices.Equal(got, want) {
					t.Errorf("%s, follow %t, from %d: %v, want %v", name, follow, from, got, want)
				}
			}
		}
		err := c.Journal(t.Context(), w.inc.ID, JournalQuery{Run: nightcrier.NewID()}, nil)
		if nightcrier.CodeOf(err) != nightcrier.NotFound {
			t.Errorf("%s: a run that is not there: %v", name, err)
		}
	}
}

// A call is sent with its name in a header of its own, and without one where it has none.
func TestACallIsNamed(t *testing.T) {
	var keys []string
	c := InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b api.CallBody
		if err := json.NewDecoder(r.Body).Decode(&b); err != nil || b.UserID != "ann" {
			t.Errorf("%+v, %v", b, err)
		}
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		_ = json.NewEncoder(w).Encode(nightcrier.Run{ID: "r"})
	}))
	for _, key := range []string{"k1", ""} {
		_, err := c.StartRun(t.Context(), "build", key, api.CallBody{UserID: "ann"})
		must(t, err)
		_, err = c.StartSkill(t.Context(), "shop/builder", key, api.CallBody{UserID: "ann"})
		must(t, err)
	}
	if !slices.Equal(keys, []string{"k1", "k1", "", ""}) {
		t.Errorf("%q", keys)
	}
}

func TestErrorsKeepTheirCode(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	for name, c := range w.transports(t) {
		_, notFound := c.Incident(ctx, nightcrier.NewID())
		_, invalid := c.Incident(ctx, "../../etc/passwd")
		_, noReport := c.Report(ctx, w.inc.ID, "json")
		_, conflict := c.Retry(ctx, w.inc.ID, "")
		_, weird := c.Incidents(ctx, IncidentQuery{Status: "weird"})
		for want, err := range map[nightcrier.Code][]error{nightcrier.NotFound: {notFound}, nightcrier.Invalid: {invalid, weird},
			nightcrier.NoReport: {noReport}, nightcrier.Conflict: {conflict}} {
			for _, e := range err {
				if nightcrier.CodeOf(e) != want {
					t.Errorf("%s: %v is %s, want %s", name, e, nightcrier.CodeOf(e), want)
				}
			}
		}
	}
}

func TestCancelOfAQueuedRun(t *testing.T) {
	w := newWorld(t)
	run, err := InProcess(w.api).Cancel(t.Context(), w.inc.ID)
	must(t, err)
	if run.ID != w.run.ID || run.Status != nightcrier.Dropped {
		t.Errorf("%+v", run)
	}
}

func TestFollowSeesWhatComes(t *testing.T) {
	enough := errors.New("enough")
	for name := range newWorld(t).transports(t) {
		w := newWorld(t)
		c := w.transports(t)[name]
		w.write(t, 1)
		seen := 0
		err := c.Journal(t.Context(), w.inc.ID, JournalQuery{Follow: true}, func(nightcrier.JournalEntry) error {
			if seen++; seen == 3 {
				return enough
			}
			w.write(t, 1) // each entry seen brings the next one
			return nil
		})
		if !errors.Is(err, enough) {
			t.Errorf("%s: saw %d entries: %v", name, seen, err)
		}
	}
}

// flaky hands out streams that break after each entry.
type flaky struct {
	http.RoundTripper
	broken int
}

func (f *flaky) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.RoundTripper.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/journal") || f.broken == 0 {
		return resp, err
	}
	f.broken--
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, 400), resp.Body}
	return resp, nil
}

func TestBrokenStreamGoesOnWithoutGapOrRepeat(t *testing.T) {
	w := newWorld(t)
	w.write(t, 20)
	w.finish(t)
	f := &flaky{RoundTripper: inprocess.Transport{Handler: w.api}, broken: 15}
	c := newClient("http://localhost", f)
	c.retry = 0
	got := collect(t, c, w, true)
	for i, seq := range got {
		if seq != int64(i+1) {
			t.Fatalf("%v", got)
		}
	}
	if len(got) != 20 || f.broken == 15 {
		t.Errorf("%d entries, %d breaks left", len(got), f.broken)
	}
}

func TestNoServer(t *testing.T) {
	c := Unix(filepath.Join(t.TempDir(), "absent.sock"))
	if _, err := c.Clusters(t.Context()); nightcrier.CodeOf(err) != nightcrier.Unreachable || !strings.Contains(err.Error(), "absent.sock") {
		t.Errorf("%v", err)
	}
	if err := c.Journal(t.Context(), nightcrier.NewID(), JournalQuery{Follow: true}, nil); nightcrier.CodeOf(err) != nightcrier.Unreachable {
		t.Errorf("a stream that never began is not retried: %v", err)
	}
}

func TestSomethingElseAnswers(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "events") {
			fmt.Fprint(w, "<html>hello")
			return
		}
		http.Error(w, "<html>no", http.StatusNotFound)
	}))
	defer srv.Close()
	c, err := HTTP(srv.URL)
	must(t, err)
	if _, err := c.Clusters(t.Context()); nightcrier.CodeOf(err) != nightcrier.Unreachable {
		t.Errorf("%v", err)
	}
	if _, err := c.Events(t.Context(), EventQuery{}); nightcrier.CodeOf(err) != nightcrier.Internal {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"", "127.0.0.1:80", "file:///etc/passwd", "unix://x"} {
		if _, err := HTTP(bad); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestInterrupt(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.write(t, 1)
	err := InProcess(w.api).Journal(ctx, w.inc.ID, JournalQuery{Follow: true}, func(nightcrier.JournalEntry) error { cancel(); return nil })
	if nightcrier.CodeOf(err) != nightcrier.Interrupted {
		t.Errorf("%v", err)
	}
	if _, err := InProcess(w.api).Clusters(ctx); nightcrier.CodeOf(err) != nightcrier.Interrupted {
		t.Errorf("%v", err)
	}
}

func TestPanicInProcess(t *testing.T) {
	c := InProcess(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") }))
	if _, err := c.Clusters(t.Context()); err == nil {
		t.Error("a panic passed as an answer")
	}
}
