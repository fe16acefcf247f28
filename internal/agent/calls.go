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
