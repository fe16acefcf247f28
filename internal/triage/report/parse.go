package report

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"nightcrier.dev/nightcrier"
)

var (
	factRE       = regexp.MustCompile(`(?i)^[*_]*\[?[*_]*FACT-?\s?(\d{1,4})[*_]*\]?[*_]*\s*[:.—–-]*[*_]*\s*(.*)$`)
	inferenceRE  = regexp.MustCompile(`(?i)^[*_]*\[?[*_]*INF-?\s?(\d{1,4})[*_]*\]?[*_]*\s*[:.—–-]*[*_]*\s*(.*)$`)
	hypothesisRE = regexp.MustCompile(`(?i)^[*_]*(?:hypothesis\s+)?H(\d)\b[*_]*\s*(?:\([^)]*\))?\s*[:.—–-]+[*_]*\s*(.*)$`)
	priorityRE   = regexp.MustCompile(`\bP([1-4])\b`)
	causeRE      = regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)*$`)
)

// Parse reads an agent's Markdown. It takes what it finds and names what it
// could not find; whether the report is valid is Validate's to say. No fact is
// checked yet.
func Parse(md []byte) (nightcrier.Report, []string) {
	sections := outlineSections(scanLines(md))
	r := nightcrier.Report{Schema: nightcrier.ReportSchema, Source: "agent"}
	r.Facts = parseFacts(sections)
	r.Inferences = parseInferences(sections[2])
	r.Hypotheses = parseHypotheses(sections[3])
	r.Changes = parseChanges(findBlock(sections[2], "changed", "changes"))
	r.Actions = parseActions(sections)
	r.NotChecked = parseNotChecked(sections[5])
	parseFindings(&r, sections[2])
	parseCard(&r, sections)
	return r, listMissing(md, &r)
}

// listMissing names what a reader of report.json would look for in vain.
func listMissing(md []byte, r *nightcrier.Report) []string {
	problems := []string{}
	add := func(absent bool, format string, args ...any) {
		if absent {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	add(len(md) > maxMarkdown, "the report has %d bytes; only the first %d were read", len(md), maxMarkdown)
	add(bytes.Count(md, []byte("\n")) >= maxLines, "the report has more than %d lines; the rest was not read", maxLines)
	add(r.Severity == "", "no severity P1 to P4 in section 0")
	add(r.Impact == "", "no impact in section 0")
	add(r.Category == "", "no category in section 2")
	add(r.Verdict == "", "no status in section 0")
	add(r.Verdict == nightcrier.VerdictFault && r.RootCause == nil, "no root cause in section 3")
	add(len(r.Actions) == 0, "no recommended action in section 0")
	add(len(r.Facts) >= maxItems, "more than %d facts; the rest was not read", maxItems)
	for _, i := range r.Inferences {
		add(len(i.BasedOn) == 0, "%s names no fact it is based on", i.ID)
	}
	if r.Verdict == "" {
		r.Verdict = nightcrier.VerdictUndetermined
	}
	return problems
}

var cardLabels = map[string]string{
	"status": "status", "severity": "severity", "impact": "impact", "target": "target", "affected resource": "target", "resource": "target",
	"verdict": "verdict", "duration": "duration", "primary hypothesis": "primary", "root cause": "primary",
	"most dangerous assumption": "assumption", "confidence": "confidence",
}

func parseCard(r *nightcrier.Report, sections [7][]block) {
	card := parseFields(allLines(sections[0]), cardLabels)
	if m := priorityRE.FindString(card["severity"]); m != "" {
		r.Severity = m
	}
	r.Impact = oneOf(card["impact"], "Single Pod", "Multi-Namespace", "Namespace", "Cluster-Wide")
	r.Target = parseObject(firstLine(card["target"]))
	r.Verdict = parseVerdict(card)
	if r.Verdict == nightcrier.VerdictFault {
		r.RootCause = rootCause(r, sections[3], card)
	}
}

// parseVerdict reads our own label first, then the status.
func parseVerdict(card map[string]string) nightcrier.Verdict {
	switch v := nightcrier.Verdict(strings.ToLower(dropEmphasis(firstLine(card["verdict"])))); v {
	case nightcrier.VerdictFault, nightcrier.VerdictRecovered, nightcrier.VerdictHealthy, nightcrier.VerdictUndetermined:
		return v
	}
	undetermined := strings.Contains(strings.ToLower(firstLine(card["primary"])), "undetermined")
	switch state := oneOf(card["status"], "🟢", "resolved", "🔴", "active", "🟡", "degraded"); {
	case state == "🟢" || state == "resolved":
		return nightcrier.VerdictRecovered
	case undetermined:
		return nightcrier.VerdictUndetermined
	case state != "":
		return nightcrier.VerdictFault
	}
	return ""
}

// rootCause takes the block of that name, and H1 for what it leaves open.
func rootCause(r *nightcrier.Report, analysis []block, card map[string]string) *nightcrier.RootCause {
	own := parseFields(findBlock(analysis, "root cause"), hypothesisLabels)
	summary, conf := extractConfidence(firstLine(card["primary"]))
	rc := nightcrier.RootCause{
		Cause: parseCause(own["cause"]), Object: parseObject(own["object"]), Summary: cleanText(own["summary"]),
		Confidence: confidenceWord(own["confidence"]),
	}
	if len(r.Hypotheses) > 0 {
		h := r.Hypotheses[0]
		rc.Cause = orOther(rc.Cause, h.Cause)
		if rc.Object.Name == "" {
			rc.Object = h.Object
		}
		summary, conf = orOther(summary, h.Statement), nightcrier.Confidence(orOther(string(conf), string(h.Confidence)))
	}
	if rc.Object.Name == "" {
		rc.Object = r.Target
	}
	rc.Summary = orOther(rc.Summary, cleanText(summary))
	rc.Confidence = nightcrier.Confidence(orOther(orOther(string(rc.Confidence), string(conf)), string(confidenceWord(card["confidence"]))))
	if rc.Summary == "" {
		return nil
	}
	rc.Confidence = nightcrier.Confidence(orOther(string(rc.Confidence), string(nightcrier.Low)))
	return &rc
}

func confidenceWord(s string) nightcrier.Confidence {
	_, c := extractConfidence("confidence: " + firstLine(s))
	return c
}

var findingLabels = map[string]string{"category": "category", "blast radius": "blast", "user impact": "impact",
	"confirmed affected": "affected", "affected": "affected", "suspected": "suspected", "suspected affected": "suspected",
	"confirmed unaffected": "unaffected", "unaffected": "unaffected",
	"coming up": "comingUp", "coming up, not judged": "comingUp"}

func parseFindings(r *nightcrier.Report, blocks []block) {
	f := parseFields(allLines(blocks), findingLabels)
	r.Scope = parseScope(f)
	r.Category = oneOf(f["category"], "Pod", "Service", "Storage", "Node", "Network", "Helm", "Cluster")
	if s := cleanText(firstLine(f["blast"])); s != "" {
		r.BlastRadius = map[string]any{"summary": s}
	}
}

// parseFacts reads section 2; a report that puts them elsewhere is read as well.
func parseFacts(sections [7][]block) []nightcrier.Fact {
	if facts := factsIn(allLines(sections[2])); len(facts) > 0 {
		return facts
	}
	var lines []line
	for _, s := range sections {
		lines = append(lines, allLines(s)...)
	}
	return factsIn(lines)
}

func factsIn(lines []line) []nightcrier.Fact {
	facts := []nightcrier.Fact{}
	seen := map[string]bool{}
	for _, item := range append(listItems(lines), labelledLines(lines, factRE)...) {
		m := factRE.FindStringSubmatch(item)
		if m == nil || m[2] == "" || seen[m[1]] || len(facts) >= maxItems {
			continue
		}
		seen[m[1]] = true
		facts = append(facts, parseFact("FACT-"+m[1], m[2]))
	}
	return facts
}

// labelledLines returns paragraphs and table rows that begin with a label.
func labelledLines(lines []line, re *regexp.Regexp) []string {
	var out []string
	for _, l := range lines {
		s := strings.TrimSpace(l.text)
		if cells := parseRow(s); len(cells) >= 2 && re.MatchString(cells[0]) {
			s = cells[0] + " " + cells[1]
			if len(cells) > 2 {
				s += " — Source: " + strings.Join(cells[2:], " — ")
			}
		}
		if !l.fenced && re.MatchString(s) && len(out) < maxItems {
			out = append(out, s)
		}
	}
	return out
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

// oneOf returns the word that stands first in the first line of s, "" for none.
func oneOf(s string, words ...string) string {
	s = strings.ToLower(strings.ReplaceAll(firstLine(s), "-", " "))
	found, first := "", len(s)
	for _, w := range words {
		if at := strings.Index(s, strings.ToLower(strings.ReplaceAll(w, "-", " "))); at >= 0 && at < first {
			found, first = w, at
		}
	}
	return found
}

// parseCause returns the kebab-case id in s.
func parseCause(s string) string {
	s = firstLine(s)
	if m := backtickRE.FindStringSubmatch(s); m != nil {
		s = m[1]
	}
	if s = strings.ToLower(strings.TrimSpace(s)); causeRE.MatchString(s) && len(s) <= 64 {
		return s
	}
	return ""
}

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
