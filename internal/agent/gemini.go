package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier"
)

// geminiExecutor runs the Gemini CLI headless: the prompt on stdin, so that it is in no
// process list and has no length limit; JSON lines on stdout.
func geminiExecutor() Executor {
	return Executor{
		Name:          "gemini",
		Command:       "gemini",
		Package:       "@google/gemini-cli",
		Versions:      []string{"0.61.0"},
		NeedsModel:    true,
		Providers:     []nightcrier.Provider{nightcrier.Google},
		DefaultModel:  "gemini-2.5-pro",
		RetriesUntold: true,
		Resumes:       true, Sessions: []string{".gemini/projects.json", ".gemini/tmp/*/.project_root", ".gemini/tmp/*/chats"},
		Stdin:      promptFile,
		ToolPrefix: geminiPrefix, FileTool: "read_file",
		Instructions: "as GEMINI.md, at the end of the CLI's own",
		Obeys:        "GEMINI.md",
		Prepare:      prepareGemini,
		Calls:        geminiCalls(),
		NewParser:    func() Parser { return newGeminiParser() },
	}
}

// Where the CLI finds what is ours. The agent can write below home/, so what
// decides over its rights stands beside it, and what stands there is written anew
// for each invocation. Instructions stand where the CLI puts them into its system's
// text, by the name that it looks for in any case.
const (
	geminiSettings     = ".gemini/settings.json"
	geminiPolicyFile   = ".gemini/nightcrier.toml"
	geminiHome         = "home/.gemini/"
	geminiInstructions = geminiHome + "GEMINI.md"
)

const (
	// geminiServer is what our MCP server is called there.
	geminiServer = "nightcrier"
	geminiPrefix = "mcp_" + geminiServer + "_"
	// geminiToolsToken names the variable that holds the token of our MCP server.
	geminiToolsToken = "NIGHTCRIER_TOOLS_TOKEN"
)

func geminiCalls() Calls {
	return Calls{
		Shell: func(command string) Call {
			return Call{"run_shell_command", map[string]any{"command": command, "description": "look"}}
		},
		Read: func(path string) Call { return Call{"read_file", map[string]any{"file_path": path}} },
		Write: func(path, text string) Call {
			return Call{"write_file", map[string]any{"file_path": path, "content": text}}
		},
		Tool: func(name string, args map[string]any) Call { return Call{geminiPrefix + name, args} },
	}
}

func prepareGemini(j Job) (Invocation, error) {
	cli, err := geminiExecutor().findCLI(j, uuid)
	if err != nil {
		return Invocation{}, err
	}
	offered, notes := OfferedTools(j.Tools, j.Allowed)
	files, err := geminiFiles(j, offered)
	if err != nil {
		return Invocation{}, err
	}
	env := geminiEnv(j)
	env["PATH"] = cli.path
	var tool []string
	if j.Shell {
		if tool, err = addKubectl(env, j.Kubectl); err != nil {
			return Invocation{}, err
		}
	}
	notes = append(notes, addExtra(env, j.ExtraEnv)...)
	argv := append([]string{cli.read[0]}, geminiFlags(j)...)
	return Invocation{Argv: argv, Env: listEnv(env), Read: slices.Concat(cli.read, tool), Files: files, Notes: notes}, nil
}

// geminiEnv: the workspace is ours, so the CLI need not ask whether to trust it.
// By default the CLI starts itself again with more memory, which takes a second
// and leaves a parent that swallows signals.
func geminiEnv(j Job) map[string]string {
	env := baseEnv(j)
	env["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
	env["GEMINI_CLI_NO_RELAUNCH"] = "true"
	if j.ModelURL != "" {
		env["GOOGLE_GEMINI_BASE_URL"] = j.ModelURL
		env["GEMINI_API_KEY"] = j.ModelToken
	}
	if j.ToolsURL != "" {
		env[geminiToolsToken] = j.ToolsToken
	}
	return env
}

func geminiFlags(j Job) []string {
	flags := []string{
		"--output-format", "stream-json", "--approval-mode", "default",
		"--admin-policy", filepath.Join(j.Workspace, geminiPolicyFile),
		"--extensions", "none",
	}
	if j.Model != "" {
		flags = append(flags, "--model", j.Model)
	}
	if j.Session != "" {
		flags = append(flags, "--resume", j.Session)
	}
	return flags
}

func geminiFiles(j Job, tools []string) (map[string][]byte, error) {
	instructions, err := os.ReadFile(filepath.Join(j.Workspace, systemFile))
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the agent's instructions: %w", err)
	}
	settings, err := json.MarshalIndent(geminiConfig(j, tools), "", "  ")
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		geminiSettings:               settings,
		geminiPolicyFile:             geminiPolicy(j, tools),
		geminiHome + "settings.json": []byte("{}\n"),
		geminiInstructions:           instructions,
	}, nil
}

type object = map[string]any

// geminiConfig are the settings of one invocation. They name none of its own tools:
// to name one here is to allow it.
func geminiConfig(j Job, tools []string) object {
	c := object{
		"security": object{
			"auth":                         object{"selectedType": "gemini-api-key"},
			"environmentVariableRedaction": object{"enabled": true},
			"disableYoloMode":              true,
			"disableAlwaysAllow":           true,
		},
		"general": object{
			"enableAutoUpdate": false, "enableAutoUpdateNotification": false,
			"maxAttempts": 3, "plan": object{"enabled": false},
		},
		"privacy":     object{"usageStatisticsEnabled": false},
		"telemetry":   object{"enabled": false},
		"skills":      object{"enabled": false}, // read by their path, they grant nothing
		"hooksConfig": object{"enabled": false},
		"advanced":    object{"ignoreLocalEnv": true, "autoConfigureMemory": false},
		// No instructions of a directory above the workspace: it would look there.
		"context": object{"includeDirectoryTree": false, "memoryBoundaryMarkers": []string{}, "discoveryMaxDirs": 1},
		"tools": object{
			"useRipgrep": false, // it would be downloaded
			"shell":      object{"enableInteractiveShell": false, "inactivityTimeout": 60},
		},
	}
	// What repeats itself is bounded by turns and time; the CLI's own check ends a
	// run as a success, and asks models of its choice.
	model := object{"disableLoopDetection": true}
	if j.MaxTurns > 0 {
		model["maxSessionTurns"] = j.MaxTurns
	}
	c["model"] = model
	if j.ToolsURL != "" && len(tools) > 0 { // an empty list of tools would mean all
		c["mcp"] = object{"allowed": []string{geminiServer}}
		c["mcpServers"] = object{geminiServer: object{
			"httpUrl": j.ToolsURL, "headers": object{"Authorization": "Bearer ${" + geminiToolsToken + "}"},
			"includeTools": tools, "trust": false, "timeout": 60_000,
		}}
	}
	return c
}

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
