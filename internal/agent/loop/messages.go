package loop

import (
	"encoding/json"
	"fmt"
	"strings"
)

// messages is Anthropic's Messages API.
type messages struct{}

func (messages) path() string { return "/v1/messages" }

type object map[string]any

// cached marks what a request has in common with the next one.
var cached = object{"type": "ephemeral"}

// writeRequest marks four places for the cache: the tools, the instructions, and the last two
// messages of ours, so that a turn of many calls is found again.
func (messages) writeRequest(l *loop, free bool) ([]byte, error) {
	request := object{
		"model": l.Model, "max_tokens": l.MaxTokens, "messages": messagesOf(l.history),
		"system": []object{{"type": "text", "text": l.System, "cache_control": cached}},
	}
	if l.Thinking > 0 {
		request["thinking"] = object{"type": "enabled", "budget_tokens": l.Thinking}
	}
	if tools := l.offered(); len(tools) > 0 {
		var all []object
		for _, t := range tools {
			all = append(all, object{"name": t.Name, "description": t.About, "input_schema": t.Schema})
		}
		all[len(all)-1]["cache_control"] = cached
		request["tools"] = all
		if !free {
			request["tool_choice"] = object{"type": "none"}
		}
	}
	return json.Marshal(request)
}

func messagesOf(history []turn) []object {
	var all []object
	marks := 2
	for i := len(history) - 1; i >= 0; i-- {
		t := history[i]
		if t.Said != nil {
			all = append(all, object{"role": "assistant", "content": t.Said})
			continue
		}
		var blocks []object
		for _, r := range t.Results {
			blocks = append(blocks, object{"type": "tool_result", "tool_use_id": r.ID, "content": r.Text, "is_error": r.Failed})
		}
		if t.Asked != "" {
			blocks = append(blocks, object{"type": "text", "text": t.Asked})
		}
		if marks > 0 && len(blocks) > 0 {
			marks--
			blocks[len(blocks)-1]["cache_control"] = cached
		}
		all = append(all, object{"role": "user", "content": blocks})
	}
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all
}

func (messages) writeSaid(text string) json.RawMessage {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	raw, err := json.Marshal([]object{{"type": "text", "text": strings.TrimRight(text, " \n\t")}})
	if err != nil {
		return nil
	}
	return raw
}

// block is what may stand in an answer. What else an API puts there it did not have from us.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
}

func (messages) readAnswer(body []byte) (answer, error) {
	var doc struct {
		Type    string  `json:"type"`
		Content []block `json:"content"`
		Reason  string  `json:"stop_reason"`
		Usage   struct {
			Input      int `json:"input_tokens"`
			CacheWrite int `json:"cache_creation_input_tokens"`
			CacheRead  int `json:"cache_read_input_tokens"`
			Output     int `json:"output_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return answer{}, fmt.Errorf("it is no JSON: %w", err)
	}
	if doc.Type != "message" || doc.Reason == "" {
		return answer{}, fmt.Errorf("it is no message")
	}
	u := doc.Usage
	a := answer{stop: stops[doc.Reason], reason: doc.Reason, tokens: u.Input + u.CacheWrite + u.CacheRead + u.Output}
	var kept []object
	for _, b := range doc.Content {
		switch {
		case b.Type == "text" && strings.TrimSpace(b.Text) != "":
			a.text += b.Text
			kept = append(kept, object{"type": "text", "text": b.Text})
		case b.Type == "thinking":
			kept = append(kept, object{"type": "thinking", "thinking": b.Thinking, "signature": b.Signature})
		case b.Type == "redacted_thinking":
			kept = append(kept, object{"type": "redacted_thinking", "data": b.Data})
		case b.Type == "tool_use":
			input, wrong := readInput(b.Input)
			a.calls = append(a.calls, call{b.ID, b.Name, input, wrong})
			kept = append(kept, object{"type": "tool_use", "id": b.ID, "name": b.Name, "input": input})
		}
	}
	if a.text == "" && len(a.calls) == 0 {
		return a, nil // thoughts alone are no message
	}
	raw, err := json.Marshal(kept)
	a.said = raw
	return a, err
}
