// Package ui is the page: what an engineer opens who was just woken, and what a platform
// engineer looks at by day. Pages are made here, on the server, and can be read without
// JavaScript; small modules add what moves: times, lists and timelines that follow what
// happens, keys.
//
// Everything that it shows may come from an attacker: html/template escapes it, and a policy
// forbids a browser whatever is not a file of ours.
package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"html/template"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// Incidents is what is asked about incidents; the store satisfies it.
type Incidents interface {
	Incident(ctx context.Context, id string) (nightcrier.Incident, error)
	Incidents(ctx context.Context, f store.IncidentFilter) ([]nightcrier.Incident, string, error)
	Report(ctx context.Context, incidentID string) ([]byte, error)
	Notifications(ctx context.Context, incidentID string) ([]store.Notification, error)
	Notes(ctx context.Context, incidentID string) ([]nightcrier.Note, error)
	WatchIncidents() (wake <-chan struct{}, stop func())
	// Counts is all that is stored, in numbers.
	Counts(ctx context.Context) (store.Counts, error)
}

// Runs is what is asked about runs; the store satisfies it.
type Runs interface {
	Run(ctx context.Context, id string) (nightcrier.Run, error)
	ListRuns(ctx context.Context, f store.RunFilter) ([]nightcrier.Run, string, error)
	LeasedRuns(ctx context.Context) ([]nightcrier.Run, error)
	Steps(ctx context.Context, run string) ([]nightcrier.Step, error)
	RunInput(ctx context.Context, id string) (json.RawMessage, error)
	RunSums(ctx context.Context) ([]store.RunSum, error)
	Journal(ctx context.Context, run string, from int64, limit int) ([]nightcrier.JournalEntry, error)
	WatchJournal(run string) (wake <-chan struct{}, stop func())
}

// Events is what is asked about events; the store satisfies it.
type Events interface {
	Events(ctx context.Context, f store.EventFilter) ([]nightcrier.Event, string, error)
}

// Control changes what the server does.
type Control interface {
	Cancel(ctx context.Context, incidentID, cause string) (nightcrier.Run, error)
	Retry(ctx context.Context, incidentID, executor string) (nightcrier.Run, error)
	CancelRun(ctx context.Context, runID, cause string) (nightcrier.Run, error)
	RetryRun(ctx context.Context, runID, fromStep string) (nightcrier.Run, error)
	Note(ctx context.Context, incidentID, by, text string) (nightcrier.Note, error)
	MarkCleared(ctx context.Context, incidentID, by string) (nightcrier.Incident, error)
}

// Server tells what only the running server knows.
type Server interface {
	Statuses() []nightcrier.SourceStatus
	ListSkills() []api.SkillInfo
	// Evidence is an answer of a cluster that was kept, with its body.
	Evidence(ctx context.Context, incidentID, id string) (evidence.Item, []byte, error)
	ReportMarkdown(ctx context.Context, inc nightcrier.Incident, raw []byte) ([]byte, error)
	// Graphs are the pipelines; Spending what models cost; RunSpending what a run did.
	Graphs() []Graph
	Spending() (Spending, error)
	RunSpending(runID string) (Spent, error)
	// Settings are the effective configuration, without its secrets.
	Settings() ([]Setting, error)
	// Doctor looks whether the setup works; nil where nobody can.
	Doctor(ctx context.Context) ([]Check, error)
}

// Graph is a pipeline as it is drawn: its steps, in phases.
type Graph struct {
	Name, Description string
	// Starts say what starts it, in words.
	Starts []string
	Phases []GraphPhase
}

// GraphPhase is some steps, one after the other or side by side.
type GraphPhase struct {
	Name     string
	Parallel bool
	Steps    []GraphStep
}

// GraphStep is one step, and what does it.
type GraphStep struct{ ID, Uses, If string }

// Spending is what was spent on models.
type Spending struct {
	// Days are the newest first.
	Days, Clusters []Spent
	// PerDay is the limit of a day, 0 for none.
	PerDay float64
	// Refused says why no more is allowed today, "" when it is.
	Refused string
}

// Spent is what one thing cost, in dollars.
type Spent struct {
	Name  string
	USD   float64
	Limit float64
	// Tokens were read and written.
	Tokens int64
}

// Setting is one key of the configuration.
type Setting struct{ Key, Value, Origin string }

// Check is what Doctor says of one thing.
type Check struct{ Status, Name, Detail, Hint string }

// Options are what a UI shows, and by whom it may be seen.
type Options struct {
	Version   string
	Incidents Incidents
	Runs      Runs
	Events    Events
	Control   Control
	Server    Server
	Limits    func() store.Limits
	Access    Access
	// Mask hides secrets in what says that something went wrong.
	Mask   func(string) string
	Logger *slog.Logger
	Now    func() time.Time
	// KeepAlive is how often a silent stream sends a comment, 15 s by default.
	KeepAlive time.Duration
}

// UI answers the requests of browsers.
type UI struct {
	opt     Options
	log     *slog.Logger
	door    *door
	pages   map[string]*template.Template
	assets  assets
	feeds   feeds
	handler http.Handler
	closing chan struct{}
	close   func()

	mu      sync.Mutex // guards what Doctor said last
	checks  []Check
	checked time.Time
}

// New returns the handler for Options.
func New(o Options) *UI {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Mask == nil {
		o.Mask = func(s string) string { return s }
	}
	o.KeepAlive = cmp.Or(o.KeepAlive, 15*time.Second)
	u := &UI{opt: o, log: o.Logger, door: newDoor(o.Access, o.Now), assets: loadAssets(), closing: make(chan struct{})}
	u.close = sync.OnceFunc(func() { close(u.closing) })
	u.feeds.open = map[string]*feed{}
	u.pages = u.parsePages()
	mux := http.NewServeMux()
	u.addRoutes(mux)
	u.handler = u.door.wrap(u.compress(mux), u.assets)
	return u
}

// ServeHTTP implements http.Handler.
func (u *UI) ServeHTTP(w http.ResponseWriter, r *http.Request) { u.handler.ServeHTTP(w, r) }

// EndStreams ends all live streams, and those to come, so that a server can shut down: a
// browser comes back by itself, and goes on from where it was.
func (u *UI) EndStreams() { u.close() }

// LoginLink is an address that logs one browser in, once and soon, below the origin, such as
// http://127.0.0.1:8090.
func (u *UI) LoginLink(origin string) string { return loginLink(u.opt.Access.Key, origin, u.opt.Now()) }

func (u *UI) addRoutes(mux *http.ServeMux) {
	for pattern, serve := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /{$}":            u.home,
		"GET /login":          u.loginPage,
		"POST /login":         u.login,
		"POST /logout":        u.logout,
		"GET /incidents":      u.listIncidents,
		"GET /incidents/{id}": u.showIncident,
		"GET /incidents/{id}/evidence/{evidence}": u.showEvidence,
		"POST /incidents/{id}/cancel":             u.cancelIncident,
		"POST /incidents/{id}/retry":              u.retryIncident,
		"POST /incidents/{id}/clear":              u.clearIncident,
		"POST /incidents/{id}/notes":              u.noteIncident,
		"GET /runs":                               u.listRuns,
		"GET /runs/{id}":                          u.showRun,
		"POST /runs/{id}/cancel":                  u.cancelRun,
		"POST /runs/{id}/retry":                   u.retryRun,
		"GET /pipelines":                          u.showPipelines,
		"GET /skills":                             u.showSkills,
		"GET /clusters":                           u.showClusters,
		"GET /suppressed":                         u.showSuppressed,
		"GET /spend":                              u.showSpend,
		"GET /doctor":                             u.showDoctor,
		"POST /doctor":                            u.runDoctor,
		"GET /settings":                           u.showSettings,
		"GET /live/incidents":                     u.followIncidents,
		"GET /live/runs/{id}":                     u.followRun,
		"GET /":                                   u.unknownPage,
	} {
		mux.Handle(pattern, u.answer(serve))
	}
}

// answer turns what a handler returns into a page that says what went wrong.
func (u *UI) answer(serve func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := serve(w, r); err != nil && r.Context().Err() == nil {
			u.showError(w, r, err)
		}
	})
}

func (u *UI) home(w http.ResponseWriter, r *http.Request) error {
	http.Redirect(w, r, "/incidents", http.StatusSeeOther)
	return nil
}

func (u *UI) unknownPage(_ http.ResponseWriter, r *http.Request) error {
	return nightcrier.Errorf(nightcrier.NotFound, "there is no page at %.200q", r.URL.Path)
}

// statuses are how errors are answered.
var statuses = map[nightcrier.Code]int{
	nightcrier.Invalid: http.StatusBadRequest, nightcrier.NotFound: http.StatusNotFound, nightcrier.NoReport: http.StatusNotFound,
	nightcrier.Conflict: http.StatusConflict, nightcrier.Refused: http.StatusForbidden, nightcrier.Exhausted: http.StatusInsufficientStorage,
	nightcrier.Unreachable: http.StatusServiceUnavailable, nightcrier.Interrupted: http.StatusServiceUnavailable,
}

// showError shows what went wrong, and what is to be done about it.
func (u *UI) showError(w http.ResponseWriter, r *http.Request, err error) {
	code := nightcrier.CodeOf(err)
	status, said := statuses[code], u.opt.Mask(err.Error())
	if status == 0 {
		status = http.StatusInternalServerError
		u.log.Error("page failed", "path", r.URL.Path, "error", err)
		said = "Something went wrong here, not in your cluster. The server's log says what."
	}
	title := http.StatusText(status)
	if code == nightcrier.NotFound {
		title = "Not here"
	}
	u.renderStatus(w, r, status, "error", title, struct {
		Status int
		Said   string
	}{status, said})
}
