package fakemodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// anthropic is the Messages protocol.
type anthropic struct{}

type messagesRequest struct {
	Model    string          `json:"model"`
	Stream   bool            `json:"stream"`
	System   json.RawMessage `json:"system"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"input_schema"`
	} `json:"tools"`
}

func (anthropic) parseRequest(body []byte) (Request, error) {
	var m messagesRequest
	if err := json.Unmarshal(body, &m); err != nil {
		return Request{}, fmt.Errorf("body: %w", err)
	}
	if len(m.Messages) == 0 {
		return Request{}, fmt.Errorf("messages: at least one is required")
	}
	req := Request{Model: m.Model, Stream: m.Stream}
	var text strings.Builder
	var turns turns
	blockText(&text, m.System)
	for _, msg := range m.Messages {
		if msg.Role == "assistant" {
			turns.countMessage(firstCall(msg.Content))
		}
		blockText(&text, msg.Content)
		req.history = append(req.history, msg.Content...)
	}
	for _, tool := range m.Tools {
		req.Tools, req.Schemas = append(req.Tools, tool.Name), append(req.Schemas, tool.Schema)
	}
	req.Text, req.Turn = text.String(), turns.n
	return req, nil
}

// firstCall is the id of the first call of a tool in content.
func firstCall(content json.RawMessage) string {
	var blocks []struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	_ = json.Unmarshal(content, &blocks) // a plain text calls nothing
	for _, b := range blocks {
		if b.Type == "tool_use" {
			return b.ID
		}
	}
	return ""
}

// blockText writes the text in content, which is a string or a list of blocks,
// of which a tool's result holds content itself.
func blockText(b *strings.Builder, content json.RawMessage) {
	var plain string
	if json.Unmarshal(content, &plain) == nil {
		b.WriteString(plain + "\n")
		return
	}
	var blocks []struct {
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(content, &blocks) != nil {
		return // an image, or something newer than us
	}
	for _, block := range blocks {
		b.WriteString(block.Text + "\n")
		if len(block.Content) > 0 {
			blockText(b, block.Content)
		}
	}
}

// dict is a JSON object.
type dict map[string]any

func (anthropic) plainAnswer(req Request, rep reply) any {
	msg := anthropicMessage(req, rep)
	msg["content"] = anthropicContent(rep)
	msg["stop_reason"] = stopReason(rep)
	msg["usage"] = dict{"input_tokens": rep.usage.Input, "output_tokens": rep.usage.Output}
	return msg
}

// anthropicMessage is a message before it has said anything.
func anthropicMessage(req Request, rep reply) dict {
	return dict{
		"id": "msg_" + rep.id, "type": "message", "role": "assistant", "model": req.Model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": dict{"input_tokens": rep.usage.Input, "output_tokens": 0},
	}
}

func anthropicContent(rep reply) []any {
	content := []any{}
	if rep.text != "" {
		content = append(content, dict{"type": "text", "text": rep.text})
	}
	for i, call := range rep.tools {
		content = append(content, dict{"type": "tool_use", "id": toolID(rep, i), "name": call.Name, "input": call.Input})
	}
	return content
}

func toolID(rep reply, i int) string { return fmt.Sprintf("toolu_%s_%d", rep.id, i) }

func stopReason(rep reply) string {
	switch {
	case rep.stop != "":
		return rep.stop
	case len(rep.tools) > 0:
		return "tool_use"
	}
	return "end_turn"
}

func (anthropic) answerEvents(req Request, rep reply) []event {
	out := []event{namedEvent("message_start", dict{"message": anthropicMessage(req, rep)}), namedEvent("ping", dict{})}
	index := 0
	if rep.text != "" {
		out = append(out, textEvents(index, rep.text)...)
		index++
	}
	for i, call := range rep.tools {
		out = append(out, toolEvents(index, toolID(rep, i), call)...)
		index++
	}
	return append(out,
		namedEvent("message_delta", dict{
			"delta": dict{"stop_reason": stopReason(rep), "stop_sequence": nil},
			"usage": dict{"input_tokens": rep.usage.Input, "output_tokens": rep.usage.Output},
		}),
		namedEvent("message_stop", dict{}))
}

// textEvents says the text in two halves, for a client to put together.
func textEvents(index int, text string) []event {
	half := []rune(text)
	out := []event{blockStart(index, dict{"type": "text", "text": ""})}
	for _, part := range []string{string(half[:len(half)/2]), string(half[len(half)/2:])} {
		out = append(out, markRepeatable(blockDelta(index, dict{"type": "text_delta", "text": part})))
	}
	return append(out, namedEvent("content_block_stop", dict{"index": index}))
}

func toolEvents(index int, id string, call ToolCall) []event {
	input, err := json.Marshal(call.Input)
	if err != nil { // YAML gave us nothing that JSON cannot say
		input = []byte("{}")
	}
	return []event{
		blockStart(index, dict{"type": "tool_use", "id": id, "name": call.Name, "input": dict{}}),
		blockDelta(index, dict{"type": "input_json_delta", "partial_json": ""}),
		blockDelta(index, dict{"type": "input_json_delta", "partial_json": string(input)}),
		namedEvent("content_block_stop", dict{"index": index}),
	}
}

func blockStart(index int, block dict) event {
	return namedEvent("content_block_start", dict{"index": index, "content_block": block})
}

func blockDelta(index int, delta dict) event {
	return namedEvent("content_block_delta", dict{"index": index, "delta": delta})
}

// namedEvent is an event whose data repeats its name as type.
func namedEvent(name string, data dict) event {
	data["type"] = name
	return event{name: name, data: data}
}

func (anthropic) failureBody(f Failure) any {
	kind := f.Type
	if kind == "" {
		kind = anthropicErrors[f.Status]
	}
	kind = cmp.Or(kind, "api_error")
	return dict{"type": "error", "error": dict{"type": kind, "message": f.Message}}
}

var anthropicErrors = map[int]string{
	http.StatusBadRequest:            "invalid_request_error",
	http.StatusUnauthorized:          "authentication_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	statusOverloaded:                 "overloaded_error",
}

// countTokens answers the side call that clients estimate their context with.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) {
	req, err := readRequest(anthropic{}, r)
	if err != nil {
		writeFailure(w, anthropic{}, Failure{Status: http.StatusBadRequest, Message: err.Error()})
		return
	}
	writePlain(w, dict{"input_tokens": estimateTokens(req.Text)}, 0)
}
