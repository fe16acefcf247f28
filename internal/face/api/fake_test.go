package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// fake stands in for the store and the app.
type fake struct {
	mu        sync.Mutex
	incidents map[string]nightcrier.Incident
	reports   map[string]string
	events    []nightcrier.Event
	runs      map[string]nightcrier.Run
	entries   map[string][]nightcrier.JournalEntry
	wakes     []chan struct{}
	notes     map[string][]nightcrier.Note
	// fail, when set, is the answer to everything.
	fail      error
	asked     store.IncidentFilter
	askedRuns store.RunFilter
	askedEv   store.EventFilter
	cancelled string
	retried   string
	toldAgain string
	sums      []store.RunSum
}

const (
	id1  = "0196a000-0000-7000-8000-000000000001"
	id2  = "0196a000-0000-7000-8000-000000000002"
	none = "0196a000-0000-7000-8000-00000000000f"
	run1 = "0196b000-0000-7000-8000-000000000001"
	run2 = "0196b000-0000-7000-8000-000000000002"
)

var start = time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)

func newFake() *fake {
	code := 137
	return &fake{
		incidents: map[string]nightcrier.Incident{
			id1: {ID: id1, EventID: "e", Status: nightcrier.Resolved, Condition: nightcrier.ConditionActive, Cluster: "prod",
				Resource: nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: "cart-0"}, Severity: nightcrier.Critical, CreatedAt: start,
				StartedAt: start, CompletedAt: start.Add(90 * time.Second), RunID: run1, Workspace: "/w/incident-" + id1, ExitCode: &code, Signal: "SIGKILL"},
			id2: {ID: id2, Status: nightcrier.Pending, Condition: nightcrier.ConditionUnknown, Cluster: "dev", CreatedAt: start},
		},
		reports: map[string]string{id1: `{"schema":"nightcrier.report/v1","valid":true}`},
		events:  []nightcrier.Event{{ID: "e", Cluster: "prod", FaultType: "CrashLoop", Severity: nightcrier.Critical, ReceivedAt: start, Raw: []byte(`{"secret":1}`)}},
		runs: map[string]nightcrier.Run{run1: {ID: run1, Subject: nightcrier.Subject{Kind: nightcrier.SubjectIncident, ID: id1}, Key: "prod", Status: nightcrier.Admitted, QueuedAt: start},
			run2: {ID: run2, Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: "c", Title: "a call"}, Pipeline: "greet", Key: "prod",
				Status: nightcrier.Queued, QueuedAt: start, Deadline: start.Add(time.Hour), RetryOf: run1, FromStep: "collect", TriggeredBy: "ann"}},
		entries: map[string][]nightcrier.JournalEntry{},
		notes:   map[string][]nightcrier.Note{},
	}
}

func (f *fake) Incident(_ context.Context, id string) (nightcrier.Incident, error) {
	inc, ok := f.incidents[id]
	if f.fail != nil || !ok {
		return inc, f.or(nightcrier.Errorf(nightcrier.NotFound, "no incident %s", id))
	}
	return inc, nil
}

func (f *fake) or(err error) error {
	if f.fail != nil {
		return f.fail
	}
	return err
}

func (f *fake) Incidents(_ context.Context, q store.IncidentFilter) ([]nightcrier.Incident, string, error) {
	f.asked = q
	if f.fail != nil {
		return nil, "", f.fail
	}
	var list []nightcrier.Incident
	for _, id := range []string{id1, id2} {
		if q.Status == "" || f.incidents[id].Status == q.Status {
			list = append(list, f.incidents[id])
		}
	}
	return list, "next", nil
}

func (f *fake) Report(_ context.Context, id string) ([]byte, error) {
	rep, ok := f.reports[id]
	if !ok {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "store: no report")
	}
	return []byte(rep), nil
}

func (f *fake) Notifications(_ context.Context, id string) ([]store.Notification, error) {
	if f.fail != nil || id != id1 {
		return nil, f.fail
	}
	return []store.Notification{{ID: "n", IncidentID: id, Channel: "slack", Kind: "outcome", Key: "slack:outcome/1", State: store.NotificationUnknown,
		Detail: "it may have arrived", CreatedAt: time.Date(2026, 5, 1, 10, 2, 0, 0, time.UTC)}}, nil
}

func (f *fake) Notes(_ context.Context, id string) ([]nightcrier.Note, error) {
	return f.notes[id], f.fail
}

func (f *fake) MarkCleared(_ context.Context, id, _ string) (nightcrier.Incident, error) {
	return nightcrier.Incident{ID: id, Condition: nightcrier.ConditionCleared}, f.fail
}

func (f *fake) Note(_ context.Context, id, by, text string) (nightcrier.Note, error) {
	n, err := nightcrier.NewNote(by, text, start)
	if err == nil {
		f.notes[id] = append([]nightcrier.Note{n}, f.notes[id]...)
	}
	return n, f.or(err)
}

func (f *fake) Events(_ context.Context, q store.EventFilter) ([]nightcrier.Event, string, error) {
	f.askedEv = q
	return append([]nightcrier.Event(nil), f.events...), "", f.fail
}

func (f *fake) Run(_ context.Context, id string) (nightcrier.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	run, ok := f.runs[id]
	if !ok {
		return run, nightcrier.Errorf(nightcrier.NotFound, "no run %s", id)
	}
	return run, nil
}

func (f *fake) ListRuns(_ context.Context, q store.RunFilter) ([]nightcrier.Run, string, error) {
	f.askedRuns = q
	return []nightcrier.Run{f.runs[run2], f.runs[run1]}, "next", f.fail
}

func (f *fake) LeasedRuns(context.Context) ([]nightcrier.Run, error) {
	return []nightcrier.Run{f.runs[run1]}, f.fail
}

func (f *fake) Steps(_ context.Context, id string) ([]nightcrier.Step, error) {
	return []nightcrier.Step{{RunID: id, ID: "collect", Attempt: 1, Uses: "action:collect", State: nightcrier.StateSuccess, StartedAt: start,
		Output: []byte(`{"facts":3}`), Artifacts: []nightcrier.Artifact{{Path: "a", SHA256: "d"}}, Usage: nightcrier.Usage{CostUSD: 0.5}}}, f.fail
}

func (f *fake) RunInput(_ context.Context, id string) (json.RawMessage, error) {
	return []byte(`{"app":"shop"}`), f.fail
}

func (f *fake) RunSums(context.Context) ([]store.RunSum, error) { return f.sums, f.fail }

func (f *fake) CancelRun(_ context.Context, id, cause string) (nightcrier.Run, error) {
	f.cancelled = id + " " + cause
	return f.runs[id], f.fail
}

func (f *fake) RetryRun(_ context.Context, id, fromStep string) (nightcrier.Run, error) {
	f.retried = id + " " + fromStep
	return f.runs[id], f.fail
}

func (f *fake) Journal(_ context.Context, run string, from int64, limit int) ([]nightcrier.JournalEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.entries[run]
	from = min(max(from, 1), int64(len(all))+1)
	return append([]nightcrier.JournalEntry(nil), all[from-1:min(int(from)-1+limit, len(all))]...), nil
}

func (f *fake) WatchJournal(string) (<-chan struct{}, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := make(chan struct{}, 1)
	f.wakes = append(f.wakes, ch)
	return ch, func() {}
}

// write appends n entries and wakes all followers.
func (f *fake) write(n int) {
	f.mu.Lock()
	for range n {
		seq := int64(len(f.entries[run1]) + 1)
		f.entries[run1] = append(f.entries[run1], nightcrier.JournalEntry{Run: run1, Seq: seq, Time: start, Type: nightcrier.EntryMessage,
			Key: fmt.Sprint(seq), Data: []byte(`{"text":"line\nbreak"}`)})
	}
	f.mu.Unlock()
	f.wake()
}

// end finishes the run.
func (f *fake) end() {
	f.mu.Lock()
	run := f.runs[run1]
	run.Status = nightcrier.Finished
	f.runs[run1] = run
	f.mu.Unlock()
	f.wake()
}

func (f *fake) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ch := range f.wakes {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (f *fake) Cancel(_ context.Context, id, cause string) (nightcrier.Run, error) {
	f.cancelled = id + " " + cause
	return f.runs[run1], f.fail
}

func (f *fake) Retry(_ context.Context, id, executor string) (nightcrier.Run, error) {
	f.retried = id + " " + executor
	return f.runs[run1], f.fail
}

func (f *fake) TellAgain(_ context.Context, id string) ([]store.Notification, error) {
	f.toldAgain = id
	return []store.Notification{{ID: "n2", IncidentID: id, Channel: "slack", Kind: store.OutcomeTold, Key: "k", State: store.NotificationPending, CreatedAt: start}}, f.fail
}

func (f *fake) Statuses() []nightcrier.SourceStatus {
	return []nightcrier.SourceStatus{
		{Cluster: "prod", Source: "mcp", State: nightcrier.SourceSubscribed, Since: start, Events: 3},
		{Cluster: "dev", Source: "mcp", Endpoint: "http://secret-host", State: nightcrier.SourceDown, Since: start, LastError: "refused by secret-host",
			Access: &nightcrier.Access{ReadOnly: "no", Detail: "secret-host: it can change everything", CheckedAt: start}},
	}
}

func (f *fake) api(t *testing.T, change ...func(*Options)) *API {
	t.Helper()
	opt := Options{Version: "test", Incidents: f, Events: f, Runs: f, Limits: func() store.Limits { return store.Limits{Total: 1, PerKey: 1} }, Control: f, Clusters: f, Logger: slog.New(slog.DiscardHandler),
		Ready: func(context.Context) error { return f.fail },
		Markdown: func(_ context.Context, inc nightcrier.Incident, raw []byte) ([]byte, error) {
			return []byte("# Report of " + inc.ID), nil
		},
		Now:       func() time.Time { return start.Add(time.Hour) },
		KeepAlive: time.Hour, Poll: time.Hour,
	}
	for _, c := range change {
		c(&opt)
	}
	return New(opt)
}

func path(parts ...string) string { return "/api/v1/" + strings.Join(parts, "/") }
