package fakemodel

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// responses is OpenAI's Responses protocol.
type responses struct{}

type responsesRequest struct {
	Model        string          `json:"model"`
	Stream       bool            `json:"stream"`
	Instructions string          `json:"instructions"`
	Input        json.RawMessage `json:"input"`
	Tools        []responsesTool `json:"tools"`
}

// responsesTool is a tool on offer, or a namespace of them.
type responsesTool struct {
	Type   string          `json:"type"`
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"parameters"`
	Tools  []responsesTool `json:"tools"`
}

// responsesItem is one of the input's items.
type responsesItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Output    json.RawMessage `json:"output"`
	CallID    string          `json:"call_id"`
	Arguments string          `json:"arguments"`
	Input     string          `json:"input"`
	Tools     []responsesTool `json:"tools"`
}

func (responses) parseRequest(body []byte) (Request, error) {
	var m responsesRequest
	if err := json.Unmarshal(body, &m); err != nil {
		return Request{}, fmt.Errorf("body: %w", err)
	}
	items, err := responsesInput(m.Input)
	if err != nil {
		return Request{}, err
	}
	req := Request{Model: m.Model, Stream: m.Stream, history: m.Input}
	req.noteTools("", m.Tools)
	text := m.Instructions + "\n"
	for _, item := range items {
		var b strings.Builder
		blockText(&b, item.Content)
		blockText(&b, item.Output)
		text += b.String()
		req.noteTools("", item.Tools)
	}
	req.Text, req.Turn = text, responsesTurns(items)
	return req, nil
}

// responsesInput reads the input, which is a list of items or one user's text.
func responsesInput(input json.RawMessage) ([]responsesItem, error) {
	var text string
	if json.Unmarshal(input, &text) == nil && text != "" {
		return []responsesItem{{Type: "message", Role: "user", Content: input}}, nil
	}
	var items []responsesItem
	if err := json.Unmarshal(input, &items); err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("input: at least one item is required")
	}
	return items, nil
}

// responsesTurns counts the model's turns. One turn is several items, its words
// and each of its calls, between which a client may put the results: calls know
// by their id which turn they belong to.
func responsesTurns(items []responsesItem) int {
	turns, speaking, last := 0, false, ""
	for _, item := range items {
		call := item.Type == "function_call" || item.Type == "custom_tool_call"
		if !call && item.Role != "assistant" {
			speaking = speaking && item.Type == "reasoning"
			continue
		}
		turn := ""
		if call {
			turn = item.CallID[:max(0, strings.LastIndexByte(item.CallID, '_'))]
		}
		if !speaking && (turn == "" || turn != last) {
			turns++
		}
		speaking = true
		if call {
			last = turn
		}
	}
	return turns
}

// noteTools notes tools, and those of a namespace.
func (req *Request) noteTools(namespace string, tools []responsesTool) {
	for _, tool := range tools {
		switch {
		case tool.Type == "namespace":
			req.noteTools(tool.Name, tool.Tools)
		case tool.Name != "": // what runs at the provider has none
			req.Tools, req.Schemas = append(req.Tools, tool.Name), append(req.Schemas, tool.Schema)
			req.forms = append(req.forms, toolForm{namespace: namespace, text: tool.Type == "custom"})
		}
	}
}

func (responses) plainAnswer(req Request, rep reply) any {
	doc := responsesDocument(req, rep)
	doc["output"] = responsesOutput(req, rep)
	doc["usage"] = responsesUsage(rep)
	doc["status"] = "completed"
	if rep.stop != "" {
		doc["status"], doc["incomplete_details"] = "incomplete", dict{"reason": responsesStop(rep.stop)}
	}
	return doc
}

// responsesDocument is a response before it has said anything.
func responsesDocument(req Request, rep reply) dict {
	return dict{
		"id": "resp_" + rep.id, "object": "response", "created_at": 0, "model": req.Model, "status": "in_progress",
		"output": []any{}, "error": nil, "incomplete_details": nil, "usage": nil, "parallel_tool_calls": true,
	}
}

// responsesStop says why an answer is incomplete; scenarios say it in Anthropic's
// words.
func responsesStop(stop string) string {
	switch stop {
	case "max_tokens":
		return "max_output_tokens"
	case "refusal":
		return "content_filter"
	}
	return stop
}

func responsesUsage(rep reply) dict {
	return dict{
		"input_tokens": rep.usage.Input, "input_tokens_details": dict{"cached_tokens": 0},
		"output_tokens": rep.usage.Output, "output_tokens_details": dict{"reasoning_tokens": 0},
		"total_tokens": rep.usage.Input + rep.usage.Output,
	}
}

func responsesOutput(req Request, rep reply) []any {
	out := []any{}
	if rep.text != "" {
		out = append(out, responsesMessage(rep, rep.text))
	}
	for i, call := range rep.tools {
		out = append(out, responsesCall(req, rep, i, call))
	}
	return out
}

func responsesMessage(rep reply, text string) dict {
	return dict{
		"id": "msg_" + rep.id, "type": "message", "role": "assistant", "status": "completed",
		"content": []any{dict{"type": "output_text", "text": text, "annotations": []any{}}},
	}
}

// responsesCall calls a tool the way it was offered: with text, in a namespace, or
// plainly. A script need not know. Where a client takes code instead of calls, one
// of a tool that it does not offer becomes code that makes it.
func responsesCall(req Request, rep reply, i int, call ToolCall) dict {
	at := slices.Index(req.Tools, call.Name)
	if at < 0 {
		if code := slices.Index(req.Tools, "exec"); code >= 0 && req.forms[code].text {
			at, call = code, ToolCall{Name: "exec", Input: map[string]any{"input": inCode(call)}}
		}
	}
	var form toolForm
	if at >= 0 {
		form = req.forms[at]
	}
	item := dict{"id": fmt.Sprintf("fc_%s_%d", rep.id, i), "status": "completed", "call_id": callID(rep, i), "name": call.Name}
	if form.namespace != "" {
		item["namespace"] = form.namespace
	}
	if form.text {
		item["type"], item["input"] = "custom_tool_call", fmt.Sprint(call.Input["input"])
		return item
	}
	item["type"], item["arguments"] = "function_call", encodeArguments(call)
	return item
}

// inCode is a call as JavaScript, of the tool whose name ends so.
func inCode(call ToolCall) string {
	return fmt.Sprintf(`const name = Object.keys(tools).find(t => t === %[1]q || t.endsWith("__" + %[1]q)) ?? %[1]q; text(JSON.stringify(await tools[name](%[2]s)))`, call.Name, encodeArguments(call))
}

func encodeArguments(call ToolCall) string {
	b, err := json.Marshal(call.Input)
	if err != nil || call.Input == nil { // YAML gave us nothing that JSON cannot say
		return "{}"
	}
	return string(b)
}

func (d responses) answerEvents(req Request, rep reply) []event {
	out := []event{
		namedEvent("response.created", dict{"response": responsesDocument(req, rep)}),
		namedEvent("response.in_progress", dict{"response": responsesDocument(req, rep)}),
	}
	for i, item := range responsesOutput(req, rep) {
		item := item.(dict)
		switch item["type"] {
		case "message":
			out = append(out, responsesText(i, rep)...)
		case "function_call":
			out = append(out, responsesDeltas(i, item, "arguments", "response.function_call_arguments")...)
		case "custom_tool_call":
			out = append(out, responsesDeltas(i, item, "input", "response.custom_tool_call_input")...)
		}
		out = append(out, namedEvent("response.output_item.done", dict{"output_index": i, "item": item}))
	}
	last := "response.completed"
	if rep.stop != "" {
		last = "response.incomplete"
	}
	out = append(out, namedEvent(last, dict{"response": d.plainAnswer(req, rep)}))
	for i, e := range out {
		e.data.(dict)["sequence_number"] = i
	}
	return out
}

// responsesText says the text in two halves, for a client to put together.
func responsesText(index int, rep reply) []event {
	id, half := "msg_"+rep.id, []rune(rep.text)
	at := func(more dict) dict {
		more["item_id"], more["output_index"], more["content_index"] = id, index, 0
		return more
	}
	empty := responsesMessage(rep, "")
	empty["status"], empty["content"] = "in_progress", []any{}
	out := []event{
		namedEvent("response.output_item.added", dict{"output_index": index, "item": empty}),
		namedEvent("response.content_part.added", at(dict{"part": dict{"type": "output_text", "text": "", "annotations": []any{}}})),
	}
	for _, part := range []string{string(half[:len(half)/2]), string(half[len(half)/2:])} {
		out = append(out, markRepeatable(namedEvent("response.output_text.delta", at(dict{"delta": part}))))
	}
	return append(out, namedEvent("response.output_text.done", at(dict{"text": rep.text})))
}

// responsesDeltas says what a call is called with, which is in the item's field.
func responsesDeltas(index int, item dict, field, name string) []event {
	empty := maps.Clone(item)
	empty["status"], empty[field] = "in_progress", ""
	return []event{
		namedEvent("response.output_item.added", dict{"output_index": index, "item": empty}),
		namedEvent(name+".delta", dict{"item_id": item["id"], "output_index": index, "delta": item[field]}),
		namedEvent(name+".done", dict{"item_id": item["id"], "output_index": index, field: item[field]}),
	}
}

func (responses) failureBody(f Failure) any { return openAIFailure(f) }
