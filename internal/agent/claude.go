package agent

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/internal/hook"
)

// claudeCode runs the claude CLI headless: the prompt on stdin, so that it is in
// no process list and has no length limit; JSON lines on stdout.
func claudeCode() Executor {
	return Executor{
		Name:         "claude-code",
		Command:      "claude",
		Package:      "@anthropic-ai/claude-code",
		Versions:     []string{"2.1.328"},
		NeedsModel:   true,
		Providers:    []nightcrier.Provider{nightcrier.Anthropic},
		DefaultModel: "sonnet",
		Resumes:      true, Sessions: []string{".claude/projects/*/*.jsonl"},
		Stdin:      promptFile,
		ToolPrefix: claudePrefix, FileTool: "Read", PreloadInSystem: true,
		Instructions: "appended to the CLI's own",
		Prepare:      prepareClaude,
		Calls:        claudeCalls(),
		NewParser:    func() Parser { return newClaudeParser() },
	}
}

// systemFile and promptFile are where the prompt stands in a workspace.
const (
	systemFile = "context/system-instructions.txt"
	promptFile = "PROMPT.md"
)

// The built-in tools that exist at all for the agent, with a shell or without. File
// tools need no rule inside the workspace, and have none outside it. Nothing allows
// Bash but our hook, and Skill is not offered: a skill could grant itself tools.
const (
	claudeFiles = "Read,Grep,Glob,Write"
	claudeTools = "Read,Grep,Glob,Bash,Write"
)

const (
	// claudeServer is what our MCP server is called there.
	claudeServer = "nightcrier"
	claudePrefix = "mcp__" + claudeServer + "__"
	// claudeToolsToken names the variable that holds the token of our MCP server.
	claudeToolsToken = "NIGHTCRIER_TOOLS_TOKEN"
)

func claudeCalls() Calls {
	return Calls{
		Shell: func(command string) Call {
			return Call{"Bash", map[string]any{"command": command, "description": "look"}}
		},
		Read:  func(path string) Call { return Call{"Read", map[string]any{"file_path": path}} },
		Write: func(path, text string) Call { return Call{"Write", map[string]any{"file_path": path, "content": text}} },
		Tool:  func(name string, args map[string]any) Call { return Call{claudePrefix + name, args} },
	}
}

// reportRule lets the file tools write the report and nothing else. A rule for
// Write matches nothing in this CLI; one for Edit covers both.
const reportRule = "Edit(./output/**)"

func prepareClaude(j Job) (Invocation, error) {
	cli, err := claudeCode().findCLI(j, uuid)
	if err != nil {
		return Invocation{}, err
	}
	env := claudeEnv(j)
	env["PATH"] = cli.path
	built, read := []string{"--tools", claudeFiles}, cli.read
	if j.Shell {
		shell, files, err := claudeShell(j, env)
		if err != nil {
			return Invocation{}, err
		}
		built, read = shell, slices.Concat(read, files)
	}
	offered, notes := OfferedTools(j.Tools, j.Allowed)
	server, err := claudeMCP(j)
	if err != nil {
		return Invocation{}, err
	}
	notes = append(notes, addExtra(env, j.ExtraEnv)...)
	argv := slices.Concat(cli.read[:1], claudeFlags(j), built, server, claudeRules(offered))
	return Invocation{Argv: argv, Env: listEnv(env), Read: read, Files: emptyStartFiles(), Notes: notes}, nil
}

// claudeShell are the flags that offer a shell which asks us before each command,
// and what must be readable for it.
func claudeShell(j Job, env map[string]string) (flags, read []string, err error) {
	tool, err := addKubectl(env, j.Kubectl)
	if err != nil {
		return nil, nil, err
	}
	line, self, err := hook.CommandLine(j.Self, "claude", j.Workspace, j.Allowed.Verbs)
	if err != nil {
		return nil, nil, err
	}
	settings, err := hook.ClaudeSettings(line)
	return []string{"--tools", claudeTools, "--settings", settings}, slices.Concat(tool, self), err
}

// claudeMCP are the flags that name our MCP server, none without one. The token
// stands in the environment: a command line is journaled.
func claudeMCP(j Job) ([]string, error) {
	if j.ToolsURL == "" {
		return nil, nil
	}
	config, err := json.Marshal(object{"mcpServers": object{claudeServer: object{
		"type": "http", "url": j.ToolsURL, "headers": object{"Authorization": "Bearer ${" + claudeToolsToken + "}"},
	}}})
	return []string{"--mcp-config", string(config)}, err
}

// claudeRules allow our tools by name. They stand last: the flag takes any number of
// words.
func claudeRules(tools []string) []string {
	rules := []string{"--allowedTools", reportRule}
	for _, tool := range tools {
		rules = append(rules, claudePrefix+tool)
	}
	return rules
}

// emptyStartFiles are what the CLI's shell reads before each command, which is
// nothing: a function in one of them would take the place of kubectl.
func emptyStartFiles() map[string][]byte {
	files := map[string][]byte{}
	for _, name := range []string{".bashrc", ".bash_profile", ".bash_login", ".profile", ".bash_logout", ".zshrc", ".zshenv", ".zprofile"} {
		files["home/"+name] = nil
	}
	return files
}

// claudeEnv keeps the CLI from calling home, from retrying for minutes, and
// from moving commands to the background, where they would outlive an answer.
func claudeEnv(j Job) map[string]string {
	env := baseEnv(j)
	addModel(env, j)
	for k, v := range map[string]string{
		"DISABLE_TELEMETRY":                        "1",
		"DISABLE_AUTOUPDATER":                      "1",
		"DISABLE_ERROR_REPORTING":                  "1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS":     "1",
		"CLAUDE_CODE_MAX_RETRIES":                  "3",
		"BASH_DEFAULT_TIMEOUT_MS":                  "60000",
		"BASH_MAX_TIMEOUT_MS":                      "120000",
		"MCP_TOOL_TIMEOUT":                         "60000",
		"ENABLE_TOOL_SEARCH":                       "false", // our tools are offered, not to be searched for
		"SHLVL":                                    "1",     // else bash takes a command on a socket for a login, and reads its start-up files
		"CLAUDE_CODE_TMPDIR":                       filepath.Join(j.Workspace, "tmp"),
	} {
		env[k] = v
	}
	if j.ToolsURL != "" {
		env[claudeToolsToken] = j.ToolsToken
	}
	return env
}

func claudeFlags(j Job) []string {
	flags := []string{
		"-p", "--output-format", "stream-json", "--verbose",
		"--restricted", "--permission-prompts", "none", "--strict-mcp-config",
		"--append-system-prompt-file", systemFile,
	}
	if j.Session != "" {
		flags = append(flags, "--resume", j.Session)
	}
	if j.Model != "" {
		flags = append(flags, "--model", j.Model)
	}
	if j.MaxTurns > 0 {
		flags = append(flags, "--max-turns", strconv.Itoa(j.MaxTurns))
	}
	return flags
}
