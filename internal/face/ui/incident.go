package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// incidentPage is one incident: the card first, and below it what that rests on.
type incidentPage struct {
	Incident nightcrier.Incident
	// Report is what the page shows of the report, nil without one. Symptom is when the
	// fault began, Causes all explanations with their tests.
	Report  *report.Page
	Symptom time.Time
	Causes  []nightcrier.Hypothesis
	Over    bool
	Run     runView
	// Runs are those of the incident, the newest first.
	Runs     []nightcrier.Run
	Timeline timeline
	Asked    asked
	Notes    []nightcrier.Note
	Told     []store.Notification
	// Root and Earlier are incidents that this one names, Follows those that it is the root of.
	Root, Earlier *nightcrier.Incident
	Follows       []nightcrier.Incident
}

func (p incidentPage) liveAt() string { return liveRun(p.Run.Run, p.Timeline) }

// Open reports whether an investigation goes on, or is to come.
func (p incidentPage) Open() bool { return p.Incident.Status.Open() }

// asked is what an investigation asked of its cluster: the audit.
type asked struct {
	Requests []journal.Request
	Denied   int
	// Left is how many are not shown.
	Left int
}

// maxAsked bounds how many requests a page lists.
const maxAsked = 200

// incidentOf checks the id and reads the incident.
func (u *UI) incidentOf(ctx context.Context, id string) (nightcrier.Incident, error) {
	if err := nightcrier.CheckID(id); err != nil {
		return nightcrier.Incident{}, nightcrier.Errorf(nightcrier.NotFound, "there is no incident %.64q", id)
	}
	return u.opt.Incidents.Incident(ctx, id)
}

func (u *UI) showIncident(w http.ResponseWriter, r *http.Request) error {
	inc, err := u.incidentOf(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	p := incidentPage{Incident: inc, Symptom: inc.Timestamp, Over: inc.Condition == nightcrier.ConditionCleared}
	if p.Symptom.IsZero() {
		p.Symptom = inc.CreatedAt
	}
	for _, fill := range []func(context.Context, *incidentPage) error{u.fillReport, u.fillRuns, u.fillRelated} {
		if err := fill(r.Context(), &p); err != nil {
			return err
		}
	}
	return u.render(w, r, "incident", objectOf(inc), p)
}

// fillReport reads the report, where there is one.
func (u *UI) fillReport(ctx context.Context, p *incidentPage) error {
	raw, err := u.opt.Incidents.Report(ctx, p.Incident.ID)
	if code := nightcrier.CodeOf(err); code == nightcrier.NotFound || code == nightcrier.NoReport || err == nil && len(raw) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	var rep nightcrier.Report
	if err := json.Unmarshal(raw, &rep); err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "decode the report of %s: %w", p.Incident.ID, err)
	}
	md, err := u.opt.Server.ReportMarkdown(ctx, p.Incident, raw)
	if err != nil {
		return err
	}
	page := report.NewPage(&rep, &p.Incident, md)
	p.Report, p.Causes = &page, page.Others
	if page.First != nil {
		p.Causes = append([]nightcrier.Hypothesis{*page.First}, page.Others...)
	}
	return nil
}

// fillRuns reads the newest run, what happened in it, and the others in short.
func (u *UI) fillRuns(ctx context.Context, p *incidentPage) (err error) {
	p.Runs, _, err = u.opt.Runs.ListRuns(ctx, store.RunFilter{SubjectKind: nightcrier.SubjectIncident, SubjectID: p.Incident.ID, Limit: 20})
	if err != nil || p.Incident.RunID == "" {
		return err
	}
	if p.Run, err = u.readRun(ctx, p.Incident.RunID); err != nil {
		if nightcrier.CodeOf(err) == nightcrier.NotFound {
			err = nil
		}
		return err
	}
	if p.Timeline, err = u.readTimeline(ctx, p.Incident.RunID, maxEntries); err != nil {
		return err
	}
	return u.fillAsked(ctx, p)
}

// fillAsked takes what was asked of the cluster out of the journal.
func (u *UI) fillAsked(ctx context.Context, p *incidentPage) error {
	return journal.EachEntry(ctx, u.opt.Runs, p.Incident.RunID, 1, func(e nightcrier.JournalEntry) error {
		r, err := journal.RequestOf(e)
		if err != nil || r == nil || !r.Done && r.Decision == journal.Allow {
			return nil // what cannot be read is told of in the timeline
		}
		if r.Decision == journal.Deny {
			p.Asked.Denied++
		}
		if len(p.Asked.Requests) == maxAsked {
			p.Asked.Left++
			return nil
		}
		p.Asked.Requests = append(p.Asked.Requests, *r)
		return nil
	})
}

// fillRelated reads what hangs together with the incident.
func (u *UI) fillRelated(ctx context.Context, p *incidentPage) (err error) {
	if p.Notes, err = u.opt.Incidents.Notes(ctx, p.Incident.ID); err != nil {
		return err
	}
	if p.Told, err = u.opt.Incidents.Notifications(ctx, p.Incident.ID); err != nil {
		return err
	}
	for id, to := range map[string]**nightcrier.Incident{p.Incident.CausedBy: &p.Root, p.Incident.PreviousID: &p.Earlier} {
		if id == "" {
			continue
		}
		if inc, err := u.opt.Incidents.Incident(ctx, id); err == nil { // it may be gone
			*to = &inc
		}
	}
	p.Follows, _, err = u.opt.Incidents.Incidents(ctx, store.IncidentFilter{CausedBy: p.Incident.ID, Limit: 20})
	return err
}

func incidentPath(id string) string { return "/incidents/" + url.PathEscape(id) }

func (u *UI) cancelIncident(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	_, err := u.opt.Control.Cancel(r.Context(), id, "cancelled on the page by "+sessionIn(r.Context()).Name)
	return u.done(w, r, incidentPath(id), err)
}

func (u *UI) retryIncident(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	_, err := u.opt.Control.Retry(r.Context(), id, "")
	return u.done(w, r, incidentPath(id), err)
}

func (u *UI) clearIncident(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	_, err := u.opt.Control.MarkCleared(r.Context(), id, sessionIn(r.Context()).Name)
	return u.done(w, r, incidentPath(id), err)
}

func (u *UI) noteIncident(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	_, err := u.opt.Control.Note(r.Context(), id, sessionIn(r.Context()).Name, r.FormValue("text"))
	return u.done(w, r, incidentPath(id)+"#notes", err)
}

// evidencePage is one recorded answer, with what a fact rests on marked in it.
type evidencePage struct {
	Incident nightcrier.Incident
	Item     evidence.Item
	Fact     *nightcrier.Fact
	Lines    []evidenceLine
	// Hits is how many lines were marked; Whole, that all lines are shown.
	Hits  int
	Whole bool
}

// evidenceLine is a line of an answer; Skipped is how many were left out before it.
type evidenceLine struct {
	Number, Skipped int
	Text            string
	Hit             int // counted from 1, 0 for none
}

// Bounds of what is shown of an answer: lines around a hit, lines in all, characters of one.
const (
	aroundHit = 6
	maxLines  = 4000
	maxLine   = 2000
	maxHits   = 200
)

func (u *UI) showEvidence(w http.ResponseWriter, r *http.Request) error {
	inc, err := u.incidentOf(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	item, body, err := u.opt.Server.Evidence(r.Context(), inc.ID, r.PathValue("evidence"))
	if err != nil {
		return err
	}
	p := evidencePage{Incident: inc, Item: item, Whole: r.URL.Query().Has("whole")}
	facts, err := u.factsOf(r.Context(), inc, item.ID)
	if err != nil {
		return err
	}
	var marks []string
	for _, f := range facts {
		if want := r.URL.Query().Get("fact"); want == "" || want == f.ID {
			marks = append(marks, report.Marks(f)...)
			if want != "" {
				p.Fact = &f
			}
		}
	}
	p.Lines, p.Hits = markLines(body, marks, p.Whole)
	return u.render(w, r, "evidence", "Evidence "+item.ID, p)
}

// factsOf are the facts of an incident's report that cite an answer.
func (u *UI) factsOf(ctx context.Context, inc nightcrier.Incident, id string) (facts []nightcrier.Fact, err error) {
	raw, err := u.opt.Incidents.Report(ctx, inc.ID)
	if err != nil || len(raw) == 0 {
		if code := nightcrier.CodeOf(err); code == nightcrier.NotFound || code == nightcrier.NoReport {
			err = nil
		}
		return nil, err
	}
	var rep nightcrier.Report
	if err := json.Unmarshal(raw, &rep); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "decode the report of %s: %w", inc.ID, err)
	}
	for _, f := range rep.Facts {
		if slices.Contains(f.Evidence, id) {
			facts = append(facts, f)
		}
	}
	return facts, nil
}

// markLines takes an answer apart into lines and marks those that show one of the values.
// Unless all is wanted, what is far from any hit is left out.
func markLines(body []byte, marks []string, whole bool) (lines []evidenceLine, hits int) {
	var pretty bytes.Buffer
	if json.Indent(&pretty, body, "", "  ") == nil {
		body = pretty.Bytes()
	}
	all := strings.Split(strings.TrimRight(string(body), "\n"), "\n")
	hit := make([]int, len(all))
	for i, l := range all {
		if hits < maxHits && slices.ContainsFunc(marks, func(m string) bool { return showsValue(l, m) }) {
			hits++
			hit[i] = hits
		}
	}
	whole = whole || hits == 0
	skipped, near := 0, 0 // near is up to which line is shown
	for i, l := range all {
		for j := i; j < min(len(all), i+aroundHit+1); j++ {
			if hit[j] > 0 {
				near = max(near, j+aroundHit)
			}
		}
		if !whole && i > near || !whole && near == 0 || len(lines) >= maxLines {
			skipped++
			continue
		}
		lines = append(lines, evidenceLine{Number: i + 1, Skipped: skipped, Text: text.MarkHidden(text.CutRunes(l, maxLine)), Hit: hit[i]})
		skipped = 0
	}
	if skipped > 0 {
		lines = append(lines, evidenceLine{Skipped: skipped})
	}
	return lines, hits
}

// showsValue reports whether a line shows a value, in the spelling of whoever quoted it.
func showsValue(line, value string) bool {
	if len(line) > 64<<10 {
		return strings.Contains(line, value)
	}
	return strings.Contains(strings.ToLower(line), strings.ToLower(value)) || report.Stands([]byte(line), value)
}
