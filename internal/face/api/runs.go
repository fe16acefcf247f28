package api

import (
	"context"
	"net/http"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"

	"github.com/danielgtaylor/huma/v2"
)

// RunList is a page of runs, newest first.
type RunList struct {
	Runs []nightcrier.Run `json:"runs"`
	// NextCursor asks for the next page; absent on the last one.
	NextCursor string `json:"nextCursor,omitempty"`
}

type runID struct {
	ID string `path:"id" maxLength:"64" doc:"The run's UUID"`
}

type runQuery struct {
	Pipeline    string    `query:"pipeline" maxLength:"253"`
	SubjectKind string    `query:"subjectKind" enum:"incident,pull_request,conversation,schedule,call" doc:"What kind of thing it is about"`
	Subject     string    `query:"subject" maxLength:"512" doc:"The id of what it is about"`
	Status      string    `query:"status" enum:"queued,admitted,finished,dropped"`
	Key         string    `query:"key" maxLength:"512" doc:"What may not run twice at once, such as a cluster"`
	Since       time.Time `query:"since" doc:"Leaves out what was queued before"`
	Until       time.Time `query:"until" doc:"Leaves out what was queued then or later"`
	Limit       int       `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Cursor      string    `query:"cursor" maxLength:"256" doc:"nextCursor of the page before"`
}

type runRetryQuery struct {
	ID       string `path:"id" maxLength:"64" doc:"The run's UUID"`
	FromStep string `query:"fromStep" maxLength:"512" doc:"The step to begin at, with what those before it delivered; all of it when absent"`
}

func (a *API) runRoutes(h huma.API) {
	huma.Register(h, newOperation("list-runs", http.MethodGet, "/runs", "Runs of pipelines, newest first"), a.listRuns)
	huma.Register(h, newOperation("get-run", http.MethodGet, "/runs/{id}", "One run with its steps"), a.getRun)
	huma.Register(h, streamOperation("stream-run-journal", "/runs/{id}/journal", "The journal of a run, live"), a.streamRun)
	huma.Register(h, acceptedOperation("cancel-run", "/runs/{id}/cancel", "Stop a run"), a.cancelRun)
	huma.Register(h, newOperation("list-run-notifications", http.MethodGet, "/runs/{id}/notifications", "What people were told of a run"), a.listRunNotifications)
	huma.Register(h, acceptedOperation("tell-run-again", "/runs/{id}/notifications/again", "Send again what may not have reached people"), a.tellRunAgain)
	huma.Register(h, acceptedOperation("retry-run", "/runs/{id}/retry", "Run again what has ended"), a.retryRun)
}

func (a *API) listRuns(ctx context.Context, q *runQuery) (*body[RunList], error) {
	list, next, err := a.opt.Runs.ListRuns(ctx, store.RunFilter{Pipeline: q.Pipeline, SubjectKind: nightcrier.SubjectKind(q.SubjectKind), SubjectID: q.Subject,
		Status: nightcrier.RunStatus(q.Status), Key: q.Key, Since: q.Since, Until: q.Until, Limit: q.Limit, Cursor: q.Cursor})
	if err == nil {
		err = a.showWaits(ctx, list)
	}
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	return &body[RunList]{RunList{Runs: notNil(list), NextCursor: next}}, nil
}

// showWaits fills in what each of the runs waits for.
func (a *API) showWaits(ctx context.Context, list []nightcrier.Run) error {
	leased, err := a.opt.Runs.LeasedRuns(ctx)
	if err != nil || a.opt.Limits == nil {
		return err
	}
	limits := a.opt.Limits()
	for i := range list {
		list[i].WaitsFor = limits.WaitOf(list[i], leased)
	}
	return nil
}

// readRun checks the id and reads the run; its error is an answer.
func (a *API) readRun(ctx context.Context, id string) (nightcrier.Run, error) {
	if err := nightcrier.CheckID(id); err != nil {
		return nightcrier.Run{}, a.problemFor(ctx, err)
	}
	run, err := a.opt.Runs.Run(ctx, id)
	if err != nil {
		return nightcrier.Run{}, a.problemFor(ctx, err)
	}
	return run, nil
}

func (a *API) getRun(ctx context.Context, in *runID) (*body[nightcrier.Run], error) {
	run, err := a.readRun(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	list := []nightcrier.Run{run}
	err = a.showWaits(ctx, list)
	if err == nil {
		list[0].Steps, err = a.opt.Runs.Steps(ctx, run.ID)
	}
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	return &body[nightcrier.Run]{list[0]}, nil
}

func (a *API) cancelRun(ctx context.Context, in *runID) (*body[nightcrier.Run], error) {
	return control(ctx, a, in.ID, func(c Control) (nightcrier.Run, error) {
		return c.CancelRun(ctx, in.ID, "cancelled by a request")
	})
}

func (a *API) listRunNotifications(ctx context.Context, in *runID) (*body[NotificationList], error) {
	run, err := a.readRun(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	list, err := a.opt.Incidents.Notifications(ctx, run.ID)
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	return &body[NotificationList]{NotificationList{notNil(list)}}, nil
}

func (a *API) tellRunAgain(ctx context.Context, in *runID) (*body[NotificationList], error) {
	return a.tellAgain(ctx, &incidentID{ID: in.ID})
}

func (a *API) retryRun(ctx context.Context, in *runRetryQuery) (*body[nightcrier.Run], error) {
	return control(ctx, a, in.ID, func(c Control) (nightcrier.Run, error) { return c.RetryRun(ctx, in.ID, in.FromStep) })
}
