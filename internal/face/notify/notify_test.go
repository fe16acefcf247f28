package notify

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// fakeOutbox keeps intents in memory and can fail like a full disk.
type fakeOutbox struct {
	state map[string]store.NotificationState
	order []store.Notification
	fail  error
	// unsaid is why everything is suppressed, "" for nothing, and unsettled how often yet
	// that is so only because another message is still being sent.
	unsaid    store.Unsaid
	unsettled int
	mu        sync.Mutex // held while a message begins, or these change
}

func newOutbox() *fakeOutbox { return &fakeOutbox{state: map[string]store.NotificationState{}} }

func (o *fakeOutbox) BeginNotification(_ context.Context, in store.Notification) (store.Begun, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fail != nil {
		return store.Begun{}, o.fail
	}
	if s, ok := o.state[in.Key]; ok && o.unsettled > 0 {
		o.unsettled--
		return store.Begun{State: s, Reason: o.unsaid, Unsettled: true}, nil
	} else if ok && s == store.NotificationSuppressed && o.unsaid == "" {
		o.state[in.Key] = store.NotificationPending
		return store.Begun{State: store.NotificationPending, Fresh: true}, nil
	} else if ok {
		return store.Begun{State: s}, nil
	}
	o.order = append(o.order, in)
	if o.unsaid != "" {
		o.state[in.Key] = store.NotificationSuppressed
		return store.Begun{State: store.NotificationSuppressed, Reason: o.unsaid, New: true, Unsettled: o.unsettled > 0}, nil
	}
	o.state[in.Key] = store.NotificationPending
	return store.Begun{State: store.NotificationPending, Fresh: true, New: true}, nil
}

func (o *fakeOutbox) EndNotification(ctx context.Context, key string, s store.NotificationState, _ string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	o.state[key] = s
	return o.fail
}

func (o *fakeOutbox) PendingNotifications(context.Context) ([]store.Notification, error) {
	var left []store.Notification
	for _, in := range o.order {
		if o.state[in.Key] == store.NotificationPending {
			left = append(left, in)
		}
	}
	return left, o.fail
}

// script is a channel that answers from a list, then accepts.
type script struct {
	answers []Attempt
	sentAt  []time.Time
	onSend  func()
}

func (s *script) Name() string { return "script" }

func (s *script) Send(context.Context, Message) Attempt {
	s.sentAt = append(s.sentAt, time.Now())
	if s.onSend != nil {
		s.onSend()
	}
	if len(s.answers) == 0 {
		return Attempt{Verdict: Accepted}
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a
}

func notifier(box *fakeOutbox, ch Channel) *Notifier {
	return New(Config{Channels: []Channel{ch}, Outbox: box, Logger: slog.New(slog.DiscardHandler)})
}

var outcome = OutcomeOf(nightcrier.Incident{ID: "i-1"}, "r-1", nil, "")

const outcomeKey = "script:outcome/r-1"

func TestVerdictsBecomeStates(t *testing.T) {
	later := Attempt{Verdict: Deferred, Detail: "503"}
	for name, c := range map[string]struct {
		answers []Attempt
		want    store.NotificationState
		sends   int
	}{
		"accepted":       {nil, store.NotificationSent, 1},
		"refused":        {[]Attempt{{Verdict: Refused}}, store.NotificationFailed, 1},
		"lost":           {[]Attempt{{Verdict: Lost}}, store.NotificationUnknown, 1},
		"later accepted": {[]Attempt{later, later}, store.NotificationSent, 3},
		"later lost":     {[]Attempt{later, {Verdict: Lost}}, store.NotificationUnknown, 2},
		"never":          {slices.Repeat([]Attempt{later}, maxAttempts+1), store.NotificationFailed, maxAttempts},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box, ch := newOutbox(), &script{answers: c.answers}
				if err := notifier(box, ch).Notify(t.Context(), outcome); err != nil {
					t.Fatal(err)
				}
				if box.state[outcomeKey] != c.want || len(ch.sentAt) != c.sends {
					t.Errorf("%s after %d sends, want %s after %d", box.state[outcomeKey], len(ch.sentAt), c.want, c.sends)
				}
			})
		})
	}
}

func TestSentOnce(t *testing.T) {
	for prev, want := range map[store.NotificationState]store.NotificationState{
		store.NotificationSent: store.NotificationSent, store.NotificationUnknown: store.NotificationUnknown,
		// Whoever began it left no result: it may have arrived.
		store.NotificationPending: store.NotificationUnknown,
	} {
		box, ch := newOutbox(), &script{}
		box.state[outcomeKey] = prev
		if err := notifier(box, ch).Notify(t.Context(), outcome); err != nil {
			t.Fatal(err)
		}
		if len(ch.sentAt) != 0 || box.state[outcomeKey] != want {
			t.Errorf("recorded as %s: sent %d times, now %s; want none and %s", prev, len(ch.sentAt), box.state[outcomeKey], want)
		}
	}
}

func TestFailedIsTriedAgainWhenAskedAFewTimes(t *testing.T) {
	box := newOutbox()
	refused := Attempt{Verdict: Refused}
	ch := &script{answers: []Attempt{refused, refused, refused, refused, refused}}
	for range 2 * maxRounds {
		if err := notifier(box, ch).Notify(t.Context(), outcome); err != nil {
			t.Fatal(err)
		}
	}
	if len(ch.sentAt) != maxRounds {
		t.Errorf("sent %d times, want %d", len(ch.sentAt), maxRounds)
	}
	box, ch = newOutbox(), &script{answers: []Attempt{refused}}
	for range 3 {
		if err := notifier(box, ch).Notify(t.Context(), outcome); err != nil {
			t.Fatal(err)
		}
	}
	if len(ch.sentAt) != 2 || box.state[outcomeKey+"#2"] != store.NotificationSent {
		t.Errorf("sent %d times, %v", len(ch.sentAt), box.state)
	}
}

func TestWaitsAsAskedWithinABound(t *testing.T) {
	for asked, most := range map[time.Duration]time.Duration{7 * time.Second: 7 * time.Second, 24 * time.Hour: maxWait} {
		synctest.Test(t, func(t *testing.T) {
			ch := &script{answers: []Attempt{{Verdict: Deferred, Wait: asked}}}
			if err := notifier(newOutbox(), ch).Notify(t.Context(), outcome); err != nil {
				t.Fatal(err)
			}
			if got := ch.sentAt[1].Sub(ch.sentAt[0]); got != most {
				t.Errorf("asked for %s: waited %s, want %s", asked, got, most)
			}
		})
	}
}

// An outage is told when it begins, once a message, and not only at its end.
func TestAnOutageIsLoggedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ch := &script{answers: []Attempt{{Verdict: Deferred, Detail: "connection refused"}, {Verdict: Deferred}, {Verdict: Deferred}}}
		atSecondTry := ""
		ch.onSend = func() {
			if len(ch.sentAt) == 2 {
				atSecondTry = log.String()
			}
		}
		n := New(Config{Channels: []Channel{ch}, Outbox: newOutbox(), Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		if err := n.Notify(t.Context(), outcome); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(atSecondTry, `"level":"WARN"`) || !strings.Contains(atSecondTry, "connection refused") {
			t.Errorf("before the second try only this was logged: %q", atSecondTry)
		}
		if got := strings.Count(log.String(), "notification_deferred"); got != 1 {
			t.Errorf("told %d times:\n%s", got, log.String())
		}
	})
}

func TestStopWhileWaitingLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		box := newOutbox()
		ch := &script{answers: []Attempt{{Verdict: Deferred}}, onSend: cancel}
		if err := notifier(box, ch).Notify(ctx, outcome); nightcrier.CodeOf(err) != nightcrier.Interrupted {
			t.Errorf("%v", err)
		}
		if box.state[outcomeKey] != store.NotificationFailed {
			t.Errorf("state %s; a wait that was cut short surely delivered nothing", box.state[outcomeKey])
		}
		if err := notifier(box, ch).Notify(t.Context(), outcome); err != nil || len(ch.sentAt) != 2 {
			t.Errorf("the next server does not send it: %v, %d sends", err, len(ch.sentAt))
		}
	})
}

// A message whose cause another one is telling waits for what becomes of that one.
func TestWaitsForTheOtherMessageOfTheCause(t *testing.T) {
	for name, arrives := range map[string]bool{"it arrives": true, "it fails": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box, ch := newOutbox(), &script{}
				box.unsaid, box.unsettled = store.SameCause, 3
				time.AfterFunc(settleEvery+time.Second, func() {
					box.mu.Lock()
					defer box.mu.Unlock()
					if box.unsettled = 0; !arrives {
						box.unsaid = ""
					}
				})
				if err := notifier(box, ch).Notify(t.Context(), outcome); err != nil {
					t.Fatal(err)
				}
				if told := len(ch.sentAt) == 1; told == arrives {
					t.Errorf("sent %d times", len(ch.sentAt))
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				box, ch = newOutbox(), &script{}
				box.unsaid, box.unsettled = store.SameCause, 3
				if err := notifier(box, ch).Notify(ctx, outcome); nightcrier.CodeOf(err) != nightcrier.Interrupted {
					t.Errorf("stopped while it waits: %v", err)
				}
			})
		})
	}
}

func TestRecoverClosesWhatACrashLeft(t *testing.T) {
	box, ch := newOutbox(), &script{}
	box.BeginNotification(t.Context(), store.Notification{Key: outcomeKey, Channel: "script", Kind: string(Outcome)})
	n := notifier(box, ch)
	if err := n.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.Notify(t.Context(), outcome); err != nil {
		t.Fatal(err)
	}
	if box.state[outcomeKey] != store.NotificationUnknown || len(ch.sentAt) != 0 {
		t.Errorf("state %s, sent %d times; want unknown and never sent again", box.state[outcomeKey], len(ch.sentAt))
	}
}

func TestNothingIsSentWithoutARecord(t *testing.T) {
	box, ch := newOutbox(), &script{}
	box.fail = nightcrier.Errorf(nightcrier.Exhausted, "disk is full")
	err := notifier(box, ch).Notify(t.Context(), outcome)
	if nightcrier.CodeOf(err) != nightcrier.Exhausted || len(ch.sentAt) != 0 {
		t.Errorf("err %v, sent %d times", err, len(ch.sentAt))
	}
}

func TestNoChannelsTouchNothing(t *testing.T) {
	n := New(Config{Outbox: &fakeOutbox{fail: errors.New("must not be called")}, Logger: slog.New(slog.DiscardHandler)})
	if err := errors.Join(n.Recover(t.Context()), n.Notify(t.Context(), outcome)); err != nil {
		t.Error(err)
	}
}

func TestKeysTellOutagesAndRunsApart(t *testing.T) {
	at := time.Unix(0, 0)
	keys := map[string]bool{}
	for _, m := range []Message{
		outcome, OutcomeOf(nightcrier.Incident{ID: "i-1"}, "r-2", nil, ""),
		RiseOf(nightcrier.Incident{ID: "i-1", Severity: nightcrier.Critical}, nightcrier.Warning, ""),
		RiseOf(nightcrier.Incident{ID: "i-1", Severity: nightcrier.ErrorSeverity}, nightcrier.Warning, ""),
		StormOf(Storm{ID: "s-1"}, ""),
		BreakerOf(Breaker{Executor: "x", Since: at}, true), BreakerOf(Breaker{Executor: "x", Since: at}, false),
		BreakerOf(Breaker{Executor: "x", Since: at.Add(time.Hour)}, true),
		BudgetOf(Budget{Day: "2026-11-23"}), BudgetOf(Budget{Day: "2026-11-23", Cluster: "c"}), BudgetOf(Budget{Day: "2026-11-24"}),
	} {
		if keys[m.Key] {
			t.Errorf("key %s is used twice", m.Key)
		}
		keys[m.Key] = true
	}
}

// What people need not be told is recorded, counted once, and not sent.
func TestSuppressedIsCountedOnce(t *testing.T) {
	box, ch := newOutbox(), &script{}
	box.unsaid = store.SameCause
	counted := map[store.NotificationState]int{}
	n := New(Config{Channels: []Channel{ch}, Outbox: box, Logger: slog.New(slog.DiscardHandler), Ended: func(_ string, _ Kind, s store.NotificationState) { counted[s]++ }})
	for range 3 {
		if err := n.Notify(t.Context(), outcome); err != nil {
			t.Fatal(err)
		}
	}
	if len(ch.sentAt) != 0 || counted[store.NotificationSuppressed] != 1 || len(counted) != 1 {
		t.Errorf("%d sent, counted %v", len(ch.sentAt), counted)
	}
}

// Two outcomes have one gist when they tell the same, in whatever words.
func TestGist(t *testing.T) {
	told := func(change func(*nightcrier.Incident, *nightcrier.Report)) string {
		inc := nightcrier.Incident{ID: "i", Status: nightcrier.Resolved}
		rep := nightcrier.Report{Verdict: nightcrier.VerdictFault, RootCause: &nightcrier.RootCause{Cause: "oom-killed", Object: nightcrier.Object{Kind: "Deployment", Name: "cart"}}}
		change(&inc, &rep)
		return OutcomeOf(inc, "r", &rep, "").outcomeGist()
	}
	first := told(func(*nightcrier.Incident, *nightcrier.Report) {})
	for name, c := range map[string]struct {
		change func(*nightcrier.Incident, *nightcrier.Report)
		same   bool
	}{
		"other words":    {func(i *nightcrier.Incident, r *nightcrier.Report) { i.RunID, r.RootCause.Summary = "r2", "other words" }, true},
		"another object": {func(_ *nightcrier.Incident, r *nightcrier.Report) { r.RootCause.Object.Name = "web" }, false},
		"another cause":  {func(_ *nightcrier.Incident, r *nightcrier.Report) { r.RootCause.Cause = "crash" }, false},
		"no cause":       {func(_ *nightcrier.Incident, r *nightcrier.Report) { r.RootCause = nil }, false},
		"recovered":      {func(_ *nightcrier.Incident, r *nightcrier.Report) { r.Verdict = nightcrier.VerdictRecovered }, false},
		"failed":         {func(i *nightcrier.Incident, _ *nightcrier.Report) { i.Status = nightcrier.Failed }, false},
	} {
		if (told(c.change) == first) != c.same {
			t.Errorf("%s: the same: %t", name, !c.same)
		}
	}
}

// TestOutboxOfTheStore goes through a crash with the real record.
func TestOutboxOfTheStore(t *testing.T) {
	box, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "n.db"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	ch := &script{}
	n := New(Config{Channels: []Channel{ch}, Outbox: box, Logger: slog.New(slog.DiscardHandler)})
	began, err := box.BeginNotification(t.Context(), store.Notification{Key: outcomeKey, Channel: "script", Kind: string(Outcome)})
	if err != nil || !began.Fresh {
		t.Fatal(began, err)
	}
	breaker := BreakerOf(Breaker{Executor: "x"}, true)
	if err := errors.Join(n.Recover(t.Context()), n.Notify(t.Context(), outcome), n.Notify(t.Context(), breaker), n.Notify(t.Context(), breaker)); err != nil {
		t.Fatal(err)
	}
	if len(ch.sentAt) != 1 {
		t.Errorf("sent %d messages; the one of before the crash must not be, the new one once", len(ch.sentAt))
	}
	left, err := box.PendingNotifications(t.Context())
	if err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// What was begun anew is sent once, by the channel of its record.
func TestResend(t *testing.T) {
	for name, c := range map[string]struct {
		channel string
		answer  Attempt
		want    store.NotificationState
		sends   int
	}{
		"accepted":   {"script", Attempt{Verdict: Accepted}, store.NotificationSent, 1},
		"lost again": {"script", Attempt{Verdict: Lost}, store.NotificationUnknown, 1},
		"no channel": {"gone", Attempt{}, store.NotificationFailed, 0},
	} {
		box, ch := newOutbox(), &script{answers: []Attempt{c.answer}}
		in := store.Notification{Key: outcomeKey + "/again/1", Channel: c.channel, Kind: string(Outcome)}
		box.state[in.Key] = store.NotificationPending
		if err := notifier(box, ch).Resend(t.Context(), in, outcome); err != nil || box.state[in.Key] != c.want || len(ch.sentAt) != c.sends {
			t.Errorf("%s: %s after %d sends, %v", name, box.state[in.Key], len(ch.sentAt), err)
		}
	}
}
