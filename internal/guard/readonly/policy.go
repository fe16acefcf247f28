// Package readonly says what an agent may do while it investigates: which files
// it may read, and which commands only read.
//
// A Policy is made once from the words of a configuration. Executors translate
// it into what their CLI understands; Check holds a shell command against it.
package readonly

import (
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
)

// Policy is what an agent may do. Reading the files of its workspace and writing
// its report belong to every investigation; the zero Policy grants no more.
type Policy struct {
	// Files are the file tools that were asked for, of Read, Grep, Glob and Write.
	// Whatever they are called in a CLI, they reach the workspace, and Write the
	// agent's output directory.
	Files []string
	// Verbs are the kubectl commands that may be run, in the order of Verbs().
	Verbs []string
}

// Verbs are the kubectl commands that only read, given the right flags.
func Verbs() []string {
	return []string{"get", "describe", "logs", "events", "top", "explain", "api-resources", "api-versions", "version"}
}

// May reports whether a kubectl command may be run.
func (p Policy) May(verb string) bool { return slices.Contains(p.Verbs, verb) }

// Parse reads the tools of a configuration: a list, one string with commas, and
// the spellings "kubectl:get*", "kubectl get:*", "kubectl get *" and "kubectl get"
// of a command. What a triage that only reads may not have is narrowed or left
// out, and a note says so: an old, permissive list neither widens what an agent may
// do nor stops a start.
func Parse(words []string) (p Policy, notes []string) {
	r := reader{}
	for _, w := range splitRules(words) {
		r.readRule(w)
	}
	for _, v := range Verbs() {
		if slices.Contains(r.verbs, v) {
			p.Verbs = append(p.Verbs, v)
		}
	}
	p.Files = r.files
	return p, r.notes
}

// Words are the policy in the spelling that Parse reads.
func (p Policy) Words() []string {
	words := slices.Clone(p.Files)
	if len(p.Verbs) > 0 {
		rules := make([]string, len(p.Verbs))
		for i, v := range p.Verbs {
			rules[i] = "kubectl:" + v + "*"
		}
		words = append(words, "Bash("+strings.Join(rules, ",")+")")
	}
	return words
}

// reader gathers a policy.
type reader struct{ files, verbs, notes []string }

func (r *reader) addNotef(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (r *reader) readRule(word string) {
	name, args, limited := strings.Cut(word, "(")
	switch name {
	case "Read", "Grep", "Glob":
		r.addFileTool(name)
		if limited {
			r.addNotef("%s is read as %s, inside the workspace only", text.CutRunes(word, maxEchoed), name)
		}
	case "Write":
		r.addFileTool(name)
		r.addNotef("Write reaches the agent's output directory only")
	case "Bash":
		r.addBashRules(word, strings.TrimSuffix(args, ")"), limited)
	default:
		r.addNotef("%s is not available to a read-only triage and is left out", text.CutRunes(word, maxEchoed))
	}
}

func (r *reader) addFileTool(name string) {
	if !slices.Contains(r.files, name) {
		r.files = append(r.files, name)
	}
}

// addBashRules keeps the reading kubectl commands of a rule.
func (r *reader) addBashRules(word, rules string, limited bool) {
	if !limited {
		r.verbs = append(r.verbs, Verbs()...)
		r.addNotef("Bash is narrowed to kubectl %s", strings.Join(Verbs(), ", "))
		return
	}
	dropped := false
	for rule := range strings.SplitSeq(rules, ",") {
		if verb, ok := readingVerb(rule); ok {
			r.verbs = append(r.verbs, verb)
		} else {
			dropped = true
		}
	}
	if dropped {
		r.addNotef("%s: only reading kubectl commands are kept: %s", text.CutRunes(word, maxEchoed), strings.Join(Verbs(), ", "))
	}
}

// readingVerb reads one rule. It has no more than kubectl, a verb and a star: a
// rule that means part of a verb is not widened to all of it.
func readingVerb(rule string) (verb string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(rule), "kubectl")
	if !ok || rest == "" || rest[0] != ':' && rest[0] != ' ' {
		return "", false
	}
	verb = strings.TrimSpace(strings.TrimSuffix(rest[1:], "*"))
	verb = strings.TrimSuffix(verb, ":")
	return verb, slices.Contains(Verbs(), verb)
}

// splitRules splits at commas outside parentheses, so that both a list and the
// one-string spelling work.
func splitRules(words []string) (out []string) {
	for _, s := range words {
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
				out = append(out, w)
			}
		}
	}
	return out
}

// maxEchoed bounds what of a word stands in a note, in characters.
const maxEchoed = 60
