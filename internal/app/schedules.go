package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// scheduleEvery is how often it is looked whether something is due, and so how late a tick
// may come.
const scheduleEvery = 2 * time.Second

// schedules are the triggers that are schedules, of the pipelines as they are now.
type schedules struct {
	mu sync.Mutex
	// followed are those whose last tick is known, by pipeline and trigger.
	followed map[[2]string]time.Time
	// complained is what is wrong with one, so that it is said once.
	complained map[[2]string]string
	// gone is since when one that is followed is in no file.
	gone   map[[2]string]time.Time
	looked time.Time
}

// leaveAfter is how long a schedule has to be in no file until it is nobody's: a file that is
// written anew may be away for a moment.
const leaveAfter = time.Minute

func (a *App) startSchedules(context.Context) error {
	a.housekeeper.runEvery(scheduleEvery, a.fireSchedules)
	return nil
}

// fireSchedules queues the runs that are due. What was missed runs once.
func (a *App) fireSchedules(ctx context.Context) (failed error) {
	a.schedules.mu.Lock()
	defer a.schedules.mu.Unlock()
	now := a.opt.Now()
	a.schedules.looked = now
	library, there := a.pipelines.Library(), map[[2]string]bool{}
	for _, e := range library.List() {
		all, err := e.Schedules()
		failed = errors.Join(failed, err)
		for _, s := range all {
			there[[2]string{e.Name, s.String()}] = true
			err := a.fireSchedule(ctx, e.Name, s, now)
			if nightcrier.CodeOf(err) == nightcrier.Unreachable || ctx.Err() != nil {
				return errors.Join(failed, err)
			}
			a.complainOnce([2]string{e.Name, s.String()}, err)
		}
	}
	if library.IsWhole() { // else it may be in a file with a mistake
		failed = errors.Join(failed, a.leaveSchedules(ctx, there, now))
	}
	return failed
}

// leaveSchedules forgets the schedules that were taken out of their files. One that is put back
// later is new.
func (a *App) leaveSchedules(ctx context.Context, there map[[2]string]bool, now time.Time) error {
	known, err := a.store.Schedules(ctx)
	if err != nil {
		return err
	}
	for _, k := range known {
		key := [2]string{k.Pipeline, k.Trigger}
		since, missing := a.schedules.gone[key]
		switch {
		case there[key]:
			delete(a.schedules.gone, key)
		case !missing || now.Before(since):
			a.schedules.gone[key] = now
		case now.Sub(since) >= leaveAfter:
			if err := a.store.LeaveSchedule(ctx, k.Pipeline, k.Trigger); err != nil {
				return err
			}
			delete(a.schedules.gone, key)
			delete(a.schedules.followed, key)
			delete(a.schedules.complained, key)
			a.log.Info("a schedule is in no file any more", "component", "schedules", "event", "schedule_left", "pipeline", k.Pipeline, "schedule", k.Trigger)
		}
	}
	return nil
}

// fireSchedule queues a run for the newest tick of a schedule that was not considered yet.
func (a *App) fireSchedule(ctx context.Context, name string, s pipeline.Schedule, now time.Time) error {
	key := [2]string{name, s.String()}
	last, known := a.schedules.followed[key]
	if !known || last.After(now) { // it is new, or the clock was put back
		sched, err := a.store.FollowSchedule(ctx, name, s.String())
		if err != nil {
			return err
		}
		last = sched.LastTick
		a.schedules.followed[key] = last
	}
	ticks, cut := s.Ticks(last, now)
	if len(ticks) == 0 {
		return nil
	}
	newest := ticks[len(ticks)-1]
	input, err := json.Marshal(map[string]any{"scheduled_at": newest.Format(time.RFC3339)})
	if err != nil {
		return err
	}
	n := store.NewRun{
		Pipeline: name, Severity: nightcrier.Warning, Input: input,
		Subject: nightcrier.Subject{Kind: nightcrier.SubjectSchedule, ID: s.String(), Title: newest.Format(time.RFC3339)},
	}
	if err := a.completeRun(ctx, &n); err != nil {
		return err
	}
	queued, err := a.store.FireSchedule(ctx, name, s.String(), ticks, n)
	if err != nil {
		return err
	}
	a.schedules.followed[key] = newest
	a.tellEnqueued(ctx, queued)
	if missed := len(ticks) - 1; missed > 0 {
		a.log.Warn("ticks of a schedule were missed, and the newest runs", "component", "schedules", "event", "ticks_missed", "pipeline", name, "schedule", s.String(), "missed", missed, "older_ones", cut)
	}
	return nil
}

// complainOnce says what is wrong with a schedule when that has changed.
func (a *App) complainOnce(key [2]string, err error) {
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != "" && said != a.schedules.complained[key] {
		a.log.Warn("a schedule is due and cannot run; it will once that is mended", "component", "schedules", "event", "schedule_stuck", "pipeline", key[0], "schedule", key[1], "error", err)
	}
	a.schedules.complained[key] = said
}

// Triggers lists the schedules of the pipelines as they are now.
func (a *App) Triggers(ctx context.Context) (api.Triggers, error) {
	a.schedules.mu.Lock()
	t := api.Triggers{Running: true, LastSync: a.schedules.looked}
	a.schedules.mu.Unlock()
	known, err := a.store.Schedules(ctx)
	if err != nil {
		return t, err
	}
	for _, e := range a.pipelines.Library().List() {
		all, err := e.Schedules()
		if err != nil {
			return t, fmt.Errorf("pipeline %s: %w", e.Name, err)
		}
		for _, s := range all {
			one := api.Trigger{Skill: "pipeline:" + e.Name, Schedule: s.String(), NextRun: s.Next(a.opt.Now())}
			for _, k := range known {
				if k.Pipeline == e.Name && k.Trigger == s.String() {
					one.Missed = k.Missed
				}
			}
			ticks, err := a.store.Ticks(ctx, e.Name, s.String(), 1)
			if err != nil {
				return t, err
			}
			if len(ticks) > 0 {
				one.PrevRun = ticks[0].At
			}
			t.List = append(t.List, one)
		}
	}
	return t, nil
}
