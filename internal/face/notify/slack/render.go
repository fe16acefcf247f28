package slack

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"sort"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/notify"
	texts "nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report"
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

// renderMessage gives m its form. Masking happens to every text on the way.
func (w *Webhook) renderMessage(m notify.Message) payload {
	title, colour, blocks := w.renderContent(m)
	title = texts.MaskClean(title, w.mask, texts.FoldLine)
	p := payload{Text: escapeText(title, maxSection), Blocks: []block{headerBlock(title)}, literal: asItIs}
	if most := maxBlocks - len(p.Blocks); len(blocks) > most {
		blocks = append(blocks[:most-1], sectionBlock("", "… cut; there is more."))
	}
	if len(blocks) > 0 {
		p.Attachments = []attachment{{Color: colour, Fallback: p.Text, Blocks: blocks}}
	}
	return p
}

func (w *Webhook) renderContent(m notify.Message) (title, colour string, blocks []block) {
	switch {
	case m.Kind == notify.StormBegan && m.Storm != nil:
		return w.renderStorm(m)
	case m.Breaker != nil:
		return w.renderBreaker(m)
	case m.Run != nil:
		return w.renderRun(m.Run)
	case m.Approval != nil:
		return w.renderApproval(m.Approval)
	case m.Budget != nil:
		return w.renderBudget(m)
	case m.Kind == notify.SeverityRose && m.Incident != nil:
		return w.renderRise(m)
	case m.Kind == notify.Over && m.Incident != nil:
		return w.renderOver(m)
	case m.Incident != nil:
		return w.renderOutcome(m)
	}
	return "Nightcrier: " + string(m.Kind), grey, nil
}

func (w *Webhook) renderOutcome(m notify.Message) (string, string, []block) {
	inc := m.Incident
	colour := colours[inc.Severity]
	blocks := []block{w.factsTable(inc, m.Report).asBlock()}
	if inc.Status != nightcrier.Resolved {
		blocks = append(blocks, sectionBlock("No valid report", w.mask(describeFailure(inc))))
	}
	if inc.CausedBy != "" {
		blocks = append(blocks, sectionBlock("", "The same cause as that of incident "+inc.CausedBy+", which is less severe."))
	}
	if m.Report != nil {
		blocks = append(blocks, w.findingBlocks(m.Report)...)
	}
	blocks = append(blocks, footerBlock(renderLink(w.mask(m.Link)), "incident "+escapeText(inc.ID, 64), describeChecked(m.Report), auditHead(m.Report)))
	return headlineOf(inc) + ": " + inc.Status.Words(), colour, blocks
}

var severityMarks = map[nightcrier.Severity]string{
	nightcrier.Info: "🔵", nightcrier.Warning: "🟡", nightcrier.ErrorSeverity: "🟠", nightcrier.Critical: "🔴",
}

// headlineOf is all that a phone shows: which cluster, what, and where.
func headlineOf(inc *nightcrier.Incident) string {
	return fmt.Sprintf("%s %s: %s on %s", severityMarks[inc.Severity], inc.Cluster, cmp.Or(inc.FaultType, "Fault"), inc.Resource)
}

func (w *Webhook) factsTable(inc *nightcrier.Incident, rep *nightcrier.Report) table {
	confidence, severity := "", inc.Severity.String()
	if rep != nil {
		severity = strings.TrimSpace(severity + " " + rep.Severity)
		if rep.RootCause != nil {
			confidence = string(rep.RootCause.Confidence)
		}
	}
	t := table{
		{"Cluster", inc.Cluster}, {"Namespace", cmp.Or(inc.Namespace(), "(cluster-wide)")},
		{"Resource", inc.Resource.Kind + "/" + inc.Resource.Name}, {"Severity", severity},
		{"Status", inc.Status.Words()}, {"Confidence", confidence}, {"Duration", describeDuration(inc)},
	}
	for i := range t {
		t[i][1] = texts.MaskClean(t[i][1], w.mask, texts.FoldLine)
	}
	return t
}

func (w *Webhook) findingBlocks(rep *nightcrier.Report) []block {
	blocks := []block{sectionBlock("Root cause", w.mask(rootCause(rep)))}
	if s := w.describeRecalled(rep.Recalled); s != "" {
		blocks = append(blocks, sectionBlock("", s))
	}
	if list := listActions(rep); list != "" {
		blocks = append(blocks, sectionBlock("Recommended", w.mask(list)))
	}
	return blocks
}

func rootCause(rep *nightcrier.Report) string {
	if rep.RootCause == nil {
		return "None named; the verdict is " + cmp.Or(string(rep.Verdict), string(nightcrier.VerdictUndetermined)) + "."
	}
	s := rep.RootCause.Summary
	if obj := rep.RootCause.Object.String(); obj != "" {
		s += "\nTo mend: " + obj
	}
	return s
}

// describeRecalled writes one line on an earlier incident with the same diagnosis.
func (w *Webhook) describeRecalled(old *nightcrier.Recalled) string {
	if old == nil {
		return ""
	}
	holds := "that no longer holds"
	if old.Holds {
		holds = "that still holds"
	}
	s := fmt.Sprintf("Seen before on %s (incident %s): %s; %s.", old.At.UTC().Format("2006-01-02 15:04 UTC"), old.IncidentID, w.shortLine(old.Summary), holds)
	if len(old.Notes) > 0 {
		s += " Noted then: " + w.shortLine(old.Notes[0].Text)
	}
	return s
}

// shortLine is a text in one line, masked, that leaves room for others.
func (w *Webhook) shortLine(s string) string {
	const most = 240
	return texts.CutRunes(strings.TrimRight(texts.MaskClean(s, w.mask, texts.FoldLine), "."), most)
}

// listActions lists what is recommended, the first with the command for it.
func listActions(rep *nightcrier.Report) string {
	sorted := slices.Clone(rep.Actions)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].Priority < sorted[j].Priority })
	var lines []string
	for i, a := range sorted[:min(len(sorted), topActions)] {
		lines = append(lines, fmt.Sprintf("%d. %s", i+1, texts.FoldLine(a.Action)))
		if step := report.StepOf(rep, a); i == 0 && step.Command != "" {
			lines = append(lines, "`"+texts.FoldLine(step.Command)+"`")
			if step.Effect != report.Reads {
				lines = append(lines, "It "+string(step.Effect)+".")
			}
		}
	}
	return strings.Join(lines, "\n")
}

func describeFailure(inc *nightcrier.Incident) string {
	s := cmp.Or(inc.FailureReason, "No reason was recorded.")
	if inc.FailureClass != "" {
		s += " (" + string(inc.FailureClass) + ")"
	}
	return s
}

func describeChecked(rep *nightcrier.Report) string {
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
	return "audit " + escapeText(rep.AuditHead[:min(len(rep.AuditHead), headShown)], maxField)
}

func describeDuration(inc *nightcrier.Incident) string {
	if inc.StartedAt.IsZero() || inc.CompletedAt.Before(inc.StartedAt) {
		return ""
	}
	return inc.CompletedAt.Sub(inc.StartedAt).Round(time.Second).String()
}

func (w *Webhook) renderRise(m notify.Message) (string, string, []block) {
	inc := m.Incident
	body := fmt.Sprintf("Severity rose from %s to %s; the incident is %s.", m.Was, inc.Severity, inc.Status.Words())
	return headlineOf(inc) + ": severity rose", colours[inc.Severity],
		[]block{w.factsTable(inc, nil).asBlock(), sectionBlock("", body), footerBlock(renderLink(w.mask(m.Link)), "incident "+escapeText(inc.ID, 64))}
}

// renderOver is brief: what was told before has the rest.
func (w *Webhook) renderOver(m notify.Message) (string, string, []block) {
	inc := m.Incident
	body := fmt.Sprintf("It is over since %s, and was not seen again for %s.", inc.ClearedAt.UTC().Format("2006-01-02 15:04 UTC"), m.Quiet.Round(time.Second))
	if m.With > 0 {
		body += fmt.Sprintf(" So are %d more with the same cause.", m.With)
	}
	return fmt.Sprintf("✅ %s: %s on %s is over", inc.Cluster, cmp.Or(inc.FaultType, "Fault"), inc.Resource), green,
		[]block{sectionBlock("", body), footerBlock(renderLink(w.mask(m.Link)), "incident "+escapeText(inc.ID, 64))}
}

func (w *Webhook) renderBreaker(m notify.Message) (string, string, []block) {
	b := m.Breaker
	if m.Kind == notify.BreakerClosed {
		return "Executor " + b.Executor + " works again", green,
			[]block{sectionBlock("", fmt.Sprintf("Its queue moves on; %d runs waited.", b.Waiting))}
	}
	body := fmt.Sprintf("Three runs in a row failed with %s. Its queue holds (%d waiting); a probe runs each minute. Running agents are not touched.",
		cmp.Or(string(b.Class), "a start error"), b.Waiting)
	blocks := []block{sectionBlock("", body)}
	if b.Detail != "" {
		blocks = append(blocks, sectionBlock("Last error", w.mask(b.Detail)))
	}
	return "🔴 Executor " + b.Executor + " is unusable", colours[nightcrier.Critical], blocks
}

func (w *Webhook) renderBudget(m notify.Message) (string, string, []block) {
	whose := "all clusters"
	if m.Budget.Cluster != "" {
		whose = "cluster " + m.Budget.Cluster
	}
	return "🔴 The budget of " + whose + " is used up for " + m.Budget.Day + " (UTC)", colours[nightcrier.Critical],
		[]block{sectionBlock("", w.mask(m.Budget.Detail)), sectionBlock("", "Incidents are opened as before and end with the facts; agents are not asked until the day is over or the limit is raised.")}
}

// renderLink makes an http(s) address clickable and shows anything else as it is.
func renderLink(s string) string {
	u, err := url.Parse(s)
	if err != nil || s == "" || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(s, "|<> \n") {
		return escapeText(texts.FoldLine(s), maxField)
	}
	return "<" + escapeText(s, maxField) + "|Open the report>"
}
