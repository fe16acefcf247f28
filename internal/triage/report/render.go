package report

import (
	"bytes"
	"cmp"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	texts "nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report/internal/markdown"
)

// Render returns the report as investigation.md.
func Render(r *nightcrier.Report, d Detail) []byte { return renderReport(r, d, false) }

// Final returns the report as final-report.md: the same in normal form, with
// what our check made of each fact.
func Final(r *nightcrier.Report, d Detail) []byte {
	return MarkOver(renderReport(r, d, true), d.Incident)
}

// MarkOver says at the top of a final report that the fault is over, when it is
// and the report does not say so: that may come to be known after it was written.
func MarkOver(md []byte, inc *nightcrier.Incident) []byte {
	title, said := []byte(Title+"\n\n"), []byte("**The fault was over at ")
	if inc == nil || inc.Condition != nightcrier.ConditionCleared || inc.ClearedAt.IsZero() || !bytes.HasPrefix(md, title) {
		return md
	}
	rest := md[len(title):]
	if bytes.HasPrefix(rest, said) {
		return md
	}
	rest = bytes.Replace(rest, []byte(statusActive+"\n"), []byte(statusActive+" when this was written\n"), 1)
	return fmt.Appendf(nil, "%s%s%s.**\n\n%s", title, said, inc.ClearedAt.UTC().Format("2006-01-02 15:04:05 UTC"), rest)
}

// MarkCause says at the top of a final report that another incident has the same cause,
// which is known only when both have ended.
func MarkCause(md []byte, inc *nightcrier.Incident) []byte {
	title := []byte(Title + "\n\n")
	if inc == nil || inc.CausedBy == "" || !bytes.HasPrefix(md, title) {
		return md
	}
	return fmt.Appendf(nil, "%s**Caused by incident %s: both came to the same cause of the same object.**\n\n%s", title, inc.CausedBy, md[len(title):])
}

func renderReport(r *nightcrier.Report, d Detail, final bool) []byte {
	p := printer{r: r, d: d, depth: d.Depth.forSeverity(r.Severity), final: final}
	p.writeLine(Title)
	p.writeLine("")
	p.printOrigin()
	p.printUnseen()
	for i, section := range []func(){p.printCard, p.printProblem, p.printFindings, p.printAnalysis, p.printRemediation, p.printProof, p.printSupporting} {
		p.writeLine("")
		p.writeLine(headings[i])
		p.writeLine("")
		section()
	}
	return []byte(p.b.String())
}

// printer writes one report.
type printer struct {
	b     strings.Builder
	r     *nightcrier.Report
	d     Detail
	depth Depth
	final bool
}

func (p *printer) writeLine(s string) {
	p.b.WriteString(s)
	p.b.WriteByte('\n')
}

func (p *printer) writeLinef(format string, args ...any) { p.writeLine(fmt.Sprintf(format, args...)) }

// writeGap sees that a blank line stands before what follows.
func (p *printer) writeGap() {
	if !strings.HasSuffix(p.b.String(), "\n\n") {
		p.writeLine("")
	}
}

// beginSubsection begins a subsection.
func (p *printer) beginSubsection(title string) {
	p.writeGap()
	p.writeLine("### " + title)
	p.writeLine("")
}

// writeField writes a labelled line; nothing when there is nothing to say.
func (p *printer) writeField(label, value string) {
	if value != "" {
		p.writeLinef("- **%s:** %s", label, value)
	}
}

// writeList writes bullets, or why there are none.
func (p *printer) writeList(items []string, none string) {
	for _, item := range items {
		p.writeLine("- " + item)
	}
	if len(items) == 0 {
		p.writeLine("_" + none + "_")
	}
}

// printOrigin says whose report it is and how far it was checked.
func (p *printer) printOrigin() {
	by := cmp.Or(markdown.EscapeLine(p.r.Executor), "an agent")
	if p.r.Source == "builtin" {
		by = "built-in rules, without an agent"
	}
	said := fmt.Sprintf("Incident %s on cluster %s, investigated by %s", orDash(markdown.EscapeLine(p.r.IncidentID)), orDash(markdown.EscapeLine(p.r.Cluster)), by)
	if !p.final {
		p.writeLine("_" + said + "._")
		return
	}
	p.writeLinef("_%s; %d of %d facts stand in recorded evidence._", said, countChecked(p.r), len(p.r.Facts))
	if len(p.r.Problems) > 0 {
		p.writeLine("")
		p.writeLine("_Problems of this report:_")
		p.writeLine("")
		for _, problem := range p.r.Problems {
			p.writeLine("- " + markdown.EscapeLine(problem))
		}
	}
}

// printUnseen says that all of it rests on the event, where it does: whoever reads no
// further must not take it for what the cluster shows.
func (p *printer) printUnseen() {
	if why := NewCard(p.r).Unseen; why != "" {
		p.writeLine("")
		p.writeLinef("**No cluster was looked at:** %s.", strings.TrimSuffix(markdown.EscapeLine(why), "."))
	}
}

// printCard begins with what somebody who was just woken asks: what is broken, why,
// how sure that is, and what to do first.
func (p *printer) printCard() {
	r := p.r
	p.writeField("Status", statusLine(r))
	p.writeField("Target", orUnknown(markdown.EscapeLine(r.Target.String())))
	if mend := NewCard(r).Mend; mend != r.Target {
		p.writeField("Object to Mend", markdown.EscapeLine(mend.String()))
	}
	p.writeField("Primary Hypothesis", primaryHypothesis(r))
	p.writeField("First Step", firstStep(r))
	p.writeField("First Command", commandCode(firstAction(r)))
	p.writeField("Seen Before", describeRecalled(r))
	p.writeField("Most Dangerous Assumption", weakestAssumption(r))
	p.writeField("Severity", markdown.EscapeLine(r.Severity))
	p.writeField("Impact", orUnknown(markdown.EscapeLine(r.Impact)))
	p.writeField("Duration", describeDuration(p.d))
	p.writeField("Verdict", markdown.EscapeLine(string(r.Verdict)))
	p.beginSubsection("Top 3 Recommended Actions")
	p.printActions()
	if p.depth == Minimal {
		return
	}
	p.beginSubsection("Escalation Triggers")
	p.writeList(escalationTriggers(r), "none: the fault is over")
	p.beginSubsection("Alternative Hypotheses Considered")
	p.writeList(listAlternatives(r), noAlternative(r.Source))
}

func (p *printer) printActions() {
	if len(p.r.Actions) == 0 {
		p.writeLine("_none: the evidence does not carry one_")
		return
	}
	p.writeLine("| Priority | Action | Expected Outcome | Risk |")
	p.writeLine("|---|---|---|---|")
	for i, a := range p.r.Actions {
		if i == 3 {
			break
		}
		p.writeLinef("| %d | %s | %s | %s |", a.Priority, markdown.EscapeCell(a.Action), markdown.EscapeCell(a.Outcome), markdown.EscapeCell(a.Risk))
	}
}

func (p *printer) printProblem() {
	p.beginSubsection("Symptoms")
	p.writeList(p.listSymptoms(), "nothing beyond the facts in section 2")
	p.beginSubsection("Timeline")
	p.writeList(p.listTimes(), "the times are not known")
	p.beginSubsection("Exit Criteria")
	for _, c := range exitCriteria(p.r) {
		p.writeLine("- [ ] " + c)
	}
}

func (p *printer) printFindings() {
	r := p.r
	p.writeField("Category", orUnknown(markdown.EscapeLine(r.Category)))
	p.writeField("Blast Radius", orUnknown(blastRadius(r.BlastRadius)))
	p.writeField("User Impact", userImpact(r))
	p.beginSubsection("Facts")
	p.writeList(p.listFacts(), "none could be established: see section 5 for what could not be checked")
	p.beginSubsection("Inferences")
	p.writeList(listInferences(r), "none: the facts speak for themselves or do not suffice")
	if p.depth != Minimal {
		p.printScope()
	}
	p.beginSubsection("What Changed")
	p.writeList(listChanges(r), "no change before the fault was found")
	p.printNotes()
	if p.depth == Full {
		p.beginSubsection("Constraints Encountered")
		p.writeList(notChecked(r), "none")
	}
}

func (p *printer) listFacts() []string {
	var out []string
	for _, f := range p.r.Facts {
		s := fmt.Sprintf("**[%s]** %s", markdown.EscapeLine(f.ID), markdown.EscapeLine(f.Text))
		if src := sourceOf(f); src != "" {
			s += " — Source: " + src
		}
		if f.Quote != "" {
			s += ` — "` + markdown.EscapeLine(f.Quote) + `"`
		}
		if p.final {
			s += " — " + checkMark(f.Check)
		}
		out = append(out, s)
	}
	return out
}

func sourceOf(f nightcrier.Fact) string {
	var parts []string
	if ids := evidenceList(f.Evidence); ids != "" {
		parts = append(parts, ids)
	}
	if f.Source != "" {
		parts = append(parts, markdown.QuoteCode(f.Source))
	}
	return strings.Join(parts, ", ")
}

func checkMark(c nightcrier.Check) string {
	switch c {
	case nightcrier.Verified:
		return "✓ verified"
	case nightcrier.Seen:
		return "seen"
	}
	return "⚠ unseen"
}

func (p *printer) printAnalysis() {
	p.rootCause()
	p.printConsequences()
	for i, h := range p.r.Hypotheses {
		if p.depth == Minimal && i > 0 {
			p.writeGap()
			p.writeLinef("_%d of %d hypotheses left out at this severity; `report.json` has them._", len(p.r.Hypotheses)-i, len(p.r.Hypotheses))
			break
		}
		p.printHypothesis(h, p.depth == Full || i < 2)
	}
	if len(p.r.Hypotheses) == 0 {
		p.writeLine("_No hypothesis could be formed from what was seen._")
	}
	p.beginSubsection("Remaining Unknowns")
	p.writeList(listUnknowns(p.r), "none is known")
}

func (p *printer) rootCause() {
	p.beginSubsection("Root Cause")
	rc := p.r.RootCause
	if rc == nil {
		p.writeLine("_" + markdown.EscapeLine(noCause(p.r)) + "_")
		return
	}
	p.writeField("Cause", markdown.QuoteCode(rc.Cause))
	p.writeField("Object", markdown.EscapeLine(rc.Object.String()))
	p.writeField("Confidence", upperFirst(string(rc.Confidence)))
	if len(p.r.Hypotheses) == 0 || p.r.Hypotheses[0].Statement != rc.Summary {
		p.writeField("Summary", markdown.EscapeLine(rc.Summary))
	}
}

func (p *printer) printHypothesis(h nightcrier.Hypothesis, whole bool) {
	head := markdown.EscapeLine(h.ID) + ": " + markdown.EscapeLine(h.Statement)
	if h.Confidence != "" {
		head += " — Confidence: " + upperFirst(string(h.Confidence))
	}
	p.beginSubsection(head)
	if h.Cause != "" {
		p.writeField("Cause", markdown.QuoteCode(h.Cause))
	}
	p.writeField("Object", markdown.EscapeLine(h.Object.String()))
	p.writeField("Evidence for", orNone(strings.Join(h.For, ", ")))
	p.writeField("Evidence against", orNone(strings.Join(h.Against, ", ")))
	f := h.Falsification
	if f.Command != "" {
		p.writeField("Falsification test", markdown.QuoteCode(f.Command))
	}
	if whole {
		p.writeField("Expected if true", markdown.EscapeLine(f.IfTrue))
		p.writeField("Expected if false", markdown.EscapeLine(f.IfFalse))
	}
	p.writeField("Outcome", describeOutcome(f))
	if whole && strings.TrimSpace(f.Shown) != "" {
		p.writeLine("")
		p.writeLine(markdown.FenceText(f.Shown))
	}
}

func (p *printer) printRemediation() {
	p.writeLine("Nightcrier changes nothing by itself; these are steps for a person.")
	p.beginSubsection("Immediate Mitigation")
	for i, a := range p.r.Actions {
		p.writeLinef("%d. %s", i+1, markdown.EscapeLine(a.Action))
		if command := commandCode(StepOf(p.r, a)); command != "" {
			p.writeLinef("   - Command: %s", command)
		}
		p.writeIndented("Validation", a.Outcome)
		p.writeIndented("Risk and rollback", a.Risk)
	}
	if len(p.r.Actions) == 0 {
		p.writeLine("_none: the evidence does not carry one_")
	}
	if p.depth == Minimal {
		return
	}
	p.printRunbooks()
	p.beginSubsection("Fix Forward")
	p.writeList(fixForward(p.r), "nothing can be named before the cause is known")
	p.beginSubsection("Prevention")
	p.writeLine("_not judged here: it is for the review after the incident_")
}

// commandCode is the command of a step, and what to know before it is run.
func commandCode(s Step) string {
	switch {
	case s.Command == "":
		return ""
	case s.Effect == Reads:
		return markdown.QuoteCode(s.Command)
	}
	return markdown.QuoteCode(s.Command) + " — it " + string(s.Effect)
}

func (p *printer) writeIndented(label, value string) {
	if value != "" {
		p.writeLinef("   - %s: %s", label, markdown.EscapeLine(value))
	}
}

// The parts of section 5 that say what the page of a report says in tables.
const (
	inputsTitle     = "Inputs Consulted"
	notCheckedTitle = "What could not be checked"
)

func (p *printer) printProof() {
	p.beginSubsection(inputsTitle)
	p.writeList(listInputs(p.r), "no evidence was recorded")
	p.beginSubsection("Commands Executed")
	var commands []string
	for _, c := range p.d.Commands {
		commands = append(commands, markdown.QuoteCode(c))
	}
	p.writeList(commands, "no recorded read")
	p.beginSubsection(notCheckedTitle)
	p.writeList(notChecked(p.r), "nothing that was needed was denied, missing or out of budget")
	if p.final && p.r.AuditHead != "" {
		p.beginSubsection("Audit")
		p.writeLinef("- Every request to the cluster stands in `audit.jsonl`, whose last line has the hash %s", markdown.QuoteCode(p.r.AuditHead))
	}
	if p.final && p.r.Usage.CostUSD+float64(p.r.Usage.InputTokens+p.r.Usage.OutputTokens) > 0 {
		p.beginSubsection("Spent on Models")
		p.writeLine("- " + describeCost(p.r.Usage))
	}
	if p.depth == Full || len(p.r.SandboxLayers) > 0 {
		p.beginSubsection("Sandbox")
		p.writeList(p.listLayers(), noSandbox(p.r.Source))
	}
}

func (p *printer) listLayers() []string {
	if len(p.r.SandboxLayers) == 0 {
		return nil
	}
	out := []string{layerNames(p.r.SandboxLayers)}
	if len(p.r.SandboxMissing) > 0 {
		out = append(out, "without "+layerNames(p.r.SandboxMissing)+", which this machine does not grant")
	}
	return out
}

// layerNames are twenty short names, which read better in one line.
func layerNames(layers []string) string {
	var out []string
	for _, l := range layers {
		out = append(out, markdown.EscapeLine(l))
	}
	return strings.Join(out, ", ")
}

func (p *printer) printSupporting() {
	if len(p.d.Excerpts) == 0 {
		p.writeLine("_No excerpts; the recorded evidence is kept with the incident under the ids cited above._")
		return
	}
	for _, e := range p.d.Excerpts {
		p.printDetails(e.Title, e.Text)
	}
}

// listTimes tells when it was noticed, by whom, and how long it took.
func (p *printer) listTimes() []string {
	inc := p.d.Incident
	if inc == nil {
		return nil
	}
	var out []string
	add := func(label string, at time.Time) {
		if !at.IsZero() {
			out = append(out, label+": "+at.UTC().Format(time.RFC3339))
		}
	}
	add("First detected", inc.Timestamp)
	add("Incident opened", inc.CreatedAt)
	add("Investigation started", inc.StartedAt)
	if inc.EventCount > 1 {
		add("Reported "+strconv.Itoa(inc.EventCount)+" times, last", inc.LastEventAt)
	}
	if s := describeDuration(p.d); s != "" {
		out = append(out, "Duration: "+s)
	}
	return out
}

func (p *printer) listSymptoms() []string {
	inc := p.d.Incident
	if inc == nil {
		return nil
	}
	s := markdown.EscapeLine(inc.FaultType) + " of " + markdown.EscapeLine(inc.Resource.String())
	if inc.Context != "" {
		s += ": " + markdown.EscapeLine(texts.CutBytes(inc.Context, 500))
	}
	return []string{s}
}

// sortedKeys returns the keys of a map in order.
func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
