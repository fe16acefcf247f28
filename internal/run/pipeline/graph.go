package pipeline

import (
	"fmt"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
)

// DrawText draws a pipeline for a terminal: what comes first stands first, what happens side
// by side stands behind a bracket.
func DrawText(d *Definition) string {
	var b strings.Builder
	for i, p := range d.Phases {
		if i > 0 {
			b.WriteString("   │\n   ▼\n")
		}
		b.WriteString(describePhase(p))
		for j, s := range p.Steps {
			b.WriteString(markOf(p, j) + s.ID + describeStep(s) + "\n")
		}
	}
	return b.String()
}

// describePhase is the line above the steps of a phase that has a name.
func describePhase(p Phase) string {
	if p.Name == "" {
		return ""
	}
	line := p.Name
	if p.Parallel {
		line += " (side by side)"
	}
	if p.FanInFrom != "" {
		line += ", with all results of " + p.FanInFrom
	}
	return line + "\n"
}

// markOf is what stands before a step.
func markOf(p Phase, i int) string {
	switch last := len(p.Steps) - 1; {
	case !p.Parallel && i > 0:
		return "   ▼ "
	case !p.Parallel:
		return "   ● "
	case last == 0:
		return "   ─ "
	case i == 0:
		return "   ┌ "
	case i == last:
		return "   └ "
	}
	return "   ├ "
}

// describeStep is what stands behind the id of a step.
func describeStep(s Step) string {
	var said []string
	if s.Uses() != s.ID {
		said = append(said, s.Uses())
	}
	if s.If != "" {
		said = append(said, "if "+s.If)
	}
	switch s.OnFailure {
	case Continue:
		said = append(said, "may fail")
	case Retry:
		said = append(said, "tried again up to "+text.CountNoun(s.Retries, "time"))
	}
	if s.Deliverable != nil {
		said = append(said, "delivers "+string(s.Deliverable.Kind))
	}
	if len(said) == 0 {
		return ""
	}
	return "  " + strings.Join(said, ", ")
}

// DrawMermaid draws a pipeline as a flowchart of Mermaid.
func DrawMermaid(d *Definition) string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	var before []string // what the next step comes after
	n := 0
	for i, p := range d.Phases {
		if p.Name != "" {
			fmt.Fprintf(&b, "  subgraph p%d[%s]\n", i, mermaidText(p.Name))
		}
		var arrows, ends []string
		for _, s := range p.Steps {
			n++
			node := fmt.Sprintf("s%d", n)
			fmt.Fprintf(&b, "    %s[%s]\n", node, mermaidText(s.ID+describeStep(s)))
			for _, from := range before {
				arrows = append(arrows, fmt.Sprintf("  %s --> %s\n", from, node))
			}
			if ends = append(ends, node); !p.Parallel {
				before, ends = []string{node}, []string{node}
			}
		}
		if p.Name != "" {
			b.WriteString("  end\n")
		}
		b.WriteString(strings.Join(arrows, ""))
		before = ends
	}
	return b.String()
}

// mermaidText is a text in quotes, in which only letters and what is harmless stands as it is.
func mermaidText(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("\"#<>`\\;&", r) || r < ' ' {
			fmt.Fprintf(&b, "#%d;", r)
			continue
		}
		b.WriteRune(r)
	}
	return `"` + b.String() + `"`
}
