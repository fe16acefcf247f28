package agent

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// What gemini may do is a list of rules on the JSON of a tool's arguments, of
// which the highest that matches decides. What none allows is denied, and a tool
// that no rule allows does not exist for the model. A rule that the CLI cannot
// read allows nothing.
//
// A command passes when the whole of it is in the small language below, so that
// nothing need be known of what a shell makes of the rest: no $ ` ; & < > ( ), no
// line's end, no backslash, braces only in a quoted template. Words that begin
// with a dash are the flags that are listed.

// The CLI takes a pattern whose groups repeat for dangerous when one of + * ? {
// stands in a group, so a repeated group holds single characters. A quote that
// the command holds is written \" in JSON.
const (
	geminiReadFlags = " -n| -l| -L| -c| -A| -p| --namespace| --all-namespaces| --selector| --field-selector" +
		"| --sort-by| --label-columns| --show-labels| --show-kind| --no-headers| --ignore-not-found| --chunk-size| --show-events" +
		"| --container| --all-containers| --previous| --prefix| --tail| --since| --since-time| --timestamps| --limit-bytes" +
		"| --max-log-requests| --for| --types| --containers| --api-group| --namespaced| --recursive| --api-version"
	// The formats of an answer that read no file. Those with a template are elsewhere.
	geminiFormats = " -ojson| -oyaml| -owide| -oname| -o[ =]json| -o[ =]yaml| -o[ =]wide| -o[ =]name" +
		"| --output[ =]json| --output[ =]yaml| --output[ =]wide| --output[ =]name|"
	geminiReadStart = `( 2>&1| 2>/dev/null|` + geminiFormats + geminiReadFlags + `| [A-Za-z0-9_./]| '[A-Za-z0-9_./]| \\"[A-Za-z0-9_./])`
	geminiReadWords = `( 2>&1| 2>/dev/null|` + geminiFormats + geminiReadFlags + `| [A-Za-z0-9_./]| '[A-Za-z0-9_./]| \\"[A-Za-z0-9_./]|[A-Za-z0-9_./,:=@%!'-]|\\")*`
	// A template holds what it likes between its quotes, so there is no quote before
	// it: that would turn inside and outside round.
	geminiBareStart = `( 2>&1| 2>/dev/null|` + geminiReadFlags + `| [A-Za-z0-9_./])`
	geminiBareWords = `( 2>&1| 2>/dev/null|` + geminiReadFlags + `| [A-Za-z0-9_./]|[A-Za-z0-9_./,:=@%!-])*`
	geminiTemplate  = `( -o | -o=| --output | --output=)(jsonpath|custom-columns|go-template)='[^'\x00]*'`
	// Filters name no path: what they read comes from the command before them.
	geminiFilters     = `(grep|head|tail|wc|cut)( -| [A-Za-z0-9_]| '[A-Za-z0-9_]| \\"[A-Za-z0-9_])`
	geminiBareFilter  = `(head|tail|wc)`
	geminiFilterWords = `( [|] grep -| [|] grep '| [|] grep \\"| [|] grep [A-Za-z0-9_]| [|] head -| [|] tail -| [|] wc -| [|] cut -` +
		`| -| [A-Za-z0-9_]| '[A-Za-z0-9_]| \\"[A-Za-z0-9_]|[A-Za-z0-9_.,:=@%'-]|\\")*`
)

// geminiRule is one rule of the policy.
type geminiRule struct {
	server     string // of MCP; empty is the CLI's own tools
	tools      []string
	decision   string
	priority   int
	args       string // a pattern; empty is any
	redirects  bool   // the pattern bounds them
	denyReason string
}

const (
	geminiAnything  = "nightcrier: this investigation only reads."
	geminiNoCommand = "nightcrier: this investigation only reads. Run one kubectl command of %s with plain arguments, alone or piped into grep, head, tail, wc or cut: no ; && || $ > or backticks, no --raw, --kubeconfig, -f, --watch, no background. Flags go behind the command; a template of -o jsonpath=, custom-columns= or go-template= stands in single quotes."
)

// geminiPolicy renders the rules.
func geminiPolicy(j Job, tools []string) []byte {
	var b strings.Builder
	b.WriteString("# What an investigation may do. Written anew for each invocation.\n")
	for _, r := range geminiRules(j, tools) {
		b.WriteString(r.encodeTOML())
	}
	return []byte(b.String())
}

func geminiRules(j Job, tools []string) []geminiRule {
	rules := []geminiRule{
		{tools: []string{"*"}, decision: "deny", priority: 1, denyReason: geminiAnything},
		{tools: []string{"read_file", "list_directory", "glob", "grep_search"}, decision: "allow", priority: 100},
	}
	for _, dir := range []string{"output", j.OutputDir} {
		rules = append(rules, geminiRule{tools: []string{"write_file"}, decision: "allow", priority: 100, args: memberPattern("file_path", inJSON(dir)+`/[A-Za-z0-9_./-]*`)})
	}
	rules = append(rules, geminiRule{tools: []string{"write_file"}, decision: "deny", priority: 200, args: `\x00"file_path":"[^"]*[.][.]`, denyReason: geminiAnything})
	if len(tools) > 0 {
		rules = append(rules, geminiRule{server: geminiServer, tools: tools, decision: "allow", priority: 100})
	}
	if !j.Shell {
		return rules
	}
	return append(rules, geminiCommands(j.Allowed.Verbs)...)
}

// geminiCommands allows the kubectl commands of the policy; without one there is
// no shell.
func geminiCommands(verbs []string) []geminiRule {
	if len(verbs) == 0 {
		return nil
	}
	shell := []string{"run_shell_command"}
	reason := fmt.Sprintf(geminiNoCommand, strings.Join(verbs, ", "))
	rules := []geminiRule{{tools: shell, decision: "deny", priority: 50, denyReason: reason}}
	for _, command := range geminiLanguage(verbs) {
		rules = append(rules, geminiRule{tools: shell, decision: "allow", priority: 100, args: memberPattern("command", command), redirects: true})
	}
	for _, args := range geminiForbidden {
		rules = append(rules, geminiRule{tools: shell, decision: "deny", priority: 200, args: args, denyReason: reason})
	}
	return rules
}

// geminiLanguage are the commands that only read. A part of a pipe is looked at by
// itself too, so the filters are there alone.
func geminiLanguage(verbs []string) []string {
	kubectl := `kubectl (` + strings.Join(verbs, "|") + `)`
	filtered := ` [|] ` + geminiFilters + geminiFilterWords
	words := kubectl + geminiReadStart + geminiReadWords
	template := kubectl + geminiBareStart + geminiBareWords + geminiTemplate + geminiBareWords
	all := []string{kubectl, geminiBareFilter, geminiFilters + geminiFilterWords}
	for _, command := range []string{words, template} {
		all = append(all, command, command+filtered, command+` [|] `+geminiBareFilter)
	}
	return all
}

// geminiForbidden are what the language would let through: letters behind a flag
// that takes no value, which are more flags; letters behind a format, which are another
// one; something behind a redirection, which is another file; and arguments of the tool that change where or how it runs.
var geminiForbidden = []string{
	` -[Ap][^ "]`,
	` (-o|--output)[ =]*(yaml|wide|name)[^ "]`,
	` (-o|--output)[ =]*json([^ "p]|p[^a]|pa[^t]|pat[^h]|path[^=])`,
	`2>(&1|/dev/null)[^ "]`,
	`"is_background":true`,
	`"dir_path":"([^".]|[.][^"])`,
	`"additional_permissions":`,
}

// memberPattern is the pattern of a whole argument. The CLI puts a NUL on both sides of
// each; in a value there is none.
func memberPattern(name, value string) string {
	return `\x00"` + name + `":"` + value + `"\x00`
}

// inJSON is the pattern of a text as it stands in JSON.
func inJSON(text string) string {
	quoted, _ := json.Marshal(text) // a string always can be
	return regexp.QuoteMeta(string(quoted[1 : len(quoted)-1]))
}

func (r geminiRule) encodeTOML() string {
	var b strings.Builder
	b.WriteString("\n[[rule]]\n")
	if r.server != "" {
		fmt.Fprintf(&b, "mcpName = %s\n", tomlString(r.server))
	}
	tools, _ := json.Marshal(r.tools) // strings always can be
	fmt.Fprintf(&b, "toolName = %s\ndecision = %s\npriority = %d\n", tools, strconv.Quote(r.decision), r.priority)
	if r.args != "" {
		fmt.Fprintf(&b, "argsPattern = %s\n", tomlString(r.args))
	}
	if r.redirects {
		b.WriteString("allowRedirection = true\n")
	}
	if r.denyReason != "" {
		fmt.Fprintf(&b, "denyMessage = %s\n", tomlString(r.denyReason))
	}
	return b.String()
}

// tomlString: JSON's strings are TOML's, but for the characters that Go escapes
// for HTML's sake, and those are TOML's as well.
func tomlString(s string) string {
	quoted, _ := json.Marshal(s) // a string always can be
	return string(quoted)
}
