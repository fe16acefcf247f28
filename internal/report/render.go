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
)

// Render returns the report as investigation.md.
func Render(r *nightcrier.Report, d Detail) []byte { return render(r, d, false) }

// Final returns the report as final-report.md: the same in normal form, with
// what our check made of each fact.
func Final(r *nightcrier.Report, d Detail) []byte { return MarkOver(render(r, d, true), d.Incident) }

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

func render(r *nightcrier.Report, d Detail, final bool) []byte {
	p := printer{r: r, d: d, depth: d.Depth.of(r.Severity), final: final}
	p.line(Title)
	p.line("")
	p.origin()
	p.unseen()
	for i, section := range []func(){p.card, p.problem, p.findings, p.analysis, p.remediation, p.proof, p.supporting} {
		p.line("")
		p.line(headings[i])
		p.line("")
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

func (p *printer) line(s string) {
	p.b.WriteString(s)
	p.b.WriteByte('\n')
}

func (p *printer) linef(format string, args ...any) { p.line(fmt.Sprintf(format, args...)) }

// gap sees that a blank line stands before what follows.
func (p *printer) gap() {
	if !strings.HasSuffix(p.b.String(), "\n\n") {
		p.line("")
	}
}

// sub begins a subsection.
func (p *printer) sub(title string) {
	p.gap()
	p.line("### " + title)
	p.line("")
}

// field writes a labelled line; nothing when there is nothing to say.
func (p *printer) field(label, value string) {
	if value != "" {
		p.linef("- **%s:** %s", label, value)
	}
}

// list writes bullets, or why there are none.
func (p *printer) list(items []string, none string) {
	for _, item := range items {
		p.line("- " + item)
	}
	if len(items) == 0 {
		p.line("_" + none + "_")
	}
}

// origin says whose report it is and how far it was checked.
func (p *printer) origin() {
	by := cmp.Or(inline(p.r.Executor), "an agent")
	if p.r.Source == "builtin" {
		by = "built-in rules, without an agent"
	}
	said := fmt.Sprintf("Incident %s on cluster %s, investigated by %s", orDash(inline(p.r.IncidentID)), orDash(inline(p.r.Cluster)), by)
	if !p.final {
		p.line("_" + said + "._")
		return
	}
	p.linef("_%s; %d of %d facts stand in recorded evidence._", said, checked(p.r), len(p.r.Facts))
	if len(p.r.Problems) > 0 {
		p.line("")
		p.line("_Problems of this report:_")
		p.line("")
		for _, problem := range p.r.Problems {
			p.line("- " + inline(problem))
		}
	}
}

// unseen says that all of it rests on the event, where it does: whoever reads no
// further must not take it for what the cluster shows.
func (p *printer) unseen() {
	if why := NewCard(p.r).Unseen; why != "" {
		p.line("")
		p.linef("**No cluster was looked at:** %s.", strings.TrimSuffix(inline(why), "."))
	}
}

// card begins with what somebody who was just woken asks: what is broken, why,
// how sure that is, and what to do first.
func (p *printer) card() {
	r := p.r
	p.field("Status", status(r))
	p.field("Target", orUnknown(inline(r.Target.String())))
	if mend := NewCard(r).Mend; mend != r.Target {
		p.field("Object to Mend", inline(mend.String()))
	}
	p.field("Primary Hypothesis", primary(r))
	p.field("First Step", firstStep(r))
	p.field("Seen Before", recalled(r))
	p.field("Most Dangerous Assumption", assumption(r))
	p.field("Severity", inline(r.Severity))
	p.field("Impact", orUnknown(inline(r.Impact)))
	p.field("Duration", duration(p.d))
	p.field("Verdict", inline(string(r.Verdict)))
	p.sub("Top 3 Recommended Actions")
	p.actions()
	if p.depth == Minimal {
		return
	}
	p.sub("Escalation Triggers")
	p.list(escalations(r), "none: the fault is over")
	p.sub("Alternative Hypotheses Considered")
	p.list(alternatives(r), noAlternative(r.Source))
}

func (p *printer) actions() {
	if len(p.r.Actions) == 0 {
		p.line("_none: the evidence does not carry one_")
		return
	}
	p.line("| Priority | Action | Expected Outcome | Risk |")
	p.line("|---|---|---|---|")
	for i, a := range p.r.Actions {
		if i == 3 {
			break
		}
		p.linef("| %d | %s | %s | %s |", a.Priority, cell(a.Action), cell(a.Outcome), cell(a.Risk))
	}
}

func (p *printer) problem() {
	p.sub("Symptoms")
	p.list(p.symptoms(), "nothing beyond the facts in section 2")
	p.sub("Timeline")
	p.list(p.timeline(), "the times are not known")
	p.sub("Exit Criteria")
	for _, c := range exitCriteria(p.r) {
		p.line("- [ ] " + c)
	}
}

func (p *printer) findings() {
	r := p.r
	p.field("Category", orUnknown(inline(r.Category)))
	p.field("Blast Radius", orUnknown(blastRadius(r.BlastRadius)))
	p.field("User Impact", userImpact(r))
	p.sub("Facts")
	p.list(p.facts(), "none could be established: see section 5 for what could not be checked")
	p.sub("Inferences")
	p.list(inferences(r), "none: the facts speak for themselves or do not suffice")
	if p.depth != Minimal {
		p.scope()
	}
	p.sub("What Changed")
	p.list(changes(r), "no change before the fault was found")
	p.notes()
	if p.depth == Full {
		p.sub("Constraints Encountered")
		p.list(notChecked(r), "none")
	}
}

func (p *printer) facts() []string {
	var out []string
	for _, f := range p.r.Facts {
		s := fmt.Sprintf("**[%s]** %s", inline(f.ID), inline(f.Text))
		if src := source(f); src != "" {
			s += " — Source: " + src
		}
		if f.Quote != "" {
			s += ` — "` + inline(f.Quote) + `"`
		}
		if p.final {
			s += " — " + mark(f.Check)
		}
		out = append(out, s)
	}
	return out
}

func source(f nightcrier.Fact) string {
	var parts []string
	if ids := evidenceList(f.Evidence); ids != "" {
		parts = append(parts, ids)
	}
	if f.Source != "" {
		parts = append(parts, code(f.Source))
	}
	return strings.Join(parts, ", ")
}

func mark(c nightcrier.Check) string {
	switch c {
	case nightcrier.Verified:
		return "✓ verified"
	case nightcrier.Seen:
		return "seen"
	}
	return "⚠ unseen"
}

func (p *printer) analysis() {
	p.rootCause()
	p.consequences()
	for i, h := range p.r.Hypotheses {
		if p.depth == Minimal && i > 0 {
			p.gap()
			p.linef("_%d of %d hypotheses left out at this severity; `report.json` has them._", len(p.r.Hypotheses)-i, len(p.r.Hypotheses))
			break
		}
		p.hypothesis(h, p.depth == Full || i < 2)
	}
	if len(p.r.Hypotheses) == 0 {
		p.line("_No hypothesis could be formed from what was seen._")
	}
	p.sub("Remaining Unknowns")
	p.list(unknowns(p.r), "none is known")
}

func (p *printer) rootCause() {
	p.sub("Root Cause")
	rc := p.r.RootCause
	if rc == nil {
		p.line("_" + noCause(p.r.Verdict) + "_")
		return
	}
	p.field("Cause", code(rc.Cause))
	p.field("Object", inline(rc.Object.String()))
	p.field("Confidence", title(string(rc.Confidence)))
	if len(p.r.Hypotheses) == 0 || p.r.Hypotheses[0].Statement != rc.Summary {
		p.field("Summary", inline(rc.Summary))
	}
}

func (p *printer) hypothesis(h nightcrier.Hypothesis, whole bool) {
	head := inline(h.ID) + ": " + inline(h.Statement)
	if h.Confidence != "" {
		head += " — Confidence: " + title(string(h.Confidence))
	}
	p.sub(head)
	if h.Cause != "" {
		p.field("Cause", code(h.Cause))
	}
	p.field("Object", inline(h.Object.String()))
	p.field("Evidence for", orNone(strings.Join(h.For, ", ")))
	p.field("Evidence against", orNone(strings.Join(h.Against, ", ")))
	f := h.Falsification
	if f.Command != "" {
		p.field("Falsification test", code(f.Command))
	}
	if whole {
		p.field("Expected if true", inline(f.IfTrue))
		p.field("Expected if false", inline(f.IfFalse))
	}
	p.field("Outcome", outcome(f))
	if whole && strings.TrimSpace(f.Shown) != "" {
		p.line("")
		p.line(fenced(f.Shown))
	}
}

func (p *printer) remediation() {
	p.line("Nightcrier changes nothing by itself; these are steps for a person.")
	p.sub("Immediate Mitigation")
	for i, a := range p.r.Actions {
		p.linef("%d. %s", i+1, inline(a.Action))
		p.indented("Validation", a.Outcome)
		p.indented("Risk and rollback", a.Risk)
	}
	if len(p.r.Actions) == 0 {
		p.line("_none: the evidence does not carry one_")
	}
	if p.depth == Minimal {
		return
	}
	p.runbooks()
	p.sub("Fix Forward")
	p.list(fixForward(p.r), "nothing can be named before the cause is known")
	p.sub("Prevention")
	p.line("_not judged here: it is for the review after the incident_")
}

func (p *printer) indented(label, value string) {
	if value != "" {
		p.linef("   - %s: %s", label, inline(value))
	}
}

// The parts of section 5 that say what the page of a report says in tables.
const (
	inputsTitle     = "Inputs Consulted"
	notCheckedTitle = "What could not be checked"
)

func (p *printer) proof() {
	p.sub(inputsTitle)
	p.list(inputs(p.r), "no evidence was recorded")
	p.sub("Commands Executed")
	var commands []string
	for _, c := range p.d.Commands {
		commands = append(commands, code(c))
	}
	p.list(commands, "no recorded read")
	p.sub(notCheckedTitle)
	p.list(notChecked(p.r), "nothing that was needed was denied, missing or out of budget")
	if p.final && p.r.AuditHead != "" {
		p.sub("Audit")
		p.linef("- Every request to the cluster stands in `audit.jsonl`, whose last line has the hash %s", code(p.r.AuditHead))
	}
	if p.final && p.r.Usage.CostUSD+float64(p.r.Usage.InputTokens+p.r.Usage.OutputTokens) > 0 {
		p.sub("Spent on Models")
		p.line("- " + spent(p.r.Usage))
	}
	if p.depth == Full || len(p.r.SandboxLayers) > 0 {
		p.sub("Sandbox")
		p.list(p.sandbox(), noSandbox(p.r.Source))
	}
}

func (p *printer) sandbox() []string {
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
		out = append(out, inline(l))
	}
	return strings.Join(out, ", ")
}

func (p *printer) supporting() {
	if len(p.d.Excerpts) == 0 {
		p.line("_No excerpts; the recorded evidence is kept with the incident under the ids cited above._")
		return
	}
	for _, e := range p.d.Excerpts {
		p.details(e.Title, e.Text)
	}
}

// timeline tells when it was noticed, by whom, and how long it took.
func (p *printer) timeline() []string {
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
	if s := duration(p.d); s != "" {
		out = append(out, "Duration: "+s)
	}
	return out
}

func (p *printer) symptoms() []string {
	inc := p.d.Incident
	if inc == nil {
		return nil
	}
	s := inline(inc.FaultType) + " of " + inline(inc.Resource.String())
	if inc.Context != "" {
		s += ": " + inline(texts.CutBytes(inc.Context, 500))
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
