package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// newEntry makes a journal entry with a hostile payload.
func newEntry(key string) nightcrier.JournalEntry {
	return nightcrier.JournalEntry{Key: key, Type: nightcrier.EntryMessage, Step: "investigate", Attempt: 1,
		Time: time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.FixedZone("", 3600)), Data: []byte(`{ "text": "<!channel> \u0000" }`)}
}

func testJournal(t *testing.T, b *bench) {
	ctx := t.Context()
	woken, stop := b.WatchJournal("r1")
	if seq, hash, err := b.JournalHead(ctx, "r1"); seq != 0 || hash != "" || err != nil {
		t.Errorf("head of nothing: %d %q %v", seq, hash, err)
	}
	head, err := b.AppendJournal(ctx, "r1", newEntry("a"), newEntry("b"))
	if err != nil {
		t.Fatal(err)
	}
	wantWoken(t, woken)
	again, err := b.AppendJournal(ctx, "r1", newEntry("a"), newEntry("b"))
	if err != nil || again != head {
		t.Errorf("the same again: %q, %v, want %q", again, err, head)
	}
	select {
	case <-woken:
		t.Error("an append that added nothing woke the follower")
	default:
	}
	if _, err := b.AppendJournal(ctx, "r1", newEntry("b"), newEntry("c"), newEntry("c")); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := b.AppendJournal(ctx, "r2", nightcrier.JournalEntry{Key: "a", Type: nightcrier.EntryLog}); err != nil {
		t.Fatal(err)
	}
	list, err := b.Journal(ctx, "r1", 0, 0)
	if err != nil || len(list) != 3 {
		t.Fatalf("%d entries, %v", len(list), err)
	}
	wantChain(t, list)
	if seq, hash, err := b.JournalHead(ctx, "r1"); seq != 3 || hash != list[2].Hash || err != nil {
		t.Errorf("head %d %q %v", seq, hash, err)
	}
	if part, err := b.Journal(ctx, "r1", 2, 1); err != nil || len(part) != 1 || part[0].Key != "b" {
		t.Errorf("entry 2 alone: %+v, %v", part, err)
	}
	if other, err := b.Journal(ctx, "r2", 0, 0); err != nil || len(other) != 1 || string(other[0].Data) != "{}" {
		t.Errorf("the other run's: %+v, %v", other, err)
	}
}

// wantChain checks numbers and hashes, on the entries as JSON renders them.
func wantChain(t *testing.T, list []nightcrier.JournalEntry) {
	t.Helper()
	prev := ""
	for i, e := range list {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var read nightcrier.JournalEntry
		if err := json.Unmarshal(line, &read); err != nil {
			t.Fatal(err)
		}
		if read.Seq != int64(i+1) || read.Prev != prev || read.Hash != read.ChainHash(prev) {
			t.Fatalf("entry %d breaks the chain: %s", i+1, line)
		}
		prev = read.Hash
	}
}

func journalRefuses(t *testing.T, b *bench) {
	for name, change := range map[string]func(*nightcrier.JournalEntry){
		"no key":  func(e *nightcrier.JournalEntry) { e.Key = "" },
		"no type": func(e *nightcrier.JournalEntry) { e.Type = "" },
		"no JSON": func(e *nightcrier.JournalEntry) { e.Data = []byte(`{"a":`) },
	} {
		bad := newEntry("b")
		change(&bad)
		_, err := b.AppendJournal(t.Context(), "r", newEntry("a"), bad)
		if nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := b.Journal(t.Context(), "r", 0, 0); err != nil || len(list) != 0 {
		t.Errorf("half of a refused append was stored: %+v, %v", list, err)
	}
}

func testSuppress(t *testing.T, b *bench) {
	ctx := t.Context()
	ev := nightcrier.Event{ID: nightcrier.NewID(), Cluster: "prod\x00\xff", Reason: nightcrier.Malformed, Detail: "no \x00 JSON",
		Raw: []byte("\x00\xff" + strings.Repeat("x", 100_000))}
	for i := range 3 {
		if again, err := b.Suppress(ctx, ev); err != nil || again != (i > 0) {
			t.Fatal(again, err)
		}
	}
	yes, no := true, false
	list, _, err := b.Events(ctx, store.EventFilter{Suppressed: &yes, Reason: nightcrier.Malformed})
	if err != nil || len(list) != 1 || list[0].Outcome != nightcrier.Suppressed || list[0].Detail != ev.Detail || list[0].Repeats != 2 {
		t.Fatalf("suppressed events %+v, %v", list, err)
	}
	if _, err := json.Marshal(list[0]); err != nil {
		t.Errorf("the event cannot be shown: %v", err)
	}
	if n := len(list[0].Raw); n < 60_000 || n > 70_000 {
		t.Errorf("%d bytes of the payload were kept", n)
	}
	if list, _, err := b.Events(ctx, store.EventFilter{Suppressed: &no}); err != nil || len(list) != 0 {
		t.Errorf("other events %+v, %v", list, err)
	}
	_, err = b.Suppress(ctx, nightcrier.Event{ID: "x"})
	wantCode(t, err, nightcrier.Invalid)
	if d, err := b.Accept(ctx, ev, Policy()); err == nil {
		t.Errorf("an event without fingerprint was accepted: %+v", d)
	}
	if n := b.readCounts(t); n.Suppressed[nightcrier.Malformed] != 1 || n.Events[nightcrier.Suppressed] != 1 {
		t.Errorf("counts %+v", n)
	}
}

func testPrune(t *testing.T, b *bench) {
	ctx := t.Context()
	below := b.newEvent("prod", "cart", nightcrier.Info)
	below.Reason = nightcrier.BelowThreshold
	if _, err := b.Suppress(ctx, below); err != nil {
		t.Fatal(err)
	}
	b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy())
	run := b.investigateNext(t, nightcrier.Resolved)
	if _, err := b.AppendJournal(ctx, run.ID, newEntry("k")); err != nil {
		t.Fatal(err)
	}
	b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy()) // suppressed, of an incident
	if n, err := b.Prune(ctx, b.clock.Now()); n != 0 || err != nil {
		t.Errorf("pruned %d too early, %v", n, err)
	}
	journaled := func() int {
		list, err := b.Journal(ctx, run.ID, 1, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if journaled() != 1 {
		t.Error("the journal was pruned too early")
	}
	open := b.acceptEvent(t, b.newEvent("prod", "open", nightcrier.Warning), Policy())
	b.acceptEvent(t, b.newEvent("prod", "open", nightcrier.Warning), Policy()) // joins an open incident
	if n, err := b.Prune(ctx, b.clock.Now().Add(time.Second)); n != 2 || err != nil {
		t.Errorf("pruned %d, %v; want the event of no incident and the repeat of a closed one", n, err)
	}
	if journaled() != 0 {
		t.Error("the journal of a run that ended long ago is still there")
	}
	left, _, err := b.Events(ctx, store.EventFilter{})
	if err != nil || len(left) != 3 {
		t.Errorf("%d events are left, %v; want two that opened an incident and one of an open one", len(left), err)
	}
	if _, err := b.Incident(ctx, open.Incident.ID); err != nil {
		t.Error(err)
	}
}

// joinedPayloadsAreBounded: what opened an incident is kept whole, what repeats
// it is not.
func joinedPayloadsAreBounded(t *testing.T, b *bench) {
	for range 2 {
		ev := b.newEvent("prod", "cart", nightcrier.Warning)
		ev.Raw = json.RawMessage(`"` + strings.Repeat("x", 100<<10) + `"`)
		b.acceptEvent(t, ev, Policy())
	}
	list, _, err := b.Events(t.Context(), store.EventFilter{})
	if err != nil || len(list) != 2 {
		t.Fatal(len(list), err)
	}
	if joined, opened := len(list[0].Raw), len(list[1].Raw); joined > 17<<10 || opened < 100<<10 {
		t.Errorf("kept %d bytes of the repeat and %d of the first", joined, opened)
	}
}

func testLists(t *testing.T, b *bench) {
	ctx := t.Context()
	const n = 7
	for i := range n {
		b.acceptEvent(t, b.newEvent("prod", fmt.Sprint("w", i), nightcrier.Warning), Policy())
		if i%2 == 0 {
			b.clock.Advance(time.Second) // some share their time
		}
	}
	b.acceptEvent(t, b.newEvent("stage", "cart", nightcrier.Warning), Policy())
	var seen []string
	f := store.IncidentFilter{Cluster: "prod", Limit: 3}
	for page := 0; page == 0 || f.Cursor != ""; page++ {
		list, next, err := b.Incidents(ctx, f)
		if err != nil || len(list) > 3 || page > n {
			t.Fatalf("page %d: %d incidents, %v", page, len(list), err)
		}
		for _, inc := range list {
			seen = append(seen, inc.Resource.Name)
		}
		f.Cursor = next
	}
	want := []string{}
	for i := n - 1; i >= 0; i-- {
		want = append(want, fmt.Sprintf("w%d-7d9f8b6c5d-x2x9z", i))
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("three at a time:\n%s", diff)
	}
	b.admitRun(t)
	for _, tt := range []struct {
		f    store.IncidentFilter
		want int
	}{
		{store.IncidentFilter{}, n + 1},
		{store.IncidentFilter{Cluster: "stage"}, 1},
		{store.IncidentFilter{Cluster: "nowhere"}, 0},
		{store.IncidentFilter{Status: nightcrier.Pending}, n + 1},
		{store.IncidentFilter{Status: nightcrier.Resolved}, 0},
		{store.IncidentFilter{Since: b.clock.Now()}, 1},
		{store.IncidentFilter{Cluster: "x' OR '1'='1"}, 0},
	} {
		if list, _, err := b.Incidents(ctx, tt.f); err != nil || len(list) != tt.want {
			t.Errorf("%+v lists %d, %v, want %d", tt.f, len(list), err, tt.want)
		}
	}
	for _, bad := range []string{"x", "12", "1.2.3\x00'", "99999999999999999999.a"} {
		_, _, err := b.Incidents(ctx, store.IncidentFilter{Cursor: bad})
		if bad != "1.2.3\x00'" {
			wantCode(t, err, nightcrier.Invalid)
		} else if err != nil {
			t.Errorf("cursor %q: %v", bad, err)
		}
	}
	events, next, err := b.Events(ctx, store.EventFilter{Limit: 5})
	if err != nil || len(events) != 5 || next == "" {
		t.Fatalf("%d events, next %q, %v", len(events), next, err)
	}
	rest, next, err := b.Events(ctx, store.EventFilter{Cursor: next})
	if err != nil || len(rest) != n+1-5 || next != "" {
		t.Errorf("%d more events, next %q, %v", len(rest), next, err)
	}
	of, _, err := b.Events(ctx, store.EventFilter{IncidentID: events[0].IncidentID})
	if err != nil || len(of) != 1 {
		t.Errorf("%d events of one incident, %v", len(of), err)
	}
}

func notFound(t *testing.T, b *bench) {
	ctx := t.Context()
	for name, read := range map[string]func(string) error{
		"incident": func(id string) error { _, err := b.Incident(ctx, id); return err },
		"report":   func(id string) error { _, err := b.Report(ctx, id); return err },
		"event":    func(id string) error { _, err := b.Event(ctx, id); return err },
		"run":      func(id string) error { _, err := b.Run(ctx, id); return err },
		"begin":    func(id string) error { _, err := b.BeginRun(ctx, id); return err },
		"finish":   func(id string) error { return b.FinishRun(ctx, store.Finish{RunID: id, Status: nightcrier.Failed}) },
	} {
		for _, id := range []string{nightcrier.NewID(), "", "' OR 1=1 --"} {
			if err := read(id); nightcrier.CodeOf(err) != nightcrier.NotFound {
				t.Errorf("%s %q: %v", name, id, err)
			}
		}
	}
}

func manyEvents(t *testing.T, b *bench) {
	first := b.newEvent("prod", "cart", nightcrier.Warning)
	b.acceptEvent(t, first, Policy())
	var last store.Decision
	for range 105 {
		b.clock.Advance(time.Millisecond)
		last = b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy())
	}
	inc := last.Incident
	if inc.EventCount != 106 || len(inc.EventIDs) != 101 || inc.EventIDs[0] != first.ID || inc.EventIDs[100] != last.EventID {
		t.Errorf("%d events counted, %d ids kept", inc.EventCount, len(inc.EventIDs))
	}
}

func testNotifications(t *testing.T, b *bench) {
	ctx := t.Context()
	n := store.Notification{IncidentID: "i1", RunID: "r1", Channel: "slack", Kind: "outcome", Key: "i1/outcome/1", Digest: "d"}
	if got, err := b.BeginNotification(ctx, n); got != (store.Begun{State: store.NotificationPending, Fresh: true, New: true}) || err != nil {
		t.Fatalf("begin: %+v %v", got, err)
	}
	if got, err := b.BeginNotification(ctx, n); got != (store.Begun{State: store.NotificationPending}) || err != nil {
		t.Errorf("begin again: %+v %v", got, err)
	}
	if list, err := b.PendingNotifications(ctx); err != nil || len(list) != 1 || list[0].Key != n.Key || list[0].ID == "" {
		t.Errorf("pending %+v, %v", list, err)
	}
	for _, step := range []struct {
		state store.NotificationState
		code  nightcrier.Code
	}{
		{store.NotificationUnknown, ""}, {store.NotificationSent, ""}, {store.NotificationSent, ""},
		{store.NotificationFailed, nightcrier.Conflict}, {store.NotificationPending, nightcrier.Invalid},
	} {
		wantCode(t, b.EndNotification(ctx, n.Key, step.state, "detail \x00"), step.code)
	}
	if got, err := b.BeginNotification(ctx, n); got != (store.Begun{State: store.NotificationSent}) || err != nil {
		t.Errorf("begin after it was sent: %+v %v", got, err)
	}
	wantCode(t, b.EndNotification(ctx, "nobody", store.NotificationSent, ""), nightcrier.NotFound)
	list, err := b.Notifications(ctx, "i1")
	if err != nil || len(list) != 1 || list[0].State != store.NotificationSent || list[0].EndedAt.IsZero() {
		t.Errorf("notifications %+v, %v", list, err)
	}
	if list, err := b.PendingNotifications(ctx); err != nil || len(list) != 0 {
		t.Errorf("still pending %+v, %v", list, err)
	}
	_, err = b.BeginNotification(ctx, store.Notification{})
	wantCode(t, err, nightcrier.Invalid)
}

func testPosts(t *testing.T, b *bench) {
	ctx, began := t.Context(), b.clock.Now()
	begin := func(want time.Time) {
		t.Helper()
		if earlier, err := b.BeginPost(ctx, "github/review 1"); err != nil || !earlier.Equal(want) {
			t.Errorf("one was begun at %v, %v; want %v", earlier, err, want)
		}
	}
	end := func(there bool) {
		t.Helper()
		if err := b.EndPost(ctx, "github/review 1", there, "detail"); err != nil {
			t.Error(err)
		}
	}
	begin(time.Time{})
	b.clock.Advance(time.Minute)
	begin(began) // whether it arrived is not known
	end(false)
	begin(time.Time{}) // it surely is not there
	began = b.clock.Now()
	b.clock.Advance(time.Minute)
	begin(began)
	end(true)
	if list, err := b.PendingNotifications(ctx); err != nil || len(list) != 0 {
		t.Errorf("still pending %+v, %v", list, err)
	}
	wantCode(t, b.EndPost(ctx, "nobody", true, ""), nightcrier.NotFound)
}

func testBreakers(t *testing.T, b *bench) {
	ctx := t.Context()
	want := store.BreakerState{Executor: "claude-code", Failures: 3, Open: true, Since: b.clock.Now(), LastError: "401"}
	for _, s := range []store.BreakerState{{Executor: "claude-code", Failures: 2}, want} {
		if err := b.SaveBreaker(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	list, err := b.Breakers(ctx)
	if diff := cmp.Diff([]store.BreakerState{want}, list); err != nil || diff != "" {
		t.Errorf("breakers (%v):\n%s", err, diff)
	}
}
