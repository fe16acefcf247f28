package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	texts "nightcrier.dev/nightcrier/internal/text"
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

// scope tells whom the trouble touches, as far as that was looked at.
func (p *printer) scope() {
	s := p.r.Scope
	p.sub("Scope")
	if s.Empty() {
		p.line("_nothing beside the target was looked at_")
		return
	}
	p.field("Confirmed affected", orNone(objects(s.Affected)))
	p.field("Suspected", orNone(objects(s.Suspected)))
	p.field("Confirmed unaffected", orNone(objects(s.Unaffected)))
	if len(s.ComingUp) > 0 {
		p.field("Coming up, not judged", objects(s.ComingUp))
	}
}

// objects names objects in one line.
func objects(list []nightcrier.Object) string {
	var names []string
	for _, o := range list[:min(len(list), maxObjects)] {
		names = append(names, inline(o.String()))
	}
	if more := len(list) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// consequences lists the troubles that go away with the root cause, so that
// nobody mends them one by one.
func (p *printer) consequences() {
	if len(p.r.Consequences) == 0 {
		return
	}
	p.sub("What Follows From It")
	for _, c := range p.r.Consequences[:min(len(p.r.Consequences), maxObjects)] {
		s := inline(c.Statement)
		if object := inline(c.Object.String()); !strings.Contains(s, object) {
			s = object + ": " + s
		}
		if because := c.Because.String(); because != "" {
			s += " — because of " + inline(because)
		}
		p.linef("- %s — %s", s, code(c.Cause))
	}
	if more := len(p.r.Consequences) - maxObjects; more > 0 {
		p.linef("- and %d more", more)
	}
}

func changes(r *nightcrier.Report) []string {
	var out []string
	for _, c := range r.Changes {
		s := inline(c.What)
		if !c.At.IsZero() {
			s = c.At.UTC().Format(time.RFC3339) + " — " + s
		}
		if c.Who != "" {
			s += " — by " + inline(c.Who)
		}
		if c.Correlation != "" {
			s += " — " + inline(c.Correlation)
		}
		if ids := evidenceList(c.Evidence); ids != "" {
			s += " — Source: " + ids
		}
		for _, d := range c.Details[:min(len(c.Details), maxDetails)] {
			s += "\n  - " + code(d)
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
		out = append(out, code(id))
	}
	return strings.Join(out, ", ")
}

// recalled is one line on an earlier incident with the same result, "" when
// there is none.
func recalled(r *nightcrier.Report) string {
	old := r.Recalled
	if old == nil {
		return ""
	}
	s := "incident " + code(old.IncidentID)
	if !old.At.IsZero() {
		s = old.At.UTC().Format("2006-01-02 15:04 UTC") + ", " + s
	}
	if old.Summary != "" {
		s += ": " + inline(old.Summary)
	}
	held := "that diagnosis no longer holds"
	if old.Holds {
		held = "that diagnosis still holds"
	}
	if old.Why != "" {
		held += ": " + inline(old.Why)
	}
	return s + " — " + held
}

// notes are what people wrote about the earlier incident.
func (p *printer) notes() {
	if p.r.Recalled == nil || len(p.r.Recalled.Notes) == 0 {
		return
	}
	p.sub("Notes From Last Time")
	for _, n := range p.r.Recalled.Notes[:min(len(p.r.Recalled.Notes), maxNotes)] {
		s := inline(n.Text)
		if n.By != "" {
			s += " — " + inline(n.By)
		}
		if !n.At.IsZero() {
			s += ", " + n.At.UTC().Format("2006-01-02 15:04 UTC")
		}
		p.line("- " + s)
	}
}

// runbooks shows what the people who run the system wrote for such a case.
func (p *printer) runbooks() {
	if len(p.r.Runbooks) == 0 {
		return
	}
	p.sub("Runbooks")
	for _, b := range p.r.Runbooks {
		s := "- " + inline(b.Title) + " — " + code(b.Source)
		if b.Problem != "" {
			s += " — not read: " + inline(b.Problem)
		}
		p.line(s)
	}
	for _, b := range p.r.Runbooks {
		if strings.TrimSpace(b.Text) != "" {
			p.line("")
			p.details("Runbook: "+b.Title, texts.CutBytes(b.Text, maxRunbookText))
		}
	}
}

// details writes text that a reader unfolds.
func (p *printer) details(title, text string) {
	p.linef("<details><summary>%s</summary>\n", inline(title))
	p.line(fenced(text))
	p.line("</details>\n")
}

// parseScope reads the scope that an agent names in section 2.
func parseScope(f map[string]string) nightcrier.Scope {
	return nightcrier.Scope{Affected: objectsIn(f["affected"]), Suspected: objectsIn(f["suspected"]), Unaffected: objectsIn(f["unaffected"]), ComingUp: objectsIn(f["comingUp"])}
}

// objectsIn reads objects from a list with commas, or from lines.
func objectsIn(s string) []nightcrier.Object {
	var out []nightcrier.Object
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ';' || r == '\n' }) {
		if t, _, ok := bullet(part); ok {
			part = t
		}
		o := object(part)
		if o.Name == "" || slices.Contains(out, o) || len(out) == maxItems {
			continue
		}
		out = append(out, o)
	}
	return out
}
