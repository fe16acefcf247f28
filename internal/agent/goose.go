package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier"
)

// gooseExecutor runs the goose CLI headless, without any of its own tools: no shell, no
// editor, no subagents. What it does, it does with the tools of our MCP server, and
// of those with the ones that it is offered by name.
//
// Two fences of its own stand one behind the other. A tool that is not offered is
// refused with an error that the model reads, and the run goes on. A tool that is
// offered but not on the allow list of permission.yaml would end the run: in the mode
// "approve" somebody would have to be asked, and nobody is there.
func gooseExecutor() Executor {
	return Executor{
		Name:       "goose",
		Command:    "goose",
		Alias:      "goose-binary-linux-x64",
		Package:    "@aaif/goose-binary-linux-x64",
		Versions:   []string{"1.52.0"},
		NeedsModel: true, NamesModel: true,
		Providers: []nightcrier.Provider{nightcrier.Anthropic, nightcrier.OpenAI, nightcrier.Google},
		UsesTools: true, ToolPrefix: goosePrefix, FileTool: goosePrefix + "read_file",
		AnswersOnly: true, Resumes: true, RetriesUntold: true,
		Sessions:     []string{".local/share/goose/sessions"},
		Stdin:        promptFile,
		Instructions: "in place of the CLI's own",
		Prepare:      prepareGoose,
		Calls:        gooseCalls(),
		NewParser:    func() Parser { return newGooseParser() },
	}
}

const (
	// gooseExtension is what our MCP server is called there.
	gooseExtension = "kube"
	goosePrefix    = gooseExtension + "__"
	// gooseSession names the session. Home is the incident's own, so the name need
	// not tell it from others; of several the CLI goes on with the last.
	gooseSession = "investigation"
	// gooseConfig is where the CLI looks for its files, in the workspace.
	gooseConfig = "home/.config/goose"
)

func gooseCalls() Calls {
	tool := func(name string, args map[string]any) Call { return Call{goosePrefix + name, args} }
	return Calls{
		Shell: func(command string) Call { return Call{"developer__shell", map[string]any{"command": command}} },
		Read:  func(path string) Call { return tool("read_file", map[string]any{"path": path}) },
		Write: func(path, text string) Call { return Call{"write", map[string]any{"path": path, "content": text}} },
		Tool:  tool,
	}
}

// gooseSessions are the names of sessions that it can go on with: ours.
var gooseSessions = regexp.MustCompile("^" + gooseSession + "$")

func prepareGoose(j Job) (Invocation, error) {
	cli, err := gooseExecutor().findCLI(j, gooseSessions)
	if err != nil {
		return Invocation{}, err
	}
	if j.Model == "" {
		return Invocation{}, nightcrier.Errorf(nightcrier.Invalid, "agent.model is empty; goose has no default: name a model as its provider does")
	}
	tools, notes := OfferedTools(j.Tools, j.Allowed)
	files, err := gooseFiles(j, tools)
	if err != nil {
		return Invocation{}, err
	}
	env := gooseEnv(j)
	env["PATH"] = cli.path
	notes = append(notes, addExtra(env, j.ExtraEnv)...)
	argv := append([]string{cli.read[0]}, gooseFlags(j)...)
	return Invocation{Argv: argv, Env: listEnv(env), Read: cli.read, Files: files, Notes: notes}, nil
}

// gooseEnv keeps the CLI from calling home, from asking a keyring, from asking the
// model for a title or, before its provider says that it must, for a summary, and from reading files that the prompt or the workspace name.
// What leads to our guards stands here alone: sessions keep the names of these
// variables, so that a later run of a session reaches the guards of its own day.
func gooseEnv(j Job) map[string]string {
	env := baseEnv(j)
	for k, v := range map[string]string{
		"GOOSE_PROVIDER":                string(j.Provider),
		"GOOSE_MODEL":                   j.Model,
		"GOOSE_MODE":                    "approve",
		"GOOSE_SYSTEM_PROMPT_FILE_PATH": filepath.Join(j.Workspace, gooseConfig, "system.md"),
		"GOOSE_DISABLE_KEYRING":         "1",
		"GOOSE_TELEMETRY_OFF":           "1",
		"GOOSE_DISABLE_SESSION_NAMING":  "true",
		"GOOSE_AUTO_COMPACT_THRESHOLD":  "0",
		"GOOSE_TOOL_PAIR_SUMMARIZATION": "false",
		"GOOSE_SLASH_COMMANDS_ENABLED":  "false",
		"CONTEXT_FILE_NAMES":            "[]",
	} {
		env[k] = v
	}
	if j.ModelURL != "" {
		vendor := strings.ToUpper(string(j.Provider))
		env[vendor+"_HOST"], env[vendor+"_API_KEY"] = j.ModelURL, j.ModelToken
	}
	if j.ToolsURL != "" {
		env[gooseToolsURL], env[gooseToolsToken] = j.ToolsURL, j.ToolsToken
	}
	return env
}

const (
	gooseToolsURL   = "NIGHTCRIER_TOOLS_URL"
	gooseToolsToken = "NIGHTCRIER_TOOLS_TOKEN"
)

func gooseFlags(j Job) []string {
	flags := []string{"run", "--quiet", "--output-format", "stream-json", "--name", gooseSession}
	if j.Session != "" {
		flags = append(flags, "--resume")
	}
	if j.MaxTurns > 0 {
		flags = append(flags, "--max-turns", strconv.Itoa(j.MaxTurns))
	}
	return append(flags, "--instructions", "-")
}

// gooseFiles are the CLI's configuration: its own extensions off, ours on, and
// what may be used without asking.
func gooseFiles(j Job, tools []string) (map[string][]byte, error) {
	system, err := os.ReadFile(filepath.Join(j.Workspace, systemFile))
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the agent's instructions: %w", err)
	}
	extensions := map[string]any{}
	for key, name := range gooseBuiltin {
		extensions[key] = map[string]any{"enabled": false, "type": "platform", "name": name, "description": ""}
	}
	allowed := make([]string, len(tools))
	for i, tool := range tools {
		allowed[i] = goosePrefix + tool
	}
	if j.ToolsURL != "" && len(tools) > 0 { // an empty list of tools would mean all
		extensions[gooseExtension] = map[string]any{
			"enabled": true, "type": "streamable_http", "name": gooseExtension, "description": "Reads the cluster and the workspace.",
			"uri": "${" + gooseToolsURL + "}", "headers": map[string]string{"Authorization": "Bearer ${" + gooseToolsToken + "}"},
			"env_keys": []string{gooseToolsURL, gooseToolsToken},
			"timeout":  60, "available_tools": tools,
		}
	}
	config, err := json.Marshal(map[string]any{"extensions": extensions})
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "configuration of goose: %w", err)
	}
	permission, err := json.Marshal(map[string]any{"user": map[string]any{"always_allow": allowed, "ask_before": []string{}, "never_allow": []string{}}})
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "permissions of goose: %w", err)
	}
	return map[string][]byte{ // JSON is YAML
		gooseConfig + "/config.yaml":     config,
		gooseConfig + "/permission.yaml": permission,
		gooseConfig + "/system.md":       []byte(gooseTemplate(string(system))),
	}, nil
}

// gooseBuiltin are the extensions that come with the CLI, by their key; it switches
// on those that no configuration mentions.
var gooseBuiltin = map[string]string{
	"analyze": "analyze", "apps": "apps", "chatrecall": "chatrecall", "code_execution": "code_execution",
	"developer": "developer", "extensionmanager": "Extension Manager", "orchestrator": "orchestrator",
	"skills": "skills", "summon": "summon", "todo": "todo", "tom": "tom",
}

// gooseTemplate makes a text say itself: the CLI reads the file as a template, in
// which a brace can begin an expression.
func gooseTemplate(text string) string { return strings.ReplaceAll(text, "{", `{{ "{" }}`) }
