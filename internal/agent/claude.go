package agent

import (
	"path/filepath"
	"strconv"

	"nightcrier.dev/nightcrier"
)

// claudeCode runs the claude CLI headless: the prompt on stdin, so that it is in
// no process list and has no length limit; JSON lines on stdout.
func claudeCode() Executor {
	return Executor{
		Name:       "claude-code",
		NeedsModel: true,
		Stdin:      promptFile,
		Prepare:    prepareClaude,
		NewParser:  func() Parser { return newClaudeParser() },
	}
}

// systemFile and promptFile are where the prompt stands in a workspace.
const (
	systemFile = "context/system-instructions.txt"
	promptFile = "PROMPT.md"
)

func prepareClaude(j Job) (Invocation, error) {
	command := j.Command
	if command == "" {
		command = "claude"
	}
	path, err := program(command)
	if err != nil {
		return Invocation{}, nightcrier.Errorf(nightcrier.Invalid, "%w; install the claude CLI, or name it in agent.command", err)
	}
	read, err := programFiles(path)
	if err != nil {
		return Invocation{}, err
	}
	tools := claudeTools(j.AllowedTools)
	env := claudeEnv(j)
	env["PATH"] = pathWith(path)
	tool, err := addKubectl(env, j.Kubectl)
	if err != nil {
		return Invocation{}, err
	}
	notes := append(tools.notes, addExtra(env, j.ExtraEnv)...)
	// The real file is started: the link to it may lie where the agent cannot look.
	argv := append([]string{read[0]}, claudeFlags(j, tools)...)
	return Invocation{Argv: argv, Env: list(env), Read: append(read, tool...), Notes: notes}, nil
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
		"CLAUDE_CODE_TMPDIR":                       filepath.Join(j.Workspace, "tmp"),
	} {
		env[k] = v
	}
	return env
}

func claudeFlags(j Job, tools claudeToolset) []string {
	flags := []string{
		"-p", "--output-format", "stream-json", "--verbose",
		"--restricted", "--permission-prompts", "none", "--strict-mcp-config", "--no-session-persistence",
		"--append-system-prompt-file", systemFile,
		"--tools", tools.offered(),
	}
	if j.Model != "" {
		flags = append(flags, "--model", j.Model)
	}
	if j.MaxTurns > 0 {
		flags = append(flags, "--max-turns", strconv.Itoa(j.MaxTurns))
	}
	// Last, because it takes any number of words.
	return append(append(flags, "--allowedTools"), tools.rules...)
}
