package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// Pictures are SVG that is made here: they need no script, print, and are told apart without
// colour. Beside each of them stands the same in words.

// svg writes one picture; its texts are escaped.
type svg struct{ b strings.Builder }

func (s *svg) open(w, h int, class, title string) {
	fmt.Fprintf(&s.b, `<svg class="%s" viewBox="0 0 %d %d" role="img" aria-label="%s">`, class, w, h, template.HTMLEscapeString(title))
}

func (s *svg) line(x1, y1, x2, y2 int, class string) {
	fmt.Fprintf(&s.b, `<line x1="%d" y1="%d" x2="%d" y2="%d" class="%s"/>`, x1, y1, x2, y2, class)
}

func (s *svg) rect(x, y, w, h int, class, title string) {
	fmt.Fprintf(&s.b, `<rect x="%d" y="%d" width="%d" height="%d" rx="3" class="%s">`, x, y, w, h, class)
	if title != "" {
		s.b.WriteString("<title>" + template.HTMLEscapeString(title) + "</title>")
	}
	s.b.WriteString("</rect>")
}

func (s *svg) words(x, y int, class, said string) {
	fmt.Fprintf(&s.b, `<text x="%d" y="%d" class="%s">%s</text>`, x, y, class, template.HTMLEscapeString(text.DropHidden(said)))
}

func (s *svg) done() template.HTML {
	s.b.WriteString("</svg>")
	return template.HTML(s.b.String())
}

// drawBars draws what each day cost, with the limit of a day.
func drawBars(days []Spent) template.HTML {
	const w, h, foot, left = 720, 180, 22, 52
	most := 0.0
	for _, d := range days {
		most = max(most, d.USD, d.Limit)
	}
	if most == 0 || len(days) == 0 {
		return ""
	}
	s := &svg{}
	s.open(w, h+foot, "chart", "What each of the last days cost; the table below says the same")
	step := (w - left) / len(days)
	scale := func(usd float64) int { return int(usd / most * (h - 14)) }
	for i, d := range days {
		height := scale(d.USD)
		if d.USD > 0 {
			height = max(2, height)
		}
		s.rect(left+i*step+2, h-height, step-4, height, "bar", d.Name+": "+dollars(d.USD))
		if i%7 == len(days)%7 {
			s.words(left+i*step, h+16, "axis", d.Name[5:])
		}
	}
	s.line(left, h, w, h, "base")
	s.words(0, h-scale(most)+10, "axis", dollars(most))
	s.words(0, h, "axis", "$0")
	if limit := days[0].Limit; limit > 0 {
		y := h - scale(limit)
		s.line(left, y, w, y, "limit")
		s.words(left+4, y+12, "axis", "limit of a day")
	}
	return s.done()
}

// drawChanges draws what changed on a line of time, against the first symptom. The line is
// bent: what was long before is nearer than it was, for what counts is the order, and what
// was just before.
func drawChanges(changes []report.Changed, symptom time.Time) template.HTML {
	const w, h, mid, zero = 720, 84, 40, 560
	var dated []report.Changed
	for _, c := range changes {
		if !c.At.IsZero() {
			dated = append(dated, c)
		}
	}
	if len(dated) == 0 || symptom.IsZero() {
		return ""
	}
	s := &svg{}
	s.open(w, h, "chart", "What changed before and after the first symptom; the list below says the same")
	s.line(10, mid, w-10, mid, "base")
	for _, tick := range []struct {
		d    time.Duration
		name string
	}{{time.Minute, "1 min"}, {10 * time.Minute, "10 min"}, {time.Hour, "1 h"}, {24 * time.Hour, "1 d"}, {7 * 24 * time.Hour, "7 d before"}} {
		x := zero - bend(tick.d)
		s.line(x, mid-4, x, mid+4, "tick")
		s.words(x-12, mid+38, "axis", tick.name)
	}
	s.line(zero, 8, zero, mid+22, "symptom")
	s.words(zero+6, 16, "axis strong", "first symptom")
	for i, c := range dated {
		x := max(16, zero-bend(symptom.Sub(c.At)))
		if c.At.After(symptom) {
			x = min(w-16, zero+bend(c.At.Sub(symptom))/3)
		}
		fmt.Fprintf(&s.b, `<circle cx="%d" cy="%d" r="9" class="change"><title>%s</title></circle>`, x, mid, template.HTMLEscapeString(text.CutLine(c.What, 200)))
		s.words(x-3, mid+4, "number", fmt.Sprint(i+1))
	}
	return s.done()
}

// bend is how far from the first symptom a time is drawn.
func bend(d time.Duration) int {
	x := 0
	for _, part := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour} {
		if d >= part {
			x += 105
			continue
		}
		return x + int(105*d/part)
	}
	return x
}

// drawGraph draws a pipeline from the left to the right: what stands in one column is done
// side by side.
func drawGraph(g Graph, steps []nightcrier.Step) template.HTML {
	const bw, bh, gapX, gapY, top = 188, 44, 34, 10, 22
	columns := columnsOf(g)
	rows := 1
	for _, c := range columns {
		rows = max(rows, len(c.Steps))
	}
	state := map[string]nightcrier.Step{}
	for _, st := range nightcrier.LastAttempts(steps) {
		state[st.ID] = st
	}
	w, h := len(columns)*(bw+gapX)-gapX+4, top+rows*(bh+gapY)
	s := &svg{}
	fmt.Fprintf(&s.b, `<svg class="graph" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s">`, w, h, w, h, template.HTMLEscapeString("The steps of "+g.Name+", from the left to the right"))
	for x, c := range columns {
		at := 2 + x*(bw+gapX)
		if c.Name != "" {
			s.words(at, 12, "axis", text.CutLine(c.Name, 28))
		}
		for y, st := range c.Steps {
			yy := top + y*(bh+gapY)
			if x > 0 {
				for py := range columns[x-1].Steps {
					from := top + py*(bh+gapY) + bh/2
					fmt.Fprintf(&s.b, `<path d="M%d %d C%d %d %d %d %d %d" class="edge"/>`, at-gapX, from, at-gapX/2, from, at-gapX/2, yy+bh/2, at-2, yy+bh/2)
				}
			}
			was, known := state[st.ID]
			s.rect(at, yy, bw, bh, "node "+nodeClass(was, known), st.If)
			s.words(at+10, yy+18, "name", text.CutLine(st.ID, 24))
			s.words(at+10, yy+35, "axis", text.CutLine(nodeSays(st, was, known), 30))
		}
	}
	return s.done()
}

// columnsOf puts steps that follow each other into columns of their own.
func columnsOf(g Graph) (columns []GraphPhase) {
	for _, p := range g.Phases {
		if p.Parallel {
			columns = append(columns, p)
			continue
		}
		for i, s := range p.Steps {
			name := ""
			if i == 0 {
				name = p.Name
			}
			columns = append(columns, GraphPhase{Name: name, Steps: []GraphStep{s}})
		}
	}
	return columns
}

func nodeClass(s nightcrier.Step, known bool) string {
	switch {
	case !known:
		return ""
	case s.Skipped != "":
		return "skipped"
	}
	return toneOfState(s.State)
}

// nodeSays is the second line of a step: what does it, or how it went.
func nodeSays(g GraphStep, s nightcrier.Step, known bool) string {
	switch {
	case !known:
		return strings.TrimPrefix(g.Uses, "action:")
	case s.Skipped != "":
		return "skipped"
	}
	return string(s.State)
}

// showJSON is JSON as people read it; anything else as it stands.
func showJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return text.MarkHidden(string(raw))
	}
	return text.MarkHidden(b.String())
}
