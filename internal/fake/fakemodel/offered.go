package fakemodel

import (
	"slices"
	"strings"
)

// withOfferedTools puts a step into the client's words. Scripts call the tools Read and
// Write; where a client has others for that, theirs are called. A text for whose
// writing it has none is said instead: such agents are told to answer with their
// report.
func (st Step) withOfferedTools(tools []string) Step {
	calls := make([]ToolCall, 0, len(st.Tools))
	for _, call := range st.Tools {
		switch {
		case slices.Contains(tools, call.Name):
		case call.Name == "Read":
			call = ToolCall{Name: offeredName(tools, "read_file"), Input: map[string]any{pathOf(tools): call.Input["file_path"]}}
		case call.Name == "Write" && slices.Contains(tools, "write_file"):
			call.Name = "write_file"
		case call.Name == "Write":
			st.Text, _ = call.Input["content"].(string)
			continue
		}
		calls = append(calls, call)
	}
	st.Tools = calls
	return st
}

// offeredName is a tool by the name that it has on offer, perhaps behind a prefix. One
// that is not offered by name may be reached in other ways, and keeps its own.
func offeredName(tools []string, name string) string {
	if i := slices.IndexFunc(tools, func(t string) bool { return t == name || strings.HasSuffix(t, "__"+name) }); i >= 0 {
		return tools[i]
	}
	return name
}

// pathOf is what the tool that reads a file calls its path: gemini, which lists
// directories too, has one of its own; the others have ours.
func pathOf(tools []string) string {
	if slices.Contains(tools, "list_directory") {
		return "file_path"
	}
	return "path"
}
