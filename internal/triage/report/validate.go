package report

import (
	"fmt"
	"strings"

	"nightcrier.dev/nightcrier"
)

// Validate names what the contract demands and the report lacks; nothing when
// the report is valid. r is what Parse made of md.
func Validate(md []byte, r *nightcrier.Report) []string {
	problems := checkHeadings(scanLines(md))
	if len(r.Facts) == 0 {
		problems = append(problems, "no fact labelled [FACT-n] in section 2")
	}
	if !hasFalsification(r) {
		problems = append(problems, "no hypothesis (H1) with a falsification test in section 3")
	}
	return problems
}

func hasFalsification(r *nightcrier.Report) bool {
	for _, h := range r.Hypotheses {
		if h.Falsification.Command != "" {
			return true
		}
	}
	return false
}

// checkHeadings compares the section headings with the demanded ones.
func checkHeadings(lines []line) []string {
	var problems []string
	if !hasTitle(lines) {
		problems = append(problems, fmt.Sprintf("the title %q is missing", Title))
	}
	found := map[int]int{}
	last := -1
	for _, l := range lines {
		n := sectionNumber(l)
		if n < 0 {
			continue
		}
		if found[n]++; found[n] == 2 {
			problems = append(problems, fmt.Sprintf("section %q stands twice", headings[n]))
		}
		if n < last && found[n] == 1 {
			problems = append(problems, fmt.Sprintf("section %q stands behind %q", headings[n], headings[last]))
		}
		last = max(last, n)
	}
	for n, h := range headings {
		if found[n] == 0 {
			problems = append(problems, fmt.Sprintf("section %q is missing", h))
		}
	}
	return problems
}

func hasTitle(lines []line) bool {
	for _, l := range lines {
		if l.level == 1 && sameHeading(l.text, strings.TrimPrefix(Title, "# ")) {
			return true
		}
	}
	return false
}

// sectionNumber returns 0 to 6 for a line that is one of the seven headings, -1
// for any other.
func sectionNumber(l line) int {
	if l.level != 2 {
		return -1
	}
	for n, h := range headings {
		if sameHeading(l.text, strings.TrimPrefix(h, "## ")) {
			return n
		}
	}
	return -1
}

// sameHeading forgives what a reader would not notice: case, spaces, emphasis
// and a closing colon.
func sameHeading(a, b string) bool { return headingKey(a) == headingKey(b) }

func headingKey(s string) string {
	s = strings.NewReplacer("*", "", "_", "", "&amp;", "&").Replace(strings.ToLower(s))
	return strings.TrimRight(strings.Join(strings.Fields(s), " "), " #:")
}
