package ui

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// runView is a run with what is seen of it while it goes on.
type runView struct {
	Run nightcrier.Run
	// Spent is what it cost so far, of how much; nothing where that is not known.
	Spent Spent
	// Took is how long it takes, or took.
	Took time.Duration
}

// runOf checks the id and reads the run, with what it waits for.
func (u *UI) runOf(ctx context.Context, id string) (nightcrier.Run, error) {
	if err := nightcrier.CheckID(id); err != nil {
		return nightcrier.Run{}, nightcrier.Errorf(nightcrier.NotFound, "there is no run %.64q", id)
	}
	run, err := u.opt.Runs.Run(ctx, id)
	if err != nil || !run.Status.Open() || u.opt.Limits == nil {
		return run, err
	}
	leased, err := u.opt.Runs.LeasedRuns(ctx)
	if err == nil {
		run.WaitsFor = u.opt.Limits().WaitOf(run, leased)
	}
	return run, err
}

// readRun reads a run, its steps and its cost.
func (u *UI) readRun(ctx context.Context, id string) (runView, error) {
	run, err := u.runOf(ctx, id)
	if err == nil {
		run.Steps, err = u.opt.Runs.Steps(ctx, id)
	}
	v := runView{Run: run}
	if err != nil {
		return v, err
	}
	if v.Spent, err = u.opt.Server.RunSpending(id); err != nil { // there is more to see
		u.log.Debug("what a run cost is not known", "run", id, "error", err)
	}
	v.Spent.USD = max(v.Spent.USD, run.CostUSD)
	switch {
	case run.AdmittedAt.IsZero():
	case run.EndedAt.IsZero():
		v.Took = u.opt.Now().Sub(run.AdmittedAt)
	default:
		v.Took = run.EndedAt.Sub(run.AdmittedAt)
	}
	return v, nil
}

// timeline is what happened in a run so far; Last is the entry behind which a stream goes on.
type timeline struct {
	Entries []entryView
	Last    int64
	// Left is how many entries there are before the ones that are shown.
	Left int
}

// maxEntries bounds a timeline that is part of a page.
const maxEntries = 400

// readTimeline reads the newest entries of a run, at most so many.
func (u *UI) readTimeline(ctx context.Context, run string, most int) (t timeline, err error) {
	err = journal.EachEntry(ctx, u.opt.Runs, run, 1, func(e nightcrier.JournalEntry) error {
		t.Last = e.Seq
		if v := u.tailEntry(e); v.Text != "" {
			t.Entries = append(t.Entries, v)
		}
		if len(t.Entries) > 2*most {
			t.Left += len(t.Entries) - most
			t.Entries = append([]entryView(nil), t.Entries[len(t.Entries)-most:]...)
		}
		return nil
	})
	if more := len(t.Entries) - most; more > 0 {
		t.Left, t.Entries = t.Left+more, t.Entries[more:]
	}
	return t, err
}

// runsPage is the list of runs.
type runsPage struct {
	Filter    store.RunFilter
	Runs      []nightcrier.Run
	Next      string
	Pipelines []string
	Statuses  []nightcrier.RunStatus
}

func (runsPage) liveAt() string { return "/live/incidents" }

func (u *UI) listRuns(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	f := store.RunFilter{Pipeline: q.Get("pipeline"), Status: nightcrier.RunStatus(q.Get("status")), Key: q.Get("key"), Cursor: q.Get("cursor"), Limit: perPage}
	p := runsPage{Filter: f, Statuses: []nightcrier.RunStatus{nightcrier.Queued, nightcrier.Admitted, nightcrier.Finished, nightcrier.Dropped}}
	list, next, err := u.opt.Runs.ListRuns(r.Context(), f)
	if err != nil {
		return err
	}
	leased, err := u.opt.Runs.LeasedRuns(r.Context())
	if err != nil {
		return err
	}
	for i := range list {
		if u.opt.Limits != nil {
			list[i].WaitsFor = u.opt.Limits().WaitOf(list[i], leased)
		}
	}
	p.Runs = list
	if next != "" {
		q.Set("cursor", next)
		p.Next = "/runs?" + q.Encode()
	}
	for _, g := range u.opt.Server.Graphs() {
		p.Pipelines = append(p.Pipelines, g.Name)
	}
	return u.render(w, r, "runs", "Runs", p)
}

// runPage is one run.
type runPage struct {
	runView
	Input    json.RawMessage
	Graph    *Graph
	Timeline timeline
}

func (p runPage) liveAt() string { return liveRun(p.Run, p.Timeline) }

// liveRun is where a run is followed, "" for one that has ended.
func liveRun(run nightcrier.Run, t timeline) string {
	if run.ID == "" || !run.Status.Open() {
		return ""
	}
	return "/live/runs/" + url.PathEscape(run.ID) + "?after=" + strconv.FormatInt(t.Last, 10)
}

func (u *UI) showRun(w http.ResponseWriter, r *http.Request) error {
	v, err := u.readRun(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	p := runPage{runView: v}
	if p.Input, err = u.opt.Runs.RunInput(r.Context(), v.Run.ID); err != nil {
		return err
	}
	if p.Timeline, err = u.readTimeline(r.Context(), v.Run.ID, 5*maxEntries); err != nil {
		return err
	}
	for _, g := range u.opt.Server.Graphs() {
		if g.Name == v.Run.Pipeline {
			p.Graph = &g
		}
	}
	return u.render(w, r, "run", "Run of "+v.Run.Pipeline, p)
}

func (u *UI) cancelRun(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	_, err := u.opt.Control.CancelRun(r.Context(), id, "cancelled on the page by "+sessionIn(r.Context()).Name)
	return u.done(w, r, "/runs/"+url.PathEscape(id), err)
}

func (u *UI) retryRun(w http.ResponseWriter, r *http.Request) error {
	run, err := u.opt.Control.RetryRun(r.Context(), r.PathValue("id"), strings.TrimSpace(r.FormValue("from")))
	return u.done(w, r, "/runs/"+url.PathEscape(run.ID), err)
}

// done leads from a form that was posted to the page that shows what became of it.
func (u *UI) done(w http.ResponseWriter, r *http.Request, to string, err error) error {
	if err == nil {
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
	return err
}
