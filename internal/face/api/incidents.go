package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/triage/report"

	"github.com/danielgtaylor/huma/v2"
)

// IncidentList is a page of incidents, newest first.
type IncidentList struct {
	Incidents []nightcrier.Incident `json:"incidents"`
	// NextCursor asks for the next page; absent on the last one.
	NextCursor string `json:"nextCursor,omitempty"`
}

// NotificationList is what people were told of one incident or run, oldest first.
type NotificationList struct {
	Notifications []store.Notification `json:"notifications"`
}

// NoteList is what people noted about one incident, newest first.
type NoteList struct {
	Notes []nightcrier.Note `json:"notes"`
}

// NewNote is a note to be added.
type NewNote struct {
	Text string `json:"text" doc:"What the next one should know; at most 4 KiB"`
	By   string `json:"by,omitempty" doc:"Who writes it"`
}

// IncidentStatus is the short answer about an incident.
type IncidentStatus struct {
	IncidentID string                    `json:"incidentId"`
	Status     nightcrier.IncidentStatus `json:"status"`
	StartedAt  time.Time                 `json:"startedAt,omitzero"`
	// DurationSeconds is the time since it started, up to its end.
	DurationSeconds float64 `json:"durationSeconds"`
	Workspace       string  `json:"workspace,omitempty"`
}

type incidentID struct {
	ID string `path:"id" maxLength:"64" doc:"The incident's UUID"`
}

// body is an answer in JSON.
type body[T any] struct{ Body T }

// raw is an answer whose bytes are made elsewhere.
type raw struct {
	ContentType string `header:"Content-Type"`
	// Policy is what a browser may do with a page; empty for what is none.
	Policy string `header:"Content-Security-Policy"`
	// Vary is set where the answer depends on what the client says it takes.
	Vary string `header:"Vary"`
	Body []byte
}

type incidentQuery struct {
	Status    string    `query:"status" enum:"pending,investigating,resolved,failed,agent_failed,listed"`
	Cluster   string    `query:"cluster" maxLength:"253"`
	Namespace string    `query:"namespace" maxLength:"253"`
	Severity  string    `query:"severity" enum:"info,warning,error,critical" doc:"Only those that are at least as severe"`
	Condition string    `query:"condition" enum:"active,cleared,unknown" doc:"Whether the fault is still there"`
	Text      string    `query:"text" maxLength:"256" doc:"Words that stand in its objects, its kind of fault or its cause"`
	Until     time.Time `query:"until" doc:"Leaves out what was opened then or later"`
	CausedBy  string    `query:"causedBy" maxLength:"64" doc:"Only those that came to the same cause as this incident"`
	Since     time.Time `query:"since" doc:"Leaves out what was opened before"`
	Limit     int       `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Cursor    string    `query:"cursor" maxLength:"256" doc:"nextCursor of the page before"`
}

type reportQuery struct {
	ID     string `path:"id" maxLength:"64" doc:"The incident's UUID"`
	Format string `query:"format" enum:"json,markdown,html" doc:"json when absent, html for a browser"`
	Accept string `header:"Accept" doc:"text/html, as browsers ask, gets a page"`
}

// requestedForm is how the report is to be written.
func (q *reportQuery) requestedForm() string {
	switch {
	case q.Format != "":
		return q.Format
	case strings.Contains(q.Accept, "text/html"):
		return "html"
	}
	return "json"
}

type retryQuery struct {
	ID       string `path:"id" maxLength:"64" doc:"The incident's UUID"`
	Executor string `query:"executor" enum:"builtin,script,claude-code,codex,gemini,goose,ptc" doc:"Who investigates this time; the configured executor when absent"`
}

type noteRequest struct {
	ID   string `path:"id" maxLength:"64" doc:"The incident's UUID"`
	Body NewNote
}

func (a *API) incidentRoutes(h huma.API) {
	huma.Register(h, newOperation("list-incidents", http.MethodGet, "/incidents", "Incidents, newest first"), a.listIncidents)
	huma.Register(h, newOperation("get-incident", http.MethodGet, "/incidents/{id}", "One incident"), a.getIncident)
	huma.Register(h, newOperation("get-incident-status", http.MethodGet, "/incidents/{id}/status", "Where an incident stands"), a.getStatus)
	huma.Register(h, reportOperation(), a.getReport)
	huma.Register(h, newOperation("list-notifications", http.MethodGet, "/incidents/{id}/notifications", "What people were told of an incident"), a.listNotifications)
	huma.Register(h, acceptedOperation("tell-again", "/incidents/{id}/notifications/again", "Send again what may not have reached people"), a.tellAgain)
	huma.Register(h, newOperation("list-notes", http.MethodGet, "/incidents/{id}/notes", "What people noted about an incident"), a.listNotes)
	huma.Register(h, noteOperation(), a.addNote)
	huma.Register(h, acceptedOperation("cancel-incident", "/incidents/{id}/cancel", "Stop the investigation"), a.cancelIncident)
	huma.Register(h, newOperation("clear-incident", http.MethodPost, "/incidents/{id}/clear", "Say that the fault is over"), a.clearIncident)
	huma.Register(h, acceptedOperation("retry-incident", "/incidents/{id}/retry", "Investigate a closed incident again"), a.retryIncident)
}

func acceptedOperation(id, path, summary string) huma.Operation {
	op := newOperation(id, http.MethodPost, path, summary)
	op.DefaultStatus = http.StatusAccepted
	return op
}

func noteOperation() huma.Operation {
	op := newOperation("add-note", http.MethodPost, "/incidents/{id}/notes", "Note something about an incident")
	op.DefaultStatus = http.StatusCreated
	op.MaxBodyBytes = 4 * nightcrier.MaxNote // JSON escapes
	return op
}

func reportOperation() huma.Operation {
	op := newOperation("get-incident-report", http.MethodGet, "/incidents/{id}/report", "The report of an incident")
	op.Responses["200"] = &huma.Response{Description: "report.json (nightcrier.report/v1), or the same as Markdown or as a page",
		Content: map[string]*huma.MediaType{
			"application/json": {Schema: &huma.Schema{Type: huma.TypeObject}},
			"text/markdown":    {Schema: &huma.Schema{Type: huma.TypeString}},
			"text/html":        {Schema: &huma.Schema{Type: huma.TypeString}},
		}}
	return op
}

func (a *API) listIncidents(ctx context.Context, q *incidentQuery) (*body[IncidentList], error) {
	severity, _ := nightcrier.ParseSeverity(cmp.Or(q.Severity, "info")) // one of the four
	list, next, err := a.opt.Incidents.Incidents(ctx, store.IncidentFilter{Status: nightcrier.IncidentStatus(q.Status),
		Cluster: q.Cluster, Namespace: q.Namespace, Severity: severity, Condition: nightcrier.Condition(q.Condition), Text: q.Text, Until: q.Until, CausedBy: q.CausedBy, Since: q.Since, Limit: q.Limit, Cursor: q.Cursor})
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	return &body[IncidentList]{IncidentList{Incidents: notNil(list), NextCursor: next}}, nil
}

// readIncident checks the id and reads the incident; its error is an answer.
func (a *API) readIncident(ctx context.Context, id string) (nightcrier.Incident, error) {
	if err := nightcrier.CheckID(id); err != nil {
		return nightcrier.Incident{}, a.problemFor(ctx, err)
	}
	inc, err := a.opt.Incidents.Incident(ctx, id)
	if err != nil {
		return nightcrier.Incident{}, a.problemFor(ctx, err)
	}
	return inc, nil
}

func (a *API) getIncident(ctx context.Context, in *incidentID) (*body[nightcrier.Incident], error) {
	inc, err := a.readIncident(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &body[nightcrier.Incident]{inc}, nil
}

func (a *API) listNotifications(ctx context.Context, in *incidentID) (*body[NotificationList], error) {
	inc, err := a.readIncident(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	list, err := a.opt.Incidents.Notifications(ctx, inc.ID)
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	return &body[NotificationList]{NotificationList{notNil(list)}}, nil
}

func (a *API) tellAgain(ctx context.Context, in *incidentID) (*body[NotificationList], error) {
	return control(ctx, a, in.ID, func(c Control) (NotificationList, error) {
		list, err := c.TellAgain(ctx, in.ID)
		return NotificationList{list}, err
	})
}

func (a *API) listNotes(ctx context.Context, in *incidentID) (*body[NoteList], error) {
	inc, err := a.readIncident(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	list, err := a.opt.Incidents.Notes(ctx, inc.ID)
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	return &body[NoteList]{NoteList{notNil(list)}}, nil
}

func (a *API) addNote(ctx context.Context, in *noteRequest) (*body[nightcrier.Note], error) {
	return control(ctx, a, in.ID, func(c Control) (nightcrier.Note, error) { return c.Note(ctx, in.ID, in.Body.By, in.Body.Text) })
}

func (a *API) getStatus(ctx context.Context, in *incidentID) (*body[IncidentStatus], error) {
	inc, err := a.readIncident(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &body[IncidentStatus]{IncidentStatus{IncidentID: inc.ID, Status: inc.Status, StartedAt: inc.StartedAt,
		DurationSeconds: a.durationOf(inc).Seconds(), Workspace: inc.Workspace}}, nil
}

func (a *API) durationOf(inc nightcrier.Incident) time.Duration {
	switch {
	case inc.StartedAt.IsZero():
		return 0
	case inc.CompletedAt.Before(inc.StartedAt): // not ended, or retried and started anew
		return max(0, a.opt.Now().Sub(inc.StartedAt))
	}
	return inc.CompletedAt.Sub(inc.StartedAt)
}

func (a *API) getReport(ctx context.Context, in *reportQuery) (*raw, error) {
	inc, err := a.readIncident(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	rep, err := a.opt.Incidents.Report(ctx, in.ID)
	if code := nightcrier.CodeOf(err); code == nightcrier.NotFound || code == nightcrier.NoReport || err == nil && len(rep) == 0 {
		return nil, newProblem(nightcrier.NoReport, noReport(inc))
	}
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	form := in.requestedForm()
	if form == "json" {
		return &raw{ContentType: "application/json", Vary: "Accept", Body: rep}, nil
	}
	md, err := a.opt.Markdown(ctx, inc, rep)
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	if form == "markdown" {
		return &raw{ContentType: "text/markdown; charset=utf-8", Vary: "Accept", Body: md}, nil
	}
	return a.renderPage(ctx, inc, rep, md)
}

// renderPage returns the report for a browser.
func (a *API) renderPage(ctx context.Context, inc nightcrier.Incident, rep, md []byte) (*raw, error) {
	var r nightcrier.Report
	if err := json.Unmarshal(rep, &r); err != nil {
		return nil, a.problemFor(ctx, nightcrier.Errorf(nightcrier.Internal, "decode the report: %w", err))
	}
	policy := report.ContentSecurityPolicy + "; frame-ancestors 'none'"
	return &raw{ContentType: "text/html; charset=utf-8", Policy: policy, Vary: "Accept", Body: report.HTML(&r, &inc, md)}, nil
}

func noReport(inc nightcrier.Incident) string {
	s := "incident " + inc.ID + " has no report: it is " + string(inc.Status)
	if inc.FailureReason != "" {
		s += " (" + inc.FailureReason + ")"
	}
	return s
}

func (a *API) cancelIncident(ctx context.Context, in *incidentID) (*body[nightcrier.Run], error) {
	return control(ctx, a, in.ID, func(c Control) (nightcrier.Run, error) {
		return c.Cancel(ctx, in.ID, "cancelled by a request")
	})
}

func (a *API) clearIncident(ctx context.Context, in *incidentID) (*body[nightcrier.Incident], error) {
	return control(ctx, a, in.ID, func(c Control) (nightcrier.Incident, error) { return c.MarkCleared(ctx, in.ID, "") })
}

func (a *API) retryIncident(ctx context.Context, in *retryQuery) (*body[nightcrier.Run], error) {
	return control(ctx, a, in.ID, func(c Control) (nightcrier.Run, error) { return c.Retry(ctx, in.ID, in.Executor) })
}

// control has the server change what has an id, where one runs.
func control[T any](ctx context.Context, a *API, id string, do func(Control) (T, error)) (*body[T], error) {
	if err := nightcrier.CheckID(id); err != nil {
		return nil, a.problemFor(ctx, err)
	}
	if a.opt.Control == nil {
		return nil, newProblem(nightcrier.Unreachable, "no server runs here, and only a server can change anything; start one with `nightcrier serve`")
	}
	answer, err := do(a.opt.Control)
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	return &body[T]{answer}, nil
}

// notNil makes an empty list [] in JSON.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
