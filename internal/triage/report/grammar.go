package report

import (
	"regexp"
	"strings"

	"nightcrier.dev/nightcrier"
	texts "nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report/internal/markdown"
)

var (
	bulletRE     = regexp.MustCompile(`^(\s*)(?:[-*+•]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(.*)$`)
	labelRE      = regexp.MustCompile(`^[*_]*([\pL][\pL0-9 /&'()-]{1,48}?)[*_]*\s*:[*_]*\s*(.*)$`)
	confidenceRE = regexp.MustCompile(`(?i)[\s(\[*_—–-]*(?:confidence[*_]*\s*[:=—–-]?\s*[*_]*(high|medium|low)[*_]*|\b(high|medium|low)[*_]* confidence)\b[*_)\]]*`)
	factRefRE    = regexp.MustCompile(`(?i)\bFACT-?\s?(\d{1,4})\b`)
	evidenceRE   = regexp.MustCompile(`\bE\d{1,6}\b`)
	backtickRE   = regexp.MustCompile("`([^`\n]+)`")
	separatorRE  = regexp.MustCompile(`\s+(?:—|–|--|-)\s+`)
)

// parseBullet returns the text and indentation of a list item.
func parseBullet(s string) (text string, indent int, ok bool) {
	m := bulletRE.FindStringSubmatch(s)
	if m == nil {
		return "", 0, false
	}
	return strings.TrimSpace(m[2]), len(m[1]), true
}

// parseLabel splits "**Label:** value"; the label comes in lower case.
func parseLabel(s string) (name, value string, ok bool) {
	s = strings.TrimLeft(strings.TrimSpace(s), "*_")
	s = strings.TrimLeftFunc(s, func(r rune) bool { return r > 0x2000 || r == ' ' || r == '*' })
	m := labelRE.FindStringSubmatch(s)
	if m == nil {
		return "", "", false
	}
	return strings.ToLower(strings.TrimSpace(m[1])), strings.TrimSpace(m[2]), true
}

// listItems returns the list items of some lines, each with what is indented below
// it as further clauses.
func listItems(lines []line) []string {
	var out []string
	open := false
	top := 0
	for _, l := range lines {
		if l.fenced {
			continue
		}
		text, indent, ok := parseBullet(l.text)
		switch {
		case l.isBlank():
			open = false
		case ok && open && indent > top, !ok && open && strings.HasPrefix(l.text, " "):
			if !ok {
				text = strings.TrimSpace(l.text)
			}
			if last := &out[len(out)-1]; len(*last) < markdown.MaxLine {
				*last += " — " + text
			}
		case len(out) >= maxItems:
			return out
		case ok:
			out, open, top = append(out, text), true, indent
		default:
			open = false
		}
	}
	return out
}

// parseFields reads labelled lines. Only the given labels begin a field, so that a
// value may go on for several lines.
func parseFields(lines []line, known map[string]string) map[string]string {
	out := map[string]string{}
	current := ""
	for _, l := range lines {
		text := l.text
		if t, _, ok := parseBullet(text); ok && !l.fenced {
			text = t
		}
		name, value, ok := parseLabel(labelFromRow(text))
		if key := known[name]; ok && key != "" && !l.fenced {
			current = key
			if out[key] == "" {
				out[key] = value
			}
			continue
		}
		if current != "" && len(out[current]) < maxText {
			out[current] = strings.TrimSpace(out[current] + "\n" + text)
		}
	}
	return out
}

// labelFromRow turns the row of a two-column table into a labelled line.
func labelFromRow(s string) string {
	if cells := parseRow(s); len(cells) == 2 {
		return cells[0] + ": " + cells[1]
	}
	return s
}

// parseRow returns the cells of a table row, nil for any other line.
func parseRow(s string) []string {
	s = strings.TrimSpace(s)
	if len(s) < 2 || s[0] != '|' {
		return nil
	}
	s = strings.ReplaceAll(strings.Trim(s, "|"), `\|`, "\x00")
	cells := strings.Split(s, "|")
	if len(cells) > 12 {
		return nil
	}
	for i, c := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(c, "\x00", "|"))
	}
	return cells
}

// parseTable returns the rows of the first table in some lines, by column name.
func parseTable(lines []line) []map[string]string {
	var head []string
	var out []map[string]string
	for _, l := range lines {
		cells := parseRow(l.text)
		switch {
		case cells == nil || l.fenced || isRuler(cells):
			continue
		case head == nil:
			for _, c := range cells {
				head = append(head, strings.ToLower(dropEmphasis(c)))
			}
		case len(out) < maxItems:
			r := map[string]string{}
			for i, c := range cells[:min(len(cells), len(head))] {
				r[head[i]] = c
			}
			out = append(out, r)
		}
	}
	return out
}

func isRuler(cells []string) bool { return strings.Trim(strings.Join(cells, ""), "-: ") == "" }

// splitClauses splits a text at its dashes, except inside quotes and backticks.
func splitClauses(s string) []string {
	var out []string
	whole := countMarks(s)
	var before marks
	from, counted := 0, 0
	for _, m := range separatorRE.FindAllStringIndex(s, -1) {
		before = before.plus(countMarks(s[counted:m[0]]))
		counted = m[0]
		// A hyphen separates only what a label or a quote follows.
		hyphen := strings.TrimSpace(s[m[0]:m[1]]) == "-"
		if before.open() && whole.minus(before).open() || hyphen && !startsClause(s[m[1]:]) {
			continue
		}
		out = append(out, strings.TrimSpace(s[from:m[0]]))
		from = m[1]
	}
	return append(out, strings.TrimSpace(s[from:]))
}

// marks counts quotes: straight ones, backticks, opening less closing curly ones.
type marks struct{ straight, ticks, curly int }

func countMarks(s string) marks {
	return marks{strings.Count(s, `"`), strings.Count(s, "`"), strings.Count(s, "“") - strings.Count(s, "”")}
}

func (m marks) plus(o marks) marks {
	return marks{m.straight + o.straight, m.ticks + o.ticks, m.curly + o.curly}
}

func (m marks) minus(o marks) marks {
	return marks{m.straight - o.straight, m.ticks - o.ticks, m.curly - o.curly}
}

// open reports whether a quote is left open, seen from either side.
func (m marks) open() bool { return m.straight%2 == 1 || m.ticks%2 == 1 || m.curly != 0 }

func startsClause(s string) bool {
	s = strings.TrimLeft(s, "*_ ")
	if s == "" || s[0] == '"' || strings.HasPrefix(s, "“") {
		return s != ""
	}
	name, _, ok := parseLabel(texts.KeepBytes(s, 120))
	return ok && clauseLabels[name] != ""
}

// clauseLabels are the labels that stand inside facts and inferences.
var clauseLabels = map[string]string{
	"source": "source", "sources": "source", "evidence": "source", "quote": "quote",
	"confidence": "confidence", "based on": "based on", "rests on": "based on", "facts": "based on",
	"wrong if": "wrong if", "would be wrong if": "wrong if", "invalidated by": "wrong if", "invalidated if": "wrong if", "falsified by": "wrong if",
}

// extractConfidence takes a confidence out of a text.
func extractConfidence(s string) (rest string, c nightcrier.Confidence) {
	m := confidenceRE.FindStringSubmatchIndex(s)
	if m == nil {
		return strings.TrimSpace(s), ""
	}
	word := ""
	for _, g := range []int{2, 4} {
		if m[g] >= 0 {
			word = s[m[g]:m[g+1]]
		}
	}
	rest = strings.TrimSpace(s[:m[0]] + s[m[1]:])
	return strings.TrimRight(rest, " —–-*_"), nightcrier.Confidence(strings.ToLower(word))
}

// factRefs returns the facts that a text names, as FACT-n, once each.
func factRefs(s string) []string {
	out := []string{}
	seen := map[string]bool{}
	for _, m := range factRefRE.FindAllStringSubmatch(s, maxItems) {
		if id := "FACT-" + m[1]; !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}

// dropEmphasis removes emphasis.
func dropEmphasis(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "**", "")) }

// cleanText cleans a piece of agent's Markdown for a field of the report.
func cleanText(s string) string {
	return texts.CutBytes(markdown.UnescapeLine(dropEmphasis(s)), maxText)
}
