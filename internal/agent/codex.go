package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"nightcrier.dev/nightcrier"
)

// codexExecutor runs the codex CLI headless, without a shell: what it does, it does with the
// tools of our MCP server.
//
// Its own means to restrict a shell do not hold. A rule allows a command by its
// first words, whatever flags follow; a hook that is missing, slow or broken lets
// the command run; its sandbox shuts off the network that kubectl needs, and needs
// calls that ours takes away. So the shell is not offered at all, and what asks for
// it is told so. Three fences stand behind that: the sandbox mode is read-only, for
// the patch tool, which refuses to write; nobody is asked for approvals, so what
// needs one is refused, as every tool that does not say that it only reads; and of
// our server the tools are offered by name.
func codexExecutor() Executor {
	return Executor{
		Name:       "codex",
		Command:    "codex",
		Package:    "@openai/codex",
		Versions:   []string{"0.169.0"},
		NeedsModel: true,
		Providers:  []nightcrier.Provider{nightcrier.OpenAI},
		UsesTools:  true, ToolPrefix: codexPrefix, FileTool: codexPrefix + "read_file",
		AnswersOnly: true, Resumes: true, TurnsUncounted: true, RetriesUntold: true,
		Sessions:     []string{".codex/sessions"},
		Stdin:        promptFile,
		Instructions: "as developer instructions, behind the CLI's own",
		Prepare:      prepareCodex,
		Calls:        codexCalls(),
		NewParser:    func() Parser { return newCodexParser() },
	}
}

const (
	// codexServer is what our MCP server is called there.
	codexServer = "nightcrier"
	codexPrefix = "mcp__" + codexServer + "__"
	// codexHome is where the CLI looks for its files, in the workspace.
	codexHome = "home/.codex"
	// codexToolsToken names the variable that holds the token of our MCP server.
	codexToolsToken = "NIGHTCRIER_TOOLS_TOKEN"
)

// codexCalls: the server of a tool stands beside its name, not in it.
func codexCalls() Calls {
	tool := func(name string, args map[string]any) Call { return Call{name, args} }
	return Calls{
		Shell: func(command string) Call { return Call{"exec_command", map[string]any{"cmd": command}} },
		Read:  func(path string) Call { return tool("read_file", map[string]any{"path": path}) },
		Write: func(path, text string) Call {
			return Call{"apply_patch", map[string]any{"input": "*** Begin Patch\n*** Add File: " + path + "\n+" + text + "\n*** End Patch\n"}}
		},
		Tool: tool,
	}
}

func prepareCodex(j Job) (Invocation, error) {
	cli, err := codexExecutor().findCLI(j, uuid)
	if err != nil {
		return Invocation{}, err
	}
	instructions, err := os.ReadFile(filepath.Join(j.Workspace, systemFile))
	if err != nil {
		return Invocation{}, nightcrier.Errorf(nightcrier.Invalid, "the agent's instructions: %w", err)
	}
	tools, notes := OfferedTools(j.Tools, j.Allowed)
	env := codexEnv(j)
	env["PATH"] = cli.path
	notes = append(notes, addExtra(env, j.ExtraEnv)...)
	return Invocation{
		Argv: append([]string{cli.read[0]}, codexFlags(j)...), Env: listEnv(env), Read: cli.read, Notes: notes,
		Files: map[string][]byte{
			codexHome + "/config.toml": codexConfig(j, string(instructions), tools),
			// Read whatever the configuration says: an earlier attempt may have left them.
			codexHome + "/AGENTS.md": nil, codexHome + "/AGENTS.override.md": nil,
		},
	}, nil
}

// codexEnv: the tokens of the run stand in the environment and nowhere else.
func codexEnv(j Job) map[string]string {
	env := baseEnv(j)
	env["CODEX_HOME"] = filepath.Join(j.Workspace, codexHome)
	env["OPENAI_API_KEY"] = j.ModelToken
	env[codexToolsToken] = j.ToolsToken
	return env
}

// codexFlags: a configuration that this version does not understand in full is an
// error, because what it left out might be a fence.
func codexFlags(j Job) []string {
	flags := []string{"exec", "--json", "--strict-config", "--skip-git-repo-check"}
	if j.Session != "" {
		flags = append(flags, "resume", j.Session)
	}
	return append(flags, "-")
}

// codexFeatures are switched off: what acts on the machine, what asks somebody, what
// calls home, what lets the model start more of itself, and what waits for ever.
var codexFeatures = []string{
	"api_key_model_discovery", "apps", "auth_elicitation", "browser_use", "browser_use_external", "browser_use_full_cdp_access",
	"computer_use", "daemon_auto_start", "enable_request_compression", "goals", "guardian_approval", "hooks", "image_generation",
	"in_app_browser", "memories", "multi_agent_v2", "plugins", "remote_plugin", "shell_snapshot", "shell_tool",
	"skill_mcp_dependency_install", "tool_call_mcp_elicitation", "tool_suggest", "unbounded_connection_retries", "unified_exec",
	"view_image", "workspace_dependencies",
}

// codexConfig is the CLI's configuration. The workspace is no project that it
// trusts, so what stands there configures nothing.
func codexConfig(j Job, instructions string, tools []string) []byte {
	var b strings.Builder
	set := func(key string, value any) { fmt.Fprintf(&b, "%s = %s\n", key, encodeTOML(value)) }
	table := func(name string) { fmt.Fprintf(&b, "\n[%s]\n", name) }

	if j.Model != "" {
		set("model", j.Model)
	}
	set("model_provider", codexServer)
	set("approval_policy", "never")
	set("sandbox_mode", "read-only")
	set("web_search", "disabled")
	set("check_for_update_on_startup", false)
	set("allow_login_shell", false)
	set("project_doc_max_bytes", 0)
	set("developer_instructions", instructions)
	table("model_providers." + codexServer)
	set("name", codexServer)
	set("base_url", j.ModelURL+"/v1")
	set("env_key", "OPENAI_API_KEY")
	set("wire_api", "responses")
	set("request_max_retries", 1)
	set("stream_max_retries", 2)
	set("supports_websockets", false)
	table("shell_environment_policy") // no command sees a token, were there one
	set("inherit", "none")
	for _, name := range []string{"analytics", "feedback"} {
		table(name)
		set("enabled", false)
	}
	table("history")
	set("persistence", "none")
	table("agents")
	set("enabled", false)
	table("skills") // those of the workspace or of its home
	set("include_instructions", false)
	table("skills.bundled")
	set("enabled", false)
	table("projects." + encodeTOML(j.Workspace))
	set("trust_level", "untrusted")
	table("features")
	for _, name := range codexFeatures {
		set(name, false)
	}
	if j.ToolsURL != "" {
		table("mcp_servers." + codexServer)
		set("url", j.ToolsURL)
		set("bearer_token_env_var", codexToolsToken)
		set("required", true)
		set("enabled_tools", tools)
		set("startup_timeout_sec", 20)
		set("tool_timeout_sec", 60)
	}
	return []byte(b.String())
}

// encodeTOML writes a value as TOML, which in these types is JSON but for one character.
// A text may hold anything: it is the untrusted part of the prompt.
func encodeTOML(v any) string {
	if s, ok := v.(string); ok {
		v = strings.ToValidUTF8(s, "\uFFFD")
	}
	b, err := json.Marshal(v)
	if err != nil { // strings, numbers, booleans and lists of strings have a JSON
		panic(err)
	}
	return strings.ReplaceAll(string(b), "\x7f", `\u007f`)
}
