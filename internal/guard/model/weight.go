package model

import (
	"slices"
	"strings"
)

// weight is what a request costs that its length does not tell. It is read from the
// decoded values: in the bytes a word can be spelled in many ways.
type weight struct {
	images int
	hour   bool // something may stay in the provider's cache for an hour, which costs more
	// leavesOut says that the provider clears what it likes from the history, so that
	// its count is not of all that was sent.
	leavesOut bool
	// explained are tools that the provider explains to the model by itself.
	explained int
}

func weighRequest(request map[string]any) (w weight, alone bool, references int) {
	var c census
	c.count("", request)
	w = weight{images: max(c.types, c.media, c.urls), hour: c.hour, leavesOut: asksToShorten(request)}
	tools, _ := request["tools"].([]any)
	for _, t := range tools {
		tool, _ := t.(map[string]any)
		if !oneOf(tool["type"], "custom", "function", "namespace") {
			w.explained++
		}
	}
	alone = w.images > 0 || c.deferred || c.references > 0
	for name, v := range request {
		alone = alone || slices.Contains(compared[:], plainName(name)) && !isTextAlone(v)
	}
	return w, alone, c.references
}

// textKinds are the types of messages, items and parts that count by their text, at
// most a token a byte.
var textKinds = []string{
	"message", "text", "thinking", "redacted_thinking", "tool_use", "tool_result", // Anthropic's
	"input_text", "output_text", "summary_text", "reasoning_text", "refusal", "encrypted_content", "reasoning", // OpenAI's
	"function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "local_shell_call", "local_shell_call_output",
}

// isTextAlone reports whether a prompt or a history is known to be text alone.
func isTextAlone(v any) bool {
	switch v := v.(type) {
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !isTextAlone(e) })
	case map[string]any:
		if !oneOf(v["type"], textKinds...) {
			return false
		}
		for name, e := range v {
			switch plainName(name) {
			case "content", "parts", "output", "functionresponse":
				if !isTextAlone(e) {
					return false
				}
			}
		}
	}
	return true
}

// census counts what may be pictures: each API tells of one in two of these ways.
type census struct {
	types, media, urls int
	hour               bool
	// deferred is set where a tool is told of only when something refers to it, and
	// references are what may be such.
	deferred   bool
	references int
}

func (c *census) count(name string, v any) {
	if strings.EqualFold(name, "ttl") && v != "5m" {
		c.hour = true
	}
	if strings.EqualFold(name, "defer_loading") && v != nil && v != false {
		c.deferred = true
	}
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			c.count(name, e)
		}
	case []any:
		for _, e := range v {
			c.count("", e)
		}
	case string:
		c.countWord(name, v)
	}
}

func (c *census) countWord(name, s string) {
	start := strings.ToLower(s[:min(len(s), len("data:image/"))])
	switch {
	case name == "type" && (s == "image" || s == "input_image" || s == "image_url"):
		c.types++
	case name == "type" && strings.HasPrefix(s, "tool_") && s != "tool_use" && s != "tool_result" && s != "tool_search":
		c.references++
	case strings.HasPrefix(start, "image/"):
		c.media++
	case start == "data:image/":
		c.urls++
	}
}

// asksToShorten reports whether a provider is asked to shorten what it is sent.
func asksToShorten(request map[string]any) bool {
	if v := request["truncation"]; v != nil && v != "disabled" {
		return true
	}
	switch management := request["context_management"].(type) {
	case nil:
		return false
	case map[string]any:
		edits, _ := management["edits"].([]any)
		for _, e := range edits {
			edit, _ := e.(map[string]any)
			kind, _ := edit["type"].(string)
			if !strings.HasPrefix(kind, "clear_thinking_") || edit["keep"] != "all" {
				return true
			}
		}
		return false
	}
	return true
}
