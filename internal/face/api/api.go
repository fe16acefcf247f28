// Package api is the HTTP face of a running server: incidents, events,
// clusters, runs, their journal as a live stream, health and metrics. The command line
// speaks to it too, so there is one way to ask and one way to answer.
//
// API is the handler; Server is its listeners.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Incidents is what is asked about incidents; the store satisfies it.
type Incidents interface {
	Incident(ctx context.Context, id string) (nightcrier.Incident, error)
	Incidents(ctx context.Context, f store.IncidentFilter) ([]nightcrier.Incident, string, error)
	// Report returns report.json, a NotFound or NoReport error without one.
	Report(ctx context.Context, incidentID string) ([]byte, error)
	// Notifications lists the messages about an incident, oldest first.
	Notifications(ctx context.Context, incidentID string) ([]store.Notification, error)
	// Notes lists what people noted about the incident, newest first.
	Notes(ctx context.Context, incidentID string) ([]nightcrier.Note, error)
}

// Events is what is asked about events; the store satisfies it.
type Events interface {
	Events(ctx context.Context, f store.EventFilter) ([]nightcrier.Event, string, error)
}

// Runs is what is asked about runs; the store satisfies it.
type Runs interface {
	Run(ctx context.Context, id string) (nightcrier.Run, error)
	ListRuns(ctx context.Context, f store.RunFilter) ([]nightcrier.Run, string, error)
	// LeasedRuns are those under way; Steps lists the attempts of a run's steps.
	LeasedRuns(ctx context.Context) ([]nightcrier.Run, error)
	Steps(ctx context.Context, run string) ([]nightcrier.Step, error)
	// RunInput is what a run was called with, nil for nothing.
	RunInput(ctx context.Context, id string) (json.RawMessage, error)
	// RunSums are sums over all runs, of each pipeline.
	RunSums(ctx context.Context) ([]store.RunSum, error)
	// Journal returns entries with Seq >= from, oldest first.
	Journal(ctx context.Context, run string, from int64, limit int) ([]nightcrier.JournalEntry, error)
	WatchJournal(run string) (wake <-chan struct{}, stop func())
}

// Control changes what the server does.
type Control interface {
	Cancel(ctx context.Context, incidentID, cause string) (nightcrier.Run, error)
	Retry(ctx context.Context, incidentID, executor string) (nightcrier.Run, error)
	CancelRun(ctx context.Context, runID, cause string) (nightcrier.Run, error)
	// RetryRun begins at a step with what those before it delivered, unless that is "".
	RetryRun(ctx context.Context, runID, fromStep string) (nightcrier.Run, error)
	// TellAgain sends again what may not have reached people about an incident or a run;
	// Conflict where there is nothing of the kind.
	TellAgain(ctx context.Context, id string) ([]store.Notification, error)
	// MarkCleared takes in that a person, who may be "", says that the fault is over.
	MarkCleared(ctx context.Context, incidentID, by string) (nightcrier.Incident, error)
	// Note adds a note; by may be "". The answer is the note as it is kept.
	Note(ctx context.Context, incidentID, by, text string) (nightcrier.Note, error)
}

// Clusters tells about fault sources.
type Clusters interface {
	Statuses() []nightcrier.SourceStatus
}

// Options are what an API answers from.
type Options struct {
	Version   string
	Incidents Incidents
	Events    Events
	Runs      Runs
	// Limits are those that runs are admitted by now, nil where none are known: then it is
	// not said what queued runs wait for.
	Limits func() store.Limits
	// Control is nil where nothing can be changed: a store opened to look at.
	Control  Control
	Clusters Clusters
	// Pipelines lists what runs can execute, nil where there are none.
	Pipelines func() []Pipeline
	// Skills tells of those that steps can execute, nil where no server runs.
	Skills Skills
	// Start queues a run that somebody calls, Triggers tells about schedules; both are nil
	// where no server runs.
	Start    func(context.Context, Call) (nightcrier.Run, error)
	Triggers func(context.Context) (Triggers, error)
	// Webhooks takes what others post from this machine, nil where nobody may.
	Webhooks *http.ServeMux
	// Ready returns nil once the store answers and recovery is done.
	Ready func(context.Context) error
	// Metrics is nil where none are kept.
	Metrics http.Handler
	// Markdown returns the report for people; raw is its report.json.
	Markdown func(ctx context.Context, inc nightcrier.Incident, raw []byte) ([]byte, error)
	// Mask hides secrets in what answers say went wrong, which may quote the request.
	Mask   func(string) string
	Logger *slog.Logger
	// Now is the clock, time.Now by default.
	Now func() time.Time
	// KeepAlive is how often a silent stream sends a comment, 15 s by default;
	// Poll how often it looks for an end that nobody woke it for, 1 s.
	KeepAlive, Poll time.Duration
}

// API answers requests. It holds no state of its own but that it is closing.
type API struct {
	opt     Options
	log     *slog.Logger
	mux     *http.ServeMux
	routed  http.Handler // mux
	closing chan struct{}
	close   func()
}

// New returns the handler for Options.
func New(opt Options) *API {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Mask == nil {
		opt.Mask = func(s string) string { return s }
	}
	opt.KeepAlive = cmp.Or(opt.KeepAlive, 15*time.Second)
	opt.Poll = cmp.Or(opt.Poll, time.Second)
	a := &API{opt: opt, log: opt.Logger, mux: http.NewServeMux(), closing: make(chan struct{})}
	a.routed = answerUnrouted(a.mux)
	a.close = sync.OnceFunc(func() { close(a.closing) })
	h := humago.New(a.mux, a.newFrameConfig())
	a.incidentRoutes(h)
	a.eventRoutes(h)
	a.journalRoutes(h)
	a.runRoutes(h)
	a.pipelineRoutes(h)
	a.skillRoutes(h)
	a.executeRoutes(h)
	a.executionRoutes(h)
	a.analyticsRoutes(h)
	a.webhookRoutes(h)
	a.healthRoutes(a.mux)
	completeDescription(h.OpenAPI())
	return a
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.routed.ServeHTTP(w, r) }

// EndStreams ends all live streams, and those to come, so that a server can
// shut down. A client goes on from where it was when the server is back.
func (a *API) EndStreams() { a.close() }

// Health returns the handler with health and metrics only.
func (a *API) Health() http.Handler {
	mux := http.NewServeMux()
	a.healthRoutes(mux)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, newProblem(nightcrier.NotFound, "the API is not served here: it is on the socket in workspace_root, and on the address that listen names"))
	})
	return answerUnrouted(mux)
}

// newFrameConfig returns the framework's configuration: plain JSON, our errors, the
// description at /api/v1/openapi.json, and no page that loads foreign scripts.
func (a *API) newFrameConfig() huma.Config {
	c := huma.DefaultConfig("Nightcrier", a.opt.Version)
	c.OpenAPIPath = "/api/v1/openapi"
	c.DocsPath, c.SchemasPath = "", ""
	c.CreateHooks = nil
	c.RejectUnknownQueryParameters = true
	c.Transformers = []huma.Transformer{a.asProblem}
	describeAPI(c.OpenAPI)
	return c
}

// newOperation makes one route; all routes answer errors with a Problem. What else there is
// to say of it stands in the table of operations.
func newOperation(id, method, path, summary string) huma.Operation {
	return huma.Operation{OperationID: id, Method: method, Path: "/api/v1" + path, Summary: summary,
		Responses: map[string]*huma.Response{"default": problemResponse("What went wrong")}}
}
