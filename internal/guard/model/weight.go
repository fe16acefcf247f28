package model

import "strings"

// weight is what a request costs that its length does not tell. It is read from the
// decoded values: in the bytes a word can be spelled in many ways.
type weight struct {
	images int
	hour   bool // something may stay in the provider's cache for an hour, which costs more
	// leavesOut says that the provider clears what it likes from the history, so that
	// its count is not of all that was sent.
	leavesOut bool
}

func weigh(request map[string]any) weight {
	var c census
	c.count("", request)
	return weight{max(c.types, c.media, c.urls), c.hour, clears(request)}
}

// census counts what may be pictures: each API tells of one in two of these ways.
type census struct {
	types, media, urls int
	hour               bool
}

func (c *census) count(name string, v any) {
	if strings.EqualFold(name, "ttl") && v != "5m" {
		c.hour = true
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
		c.word(name, v)
	}
}

func (c *census) word(name, s string) {
	start := strings.ToLower(s[:min(len(s), len("data:image/"))])
	switch {
	case name == "type" && (s == "image" || s == "input_image" || s == "image_url"):
		c.types++
	case strings.HasPrefix(start, "image/"):
		c.media++
	case start == "data:image/":
		c.urls++
	}
}

// clears reports whether a provider is asked to shorten what it is sent.
func clears(request map[string]any) bool {
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
