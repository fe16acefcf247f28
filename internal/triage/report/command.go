package report

import (
	"regexp"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// Effect is what a command does to a cluster, in words that follow "it".
type Effect string

// The effects. What is not known counts as a change.
const (
	Reads    Effect = ""
	Changes  Effect = "changes the cluster"
	Destroys Effect = "is destructive: it deletes, stops or evicts what runs"
)

// commandRE finds a command of kubectl that a step names between backticks.
var commandRE = regexp.MustCompile("`(kubectl [^`\n]+)`")

// commandOf is the command of an action, "" where it has none. An agent names one in its
// text; one that does more than call kubectl stays there, and is not given to be copied.
func commandOf(a nightcrier.Action) string {
	command := a.Command
	if m := commandRE.FindStringSubmatch(a.Action); m != nil && command == "" {
		command = m[1]
	}
	if words := shellWords(command); len(words) == 0 || words[0] != "kubectl" {
		return ""
	}
	return command
}

// shellWords are the words of a command as a shell reads them; nil where that would do
// more than run one program with these words.
func shellWords(s string) (words []string) {
	word, open, quote := "", false, rune(0)
	all := []rune(s)
	for i := 0; i < len(all); i++ {
		switch c := all[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && c == '\\' && i+1 < len(all) && all[i+1] == '\'': // as a quote within a word is written
			word, open, i = word+"'", true, i+1
		case c == '\n' || c == '\r', quote != '\'' && strings.ContainsRune("\\$`!", c), quote == 0 && strings.ContainsRune(";&|<>(){}*?[]~#", c):
			return nil
		case quote == 0 && (c == '\'' || c == '"'):
			quote, open = c, true
		case quote == 0 && (c == ' ' || c == '\t'):
			if open {
				words, word, open = append(words, word), "", false
			}
		default:
			word, open = word+string(c), true
		}
	}
	if quote != 0 {
		return nil
	}
	if open {
		words = append(words, word)
	}
	return words
}

// shellWord is a word that a shell reads as it is.
func shellWord(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !strings.ContainsRune("/.:_-+@%,=", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// ShellWords writes words so that a shell reads them as they are.
func ShellWords(words ...string) string {
	var out []string
	for _, w := range words {
		out = append(out, shellWord(w))
	}
	return strings.Join(out, " ")
}

// InContext is a command of kubectl that a person copies, with the context that leads to
// the report's cluster: what the shell's current one is nobody knows.
func InContext(r *nightcrier.Report, command string) string {
	words := shellWords(command)
	named := slices.ContainsFunc(words, func(w string) bool { return w == "--context" || strings.HasPrefix(w, "--context=") })
	if r.Context == "" || len(words) == 0 || words[0] != "kubectl" || named || texts.FoldLine(r.Context) != r.Context {
		return command
	}
	return command + " --context " + shellWord(r.Context)
}

var (
	// valued are the flags before a verb of kubectl that take the next word.
	valued = []string{"-n", "--namespace", "--context", "--kubeconfig", "--cluster", "--user", "-s", "--server", "--request-timeout", "--as"}
	// reading are the verbs of kubectl that change nothing, changing those that end
	// nothing that runs; all others may.
	reading  = []string{"get", "describe", "logs", "events", "top", "explain", "api-resources", "api-versions", "version", "cluster-info", "diff", "wait", "auth"}
	changing = []string{"edit", "patch", "set", "apply", "create", "scale", "autoscale", "annotate", "label", "expose", "run", "cordon", "uncordon", "rollout", "exec", "debug", "cp"}
)

// effectOf is what a command does.
func effectOf(command string) Effect {
	words := shellWords(command)
	if len(words) < 2 || words[0] != "kubectl" {
		return Changes
	}
	words = words[1:]
	for len(words) > 1 && strings.HasPrefix(words[0], "-") {
		if slices.Contains(valued, words[0]) {
			words = words[1:]
		}
		words = words[1:]
	}
	verb, rest := words[0], words[1:]
	forced := slices.ContainsFunc(rest, func(w string) bool { return w == "--prune" || w == "--replicas=0" || strings.HasPrefix(w, "--force") })
	switch {
	case slices.Contains(reading, verb), verb == "rollout" && len(rest) > 0 && (rest[0] == "status" || rest[0] == "history"):
		return Reads
	case slices.Contains(changing, verb) && !forced:
		return Changes
	}
	return Destroys
}
