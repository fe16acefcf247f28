package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
	"nightcrier.dev/nightcrier/internal/text"
)

// Investigator looks into one object now and returns what came of it. It may
// take minutes; cancelling ctx stops it.
type Investigator interface {
	Investigate(ctx context.Context, cluster string, of nightcrier.Resource) (Finding, error)
}

// Finding is an investigation that has ended.
type Finding struct {
	Incident nightcrier.Incident
	// Report is nil when there is none; Markdown is the same for people.
	Report   *nightcrier.Report
	Markdown []byte
}

// Records are the incidents of a running server, or of a store.
type Records interface {
	// Report returns an incident's report as Markdown or JSON; NotFound and
	// NoReport are told apart.
	Report(ctx context.Context, incident string, markdown bool) ([]byte, error)
	// Search returns incidents, the newest first; empty arguments select all.
	Search(ctx context.Context, status, cluster string, since time.Time, limit int) ([]nightcrier.Incident, error)
}

const (
	maxReport   = 64 << 10 // bytes of a report that are shown
	maxSearched = 500      // incidents that a query is looked for in
)

func (s *Server) addIncidents(p *sdk.Server) {
	if s.cfg.Investigator != nil {
		s.addTool(p, tool{name: "investigate", title: "Incidents: Investigate", openWorld: true, output: kubetool.SchemaOf[investigated](nil), run: s.investigateObject,
			about: "Investigate what is wrong with one object: collects facts (state, events, logs, recent changes), applies diagnostic rules, and returns a report in Markdown with the incident's id and a verdict. Takes seconds to minutes.",
			params: s.withContextParam(kubetool.Params{
				{Name: "kind", Type: kubetool.String, Required: true, About: "Kind of the object, such as Deployment or Pod"},
				{Name: "name", Type: kubetool.String, Required: true, About: "Name of the object"},
				{Name: "namespace", Type: kubetool.String, Default: "default", About: "Namespace of the object; not used for cluster-wide kinds"}})})
	}
	if s.cfg.Records == nil {
		return
	}
	s.addTool(p, tool{name: "get_report", title: "Incidents: Get Report", idempotent: true, output: kubetool.SchemaOf[reported](nil), run: s.showReport,
		about: "The report of an incident: what failed, the cause with its evidence, what to do.",
		params: kubetool.Params{
			{Name: "incident", Type: kubetool.String, Required: true, About: "Id of the incident"},
			{Name: "output", Type: kubetool.String, Enum: []string{"markdown", "json"}, Default: "markdown", About: "Form of the report"}}})
	s.addTool(p, tool{name: "search_incidents", title: "Incidents: Search", idempotent: true, output: kubetool.SchemaOf[incidents](writesItself), run: s.searchIncidents,
		about: "Search past and present incidents by words, cluster, status and age; the newest first.",
		params: kubetool.Params{
			{Name: "query", Type: kubetool.String, About: "Words that must all stand in the incident: object, namespace, fault type"},
			{Name: "cluster", Type: kubetool.String, About: "Only incidents of this cluster"},
			{Name: "status", Type: kubetool.String, Enum: statusNames(), About: "Only incidents in this status"},
			{Name: "since", Type: kubetool.String, About: "Only incidents that began after this time (RFC 3339) or within this duration (24h)"},
			{Name: "limit", Type: kubetool.Integer, Min: 1, Max: 100, Default: 20, About: "The most incidents to return"}}})
}

func statusNames() []string {
	var names []string
	for _, st := range nightcrier.IncidentStatuses() {
		names = append(names, string(st))
	}
	return names
}

// investigated is what investigate tells programs.
type investigated struct {
	Incident string                    `json:"incident"`
	Status   nightcrier.IncidentStatus `json:"status"`
	// Valid says that there is a report, and that it is whole.
	Valid         bool               `json:"valid"`
	Verdict       nightcrier.Verdict `json:"verdict,omitempty"`
	RootCause     string             `json:"rootCause,omitempty"`
	FailureReason string             `json:"failureReason,omitempty"`
	// Markdown is the report for people.
	Markdown string `json:"markdown,omitempty"`
}

// reported is what get_report tells programs: the report in the form that was asked for.
// One that is no JSON, or too much of it, is left out.
type reported struct {
	Incident  string `json:"incident"`
	Report    any    `json:"report,omitempty"`
	Markdown  string `json:"markdown,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

// writesItself are the schemas of what writes itself as JSON. Of an incident those of its
// fields that say what happened are named.
var writesItself = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[nightcrier.Incident](): {Type: "object", Required: []string{"incidentId", "cluster", "status", "severity"}, Properties: map[string]*jsonschema.Schema{
		"incidentId": {Type: "string"}, "cluster": {Type: "string"}, "status": {Type: "string"}, "severity": {Type: "string"},
		"faultType": {Type: "string"}, "resource": {Type: "object"}, "owner": {Type: "object"}, "condition": {Type: "string"},
		"rootCause": {Type: "string"}, "createdAt": {Type: "string", Format: "date-time"},
	}},
}

// incidents is what search_incidents tells.
type incidents struct {
	Incidents []nightcrier.Incident `json:"incidents"`
	Total     int                   `json:"total"`
	More      bool                  `json:"more"`
}

func (s *Server) investigateObject(ctx context.Context, req *sdk.CallToolRequest, a kubetool.Args) (answer, error) {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		return answer{}, nightcrier.Errorf(nightcrier.Exhausted, "%d investigations are running, which is the most; try again when one has ended", s.cfg.Limits.Investigations)
	}
	of := nightcrier.Resource{Kind: a.String("kind"), Namespace: a.String("namespace"), Name: a.String("name")}
	if err := of.Check(); err != nil {
		return answer{}, err
	}
	stop := reportProgress(ctx, req, s.cfg.Limits.Progress, "investigating "+of.String())
	f, err := s.cfg.Investigator.Investigate(ctx, s.clusterOf(a).Name, of)
	stop()
	if err != nil {
		return answer{}, err
	}
	data := investigated{Incident: f.Incident.ID, Status: f.Incident.Status, FailureReason: f.Incident.FailureReason}
	verdict := "no valid report: " + cmp.Or(f.Incident.FailureReason, string(f.Incident.Status))
	if f.Report != nil && f.Report.Valid {
		data.Valid, data.Verdict, verdict = true, f.Report.Verdict, string(f.Report.Verdict)
		if f.Report.RootCause != nil {
			data.RootCause = f.Report.RootCause.Summary
			verdict += ": " + data.RootCause
		}
	}
	head := fmt.Sprintf("incident: %s\nverdict: %s\n\n", f.Incident.ID, text.FoldLine(text.MarkHidden(verdict)))
	data.Markdown = boundDocument(f.Markdown)
	return answer{head + data.Markdown, data}, nil
}

// boundDocument is a document as it may be shown, and says what of it is not.
func boundDocument(doc []byte) string {
	whole := text.MarkHidden(string(doc))
	kept := text.KeepBytes(whole, maxReport)
	if len(kept) < len(whole) {
		kept += fmt.Sprintf("\n(cut: %d of %d bytes are shown)\n", len(kept), len(whole))
	}
	return kept
}

// reportProgress tells the client every so often that the call goes on, if it wants to
// hear that; clients wait longer then. The returned function ends it.
func reportProgress(ctx context.Context, req *sdk.CallToolRequest, every time.Duration, what string) (stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // ends with cancel
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for step := 1; ; step++ {
			err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(step), Message: what})
			if err != nil {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (s *Server) showReport(ctx context.Context, _ *sdk.CallToolRequest, a kubetool.Args) (answer, error) {
	id := a.String("incident")
	if len(id) > 64 || strings.Trim(id, "0123456789abcdefABCDEF-") != "" {
		return answer{}, nightcrier.Errorf(nightcrier.Invalid, "argument incident is not the id of one; search_incidents finds them")
	}
	markdown := a.String("output") == "markdown"
	body, err := s.cfg.Records.Report(ctx, id, markdown)
	if err != nil {
		return answer{}, err
	}
	shown, data := boundDocument(body), reported{Incident: id, Truncated: len(body) > maxReport}
	if markdown {
		data.Markdown = shown
	} else if data.Truncated || json.Unmarshal(body, &data.Report) != nil {
		data.Report, data.Truncated = nil, true
	}
	return answer{shown, data}, nil
}

func (s *Server) searchIncidents(ctx context.Context, _ *sdk.CallToolRequest, a kubetool.Args) (answer, error) {
	since, err := sinceWhen(a.String("since"), s.cfg.Now())
	if err != nil {
		return answer{}, err
	}
	words, limit := strings.Fields(strings.ToLower(a.String("query"))), a.Int("limit")
	read := limit + 1
	if len(words) > 0 {
		read = maxSearched
	}
	list, err := s.cfg.Records.Search(ctx, a.String("status"), a.String("cluster"), since, read)
	if err != nil {
		return answer{}, err
	}
	list = slices.DeleteFunc(list, func(inc nightcrier.Incident) bool { return !hasAllWords(inc, words) })
	more := len(list) > limit
	list = list[:min(len(list), limit)]
	if list == nil {
		list = []nightcrier.Incident{}
	}
	data := incidents{Incidents: list, Total: len(list), More: more}
	shown, err := indentJSON(data)
	return answer{text.MarkHidden(shown), data}, err
}

// hasAllWords reports whether all words stand in what is known of an incident.
func hasAllWords(inc nightcrier.Incident, words []string) bool {
	raw, err := json.Marshal(inc)
	if err != nil {
		return false
	}
	text := strings.ToLower(string(raw))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

// sinceWhen reads a time, or a duration before now.
func sinceWhen(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, nightcrier.Errorf(nightcrier.Invalid, "argument since is %q; it must be a time such as 2026-11-20T05:00:00Z or a duration such as 24h", text.CutLine(s, 64))
	}
	return t, nil
}
