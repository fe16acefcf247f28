package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// oomOf is the cause that a Deployment is out of memory.
func oomOf(workload string) *nightcrier.RootCause {
	return &nightcrier.RootCause{Cause: "oom-killed", Object: nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: workload}, Summary: workload, Confidence: nightcrier.High}
}

// openAndBegin opens an incident of a workload and begins its run.
func (b *bench) openAndBegin(t *testing.T, workload string, s nightcrier.Severity) nightcrier.Run {
	t.Helper()
	ev := b.newEvent("prod", workload, s)
	ev.Source = "watch"
	return b.beginFor(t, ev)
}

// beginFor opens an incident of an event and begins its run.
func (b *bench) beginFor(t *testing.T, ev nightcrier.Event) nightcrier.Run {
	t.Helper()
	b.acceptEvent(t, ev, Policy())
	run, err := b.AdmitNext(t.Context(), store.Limits{Total: 50, PerKey: 50})
	if err != nil || run == nil {
		t.Fatalf("admit: %v, %v", run, err)
	}
	if _, err := b.BeginRun(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	return *run
}

// concludeRun ends a run with a report that comes to a cause, and returns its incident.
func (b *bench) concludeRun(t *testing.T, run nightcrier.Run, cause *nightcrier.RootCause) nightcrier.Incident {
	t.Helper()
	if err := b.FinishRun(t.Context(), store.Finish{RunID: run.ID, Status: nightcrier.Resolved, Report: []byte("{}"), Conclusion: cause}); err != nil {
		t.Fatal(err)
	}
	return b.readIncident(t, run.IncidentID())
}

func (b *bench) readIncident(t *testing.T, id string) nightcrier.Incident {
	t.Helper()
	inc, err := b.Incident(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return inc
}

// notifyIncident begins a message about an incident, ends it as sent if it is to be sent, and
// returns why it is not, "" for one that is.
func (b *bench) notifyIncident(t *testing.T, kind string, inc nightcrier.Incident, gist string) store.Unsaid {
	t.Helper()
	b.n++
	n := store.Notification{IncidentID: inc.ID, RunID: inc.RunID, Channel: "slack", Kind: kind, Key: fmt.Sprintf("slack:%s/%d", kind, b.n), Severity: inc.Severity, Gist: gist}
	got, err := b.BeginNotification(t.Context(), n)
	if err != nil || !got.New || got.Fresh == (got.Reason != "") {
		t.Fatalf("begin: %+v, %v", got, err)
	}
	b.clock.Advance(time.Millisecond)
	if !got.Fresh {
		if again, err := b.BeginNotification(t.Context(), n); err != nil || again.New || again.Fresh || again.Reason != got.Reason {
			t.Errorf("begun again: %+v, %v", again, err)
		}
		return got.Reason
	}
	if err := b.EndNotification(t.Context(), n.Key, store.NotificationSent, ""); err != nil {
		t.Fatal(err)
	}
	return ""
}

func wantTold(t *testing.T, what string, got, want store.Unsaid) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// toldAgain: another run of an incident that comes to what was told tells nothing; one
// that comes to something else does, and so does the next that comes to the first again.
func toldAgain(t *testing.T, b *bench) {
	inc := b.concludeRun(t, b.openAndBegin(t, "cart", nightcrier.Warning), nil)
	for i, c := range []struct {
		gist string
		want store.Unsaid
	}{{"a", ""}, {"a", store.SameOutcome}, {"b", ""}, {"b", store.SameOutcome}, {"a", ""}} {
		wantTold(t, fmt.Sprintf("%d", i), b.notifyIncident(t, store.OutcomeTold, inc, c.gist), c.want)
	}
	if n := b.readCounts(t); n.Notifications[store.NotificationSuppressed] != 2 || n.Notifications[store.NotificationSent] != 3 {
		t.Errorf("counted %v", n.Notifications)
	}
	list, err := b.Notifications(t.Context(), inc.ID)
	if err != nil || len(list) != 5 || list[1].State != store.NotificationSuppressed || list[1].Reason != store.SameOutcome || list[1].EndedAt.IsZero() {
		t.Errorf("listed %+v, %v", list, err)
	}
}

// riseTold: that an incident became more severe is news only to who knows of it, and
// once; what was too early is sent when its time has come.
func riseTold(t *testing.T, b *bench) {
	run := b.openAndBegin(t, "cart", nightcrier.Warning)
	low, high := b.readIncident(t, run.IncidentID()), b.readIncident(t, run.IncidentID())
	high.Severity = nightcrier.Critical
	early := store.Notification{IncidentID: high.ID, Channel: "slack", Kind: store.RiseTold, Key: "slack:rise/critical", Severity: high.Severity}
	if got, err := b.BeginNotification(t.Context(), early); err != nil || got.Reason != store.NotTold {
		t.Errorf("before anything was told: %+v, %v", got, err)
	}
	wantTold(t, "the outcome", b.notifyIncident(t, store.OutcomeTold, low, "a"), "")
	if got, err := b.BeginNotification(t.Context(), early); err != nil || !got.Fresh || got.New {
		t.Errorf("after it: %+v, %v", got, err)
	}
	wantTold(t, "twice", b.notifyIncident(t, store.RiseTold, high, ""), store.ToldAlready)
	other := b.concludeRun(t, b.openAndBegin(t, "web", nightcrier.Critical), nil)
	wantTold(t, "the outcome at its height", b.notifyIncident(t, store.OutcomeTold, other, "a"), "")
	wantTold(t, "which said so", b.notifyIncident(t, store.RiseTold, other, ""), store.ToldAlready)
}

// sameCauseTold: of incidents with one cause the first that is told is the only one,
// whichever is the root, unless another one is more severe.
func sameCauseTold(t *testing.T, b *bench) {
	first, second := b.openAndBegin(t, "ledger", nightcrier.Warning), b.openAndBegin(t, "web", nightcrier.Warning)
	b.clock.Advance(time.Second)
	third := b.openAndBegin(t, "front", nightcrier.Critical)
	late := b.concludeRun(t, second, oomOf("ledger"))
	wantTold(t, "the one that ended first", b.notifyIncident(t, store.OutcomeTold, late, "a"), "")
	wantTold(t, "the root", b.notifyIncident(t, store.OutcomeTold, b.concludeRun(t, first, oomOf("ledger")), "a"), store.SameCause)
	worse := b.concludeRun(t, third, oomOf("ledger"))
	if worse.CausedBy != first.IncidentID() {
		t.Errorf("the third was caused by %q", worse.CausedBy)
	}
	wantTold(t, "a worse one", b.notifyIncident(t, store.OutcomeTold, worse, "a"), "")
}

// sameCauseNotTold: a message that is still being sent, that failed, or that told what its
// incident no longer comes to, tells nobody of a cause.
func sameCauseNotTold(t *testing.T, b *bench) {
	begin := func(inc nightcrier.Incident, key, gist string) store.Begun {
		t.Helper()
		b.clock.Advance(time.Millisecond)
		got, err := b.BeginNotification(t.Context(), store.Notification{IncidentID: inc.ID, Channel: "slack", Kind: store.OutcomeTold, Key: key, Severity: inc.Severity, Gist: gist})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	root := b.concludeRun(t, b.openAndBegin(t, "ledger", nightcrier.Warning), nil)
	wantTold(t, "that the first run found nothing", b.notifyIncident(t, store.OutcomeTold, root, "nothing"), "")
	b.investigateAgain(t, root, oomOf("ledger"))
	if got := begin(root, "root", "oom"); !got.Fresh {
		t.Fatalf("the cause: %+v", got)
	}
	web := b.concludeRun(t, b.openAndBegin(t, "web", nightcrier.Warning), oomOf("ledger"))
	if got := begin(web, "web", "oom"); got.Reason != store.SameCause || !got.Unsettled {
		t.Errorf("while the first one is sent: %+v", got)
	}
	if err := b.EndNotification(t.Context(), "root", store.NotificationFailed, ""); err != nil {
		t.Fatal(err)
	}
	if got := begin(web, "web", "oom"); !got.Fresh || got.Unsettled {
		t.Errorf("once that has failed: %+v", got)
	}
	if err := b.EndNotification(t.Context(), "web", store.NotificationSent, ""); err != nil {
		t.Fatal(err)
	}
	front := b.concludeRun(t, b.openAndBegin(t, "front", nightcrier.Warning), oomOf("ledger"))
	if got := begin(front, "front", "oom"); got.Reason != store.SameCause || got.Unsettled {
		t.Errorf("once it was told: %+v", got)
	}
}

// doubtful begins a message about an incident, and leaves it so that nobody knows whether it
// arrived.
func (b *bench) doubtful(t *testing.T, kind, key string, inc nightcrier.Incident, gist string) {
	t.Helper()
	b.clock.Advance(time.Millisecond)
	n := store.Notification{IncidentID: inc.ID, RunID: inc.RunID, Channel: "slack", Kind: kind, Key: key, Severity: inc.Severity, Gist: gist}
	if got, err := b.BeginNotification(t.Context(), n); err != nil || !got.Fresh {
		t.Fatalf("begin %s: %+v, %v", key, got, err)
	}
	if err := b.EndNotification(t.Context(), key, store.NotificationUnknown, "the server ended"); err != nil {
		t.Fatal(err)
	}
	b.clock.Advance(time.Millisecond)
}

// toldInDoubt: a message that may not have arrived is not sent again, but makes no other one
// needless, and what goes on with it is told.
func toldInDoubt(t *testing.T, b *bench) {
	root := b.concludeRun(t, b.openAndBegin(t, "ledger", nightcrier.Warning), oomOf("ledger"))
	b.doubtful(t, store.OutcomeTold, "root", root, "oom")
	if got, err := b.BeginNotification(t.Context(), store.Notification{IncidentID: root.ID, Channel: "slack", Kind: store.OutcomeTold, Key: "root", Gist: "oom"}); err != nil || got.Fresh || got.State != store.NotificationUnknown {
		t.Errorf("the same message: %+v, %v", got, err)
	}
	web := b.concludeRun(t, b.openAndBegin(t, "web", nightcrier.Warning), oomOf("ledger"))
	wantTold(t, "another one of its cause", b.notifyIncident(t, store.OutcomeTold, web, "oom"), "")
	wantTold(t, "the same outcome of a retry", b.notifyIncident(t, store.OutcomeTold, root, "oom"), "")
	wantTold(t, "and of another one", b.notifyIncident(t, store.OutcomeTold, root, "oom"), store.SameOutcome)

	cart := b.concludeRun(t, b.openAndBegin(t, "cart", nightcrier.Warning), nil)
	b.doubtful(t, store.OutcomeTold, "cart", cart, "a")
	wantTold(t, "that it is over", b.notifyIncident(t, store.OverTold, cart, ""), "")
	cart.Severity = nightcrier.Critical
	wantTold(t, "that it became worse", b.notifyIncident(t, store.RiseTold, cart, ""), "")
}

// toldByHand: what failed or is in doubt is begun anew when somebody asks for it, once at a
// time; the first record stays as it was.
func toldByHand(t *testing.T, b *bench) {
	inc := b.concludeRun(t, b.openAndBegin(t, "cart", nightcrier.Warning), nil)
	renew := func() ([]store.Notification, error) {
		b.clock.Advance(time.Millisecond)
		return b.RenewNotifications(t.Context(), inc.ID)
	}
	_, err := renew()
	wantCode(t, err, nightcrier.Conflict) // nothing was to be told yet
	b.doubtful(t, store.OutcomeTold, "slack:outcome/1", inc, "a")
	wantTold(t, "that it is over", b.notifyIncident(t, store.OverTold, inc, ""), "")
	key := ""
	for _, end := range []store.NotificationState{store.NotificationFailed, store.NotificationUnknown, store.NotificationSent} {
		list, err := renew()
		if err != nil || len(list) != 1 || list[0].Kind != store.OutcomeTold || list[0].State != store.NotificationPending || list[0].RunID != inc.RunID || list[0].Key == key {
			t.Fatalf("renewed: %+v, %v", list, err)
		}
		key = list[0].Key
		_, err = renew() // while it is being sent
		wantCode(t, err, nightcrier.Conflict)
		if left, err := b.PendingNotifications(t.Context()); err != nil || len(left) != 1 || left[0].Key != key {
			t.Errorf("what a crash would leave: %+v, %v", left, err)
		}
		if err := b.EndNotification(t.Context(), key, end, ""); err != nil {
			t.Fatal(err)
		}
	}
	_, err = renew()
	wantCode(t, err, nightcrier.Conflict) // it has arrived
	list, err := b.Notifications(t.Context(), inc.ID)
	if err != nil || len(list) != 5 || list[0].State != store.NotificationUnknown {
		t.Errorf("listed %+v, %v", list, err)
	}
	wantTold(t, "the same outcome", b.notifyIncident(t, store.OutcomeTold, inc, "a"), store.SameOutcome)
}

// causeLinks: who comes to the cause of another incident of the cluster was caused by it.
func causeLinks(t *testing.T, b *bench) {
	root := b.concludeRun(t, b.openAndBegin(t, "ledger", nightcrier.Warning), oomOf("ledger"))
	for _, workload := range []string{"web", "front"} {
		b.clock.Advance(time.Minute)
		inc := b.concludeRun(t, b.openAndBegin(t, workload, nightcrier.Critical), oomOf("ledger"))
		if inc.CausedBy != root.ID {
			t.Errorf("%s was caused by %q, not by %s", workload, inc.CausedBy, root.ID)
		}
	}
	list, _, err := b.Incidents(t.Context(), store.IncidentFilter{CausedBy: root.ID})
	if err != nil || len(list) != 2 || list[0].Owner.Name != "front" {
		t.Errorf("caused %+v, %v", list, err)
	}
	if got := b.readIncident(t, root.ID); got.CausedBy != "" {
		t.Errorf("the root was caused by %q", got.CausedBy)
	}
}

// olderIsTheRoot: of two that are investigated at a time the older one is the root,
// also when it ends last, and then of all that hung on the other.
func olderIsTheRoot(t *testing.T, b *bench) {
	old := b.openAndBegin(t, "ledger", nightcrier.Warning)
	b.clock.Advance(time.Second)
	young := b.openAndBegin(t, "web", nightcrier.Warning)
	b.clock.Advance(time.Second)
	youngest := b.openAndBegin(t, "front", nightcrier.Warning)
	for _, run := range []nightcrier.Run{young, youngest, old} {
		b.concludeRun(t, run, oomOf("ledger"))
	}
	for _, run := range []nightcrier.Run{young, youngest} {
		if inc := b.readIncident(t, run.IncidentID()); inc.CausedBy != old.IncidentID() {
			t.Errorf("%s was caused by %q, not by %s", inc.Owner.Name, inc.CausedBy, old.IncidentID())
		}
	}
	if inc := b.readIncident(t, old.IncidentID()); inc.CausedBy != "" {
		t.Errorf("the oldest was caused by %q", inc.CausedBy)
	}
}

// notRelated: another cause, another cluster, none at all, the same fault again, long
// after, or after it was told that the root is over.
func notRelated(t *testing.T, b *bench) {
	root := b.concludeRun(t, b.openAndBegin(t, "ledger", nightcrier.Warning), oomOf("ledger"))
	unrelated := func(what string, inc nightcrier.Incident) {
		t.Helper()
		if inc.CausedBy != "" {
			t.Errorf("%s: caused by %s", what, inc.CausedBy)
		}
	}
	unrelated("another object", b.concludeRun(t, b.openAndBegin(t, "a", nightcrier.Warning), oomOf("a")))
	unrelated("no cause", b.concludeRun(t, b.openAndBegin(t, "b", nightcrier.Warning), nil))
	for about, of := range map[string]nightcrier.Resource{
		"about nothing": {}, "an alert that names no object": {Kind: nightcrier.AlertKind, Namespace: "shop", Name: "ErrorBudgetBurn"},
	} {
		ev := b.newEvent("prod", of.Name, nightcrier.Warning)
		ev.Resource, ev.Owner = of, of
		unrelated(about, b.concludeRun(t, b.beginFor(t, ev), oomOf("ledger")))
	}
	unrelated("another cluster", b.concludeRun(t, b.beginFor(t, b.newEvent("stage", "web", nightcrier.Warning)), oomOf("ledger")))
	b.clock.Advance(10 * time.Minute)
	again := b.openAndBegin(t, "ledger", nightcrier.Critical) // it got worse
	if again.IncidentID() == root.ID {
		t.Fatal("no other incident was opened")
	}
	unrelated("the same fault again", b.concludeRun(t, again, oomOf("ledger")))
	b.clearFault(t, "ledger")
	if err := b.NoteOver(t.Context(), again.IncidentID()); err != nil {
		t.Fatal(err)
	}
	fresh := b.concludeRun(t, b.openAndBegin(t, "web", nightcrier.Warning), oomOf("ledger"))
	unrelated("after the root was over", fresh)
	b.clock.Advance(2 * time.Hour)
	unrelated("long after", b.concludeRun(t, b.openAndBegin(t, "front", nightcrier.Warning), oomOf("ledger")))
}

// causeChanges: who comes to something else than before is caused by nobody, and
// nothing hangs on it.
func causeChanges(t *testing.T, b *bench) {
	root := b.concludeRun(t, b.openAndBegin(t, "ledger", nightcrier.Warning), oomOf("ledger"))
	web := b.concludeRun(t, b.openAndBegin(t, "web", nightcrier.Warning), oomOf("ledger"))
	for _, c := range []struct {
		of    nightcrier.Incident
		cause *nightcrier.RootCause
		want  string
	}{{web, oomOf("web"), ""}, {web, oomOf("ledger"), root.ID}, {root, oomOf("ledger"), root.ID}, {root, oomOf("web"), ""}} {
		b.investigateAgain(t, c.of, c.cause)
		if got := b.readIncident(t, web.ID); got.CausedBy != c.want {
			t.Errorf("web was caused by %q, want %q", got.CausedBy, c.want)
		}
	}
}

// investigateAgain investigates a closed incident once more.
func (b *bench) investigateAgain(t *testing.T, inc nightcrier.Incident, cause *nightcrier.RootCause) {
	t.Helper()
	if _, err := b.Retry(t.Context(), inc.ID, ""); err != nil {
		t.Fatal(err)
	}
	run := b.admitRun(t)
	if _, err := b.BeginRun(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	b.concludeRun(t, run, cause)
}

// causesAtOnce: many that end at a time have one root, and one of them is told.
func causesAtOnce(t *testing.T, b *bench) {
	var runs []nightcrier.Run
	for i := range 12 {
		runs = append(runs, b.openAndBegin(t, fmt.Sprintf("w%d", i), nightcrier.Warning))
	}
	var all sync.WaitGroup
	fresh := make(chan bool, len(runs))
	for _, run := range runs {
		all.Go(func() {
			err := b.FinishRun(t.Context(), store.Finish{RunID: run.ID, Status: nightcrier.Resolved, Report: []byte("{}"), Conclusion: oomOf("ledger")})
			got, begun := b.BeginNotification(t.Context(), store.Notification{IncidentID: run.IncidentID(), Channel: "slack", Kind: store.OutcomeTold, Key: "slack:" + run.ID, Severity: nightcrier.Warning, Gist: "a"})
			if err != nil || begun != nil {
				t.Errorf("%v, %v", err, begun)
			}
			fresh <- got.Fresh
		})
	}
	all.Wait()
	close(fresh)
	sent, caused := 0, 0
	for f := range fresh {
		if f {
			sent++
		}
	}
	for _, run := range runs {
		if b.readIncident(t, run.IncidentID()).CausedBy != "" {
			caused++
		}
	}
	if caused != len(runs)-1 || sent != 1 {
		t.Errorf("%d of %d were caused by another, %d were told", caused, len(runs), sent)
	}
	if err := Invariants(t.Context(), b.Store); err != nil {
		t.Error(err)
	}
}

// clearFault makes the watch say that the fault of a workload is over.
func (b *bench) clearFault(t *testing.T, workload string) {
	t.Helper()
	ev := b.newEvent("prod", workload, nightcrier.Warning)
	ev.Source, ev.Cleared = "watch", true
	b.acceptEvent(t, ev, Policy())
}

// wantOver compares what is over and not told yet.
func (b *bench) wantOver(t *testing.T, what string, want ...string) {
	t.Helper()
	list, err := b.Over(t.Context(), Policy().DedupeWindow)
	var got []string
	for _, inc := range list {
		got = append(got, inc.Owner.Name)
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: over are %v, %v, want %v", what, got, err, want)
	}
}

// overTold: what was over for as long as it could come back is told, once; not while
// it is still investigated, and not where its outcome was not told.
func overTold(t *testing.T, b *bench) {
	window := Policy().DedupeWindow
	cart := b.concludeRun(t, b.openAndBegin(t, "cart", nightcrier.Warning), nil)
	wantTold(t, "the outcome", b.notifyIncident(t, store.OutcomeTold, cart, "a"), "")
	open := b.openAndBegin(t, "web", nightcrier.Warning)
	b.clearFault(t, "cart")
	b.clearFault(t, "web")
	b.clock.Advance(window - time.Second)
	b.wantOver(t, "too early")
	b.clock.Advance(time.Second)
	b.wantOver(t, "one is still investigated", "cart")
	cart = b.readIncident(t, cart.ID)
	wantTold(t, "that it is over", b.notifyIncident(t, store.OverTold, cart, ""), "")
	if err := b.NoteOver(t.Context(), cart.ID); err != nil {
		t.Fatal(err)
	}
	web := b.concludeRun(t, open, nil)
	b.wantOver(t, "the other one", "web")
	wantTold(t, "of what nobody heard", b.notifyIncident(t, store.OverTold, web, ""), store.NotTold)
	if err := b.NoteOver(t.Context(), web.ID); err != nil {
		t.Fatal(err)
	}
	b.wantOver(t, "all is told")
}

// overFlaps: what comes and goes within the window is over when it stays away.
func overFlaps(t *testing.T, b *bench) {
	window := Policy().DedupeWindow
	b.concludeRun(t, b.openAndBegin(t, "cart", nightcrier.Warning), nil)
	for range 3 {
		b.clearFault(t, "cart")
		b.clock.Advance(window - time.Second)
		b.wantOver(t, "over for a moment")
		ev := b.newEvent("prod", "cart", nightcrier.Warning)
		ev.Source = "watch"
		if d := b.acceptEvent(t, ev, Policy()); d.NewIncident {
			t.Fatalf("another incident: %+v", d)
		}
		b.clock.Advance(2 * window)
		b.wantOver(t, "back again")
	}
	b.clearFault(t, "cart")
	b.clock.Advance(window)
	b.wantOver(t, "over for good", "cart")
	b.openAndBegin(t, "cart", nightcrier.Warning)
	b.wantOver(t, "back as another incident before anybody was told")
}

// overWithItsCause: nothing is over while another incident of its cause is not.
func overWithItsCause(t *testing.T, b *bench) {
	window := Policy().DedupeWindow
	b.concludeRun(t, b.openAndBegin(t, "ledger", nightcrier.Warning), oomOf("ledger"))
	b.concludeRun(t, b.openAndBegin(t, "web", nightcrier.Warning), oomOf("ledger"))
	b.concludeRun(t, b.openAndBegin(t, "front", nightcrier.Warning), oomOf("ledger"))
	b.concludeRun(t, b.openAndBegin(t, "other", nightcrier.Warning), oomOf("other"))
	for _, workload := range []string{"ledger", "web"} {
		b.clearFault(t, workload)
		b.clock.Advance(window)
		b.wantOver(t, workload+" alone")
	}
	b.clearFault(t, "front")
	b.clock.Advance(window)
	b.wantOver(t, "all", "ledger", "web", "front")
}
