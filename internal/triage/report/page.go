package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	texts "nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report/internal/markdown"
)

//go:embed page.css
var pageCSS string

//go:embed page.html.tmpl
var pageText string

var page = template.Must(template.New("page").Funcs(PageWords()).Parse(pageText))

// PageWords are the functions by which a template shows what a Page has: all of them take text
// of others for text.
func PageWords() template.FuncMap {
	return template.FuncMap{
		"text": markdown.Printable, "prose": proseHTML, "brief": briefHTML, "title": upperFirst, "check": checkOf, "outcome": func(f nightcrier.Falsification) string { return bareText(describeOutcome(f)) },
		"stamp": timeElement, "short": func(s string) string { return texts.CutBytes(s, maxPhrase) },
	}
}

// ContentSecurityPolicy is what a page of HTML may do in a browser: show itself in
// its own style. It holds for the page as a file and as an answer.
var ContentSecurityPolicy = "default-src 'none'; style-src 'sha256-" + digestOf(pageCSS) + "'; base-uri 'none'; form-action 'none'"

func digestOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// maxPhrase bounds, in bytes, what stands in a heading or a title; maxBrief what the
// card shows of a text before a reader unfolds it.
const (
	maxPhrase = 300
	maxBrief  = 700
)

// Page is what a page shows of a report. Its order is that of the questions that somebody
// asks who was just woken.
type Page struct {
	Report *nightcrier.Report
	Card   Card
	// Subject is the object to mend, or what was asked about where none is known.
	Subject string
	// About is how the target came up: somebody asked, or something reported it.
	About  string
	Broken Standing
	// Step is the first step without the command, which stands below it.
	Step string
	// CausedBy is the incident that has the same cause and came first.
	CausedBy string
	// Failed says that an agent should have written this and did not.
	Failed string
	// Next are the steps behind the first; Over is when it is over, Escalate when it is
	// to be told to others.
	Next                []Step
	Over, Escalate      []string
	Afterwards          []string
	Assumption, Earlier string
	// First is the explanation that the card names; Others are those behind it.
	First    *nightcrier.Hypothesis
	Others   []nightcrier.Hypothesis
	Changes  []Changed
	Radius   string
	Times    []Moment
	Unshown  int // facts that no evidence shows
	Proof    template.HTML
	Whole    bool // that Proof is all of the Markdown: it was none of ours
	Sections []Section
}

// Section is an entry of the page's contents.
type Section struct{ ID, Name string }

// HTML makes one page of a report: the card on top, then what to do, why, and what
// that rests on. The page holds no script, loads nothing, and takes no HTML from anybody.
// What md and inc are, NewPage says.
func HTML(r *nightcrier.Report, inc *nightcrier.Incident, md []byte) []byte {
	var out bytes.Buffer
	err := page.Execute(&out, struct {
		Page
		Policy string
		CSS    template.CSS
	}{NewPage(r, inc, md), ContentSecurityPolicy, template.CSS(pageCSS)})
	if err != nil { // into memory: the template is wrong
		return []byte("<!doctype html><title>report</title><p>The report could not be shown.")
	}
	return out.Bytes()
}

// NewPage takes out of a report what a page shows. md is what Final wrote, of which the page
// takes the record of what was read; of any other Markdown it shows all. inc may be nil.
func NewPage(r *nightcrier.Report, inc *nightcrier.Incident, md []byte) Page {
	d := Page{Report: r, Card: NewCard(r)}
	if inc == nil {
		inc = &nightcrier.Incident{}
	}
	d.About = "Reported"
	if inc.FaultType == nightcrier.Asked {
		d.About = "Asked about"
	}
	d.Subject = orOther(orOther(d.Card.Mend.String(), r.Target.String()), "Incident "+r.IncidentID)
	d.Broken, d.Failed = standingOf(r, inc), agentFailure(inc)
	d.CausedBy = inc.CausedBy
	d.fillActions(r)
	d.fillReasons(r)
	d.Times, d.Changes = listMoments(r, inc), changesOf(r, symptomTime(inc))
	d.Radius = bareText(blastRadius(r.BlastRadius))
	d.Unshown = len(r.Facts) - d.Card.Checked
	var proof []byte
	proof, d.Whole = renderBody(md)
	d.Proof = template.HTML(proof) // renderBody escapes all that is not Markdown
	d.Sections = d.contents()
	return d
}

// fillActions fills in what is to be done.
func (d *Page) fillActions(r *nightcrier.Report) {
	d.Step = withoutCommand(d.Card.First)
	for _, a := range r.Actions[min(1, len(r.Actions)):] {
		d.Next = append(d.Next, StepOf(r, a))
	}
	d.Over, d.Escalate, d.Afterwards = bareAll(exitCriteria(r)), escalationTriggers(r), bareAll(fixForward(r))
}

// withoutCommand is what a step says before the command that it ends with.
func withoutCommand(s Step) string {
	if s.Command == "" {
		return s.Action
	}
	said := strings.TrimRight(s.Action, " .")
	if at := commandRE.FindAllStringIndex(said, -1); len(at) > 0 && at[len(at)-1][1] == len(said) {
		return orOther(strings.TrimSpace(said[:at[len(at)-1][0]]), "Run:")
	}
	return s.Action
}

// fillReasons fills in why, without what the card says.
func (d *Page) fillReasons(r *nightcrier.Report) {
	d.Earlier = bareText(describeRecalled(r))
	if isOver(r) {
		d.Others = r.Hypotheses
		return
	}
	d.Assumption = bareText(weakestAssumption(r))
	if len(r.Hypotheses) > 0 {
		d.First, d.Others = &r.Hypotheses[0], r.Hypotheses[1:]
	}
}

// contents names the sections that the page has.
func (d *Page) contents() []Section {
	r, proof := d.Report, "How it was found"
	if d.Whole {
		proof = "As it was written"
	}
	all := []struct {
		Section
		there bool
	}{
		{Section{"next", "What to do"}, true},
		{Section{"why", "Why"}, d.First != nil || len(d.Others)+len(r.Inferences)+len(r.Consequences) > 0},
		{Section{"facts", "Facts"}, len(r.Facts) > 0},
		{Section{"changes", "What changed"}, len(d.Changes) > 0},
		{Section{"scope", "Who is affected"}, d.Radius != "" || len(r.Scope.Affected)+len(r.Scope.Suspected)+len(r.Scope.Unaffected) > 0},
		{Section{"times", "Timeline"}, len(d.Times) > 0},
		{Section{"unchecked", "Not looked at"}, len(r.NotChecked) > 0},
		{Section{"proof", proof}, len(bytes.TrimSpace([]byte(d.Proof))) > 0},
	}
	var out []Section
	for _, s := range all {
		if s.there {
			out = append(out, s.Section)
		}
	}
	return out
}

// Has reports whether the page has a section.
func (d Page) Has(id string) bool {
	for _, s := range d.Sections {
		if s.ID == id {
			return true
		}
	}
	return false
}

// Standing says whether it is still broken.
type Standing struct {
	Word, Why string
	Tone      Tone
}

// standingOf is what is known of the end of a fault when the page is made.
func standingOf(r *nightcrier.Report, inc *nightcrier.Incident) Standing {
	switch {
	case inc.Condition == nightcrier.ConditionCleared:
		return Standing{"No, it is over", "its end was reported at " + formatTime(inc.ClearedAt), Calm}
	case isOver(r):
		return Standing{"No", "it was well when it was looked at, at " + formatTime(r.CreatedAt), Calm}
	case inc.Condition == nightcrier.ConditionActive && inc.FaultType != nightcrier.Asked:
		return Standing{"Yes", "last reported at " + formatTime(laterOf(inc.LastEventAt, inc.Timestamp)) + ", and no end of it since", Alarm}
	case r.Verdict == nightcrier.VerdictFault:
		return Standing{"Yes, when looked at", "at " + formatTime(r.CreatedAt) + "; nobody tells of its end, so look again before you act", Warn}
	}
	return Standing{"Not known", "nobody tells of its end: look again before you act", Warn}
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// agentFailure says why the agent's own report is missing, "" when it is not.
func agentFailure(inc *nightcrier.Incident) string {
	if inc.Status != nightcrier.AgentFailed && inc.Status != nightcrier.Failed {
		return ""
	}
	said := orOther(inc.FailureReason, "no reason was recorded")
	if inc.FailureClass != "" {
		said += " (" + string(inc.FailureClass) + ")"
	}
	return said
}

// Moment is something with a time, and how far that is from the first symptom.
type Moment struct {
	At         time.Time
	Apart, Was string
}

// symptomTime is when the fault began, as far as anybody said.
func symptomTime(inc *nightcrier.Incident) time.Time {
	if inc.FaultType == nightcrier.Asked {
		return time.Time{}
	}
	if !inc.Timestamp.IsZero() {
		return inc.Timestamp
	}
	return inc.CreatedAt
}

func listMoments(r *nightcrier.Report, inc *nightcrier.Incident) []Moment {
	var out []Moment
	first := symptomTime(inc)
	for _, m := range []Moment{
		{At: inc.Timestamp, Was: "first symptom"}, {At: inc.CreatedAt, Was: "incident opened"}, {At: inc.StartedAt, Was: "investigation started"},
		{At: r.CreatedAt, Was: "report written"}, {At: repeatedAt(inc), Was: fmt.Sprintf("reported again, %d times in all", inc.EventCount)}, {At: inc.ClearedAt, Was: "the fault was over"},
	} {
		if !m.At.IsZero() {
			m.Apart = distanceInWords(m.At, first)
			out = append(out, m)
		}
	}
	slices.SortStableFunc(out, func(a, b Moment) int { return a.At.Compare(b.At) })
	return out
}

func repeatedAt(inc *nightcrier.Incident) time.Time {
	if inc.EventCount > 1 {
		return inc.LastEventAt
	}
	return time.Time{}
}

// Changed is a change with how long before the first symptom it was.
type Changed struct {
	nightcrier.Change
	Apart string
}

func changesOf(r *nightcrier.Report, first time.Time) []Changed {
	var out []Changed
	for _, c := range r.Changes {
		out = append(out, Changed{c, orOther(c.Correlation, distanceInWords(c.At, first))})
	}
	return out
}

// distanceInWords says in words how far t is from the first symptom, "" when one of them is not
// known. It is the same whenever the page is read.
func distanceInWords(t, first time.Time) string {
	if t.IsZero() || first.IsZero() {
		return ""
	}
	t, first = t.Truncate(time.Second), first.Truncate(time.Second) // as they are shown
	switch {
	case t.Before(first):
		return formatDuration(first.Sub(t)) + " before the first symptom"
	case t.Equal(first):
		return "the first symptom"
	}
	return formatDuration(t.Sub(first)) + " after the first symptom"
}

// formatDuration writes a duration in its two largest units.
func formatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return joinUnits(int(d/time.Minute), "min", int(d%time.Minute/time.Second), "s")
	case d < day:
		return joinUnits(int(d/time.Hour), "h", int(d%time.Hour/time.Minute), "min")
	}
	return joinUnits(int(d/day), "d", int(d%day/time.Hour), "h")
}

func joinUnits(n int, unit string, rest int, small string) string {
	if rest == 0 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("%d %s %d %s", n, unit, rest, small)
}

// formatTime writes a time for a sentence.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return "a time that is not known"
	}
	return t.UTC().Format("15:04 UTC on 2 January 2006")
}

// timeElement is a time of a table, for people and for machines.
func timeElement(t time.Time) template.HTML {
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `">` + t.Format("2006-01-02 15:04:05 UTC") + `</time>`)
}

// checkWord is what our check made of a fact.
type checkWord struct {
	Word string
	Tone Tone
}

func checkOf(c nightcrier.Check) checkWord {
	switch c {
	case nightcrier.Verified:
		return checkWord{"verified", Calm}
	case nightcrier.Seen:
		return checkWord{"seen", ""}
	}
	return checkWord{"unseen", Warn}
}

// proseHTML is text for people, in which what stands between backticks is code.
func proseHTML(s string) template.HTML {
	parts := strings.Split(markdown.Printable(s), "`")
	var b strings.Builder
	for i, part := range parts {
		switch part = template.HTMLEscapeString(part); {
		case i%2 == 1 && i < len(parts)-1:
			b.WriteString("<code>" + part + "</code>")
		case i%2 == 1: // opened and not closed
			b.WriteString("`" + part)
		default:
			b.WriteString(part)
		}
	}
	return template.HTML(b.String())
}

// briefHTML is proseHTML of which a reader unfolds what is too long for the card.
func briefHTML(s string) template.HTML {
	if len(s) <= maxBrief {
		return proseHTML(s)
	}
	return proseHTML(texts.CutBytes(s, maxBrief)) + "<details><summary>In full</summary>" + proseHTML(s) + "</details>"
}

// bareText undoes what a phrase was given for Markdown; the page escapes in its own way.
func bareText(s string) string { return strings.ReplaceAll(markdown.UnescapeLine(s), "**", "") }

func bareAll(list []string) []string {
	var out []string
	for _, s := range list {
		out = append(out, bareText(s))
	}
	return out
}
