package fakemodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// openAIChat is OpenAI's Chat Completions protocol, which many servers speak.
type openAIChat struct{}

type chatRequest struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		Calls   []struct {
			ID string `json:"id"`
		} `json:"tool_calls"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

func (openAIChat) parseRequest(body []byte) (Request, error) {
	var c chatRequest
	if err := json.Unmarshal(body, &c); err != nil {
		return Request{}, fmt.Errorf("body: %w", err)
	}
	if len(c.Messages) == 0 {
		return Request{}, fmt.Errorf("messages: at least one is required")
	}
	req := Request{Model: c.Model, Stream: c.Stream}
	var text strings.Builder
	var turns turns
	for _, msg := range c.Messages {
		if msg.Role == "assistant" {
			call := ""
			if len(msg.Calls) > 0 {
				call = msg.Calls[0].ID
			}
			turns.countMessage(call)
		}
		blockText(&text, msg.Content)
		req.history = append(req.history, msg.Content...)
	}
	for _, tool := range c.Tools {
		req.Tools, req.Schemas = append(req.Tools, tool.Function.Name), append(req.Schemas, tool.Function.Schema)
	}
	req.Text, req.Turn = text.String(), turns.n
	return req, nil
}

func (openAIChat) plainAnswer(req Request, rep reply) any {
	message := dict{"role": "assistant", "content": nil}
	if rep.text != "" {
		message["content"] = rep.text
	}
	if len(rep.tools) > 0 {
		message["tool_calls"] = chatCalls(rep, false)
	}
	doc := chatDocument("chat.completion", req, rep)
	doc["choices"] = []any{dict{"index": 0, "message": message, "finish_reason": finishReason(rep), "logprobs": nil}}
	doc["usage"] = chatUsage(rep)
	return doc
}

// chatDocument is what an answer and each piece of one begin with.
func chatDocument(object string, req Request, rep reply) dict {
	return dict{"id": "chatcmpl-" + rep.id, "object": object, "created": 1_700_000_000, "model": req.Model}
}

// chatCalls are the calls of tools, numbered where they are pieces of a stream.
func chatCalls(rep reply, numbered bool) []any {
	var calls []any
	for i, call := range rep.tools {
		input, err := json.Marshal(call.Input)
		if err != nil { // YAML gave us nothing that JSON cannot say
			input = []byte("{}")
		}
		c := dict{"id": callID(rep, i), "type": "function", "function": dict{"name": call.Name, "arguments": string(input)}}
		if numbered {
			c["index"] = i
		}
		calls = append(calls, c)
	}
	return calls
}

func callID(rep reply, i int) string { return fmt.Sprintf("call_%s_%d", rep.id, i) }

func chatUsage(rep reply) dict {
	return dict{"prompt_tokens": rep.usage.Input, "completion_tokens": rep.usage.Output, "total_tokens": rep.usage.Input + rep.usage.Output}
}

// finishReason says why the model stopped; scenarios say it in Anthropic's words.
func finishReason(rep reply) string {
	switch {
	case rep.stop == "max_tokens":
		return "length"
	case rep.stop == "refusal":
		return "content_filter"
	case rep.stop != "":
		return rep.stop
	case len(rep.tools) > 0:
		return "tool_calls"
	}
	return "stop"
}

// answerEvents says the text in two halves and each call's arguments after its name, for
// a client to put together. What it cost stands in a piece without choices, where
// the request asks for it.
func (openAIChat) answerEvents(req Request, rep reply) []event {
	piece := func(delta dict, finish any) event {
		doc := chatDocument("chat.completion.chunk", req, rep)
		doc["choices"] = []any{dict{"index": 0, "delta": delta, "finish_reason": finish}}
		return event{data: doc}
	}
	out := []event{piece(dict{"role": "assistant", "content": ""}, nil)}
	if half := []rune(rep.text); len(half) > 0 {
		out = append(out,
			markRepeatable(piece(dict{"content": string(half[:len(half)/2])}, nil)),
			markRepeatable(piece(dict{"content": string(half[len(half)/2:])}, nil)))
	}
	for _, call := range chatCalls(rep, true) {
		c := call.(dict)
		f := c["function"].(dict)
		arguments := f["arguments"]
		f["arguments"] = ""
		out = append(out,
			piece(dict{"tool_calls": []any{c}}, nil),
			piece(dict{"tool_calls": []any{dict{"index": c["index"], "function": dict{"arguments": arguments}}}}, nil))
	}
	out = append(out, piece(dict{}, finishReason(rep)))
	if asksForUsage(req) {
		doc := chatDocument("chat.completion.chunk", req, rep)
		doc["choices"], doc["usage"] = []any{}, chatUsage(rep)
		out = append(out, event{data: doc})
	}
	return append(out, event{data: done{}})
}

// done is the end of a stream, the one event that is no JSON.
type done struct{}

func asksForUsage(req Request) bool {
	var c chatRequest
	return json.Unmarshal(req.Body, &c) == nil && c.StreamOptions.IncludeUsage
}

func (openAIChat) failureBody(f Failure) any { return openAIFailure(f) }

// openAIFailure is an error in the shape of OpenAI's protocols.
func openAIFailure(f Failure) dict {
	kind := f.Type
	if kind == "" {
		kind = openAIErrors[f.Status]
	}
	kind = cmp.Or(kind, "server_error")
	return dict{"error": dict{"message": f.Message, "type": kind, "param": nil, "code": openAICodes[f.Status]}}
}

var openAIErrors = map[int]string{
	http.StatusBadRequest:      "invalid_request_error",
	http.StatusUnauthorized:    "invalid_request_error",
	http.StatusForbidden:       "invalid_request_error",
	http.StatusNotFound:        "invalid_request_error",
	http.StatusTooManyRequests: "requests",
}

var openAICodes = map[int]any{
	http.StatusUnauthorized:    "invalid_api_key",
	http.StatusNotFound:        "model_not_found",
	http.StatusTooManyRequests: "rate_limit_exceeded",
}
