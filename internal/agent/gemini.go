package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

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
