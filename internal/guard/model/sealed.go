package model

import (
	"slices"
	"strings"
)

// sealedNames are members that the API checks or decodes: a byte more or less, and it
// refuses the request. Names and ids stand for something elsewhere in it.
var sealedNames = []string{
	"id", "tool_use_id", "call_id", "tool_call_id", "item_id", "name", "type", "role", "model", "status", "media_type", "mimeType", "mime_type",
	"signature", "encrypted_content", "thoughtSignature", "thought_signature", "image_url", "prompt_cache_key",
}

// isSealedMember reports whether a member of an object is left as it is. Thoughts are signed,
// and what is inline is a picture's bytes.
func isSealedMember(object map[string]any, name string) bool {
	switch {
	case slices.Contains(sealedNames, name):
		_, more := object[name].(map[string]any) // then it is somebody's name for it, as of a tool's argument
		return !more || name == "image_url"
	case name == "data":
		return object["type"] == "base64" || object["type"] == "redacted_thinking" || object["mimeType"] != nil || object["mime_type"] != nil
	case name == "thinking":
		return object["type"] == "thinking"
	case name == "text":
		return object["thought"] == true
	}
	return false
}

// isFreeMember reports whether what a member of an object holds is in no words of the API: what
// a tool was called with, and what it returned. Nothing in it is sealed, whatever it is
// called.
func isFreeMember(object map[string]any, name string) bool {
	switch plainName(name) {
	case "arguments", "args", "env": // of calls: OpenAI's, Gemini's, of a shell of OpenAI's
		return true
	case "input":
		kind, _ := object["type"].(string)
		return strings.HasSuffix(kind, "tool_use")
	case "response", "output": // Gemini's answer of a tool; OpenAI's, which is a text or parts
		_, more := object[name].(map[string]any)
		return more
	}
	return false
}
