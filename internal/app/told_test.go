package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/notify"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run"
)

// channel takes messages in Slack's place.
type channel struct {
	mu    sync.Mutex
	texts []string
	// verdict is what becomes of the next ones.
	verdict notify.Verdict
}

func (c *channel) Name() string { return "slack" }

func (c *channel) Send(_ context.Context, m notify.Message) notify.Attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.texts = append(c.texts, string(m.Run.Outcome)+" "+m.Run.Text)
	return notify.Attempt{Verdict: c.verdict}
}

func (c *channel) sent() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.texts)
}

// ended is a server whose pipeline tells of its runs, and the order of one that has ended well.
func ended(t *testing.T, c *channel) (*App, run.Order) {
	t.Helper()
	dir := t.TempDir()
	file := "name: p\nnotifications: [{channel: slack, text: '\"for \" + input.app'}]\nsteps:\n  - skill: dev/walker\n"
	if err := os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	a := callee(t, dir, time.Now)
	t.Cleanup(func() { a.store.Close() })
	quiet := slog.New(slog.DiscardHandler)
	a.notifier = notify.New(notify.Config{Channels: []notify.Channel{c}, Outbox: a.store, Logger: quiet})
	r, err := a.StartRun(t.Context(), api.Call{Pipeline: "p", Input: []byte(`{"app":"shop"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.store.AdmitNext(t.Context(), store.Limits{Total: 1, PerKey: 1}); err != nil {
		t.Fatal(err)
	}
	if err := a.store.FinishRun(t.Context(), store.Finish{RunID: r.ID, Outcome: nightcrier.StateSuccess}); err != nil {
		t.Fatal(err)
	}
	o := run.Order{RunID: r.ID}
	if o.Pipeline, err = a.pipelines.Library().Freeze("p", a); err != nil {
		t.Fatal(err)
	}
	return a, o
}

// wantStates takes the states of the messages about a run.
func wantStates(t *testing.T, a *App, id string, want ...store.NotificationState) {
	t.Helper()
	list, err := a.store.Notifications(t.Context(), id)
	var got []store.NotificationState
	for _, n := range list {
		got = append(got, n.State)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the messages are %q, want %q; %v", got, want, err)
	}
}

// A run is told once, also when its last step is done again. What may have arrived before a crash is
// not sent again, unless somebody asks for it.
func TestRunsAreToldOnce(t *testing.T) {
	var c channel
	a, o := ended(t, &c)
	for range 2 {
		if err := (supervisor{a.Investigator}).Tell(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.sent(); !slices.Equal(got, []string{"success for shop"}) {
		t.Errorf("sent %q", got)
	}
	wantStates(t, a, o.RunID, store.NotificationSent)
	if _, err := a.TellAgain(t.Context(), o.RunID); nightcrier.CodeOf(err) != nightcrier.Conflict {
		t.Errorf("what has arrived is sent again: %v", err)
	}
	if _, err := a.TellAgain(t.Context(), nightcrier.NewID()); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("of no run: %v", err)
	}
}

func TestAfterACrashARunIsNotToldTwice(t *testing.T) {
	var c channel
	a, o := ended(t, &c)
	in := store.Notification{Key: "slack:run_ended/" + o.RunID, Channel: "slack", Kind: string(notify.RunEnded), RunID: o.RunID}
	if b, err := a.store.BeginNotification(t.Context(), in); err != nil || !b.Fresh { // and there the server dies
		t.Fatal(b, err)
	}
	if err := a.notifier.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := (supervisor{a.Investigator}).Tell(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if got := c.sent(); got != nil {
		t.Errorf("sent again: %q", got)
	}
	wantStates(t, a, o.RunID, store.NotificationUnknown)
	if list, err := a.TellAgain(t.Context(), o.RunID); err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	a.housekeeper.wg.Wait()
	if got := c.sent(); !slices.Equal(got, []string{"success for shop"}) {
		t.Errorf("sent %q", got)
	}
	wantStates(t, a, o.RunID, store.NotificationUnknown, store.NotificationSent)
}

// A channel that refuses the message changes nothing of the run.
func TestAFailedMessageFailsNoRun(t *testing.T) {
	c := channel{verdict: notify.Refused}
	a, o := ended(t, &c)
	if err := (supervisor{a.Investigator}).Tell(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	wantStates(t, a, o.RunID, store.NotificationFailed)
	if r, err := a.store.Run(t.Context(), o.RunID); err != nil || r.Outcome != nightcrier.StateSuccess {
		t.Errorf("%+v, %v", r, err)
	}
}

// A run that was dropped by a server that died before it told of it is told by the next, once.
func TestWhatWasDroppedIsTold(t *testing.T) {
	var c channel
	a, _ := ended(t, &c)
	n := store.NewRun{Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: "1"}, Pipeline: "p", Input: []byte(`{"app":"till"}`), QueueMax: 1}
	if _, err := a.store.EnqueueRun(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	e, err := a.store.EnqueueRun(t.Context(), n)
	if err != nil || e.Run.Status != nightcrier.Dropped {
		t.Fatal(e, err)
	}
	for range 2 {
		if err := a.tellDroppedBefore(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.sent(); !slices.Equal(got, []string{" for till"}) {
		t.Errorf("sent %q", got)
	}
	wantStates(t, a, e.Run.ID, store.NotificationSent)
}
