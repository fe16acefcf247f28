package skill

import (
	"regexp"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
)

// Phase is a part of an agent's work, with what it must have come to before the next one begins.
type Phase struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
	// Gate is its context gate: what was found, what was decided, and what is next; "" for none.
	Gate string `json:"gate,omitempty"`
	line int
}

// GateSentences is how many sentences a context gate has.
const GateSentences = 3

var (
	phaseHeading = regexp.MustCompile(`^#{2,4} Phase (\d{1,3})\s*[:.–—-]\s*(.+?)\s*$`)
	gateLine     = regexp.MustCompile(`(?i)^\s*(?:[-*] )?\**(?:context )?gate\**\s*:\s*\**\s*(.+?)\s*$`)
	otherHeading = regexp.MustCompile(`^#{1,4} `)
	sentenceEnd  = regexp.MustCompile(`[.!?]["'”)]*(?:\s|$)`)
)

// parsePhases finds the phases of a SKILL.md, and their gates. What stands in a block of code is
// an example.
func parsePhases(d *document) (all []Phase) {
	in, code := false, false
	for i, line := range strings.Split(d.body, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		if code {
			continue
		}
		if m := phaseHeading.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1]) // digits
			all, in = append(all, Phase{Number: n, Name: text.CutLine(m[2], 100), line: d.bodyLine + i}), true
		} else if otherHeading.MatchString(line) {
			in = false
		} else if m := gateLine.FindStringSubmatch(line); m != nil && in && all[len(all)-1].Gate == "" {
			all[len(all)-1].Gate = text.CutLine(strings.Trim(m[1], `"“”`), maxValue)
		}
	}
	return all
}

// lintPhases says which phases of an agent do not end as they should.
func (c *scan) lintPhases() {
	phases, set := parsePhases(c.main), c.skill.Settings
	for i, p := range phases {
		if i > 0 && p.Number != phases[i-1].Number+1 {
			c.add(Hint, "SKILL.md", p.line, "Phase %d follows Phase %d: number them in their order", p.Number, phases[i-1].Number)
		}
		if !set.Configured || set.Role != RoleAgent {
			continue
		}
		switch n := len(sentenceEnd.FindAllString(p.Gate+" ", -1)); {
		case p.Gate == "" && i < len(phases)-1:
			c.add(Hint, "SKILL.md", p.line, "Phase %d has no context gate: end it with **Gate**: and three sentences, of what was found, what was decided, and what is next", p.Number)
		case p.Gate != "" && n != GateSentences:
			c.add(Hint, "SKILL.md", p.line, "the context gate of Phase %d has %s, not %d: say what was found, what was decided, and what is next", p.Number, text.CountNoun(n, "sentence"), GateSentences)
		}
	}
}
