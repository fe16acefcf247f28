package slack

import (
	"fmt"
	"net/url"
	"sort"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/notify"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// topActions is how many recommended actions a message shows.
const topActions = 3

const (
	green = "#2eb67d"
	grey  = "#8d8d8d"
)

var colours = map[nightcrier.Severity]string{
	nightcrier.Info: "#36c5f0", nightcrier.Warning: "#ecb22e", nightcrier.ErrorSeverity: "#e8912d", nightcrier.Critical: "#e01e5a",
}

// render gives m its form. Masking happens to every text on the way.
func (w *Webhook) render(m notify.Message) payload {
	title, colour, blocks := w.content(m)
	title = w.mask(title)
	p := payload{Text: escape(texts.FoldLine(title), maxSection), Blocks: []block{header(title)}, literal: asItIs}
	if most := maxBlocks - len(p.Blocks); len(blocks) > most {
		blocks = append(blocks[:most-1], section("", "… cut; there is more."))
	}
	if len(blocks) > 0 {
		p.Attachments = []attachment{{Color: colour, Fallback: p.Text, Blocks: blocks}}
	}
	return p
}

func (w *Webhook) content(m notify.Message) (title, colour string, blocks []block) {
	switch {
	case m.Kind == notify.StormBegan && m.Storm != nil:
		return w.storm(m)
	case m.Breaker != nil:
		return w.breaker(m)
	case m.Budget != nil:
		return w.budget(m)
	case m.Kind == notify.SeverityRose && m.Incident != nil:
		return w.rise(m)
	case m.Kind == notify.Over && m.Incident != nil:
		return w.over(m)
	case m.Incident != nil:
		return w.outcome(m)
	}
	return "Nightcrier: " + string(m.Kind), grey, nil
}

func (w *Webhook) outcome(m notify.Message) (string, string, []block) {
	inc := m.Incident
	colour := colours[inc.Severity]
	blocks := []block{w.facts(inc, m.Report).block()}
	if inc.Status != nightcrier.Resolved {
		blocks = append(blocks, section("No valid report", w.mask(failure(inc))))
	}
	if inc.CausedBy != "" {
		blocks = append(blocks, section("", "The same cause as that of incident "+inc.CausedBy+", which is less severe."))
	}
	if m.Report != nil {
		blocks = append(blocks, w.findings(m.Report)...)
	}
	blocks = append(blocks, footer(link(w.mask(m.Link)), "incident "+escape(inc.ID, 64), checked(m.Report), auditHead(m.Report)))
	return headline(inc) + ": " + inc.Status.Words(), colour, blocks
}

var severityMarks = map[nightcrier.Severity]string{
	nightcrier.Info: "🔵", nightcrier.Warning: "🟡", nightcrier.ErrorSeverity: "🟠", nightcrier.Critical: "🔴",
}

// headline is all that a phone shows: which cluster, what, and where.
func headline(inc *nightcrier.Incident) string {
	return fmt.Sprintf("%s %s: %s on %s", severityMarks[inc.Severity], inc.Cluster, or(inc.FaultType, "Fault"), inc.Resource)
}

func (w *Webhook) facts(inc *nightcrier.Incident, rep *nightcrier.Report) table {
	confidence, severity := "", inc.Severity.String()
	if rep != nil {
		severity = strings.TrimSpace(severity + " " + rep.Severity)
		if rep.RootCause != nil {
			confidence = string(rep.RootCause.Confidence)
		}
	}
	t := table{
		{"Cluster", inc.Cluster}, {"Namespace", or(inc.Namespace(), "(cluster-wide)")},
		{"Resource", inc.Resource.Kind + "/" + inc.Resource.Name}, {"Severity", severity},
		{"Status", inc.Status.Words()}, {"Confidence", confidence}, {"Duration", duration(inc)},
	}
	for i := range t {
		t[i][1] = w.mask(t[i][1])
	}
	return t
}

func (w *Webhook) findings(rep *nightcrier.Report) []block {
	blocks := []block{section("Root cause", w.mask(rootCause(rep)))}
	if s := w.recalled(rep.Recalled); s != "" {
		blocks = append(blocks, section("", s))
	}
	if list := actions(rep.Actions); list != "" {
		blocks = append(blocks, section("Recommended", w.mask(list)))
	}
	return blocks
}

func rootCause(rep *nightcrier.Report) string {
	if rep.RootCause == nil {
		return "None named; the verdict is " + or(string(rep.Verdict), string(nightcrier.VerdictUndetermined)) + "."
	}
	s := rep.RootCause.Summary
	if obj := rep.RootCause.Object.String(); obj != "" {
		s += "\nTo mend: " + obj
	}
	return s
}

// recalled is one line on an earlier incident with the same diagnosis.
func (w *Webhook) recalled(old *nightcrier.Recalled) string {
	if old == nil {
		return ""
	}
	holds := "that no longer holds"
	if old.Holds {
		holds = "that still holds"
	}
	s := fmt.Sprintf("Seen before on %s (incident %s): %s; %s.", old.At.UTC().Format("2006-01-02 15:04 UTC"), old.IncidentID, short(w.mask(old.Summary)), holds)
	if len(old.Notes) > 0 {
		s += " Noted then: " + short(w.mask(old.Notes[0].Text))
	}
	return s
}

// short is a text in one line that leaves room for others.
func short(s string) string {
	const most = 240
	return texts.CutRunes(strings.TrimRight(texts.FoldLine(s), "."), most)
}

func actions(all []nightcrier.Action) string {
	sorted := append([]nightcrier.Action(nil), all...)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].Priority < sorted[j].Priority })
	var lines []string
	for i, a := range sorted[:min(len(sorted), topActions)] {
		lines = append(lines, fmt.Sprintf("%d. %s", i+1, texts.FoldLine(a.Action)))
	}
	return strings.Join(lines, "\n")
}

func failure(inc *nightcrier.Incident) string {
	s := or(inc.FailureReason, "No reason was recorded.")
	if inc.FailureClass != "" {
		s += " (" + string(inc.FailureClass) + ")"
	}
	return s
}

func checked(rep *nightcrier.Report) string {
	if rep == nil || len(rep.Facts) == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %% of %d facts checked", 100*rep.CheckedShare, len(rep.Facts))
}

// headShown is how much of the audit's head a message shows: enough to compare.
const headShown = 12

func auditHead(rep *nightcrier.Report) string {
	if rep == nil || rep.AuditHead == "" {
		return ""
	}
	return "audit " + escape(rep.AuditHead[:min(len(rep.AuditHead), headShown)], maxField)
}

func duration(inc *nightcrier.Incident) string {
	if inc.StartedAt.IsZero() || inc.CompletedAt.Before(inc.StartedAt) {
		return ""
	}
	return inc.CompletedAt.Sub(inc.StartedAt).Round(time.Second).String()
}

func (w *Webhook) rise(m notify.Message) (string, string, []block) {
	inc := m.Incident
	body := fmt.Sprintf("Severity rose from %s to %s; the incident is %s.", m.Was, inc.Severity, inc.Status.Words())
	return headline(inc) + ": severity rose", colours[inc.Severity],
		[]block{w.facts(inc, nil).block(), section("", body), footer(link(w.mask(m.Link)), "incident "+escape(inc.ID, 64))}
}

// over is short: what was told before has the rest.
func (w *Webhook) over(m notify.Message) (string, string, []block) {
	inc := m.Incident
	body := fmt.Sprintf("It is over since %s, and was not seen again for %s.", inc.ClearedAt.UTC().Format("2006-01-02 15:04 UTC"), m.Quiet.Round(time.Second))
	if m.With > 0 {
		body += fmt.Sprintf(" So are %d more with the same cause.", m.With)
	}
	return fmt.Sprintf("✅ %s: %s on %s is over", inc.Cluster, or(inc.FaultType, "Fault"), inc.Resource), green,
		[]block{section("", body), footer(link(w.mask(m.Link)), "incident "+escape(inc.ID, 64))}
}

func (w *Webhook) breaker(m notify.Message) (string, string, []block) {
	b := m.Breaker
	if m.Kind == notify.BreakerClosed {
		return "Executor " + b.Executor + " works again", green,
			[]block{section("", fmt.Sprintf("Its queue moves on; %d runs waited.", b.Waiting))}
	}
	body := fmt.Sprintf("Three runs in a row failed with %s. Its queue holds (%d waiting); a probe runs each minute. Running agents are not touched.",
		or(string(b.Class), "a start error"), b.Waiting)
	blocks := []block{section("", body)}
	if b.Detail != "" {
		blocks = append(blocks, section("Last error", w.mask(b.Detail)))
	}
	return "🔴 Executor " + b.Executor + " is unusable", colours[nightcrier.Critical], blocks
}

func (w *Webhook) budget(m notify.Message) (string, string, []block) {
	whose := "all clusters"
	if m.Budget.Cluster != "" {
		whose = "cluster " + m.Budget.Cluster
	}
	return "🔴 The budget of " + whose + " is used up for " + m.Budget.Day + " (UTC)", colours[nightcrier.Critical],
		[]block{section("", w.mask(m.Budget.Detail)), section("", "Incidents are opened as before and end with the facts; agents are not asked until the day is over or the limit is raised.")}
}

// link makes an http(s) address clickable and shows anything else as it is.
func link(s string) string {
	u, err := url.Parse(s)
	if err != nil || s == "" || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(s, "|<> \n") {
		return escape(texts.FoldLine(s), maxField)
	}
	return "<" + escape(s, maxField) + "|Open the report>"
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
