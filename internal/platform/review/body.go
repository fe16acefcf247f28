package review

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
)

// maxPosted bounds one text that is posted, in bytes; GitHub takes 65,536 characters.
const maxPosted = 60_000

// commentBody is what stands on a line.
func (f found) commentBody() string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**: %s\n\n%s\n", f.Severity, inertLine(f.Title), inert(f.Body))
	if f.Suggestion != nil {
		fmt.Fprintf(&b, "\n%s\n", fence("suggestion", *f.Suggestion))
	}
	for _, also := range f.Also {
		fmt.Fprintf(&b, "\nAlso: %s\n", inertLine(also))
	}
	fmt.Fprintf(&b, "\n<!-- nightcrier:finding %s -->", f.Print)
	return b.String()
}

// summaryBody is the one comment that says how the pull request stands.
func (l *looked) summaryBody(p *Plan, listed []found, kept memory) string {
	var b strings.Builder
	raw, _ := json.Marshal(kept) // texts of hexadecimal digits
	fmt.Fprintf(&b, "%s\n<!-- nightcrier:memory %s -->\n**Review of %s**", summaryMarker, raw, shortCommit(l.about.Head))
	if l.about.Since != "" {
		fmt.Fprintf(&b, ", what changed since %s", shortCommit(l.about.Since))
	}
	fmt.Fprintf(&b, ": %s.", p.describe())
	if len(listed) > 0 {
		b.WriteString("\n")
	}
	for i, f := range listed {
		if i == maxListed {
			fmt.Fprintf(&b, "\n- and %d more, in the checks", len(listed)-i)
			break
		}
		at := code(f.Path)
		if f.Unplaced == "" || f.Line > 0 {
			at = code(fmt.Sprintf("%s:%d", f.Path, f.Line))
		}
		fmt.Fprintf(&b, "\n- **%s** %s: %s", f.Severity, at, inertLine(f.Title))
		if f.Unplaced != "" {
			fmt.Fprintf(&b, " (%s)", f.Unplaced)
		}
	}
	return text.CutBytes(paragraphs(b.String(), l.leftOutText(), l.footer()), maxPosted)
}

// paragraphs puts texts below each other that are not empty.
func paragraphs(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), "\n\n")
}

// describe counts what was found.
func (p *Plan) describe() string {
	switch {
	case len(p.Checks) == 0:
		return "nothing was reviewed, as no agent had anything to look at"
	case p.OnLines+p.Listed+p.Unsure+p.Repeated == 0:
		return "nothing was found"
	}
	said := []string{text.CountNoun(p.OnLines, "finding") + " on lines"}
	if p.Listed > 0 {
		said = append(said, fmt.Sprint(p.Listed)+" more in the summary")
	}
	if p.Repeated > 0 {
		said = append(said, fmt.Sprint(p.Repeated)+" told before")
	}
	if p.Unsure > 0 {
		said = append(said, fmt.Sprint(p.Unsure)+" too unsure to be told")
	}
	return strings.Join(said, ", ")
}

// leftOutText names the files that nobody looked at, and those of which not all was there.
func (l *looked) leftOutText() string {
	var out []string
	for _, f := range l.about.Files {
		why := f.LeftOut
		if why == outEarlier {
			continue
		}
		if why == "" && f.Cut != "" {
			why = "not all of it: " + f.Cut
		}
		if why != "" {
			out = append(out, code(f.Path)+" ("+inertLine(why)+")")
		}
	}
	var all []string
	if len(out) > 0 {
		named := out[:min(len(out), maxListed)]
		all = append(all, "Not reviewed: "+strings.Join(named, ", "))
		if more := len(out) - len(named); more > 0 {
			all[0] += fmt.Sprintf(", and %d more", more)
		}
		all[0] += "."
	}
	if l.diff.Cut != "" {
		all = append(all, "Not all of the pull request was reviewed: "+l.diff.Cut+".")
	}
	if n := l.about.HiddenLines; n > 0 {
		all = append(all, fmt.Sprintf("Characters that nobody sees stand in %s of the diff.", text.CountNoun(n, "line")))
	}
	return strings.Join(all, "\n")
}

// footer says who looked.
func (l *looked) footer() string {
	var said []string
	cost := 0.0
	for _, a := range l.agents {
		how := "✓"
		if a.Failure != "" {
			how = "failed: " + inertLine(text.CutLine(a.Failure, 200))
		}
		said = append(said, a.Step+" "+how)
		cost += a.CostUSD
	}
	return fmt.Sprintf("<sub>%s · $%.2f · run %s</sub>", strings.Join(said, " · "), cost, l.runID)
}

// shortCommit is how people call a commit; a diff of one's own has none.
func shortCommit(s string) string { return cmp.Or(s[:min(len(s), 7)], "the diff") }

// Preview is the plan as people read it who try it out.
func (p *Plan) Preview() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", p.describe())
	if p.Review != nil {
		fmt.Fprintf(&b, "\nA review (%s):\n", p.Review.Verdict)
		for _, c := range p.Review.Comments {
			at := fmt.Sprintf("%s:%d", c.Path, c.Line)
			if c.Start > 0 {
				at = fmt.Sprintf("%s:%d-%d", c.Path, c.Start, c.Line)
			}
			if c.Side == Left {
				at += " (taken out)"
			}
			fmt.Fprintf(&b, "\n%s\n%s\n", at, indent(printLine.ReplaceAllString(c.Body, "")))
		}
	}
	if p.Summary != nil {
		fmt.Fprintf(&b, "\nA summary:\n\n%s\n", indent(memoryLine.ReplaceAllString(strings.TrimPrefix(p.Summary.Body, summaryMarker), "")))
	}
	for _, c := range p.Checks {
		fmt.Fprintf(&b, "\nA check %s: %s, %s\n", c.Name, c.Conclusion, c.Title)
		if p.Summary == nil && c.Summary != "" {
			fmt.Fprintf(&b, "%s\n", indent(c.Summary))
		}
	}
	return b.String()
}

func indent(s string) string {
	return strings.ReplaceAll("  "+strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  "), "\n  \n", "\n\n")
}
