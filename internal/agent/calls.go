package agent

// Call is a model's call of a tool, in the words of one CLI.
type Call struct {
	Tool  string
	Input map[string]any
}

// Calls are how a model asks an executor's CLI to act: what a scripted model says, to
// see what becomes of it. A call may be one that the CLI was not offered; it is then
// how a model would ask for it all the same. A script has none.
type Calls struct {
	// Shell runs a command.
	Shell func(command string) Call
	// Read reads a file, and Write writes one.
	Read  func(path string) Call
	Write func(path, text string) Call
	// Tool calls one of our MCP server's tools.
	Tool func(name string, args map[string]any) Call
}

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

func gooseCalls() Calls {
	tool := func(name string, args map[string]any) Call { return Call{goosePrefix + name, args} }
	return Calls{
		Shell: func(command string) Call { return Call{"developer__shell", map[string]any{"command": command}} },
		Read:  func(path string) Call { return tool("read_file", map[string]any{"path": path}) },
		Write: func(path, text string) Call { return Call{"write", map[string]any{"path": path, "content": text}} },
		Tool:  tool,
	}
}
