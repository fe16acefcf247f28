package agent

import (
	"fmt"
	"slices"
	"strings"
)

// claudeToolset is what claude is offered, and what it may use without asking.
// In a headless run nobody answers, so what no rule allows is denied.
type claudeToolset struct {
	tools []string // built-in tools that exist at all
	rules []string // permission rules in the CLI's own syntax
	notes []string // what was narrowed
}

func (t claudeToolset) offered() string { return strings.Join(t.tools, ",") }

// reportRule lets the file tools write the report and nothing else. A rule for
// Write matches nothing in this CLI; one for Edit covers both.
const reportRule = "Edit(./output/**)"

// readVerbs are the kubectl verbs that are offered where a configuration says
// no more than "Bash".
var readVerbs = []string{"get", "describe", "logs"}

// claudeTools translates a configuration's tools. It never widens: a bare tool
// name, which would open the whole host to the agent, becomes what a triage
// needs of it, and the note says so.
func claudeTools(wanted []string) claudeToolset {
	t := claudeToolset{tools: []string{"Read", "Grep", "Glob", "Bash", "Write"}, rules: []string{reportRule}}
	words := splitTools(wanted)
	if len(words) == 0 {
		t.allowVerbs(readVerbs)
		return t
	}
	for _, w := range words {
		t.add(w)
	}
	return t
}

func (t *claudeToolset) add(word string) {
	name, args, scoped := strings.Cut(strings.TrimSuffix(word, ")"), "(")
	switch {
	case name == "Read" || name == "Grep" || name == "Glob":
		t.narrow(word, "files of the workspace")
	case name == "Write" || name == "Edit":
		if word != reportRule {
			t.narrow(word, "files below output/")
		}
	case name == "Bash" && !scoped:
		t.narrow(word, "kubectl get, describe and logs")
		t.allowVerbs(readVerbs)
	case name == "Bash":
		t.addBash(args)
	case name == "Skill":
		t.narrow(word, "reading the skill's files: a skill could grant itself tools")
	default:
		t.notes = append(t.notes, fmt.Sprintf("tool %q is not for an investigation; left out", word))
	}
}

func (t *claudeToolset) narrow(word, to string) {
	t.notes = append(t.notes, fmt.Sprintf("tool %q was narrowed to %s", word, to))
}

// addBash reads the patterns of a Bash rule: "kubectl:get*", "kubectl get:*"
// and "kubectl get *" all mean the verb get. Only kubectl's reading verbs pass.
func (t *claudeToolset) addBash(args string) {
	for _, pattern := range strings.Split(args, ",") {
		words := strings.FieldsFunc(pattern, func(r rune) bool { return r == ':' || r == '*' || r == ' ' })
		if len(words) == 2 && words[0] == "kubectl" && slices.Contains(readVerbs, words[1]) {
			t.allowVerbs(words[1:])
			continue
		}
		t.notes = append(t.notes, fmt.Sprintf("command %q is no reading kubectl verb; left out", strings.TrimSpace(pattern)))
	}
}

func (t *claudeToolset) allowVerbs(verbs []string) {
	for _, v := range verbs {
		if rule := "Bash(kubectl " + v + ":*)"; !slices.Contains(t.rules, rule) {
			t.rules = append(t.rules, rule)
		}
	}
}

// splitTools splits at commas outside parentheses, so that both a list and the
// one-string spelling work.
func splitTools(wanted []string) []string {
	var words []string
	for _, s := range wanted {
		depth := 0
		for _, w := range strings.FieldsFunc(s, func(r rune) bool {
			switch r {
			case '(':
				depth++
			case ')':
				depth--
			}
			return r == ',' && depth <= 0
		}) {
			if w = strings.TrimSpace(w); w != "" {
				words = append(words, w)
			}
		}
	}
	return words
}
