package model

import "slices"

// sealedNames are members that the API checks or decodes: a byte more or less, and it
// refuses the request. Names and ids stand for something elsewhere in it.
var sealedNames = []string{
	"id", "tool_use_id", "call_id", "tool_call_id", "item_id", "name", "type", "role", "model", "status", "media_type", "mimeType", "mime_type",
	"signature", "encrypted_content", "thoughtSignature", "thought_signature", "image_url", "prompt_cache_key",
}

// sealed reports whether a member of an object is left as it is. Thoughts are signed,
// and what is inline is a picture's bytes.
func sealed(object map[string]any, name string) bool {
	switch {
	case slices.Contains(sealedNames, name):
		return true
	case name == "data":
		return object["type"] == "base64" || object["type"] == "redacted_thinking" || object["mimeType"] != nil || object["mime_type"] != nil
	case name == "thinking":
		return object["type"] == "thinking"
	case name == "text":
		return object["thought"] == true
	}
	return false
}
