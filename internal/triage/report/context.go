package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	texts "nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report/internal/markdown"
)

// Bounds of what a rendered report lists of one thing. All of it is in
// report.json.
const (
	maxObjects     = 12
	maxDetails     = 8
	maxNotes       = 5
	maxUnknowns    = 12
	maxUnknown     = 160 // characters of one; section 5 has it whole
	maxRunbookText = 6000
)

// printScope tells whom the trouble touches, as far as that was looked at.
func (p *printer) printScope() {
	s := p.r.Scope
	p.beginSubsection("Scope")
	if s.Empty() {
		p.writeLine("_nothing beside the target was looked at_")
		return
	}
	p.writeField("Confirmed affected", orNone(joinObjects(s.Affected)))
	p.writeField("Suspected", orNone(joinObjects(s.Suspected)))
	p.writeField("Confirmed unaffected", orNone(joinObjects(s.Unaffected)))
	if len(s.ComingUp) > 0 {
		p.writeField("Coming up, not judged", joinObjects(s.ComingUp))
	}
}

// joinObjects names objects in one line.
func joinObjects(list []nightcrier.Object) string {
	var names []string
	for _, o := range list[:min(len(list), maxObjects)] {
		names = append(names, markdown.EscapeLine(o.String()))
	}
	if more := len(list) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// printConsequences lists the troubles that go away with the root cause, so that
// nobody mends them one by one.
func (p *printer) printConsequences() {
	if len(p.r.Consequences) == 0 {
		return
	}
	p.beginSubsection("What Follows From It")
	for _, c := range p.r.Consequences[:min(len(p.r.Consequences), maxObjects)] {
		s := markdown.EscapeLine(c.Statement)
		if object := markdown.EscapeLine(c.Object.String()); !strings.Contains(s, object) {
			s = object + ": " + s
		}
		if because := c.Because.String(); because != "" {
			s += " — because of " + markdown.EscapeLine(because)
		}
		p.writeLinef("- %s — %s", s, markdown.QuoteCode(c.Cause))
	}
	if more := len(p.r.Consequences) - maxObjects; more > 0 {
		p.writeLinef("- and %d more", more)
	}
}

func listChanges(r *nightcrier.Report) []string {
	var out []string
	for _, c := range r.Changes {
		s := markdown.EscapeLine(c.What)
		if !c.At.IsZero() {
			s = c.At.UTC().Format(time.RFC3339) + " — " + s
		}
		if c.Who != "" {
			s += " — by " + markdown.EscapeLine(c.Who)
		}
		if c.Correlation != "" {
			s += " — " + markdown.EscapeLine(c.Correlation)
		}
		if ids := evidenceList(c.Evidence); ids != "" {
			s += " — Source: " + ids
		}
		for _, d := range c.Details[:min(len(c.Details), maxDetails)] {
			s += "\n  - " + markdown.QuoteCode(d)
		}
		if more := len(c.Details) - maxDetails; more > 0 {
			s += fmt.Sprintf("\n  - and %d more differences", more)
		}
		out = append(out, s)
	}
	return out
}

func evidenceList(ids []string) string {
	var out []string
	for _, id := range ids {
		out = append(out, markdown.QuoteCode(id))
	}
	return strings.Join(out, ", ")
}

// describeRecalled writes one line on an earlier incident with the same result, "" when
// there is none.
func describeRecalled(r *nightcrier.Report) string {
	old := r.Recalled
	if old == nil {
		return ""
	}
	s := "incident " + markdown.QuoteCode(old.IncidentID)
	if !old.At.IsZero() {
		s = old.At.UTC().Format("2006-01-02 15:04 UTC") + ", " + s
	}
	if old.Summary != "" {
		s += ": " + markdown.EscapeLine(old.Summary)
	}
	held := "that diagnosis no longer holds"
	if old.Holds {
		held = "that diagnosis still holds"
	}
	if old.Why != "" {
		held += ": " + markdown.EscapeLine(old.Why)
	}
	return s + " — " + held
}

// printNotes prints what people wrote about the earlier incident.
func (p *printer) printNotes() {
	if p.r.Recalled == nil || len(p.r.Recalled.Notes) == 0 {
		return
	}
	p.beginSubsection("Notes From Last Time")
	for _, n := range p.r.Recalled.Notes[:min(len(p.r.Recalled.Notes), maxNotes)] {
		s := markdown.EscapeLine(n.Text)
		if n.By != "" {
			s += " — " + markdown.EscapeLine(n.By)
		}
		if !n.At.IsZero() {
			s += ", " + n.At.UTC().Format("2006-01-02 15:04 UTC")
		}
		p.writeLine("- " + s)
	}
}

// printRunbooks shows what the people who run the system wrote for such a case.
func (p *printer) printRunbooks() {
	if len(p.r.Runbooks) == 0 {
		return
	}
	p.beginSubsection("Runbooks")
	for _, b := range p.r.Runbooks {
		s := "- " + markdown.EscapeLine(b.Title) + " — " + markdown.QuoteCode(b.Source)
		if b.Problem != "" {
			s += " — not read: " + markdown.EscapeLine(b.Problem)
		}
		p.writeLine(s)
	}
	for _, b := range p.r.Runbooks {
		if strings.TrimSpace(b.Text) != "" {
			p.writeLine("")
			p.printDetails("Runbook: "+b.Title, texts.CutBytes(b.Text, maxRunbookText))
		}
	}
}

// printDetails writes text that a reader unfolds.
func (p *printer) printDetails(title, text string) {
	p.writeLinef("<details><summary>%s</summary>\n", markdown.EscapeLine(title))
	p.writeLine(markdown.FenceText(text))
	p.writeLine("</details>\n")
}

// parseScope reads the scope that an agent names in section 2.
func parseScope(f map[string]string) nightcrier.Scope {
	return nightcrier.Scope{Affected: objectsIn(f["affected"]), Suspected: objectsIn(f["suspected"]), Unaffected: objectsIn(f["unaffected"]), ComingUp: objectsIn(f["comingUp"])}
}

// objectsIn reads objects from a list with commas, or from lines.
func objectsIn(s string) []nightcrier.Object {
	var out []nightcrier.Object
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ';' || r == '\n' }) {
		if t, _, ok := parseBullet(part); ok {
			part = t
		}
		o := parseObject(part)
		if o.Name == "" || slices.Contains(out, o) || len(out) == maxItems {
			continue
		}
		out = append(out, o)
	}
	return out
}
