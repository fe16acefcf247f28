// Package notify tells people, once. Each message goes through an outbox:
// the intent is recorded, the message sent, the result recorded. A webhook
// cannot be asked afterwards whether it took a message, so when that is not
// known the message is never sent again and its state says so.
package notify

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/retry"
	"nightcrier.dev/nightcrier/internal/text"
)

// Outbox is the durable record of what was sent; the store satisfies it.
type Outbox interface {
	// BeginNotification records an intent once, and says whether it is to be sent.
	BeginNotification(ctx context.Context, n store.Notification) (store.Begun, error)
	// EndNotification records the result.
	EndNotification(ctx context.Context, key string, state store.NotificationState, detail string) error
	// PendingNotifications returns the intents without a result.
	PendingNotifications(ctx context.Context) ([]store.Notification, error)
}

// Verdict is what one attempt came to.
type Verdict int

// The verdicts of an attempt.
const (
	// Accepted: the channel took the message.
	Accepted Verdict = iota
	// Refused: it did not, and a further try would end the same way.
	Refused
	// Deferred: it surely did not, and a later try may help.
	Deferred
	// Lost: it may have; nobody can tell.
	Lost
)

// Attempt is how one try to send ended.
type Attempt struct {
	Verdict Verdict
	// Wait is how long the channel asked us to wait, with Deferred.
	Wait time.Duration
	// Detail says why, without secrets.
	Detail string
}

// Channel is one way to reach people.
type Channel interface {
	// Name is unique and stable: it is part of the outbox's keys.
	Name() string
	// Send tries once and returns within a bounded time.
	Send(ctx context.Context, m Message) Attempt
}

// Config is what a Notifier needs. With no channels it records and sends nothing.
type Config struct {
	Channels []Channel
	Outbox   Outbox
	Logger   *slog.Logger
	// Ended, when set, is told each final state; for metrics.
	Ended func(channel string, kind Kind, state store.NotificationState)
}

// waits are those between the attempts at a message: none is longer, even when the
// channel asks for it.
var waits = retry.Backoff{Min: time.Second, Max: maxWait}

// A message is tried at most this often: an outage of some minutes is outlived. maxRounds
// is how often that may repeat.
const (
	maxAttempts = 10
	maxRounds   = 3
	maxWait     = 2 * time.Minute
	recordTime  = 10 * time.Second
)

// Notifier sends messages to all channels.
type Notifier struct{ cfg Config }

// New returns a Notifier.
func New(cfg Config) *Notifier {
	if cfg.Ended == nil {
		cfg.Ended = func(string, Kind, store.NotificationState) {}
	}
	return &Notifier{cfg: cfg}
}

// Recover closes the intents that a process which ended in between left behind:
// their state becomes unknown. Call it once, before the first Notify.
func (n *Notifier) Recover(ctx context.Context) error {
	if len(n.cfg.Channels) == 0 {
		return nil
	}
	left, err := n.cfg.Outbox.PendingNotifications(ctx)
	if err != nil {
		return nightcrier.Errorf(nightcrier.CodeOf(err), "reading unfinished notifications: %w", err)
	}
	var errs []error
	for _, in := range left {
		errs = append(errs, n.recordEnd(ctx, in, store.NotificationUnknown, "the server ended before the result was recorded; it may have arrived"))
	}
	return errors.Join(errs...)
}

// Notify sends m to every channel, unless it was sent before, and returns when
// each has a final state. A message that could not be delivered is recorded
// and logged, it is not an error; an error means that the outbox failed, or that
// ctx ended while a channel asked for patience (Interrupted): ask again later.
func (n *Notifier) Notify(ctx context.Context, m Message) error {
	var errs []error
	reached := m.Channel == ""
	for _, ch := range n.cfg.Channels {
		if m.Channel == "" || m.Channel == ch.Name() {
			reached = true
			errs = append(errs, n.notifyChannel(ctx, ch, m))
		}
	}
	if !reached {
		n.cfg.Logger.Log(ctx, slog.LevelWarn, "nobody is told: the channel is not configured", "event", "notification_no_channel",
			"channel", m.Channel, "kind", m.Kind, "run", m.RunID)
	}
	return errors.Join(errs...)
}

// Resend sends a message that was begun anew by the channel of its record, and returns when
// it has a final state.
func (n *Notifier) Resend(ctx context.Context, in store.Notification, m Message) error {
	for _, ch := range n.cfg.Channels {
		if ch.Name() == in.Channel {
			return n.sendMessage(ctx, ch, m, in)
		}
	}
	return n.recordEnd(ctx, in, store.NotificationFailed, "there is no channel "+in.Channel+" any more")
}

// notifyChannel sends m by one channel. A message that failed surely did not arrive, so
// when it is asked for again (its sender was stopped, or asks by the clock) it
// gets a further round, a few in all.
func (n *Notifier) notifyChannel(ctx context.Context, ch Channel, m Message) error {
	in := store.Notification{Channel: ch.Name(), Kind: string(m.Kind), IncidentID: m.incidentID(), RunID: m.RunID, Digest: digestOf(m),
		Severity: m.incidentSeverity(), Gist: m.outcomeGist()}
	for round := 1; round <= maxRounds; round++ {
		in.Key = ch.Name() + ":" + m.Key
		if round > 1 {
			in.Key += "#" + strconv.Itoa(round)
		}
		b, err := n.recordIntent(ctx, in)
		switch {
		case err != nil:
			return nightcrier.Errorf(nightcrier.CodeOf(err), "recording notification %s: %w", in.Key, err)
		case b.Fresh:
			return n.sendMessage(ctx, ch, m, in)
		case b.State == store.NotificationPending:
			return n.recordEnd(ctx, in, store.NotificationUnknown, "an earlier attempt left no result; it may have arrived")
		case b.State == store.NotificationSuppressed:
			n.noteSuppressed(ctx, in, b)
			return nil
		case b.State != store.NotificationFailed:
			return nil
		}
	}
	return nil
}

// settleEvery is how often it is looked whether a message of the same cause has arrived,
// and maxSettles how often at most: longer than a message is tried.
const (
	settleEvery = 2 * time.Second
	maxSettles  = int(maxAttempts * maxWait / settleEvery)
)

// recordIntent records the intent. While all that makes the message needless is one that is still
// being sent it waits: if that one fails, this one has to tell.
func (n *Notifier) recordIntent(ctx context.Context, in store.Notification) (store.Begun, error) {
	fresh := false
	for try := 1; ; try++ {
		b, err := n.cfg.Outbox.BeginNotification(ctx, in)
		fresh = fresh || b.New
		if b.New = fresh; err != nil || !b.Unsettled || try == maxSettles {
			return b, err
		}
		if !retry.Sleep(ctx, settleEvery) {
			return b, nightcrier.Errorf(nightcrier.Interrupted, "notification %s: stopped before it was known whether the other one of its cause arrived", in.Key)
		}
	}
}

// noteSuppressed counts and logs a message that is not sent, once.
func (n *Notifier) noteSuppressed(ctx context.Context, in store.Notification, b store.Begun) {
	if !b.New {
		return
	}
	n.cfg.Logger.Log(ctx, slog.LevelInfo, "notification suppressed", "event", "notification_suppressed",
		"channel", in.Channel, "kind", in.Kind, "incident_id", in.IncidentID, "reason", b.Reason)
	n.cfg.Ended(in.Channel, Kind(in.Kind), store.NotificationSuppressed)
}

// sendMessage delivers m. When ctx ends first the message is recorded as failed and
// the error says that it was interrupted, so that a durable caller asks again.
func (n *Notifier) sendMessage(ctx context.Context, ch Channel, m Message, in store.Notification) error {
	state, detail := n.deliverWithRetries(ctx, ch, m, in)
	err := n.recordEnd(ctx, in, state, detail)
	if err == nil && state == store.NotificationFailed && ctx.Err() != nil {
		return nightcrier.Errorf(nightcrier.Interrupted, "notification %s: stopped before it was delivered", in.Key)
	}
	return err
}

// deliverWithRetries tries until the message has a final state.
func (n *Notifier) deliverWithRetries(ctx context.Context, ch Channel, m Message, in store.Notification) (store.NotificationState, string) {
	for try := 1; ; try++ {
		a := ch.Send(ctx, m)
		switch {
		case a.Verdict == Accepted:
			return store.NotificationSent, a.Detail
		case a.Verdict == Lost:
			return store.NotificationUnknown, a.Detail
		case a.Verdict == Refused, try == maxAttempts:
			return store.NotificationFailed, a.Detail
		}
		next := max(waits.Wait(try), min(a.Wait, waits.Max))
		n.logDeferred(ctx, in, try, next, a.Detail)
		if !retry.Sleep(ctx, next) {
			return store.NotificationFailed, "stopped while waiting to try again: " + a.Detail
		}
	}
}

// logDeferred says that a message waits: an outage is told when it begins, not when
// the last try has failed minutes later.
func (n *Notifier) logDeferred(ctx context.Context, in store.Notification, try int, next time.Duration, detail string) {
	level := slog.LevelDebug
	if try == 1 {
		level = slog.LevelWarn
	}
	n.cfg.Logger.Log(ctx, level, "notification deferred; it is tried again", "event", "notification_deferred",
		"channel", in.Channel, "kind", in.Kind, "incident_id", in.IncidentID, "attempt", try, "of", maxAttempts,
		"retry_in", next.Round(time.Millisecond).String(), "detail", detail)
}

// recordEnd records a final state, on a context that outlives a cancel: the message
// may be out already.
func (n *Notifier) recordEnd(ctx context.Context, in store.Notification, state store.NotificationState, detail string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	level := slog.LevelInfo
	if state != store.NotificationSent {
		level = slog.LevelWarn
	}
	n.cfg.Logger.Log(ctx, level, "notification "+string(state), "event", "notification_"+string(state),
		"channel", in.Channel, "kind", in.Kind, "incident_id", in.IncidentID, "detail", detail)
	n.cfg.Ended(in.Channel, Kind(in.Kind), state)
	if err := n.cfg.Outbox.EndNotification(ctx, in.Key, state, detail); err != nil {
		return nightcrier.Errorf(nightcrier.CodeOf(err), "recording that notification %s is %s: %w", in.Key, state, err)
	}
	return nil
}

func digestOf(m Message) string {
	raw, err := json.Marshal(m)
	if err != nil {
		raw = []byte(m.Key) // a report whose maps hold what JSON cannot: the key still tells
	}
	return text.DigestOf(raw)
}
