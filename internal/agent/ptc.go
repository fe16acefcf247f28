package agent

import "nightcrier.dev/nightcrier"

// SessionFile is where our own agents keep a conversation, below the workspace.
const SessionFile = "home/.nightcrier/conversation.json"

// DefaultLoopTokens bounds one answer of our own agents where a skill says nothing of it. A longer one
// is continued.
const DefaultLoopTokens = 16_384

// ptcExecutor is our own agent: a model and the tools of MCP servers, without a shell or files.
func ptcExecutor() Executor {
	return Executor{
		Name: "ptc", Loop: true, NeedsModel: true, NamesModel: true,
		Providers: []nightcrier.Provider{nightcrier.Anthropic, nightcrier.OpenAI, nightcrier.OpenRouter},
		UsesTools: true, FileTool: "read_file", AnswersOnly: true, Resumes: true, RetriesUntold: true,
		Sessions:     []string{".nightcrier"},
		Instructions: "as the model's own",
		Calls: Calls{
			Shell: func(command string) Call { return Call{"run_command", map[string]any{"command": command}} },
			Read:  func(path string) Call { return Call{"read_file", map[string]any{"path": path}} },
			Write: func(path, text string) Call { return Call{"write_file", map[string]any{"path": path, "content": text}} },
			Tool:  func(name string, args map[string]any) Call { return Call{name, args} },
		},
	}
}

// llmExecutor asks a model once, for skills that only say something.
func llmExecutor() Executor {
	e := ptcExecutor()
	e.Name, e.SingleCall, e.UsesTools, e.FileTool, e.Calls = "llm", true, false, "", Calls{}
	e.Providers = []nightcrier.Provider{nightcrier.OpenRouter, nightcrier.Anthropic, nightcrier.OpenAI}
	return e
}
