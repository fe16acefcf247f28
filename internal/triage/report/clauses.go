package report

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	texts "nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report/internal/markdown"
)

var markRE = regexp.MustCompile(`(?i)^[✓✔✗⚠*_\s]*(?:verified|seen|unseen)[*_\s]*$`)

// claim is a labelled statement taken apart: what it says, and its clauses by
// label.
type claim struct {
	text   string
	labels map[string]string
	quote  string
}

// readClaim takes the clauses of a fact or an inference apart. A mark that an
// agent set itself means nothing and is dropped.
func readClaim(body string) claim {
	c := claim{labels: map[string]string{}}
	var said []string
	for _, clause := range splitClauses(body) {
		name, value, ok := parseLabel(clause)
		key := clauseLabels[name]
		switch {
		case ok && key != "" && c.labels[key] == "":
			c.labels[key] = value
		case len(c.labels) > 0 && markRE.MatchString(clause):
		case len(c.labels) > 0 && c.quote == "" && stripQuotes(clause) != "":
			c.quote = stripQuotes(clause)
		default:
			said = append(said, clause)
		}
	}
	if q := c.labels["quote"]; q != "" && c.quote == "" {
		c.quote = orOther(stripQuotes(q), q)
	}
	c.text = strings.Join(said, " — ")
	return c
}

// stripQuotes returns what stands between the quotes around s, "" without them.
func stripQuotes(s string) string {
	s = strings.Trim(strings.TrimSpace(s), "*_")
	s = strings.NewReplacer("“", `"`, "”", `"`).Replace(s)
	if len(s) > 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return ""
}

func parseFact(id, body string) nightcrier.Fact {
	c := readClaim(body)
	source := c.labels["source"]
	f := nightcrier.Fact{ID: id, Text: cleanText(c.text), Quote: cleanText(c.quote), Check: nightcrier.Unseen}
	if from, to := strings.Index(source, `"`), strings.LastIndex(source, `"`); f.Quote == "" && from >= 0 && to > from+1 {
		f.Quote, source = cleanText(source[from+1:to]), source[:from]
	}
	f.Evidence = evidenceIDs(source, c.text)
	for _, m := range backtickRE.FindAllStringSubmatch(source, maxItems) {
		if !evidenceRE.MatchString(m[1]) || strings.Contains(m[1], " ") {
			f.Source = cleanText(m[1])
			break
		}
	}
	if f.Source == "" && len(f.Evidence) == 0 {
		f.Source = cleanText(source)
	}
	return f
}

// evidenceIDs are those of the source; without any, those that the text names in
// brackets or backticks.
func evidenceIDs(source, text string) []string {
	ids := []string{}
	seen := map[string]bool{}
	add := func(s string) {
		for _, id := range evidenceRE.FindAllString(s, maxItems) {
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}
	if add(source); len(ids) > 0 {
		return ids
	}
	for _, m := range bracketedEvidenceRE.FindAllString(text, maxItems) {
		add(m)
	}
	return ids
}

var bracketedEvidenceRE = regexp.MustCompile("[(\\[`]E\\d{1,6}(?:[, ]+E\\d{1,6})*[)\\]`]")

func parseInferences(blocks []block) []nightcrier.Inference {
	out := []nightcrier.Inference{}
	seen := map[string]bool{}
	lines := allLines(blocks)
	for _, item := range append(listItems(lines), labelledLines(lines, inferenceRE)...) {
		m := inferenceRE.FindStringSubmatch(item)
		if m == nil || m[2] == "" || seen[m[1]] || len(out) >= maxItems {
			continue
		}
		seen[m[1]] = true
		c := readClaim(m[2])
		i := nightcrier.Inference{ID: "INF-" + m[1], BasedOn: factRefs(c.labels["based on"]), WrongIf: cleanText(c.labels["wrong if"])}
		i.Confidence = confidenceWord(c.labels["confidence"])
		said, conf := extractConfidence(c.text)
		if i.Confidence == "" {
			i.Confidence = conf
		}
		if len(i.BasedOn) == 0 {
			i.BasedOn = factRefs(c.text)
		}
		i.Text = cleanText(said)
		out = append(out, i)
	}
	return out
}

var hypothesisLabels = map[string]string{
	"cause": "cause", "object": "object", "summary": "summary", "statement": "statement", "confidence": "confidence",
	"evidence for": "for", "for": "for", "supporting evidence": "for", "supports": "for", "supported by": "for",
	"evidence against": "against", "against": "against", "contradicting evidence": "against", "contradicted by": "against",
	"falsification test": "test", "falsification": "test", "test": "test", "command": "test", "falsification command": "test",
	"expected if true": "true", "if true": "true", "expected if false": "false", "if false": "false",
	"outcome": "outcome",
}

// parseHypotheses reads a heading or a bold line H1 to H9 and what stands below.
func parseHypotheses(blocks []block) []nightcrier.Hypothesis {
	out := []nightcrier.Hypothesis{}
	seen := map[string]bool{}
	for _, b := range splitHypotheses(blocks) {
		m := hypothesisRE.FindStringSubmatch(b.title)
		if m == nil || seen[m[1]] {
			continue
		}
		h := parseHypothesis("H"+m[1], m[2], b.lines)
		if h.Statement == "" {
			continue
		}
		seen[m[1]] = true
		out = append(out, h)
	}
	return out
}

// splitHypotheses begins a block at each bold or listed line that names a
// hypothesis, and joins blocks of deeper headings to the one they belong to.
func splitHypotheses(blocks []block) []block {
	var out []block
	open := false
	for _, b := range blocks {
		named := hypothesisRE.MatchString(b.title)
		if named || !open || !partOfHypothesis(b.title) {
			out = append(out, block{title: b.title})
			open = named
		} else {
			out[len(out)-1].lines = append(out[len(out)-1].lines, line{text: b.title + ":"})
		}
		for _, l := range b.lines {
			head := l.text
			if t, _, ok := parseBullet(head); ok {
				head = t
			}
			if !l.fenced && hypothesisRE.MatchString(head) && strings.Contains(head, "**") {
				out, open = append(out, block{title: dropEmphasis(head)}), true
				continue
			}
			last := &out[len(out)-1]
			last.lines = append(last.lines, l)
		}
	}
	return out
}

func partOfHypothesis(title string) bool {
	return hypothesisLabels[strings.ToLower(strings.TrimRight(dropEmphasis(title), ": "))] != ""
}

func parseHypothesis(id, head string, lines []line) nightcrier.Hypothesis {
	f := parseFields(lines, hypothesisLabels)
	statement, conf := extractConfidence(head)
	if conf == "" {
		conf = confidenceWord(f["confidence"])
	}
	return nightcrier.Hypothesis{
		ID: id, Statement: cleanText(orOther(statement, f["statement"])), Confidence: conf,
		Cause: parseCause(f["cause"]), Object: parseObject(firstLine(f["object"])),
		For: factRefs(f["for"]), Against: factRefs(f["against"]),
		Falsification: nightcrier.Falsification{
			Command: findCommand(f["test"]), IfTrue: cleanText(firstLine(f["true"])), IfFalse: cleanText(firstLine(f["false"])), Outcome: notRun,
		},
	}
}

// findCommand finds the command in a falsification test: in backticks, in a code
// block, or as the whole text.
func findCommand(s string) string {
	if m := backtickRE.FindStringSubmatch(strings.ReplaceAll(s, "```", "")); m != nil {
		return texts.CutBytes(markdown.UnescapeLine(m[1]), maxText)
	}
	for l := range strings.SplitSeq(s, "\n") {
		l = strings.TrimSpace(strings.Trim(strings.TrimSpace(l), "`"))
		l = strings.TrimPrefix(l, "$ ")
		if l != "" && !strings.HasPrefix(l, "#") && l != "bash" && l != "sh" && l != "none" {
			return cleanText(l)
		}
	}
	return ""
}

// parseActions reads the card's table or list; without one, the mitigation.
func parseActions(sections [7][]block) []nightcrier.Action {
	lines := findBlock(sections[0], "action")
	if len(lines) == 0 {
		lines = findBlock(sections[4], "mitigation")
	}
	out := []nightcrier.Action{}
	for _, r := range parseTable(lines) {
		a := nightcrier.Action{Action: cleanText(findColumn(r, "action", "step")), Outcome: cleanText(findColumn(r, "expected", "outcome", "validation")), Risk: cleanText(findColumn(r, "risk"))}
		a.Priority, _ = strconv.Atoi(strings.Trim(findColumn(r, "priority", "#"), "P*. "))
		out = appendAction(out, a)
	}
	if len(out) > 0 {
		return out
	}
	for _, item := range listItems(lines) {
		out = appendAction(out, listedAction(item))
	}
	return out
}

func appendAction(out []nightcrier.Action, a nightcrier.Action) []nightcrier.Action {
	if a.Action == "" || len(out) >= maxItems {
		return out
	}
	if a.Priority < 1 {
		a.Priority = len(out) + 1
	}
	return append(out, a)
}

func listedAction(item string) nightcrier.Action {
	var a nightcrier.Action
	var said []string
	for _, c := range separatorRE.Split(item, maxItems) {
		name, value, _ := parseLabel(c)
		switch {
		case strings.Contains(name, "expected"), strings.Contains(name, "outcome"), strings.Contains(name, "validation"):
			a.Outcome = cleanText(value)
		case strings.HasPrefix(name, "risk"):
			a.Risk = cleanText(value)
		default:
			said = append(said, c)
		}
	}
	a.Action = cleanText(strings.Join(said, " — "))
	return a
}

// findColumn returns the first cell whose column's name holds one of the words.
func findColumn(r map[string]string, words ...string) string {
	for _, w := range words {
		for name, value := range r {
			if strings.Contains(name, w) && !(w == "action" && strings.Contains(name, "outcome")) {
				return value
			}
		}
	}
	return ""
}

func parseChanges(lines []line) []nightcrier.Change {
	out := []nightcrier.Change{}
	for _, item := range listItems(lines) {
		var c nightcrier.Change
		for i, part := range separatorRE.Split(item, 8+maxDetails) {
			who, byWhom := strings.CutPrefix(part, "by ")
			at, err := time.Parse(time.RFC3339, strings.Trim(part, "*`_ "))
			switch {
			case i == 0 && err == nil:
				c.At = at
			case c.What == "":
				c.What = cleanText(part)
			case byWhom && c.Who == "":
				c.Who = cleanText(who)
			case strings.HasPrefix(part, "Source:"):
				c.Evidence = evidenceIDs(part, "")
			case len(part) > 2 && part[0] == '`' && part[len(part)-1] == '`':
				c.Details = append(c.Details, cleanText(part[1:len(part)-1]))
			default:
				c.Correlation = strings.TrimPrefix(c.Correlation+" — "+cleanText(part), " — ")
			}
		}
		if c.What != "" {
			out = append(out, c)
		}
	}
	return out
}

func parseNotChecked(blocks []block) []nightcrier.NotChecked {
	out := []nightcrier.NotChecked{}
	for _, item := range listItems(findBlock(blocks, "could not be checked", "not checked", "not be checked")) {
		what, why := item, ""
		if m := separatorRE.FindStringIndex(item); m != nil {
			what, why = item[:m[0]], item[m[1]:]
		} else if a, b, ok := strings.Cut(item, ": "); ok {
			what, why = a, b
		}
		out = append(out, nightcrier.NotChecked{What: cleanText(what), Why: cleanText(why)})
	}
	return out
}

var objectREs = []*regexp.Regexp{
	// Deployment shop/cart
	regexp.MustCompile(`^(?P<kind>[A-Za-z]+)\s+(?:(?P<ns>[a-z0-9-]+)/)?(?P<name>[A-Za-z0-9.:-]+)$`),
	// shop/Deployment/cart, or deployment/cart
	regexp.MustCompile(`^(?:(?P<ns>[a-z0-9-]+)/)?(?P<kind>[A-Za-z]+)/(?P<name>[A-Za-z0-9.:-]+)$`),
	// deployment/cart -n shop, or Deployment cart in namespace shop
	regexp.MustCompile(`^(?P<kind>[A-Za-z]+)[/ ](?P<name>[A-Za-z0-9.:-]+)\s+(?:-n|in|in namespace)\s+(?P<ns>[a-z0-9-]+)$`),
}

// parseObject reads the name of an object in the ways that people write it.
func parseObject(s string) nightcrier.Object {
	s = strings.TrimSpace(strings.NewReplacer("`", "", "*", "", "_", "").Replace(firstLine(s)))
	if s == "unknown" || len(s) > markdown.MaxLine {
		return nightcrier.Object{}
	}
	for _, re := range objectREs {
		m := re.FindStringSubmatch(s)
		if m == nil {
			continue
		}
		o := nightcrier.Object{Kind: m[re.SubexpIndex("kind")], Namespace: m[re.SubexpIndex("ns")], Name: m[re.SubexpIndex("name")]}
		return o
	}
	return nightcrier.Object{}
}
