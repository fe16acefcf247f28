package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/notify"
	"nightcrier.dev/nightcrier/internal/face/notify/slack"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// openNotifier settles what an earlier process left unfinished, before any run
// can announce anything.
func (a *Investigator) openNotifier(ctx context.Context) error {
	var channels []notify.Channel
	if a.cfg.Slack.WebhookURL.IsSet() {
		hook, err := slack.New(a.cfg.Slack.WebhookURL.Reveal(), slack.Options{Mask: a.masker.String})
		if err != nil {
			return err
		}
		channels = append(channels, hook)
	}
	a.notifier = notify.New(notify.Config{
		Channels: channels, Outbox: a.store, Logger: a.log.With("component", "notify"),
		Ended: func(channel string, kind notify.Kind, state store.NotificationState) {
			a.metrics.NotificationEnded(channel, string(kind), string(state))
		},
	})
	return a.notifier.Recover(ctx)
}

// tellRun tells people of a run that has ended, as its pipeline and its skills wish. What cannot be
// computed of a message is said in the log; the message is sent without.
func (a *Investigator) tellRun(ctx context.Context, r nightcrier.Run, p pipeline.Frozen) error {
	list, err := a.messagesOf(ctx, r, p)
	for _, m := range list {
		err = errors.Join(err, a.notifier.Notify(ctx, m))
	}
	return err
}

// messagesOf are the messages of a run that has ended, by channels.
func (a *Investigator) messagesOf(ctx context.Context, r nightcrier.Run, p pipeline.Frozen) (list []notify.Message, err error) {
	if !p.Tells() {
		return nil, nil
	}
	attempts, err := a.store.Steps(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	raw, err := a.store.RunInput(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	input, wrong := p.Definition.ReadInput(raw)
	r.Steps = nightcrier.LastAttempts(attempts)
	told, err := p.ListTold(ctx, r, input)
	if wrong = errors.Join(wrong, err); wrong != nil {
		a.log.Warn("a notification is not as its pipeline wishes", "component", "notify", "event", "notification_text", "run", r.ID, "pipeline", r.Pipeline, "error", wrong)
	}
	for _, one := range told {
		list = append(list, notify.RunOf(notify.Run{Run: r, Text: one.Text}, one.Channel))
	}
	return list, nil
}

// runMessageOf makes the message of a run anew, with the text that its pipeline has now.
func (a *Investigator) runMessageOf(ctx context.Context, n store.Notification) (notify.Message, error) {
	r, err := a.store.Run(ctx, n.RunID)
	if err != nil {
		return notify.Message{}, err
	}
	var p pipeline.Frozen
	if found, err := a.pipelines.Library().Find(r.Pipeline); err == nil {
		p.Definition = found.Definition
	}
	list, err := a.messagesOf(ctx, r, p)
	for _, m := range list {
		if m.Channel == n.Channel {
			return m, err
		}
	}
	return notify.RunOf(notify.Run{Run: r}, n.Channel), err
}

func (a *Investigator) tellRise(ctx context.Context, d store.Decision) error {
	return a.notifier.Notify(ctx, notify.RiseOf(d.Incident, d.Was, d.Incident.Workspace))
}

func (a *Investigator) tellBreaker(ctx context.Context, executor string, open bool, res nightcrier.AgentResult) error {
	b := notify.Breaker{Executor: executor, Class: res.FailureClass, Detail: res.FailureReason}
	for _, s := range a.breaker.States() {
		if s.Executor == executor {
			b.Since = s.Since
		}
	}
	if c, err := a.store.Counts(ctx); err == nil {
		b.Waiting = c.Queued
	}
	return a.notifier.Notify(ctx, notify.BreakerOf(b, open))
}

// TellAgain sends again, in the background, what failed to reach people about an incident or a
// run, or may not have reached them, and returns what that is.
func (a *Investigator) TellAgain(ctx context.Context, id string) ([]store.Notification, error) {
	_, err := a.store.Incident(ctx, id)
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		_, err = a.store.Run(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	list, err := a.store.RenewNotifications(ctx, id)
	for _, n := range list {
		a.housekeeper.runLater(func(ctx context.Context) error {
			m, err := a.messageOf(ctx, n)
			if err != nil {
				return a.store.EndNotification(ctx, n.Key, store.NotificationFailed, err.Error())
			}
			return a.notifier.Resend(ctx, n, m)
		})
	}
	return list, err
}

// messageOf makes the message of a record anew, as its incident or its run stands now.
func (a *Investigator) messageOf(ctx context.Context, n store.Notification) (notify.Message, error) {
	switch notify.Kind(n.Kind) {
	case notify.RunEnded:
		return a.runMessageOf(ctx, n)
	case notify.ApprovalAsked:
		return a.approvalMessageOf(ctx, n)
	}
	inc, err := a.store.Incident(ctx, n.IncidentID)
	if err != nil {
		return notify.Message{}, err
	}
	switch notify.Kind(n.Kind) {
	case notify.SeverityRose:
		was, err := a.toldBefore(ctx, n)
		return notify.RiseOf(inc, was, inc.Workspace), err
	case notify.Over:
		if inc.Condition != nightcrier.ConditionCleared {
			return notify.Message{}, nightcrier.Errorf(nightcrier.Conflict, "the fault is not over any more: it is %s", inc.Condition)
		}
		return a.overOf(ctx, inc)
	}
	raw, err := a.store.Report(ctx, inc.ID)
	if code := nightcrier.CodeOf(err); code == nightcrier.NotFound || code == nightcrier.NoReport {
		return notify.OutcomeOf(inc, n.RunID, nil, inc.Workspace), nil
	}
	if err != nil {
		return notify.Message{}, err
	}
	var rep nightcrier.Report
	if err := json.Unmarshal(raw, &rep); err != nil {
		return notify.Message{}, nightcrier.Errorf(nightcrier.Internal, "decode the report of incident %s: %w", inc.ID, err)
	}
	return notify.OutcomeOf(inc, n.RunID, &rep, inc.Workspace), nil
}

// toldBefore is the severity that people knew of an incident before a message that it rose.
func (a *Investigator) toldBefore(ctx context.Context, rise store.Notification) (was nightcrier.Severity, err error) {
	list, err := a.store.Notifications(ctx, rise.IncidentID)
	for _, n := range list {
		if n.Kind == store.OutcomeTold && n.Severity < rise.Severity {
			was = n.Severity
		}
	}
	return was, err
}

// overEvery is how often it is looked for faults that are over.
const overEvery = 2 * time.Second

// tellOver tells, where the outcome was told, that a fault is over: when it has not come
// back within the dedupe window, after which it would be another incident. So what flaps
// is told once. The outbox knows what was told, also over restarts.
func (a *Investigator) tellOver(ctx context.Context) error {
	list, err := a.store.Over(ctx, a.cfg.DedupeWindow)
	if err != nil {
		return err
	}
	for _, inc := range list {
		m, err := a.overOf(ctx, inc)
		if err == nil {
			err = a.notifier.Notify(ctx, m)
		}
		if err != nil {
			return err
		}
		if err := a.store.NoteOver(ctx, inc.ID); err != nil {
			return err
		}
	}
	return nil
}

func (a *Investigator) overOf(ctx context.Context, inc nightcrier.Incident) (notify.Message, error) {
	// Beside a root are those that it caused, beside another one the root as well.
	caused, _, err := a.store.Incidents(ctx, store.IncidentFilter{CausedBy: cmp.Or(inc.CausedBy, inc.ID), Limit: math.MaxInt})
	return notify.OverOf(inc, a.opt.Now().Sub(inc.ClearedAt), len(caused), inc.Workspace), err
}

// A storm is told when no new fingerprint came for stormSettled, or stormPatience
// after it began: one message that lists as much as it can without being late.
const (
	stormSettled  = 10 * time.Second
	stormPatience = time.Minute
)

// tellStorms sends the one message of each storm. The outbox knows which were
// told, also over restarts.
func (a *Investigator) tellStorms(ctx context.Context) error {
	storms, err := a.store.Storms(ctx, a.opt.Now().Add(-stormMemory))
	if err != nil {
		return err
	}
	for _, s := range storms {
		now := a.opt.Now()
		if now.Sub(s.LastAt) < stormSettled && now.Sub(s.StartedAt) < stormPatience {
			continue
		}
		if err := a.tellStorm(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// stormMemory is how far back an untold storm is looked for after a restart.
const stormMemory = time.Hour

func (a *Investigator) tellStorm(ctx context.Context, s store.Storm) error {
	list, err := a.store.StormIncidents(ctx, s.ID)
	if err != nil {
		return err
	}
	investigated := map[string]bool{}
	for _, inc := range list {
		investigated[inc.ID] = inc.Status.Open() || !inc.StartedAt.IsZero()
	}
	m := notify.Storm{ID: s.ID, Cluster: s.Cluster, Incidents: list, Investigated: investigated}
	return a.notifier.Notify(ctx, notify.StormOf(m, ""))
}
