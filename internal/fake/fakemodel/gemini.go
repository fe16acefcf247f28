package fakemodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// gemini is Google's generateContent protocol. The model and the method stand in
// the path, not in the body, so each call has a value of its own.
type gemini struct {
	model  string
	stream bool // as server-sent events
	list   bool // a stream that was not asked for as events is one JSON list
}

// serveGemini answers the calls of a model.
func (s *Server) serveGemini(w http.ResponseWriter, r *http.Request) {
	model, method, _ := strings.Cut(r.PathValue("call"), ":")
	d := gemini{model: model}
	switch method {
	case "generateContent":
	case "streamGenerateContent":
		d.stream = r.URL.Query().Get("alt") == "sse"
		d.list = !d.stream
	case "countTokens":
		geminiTokens(w, r, d)
		return
	default:
		writeFailure(w, d, Failure{Status: http.StatusNotFound, Message: fmt.Sprintf("method %q is not served", method)})
		return
	}
	s.serveDialect(d)(w, r)
}

// geminiTokens answers the side call that clients estimate their context with.
func geminiTokens(w http.ResponseWriter, r *http.Request, d gemini) {
	req, err := readRequest(d, r)
	if err != nil {
		writeFailure(w, d, Failure{Status: http.StatusBadRequest, Message: err.Error()})
		return
	}
	writePlain(w, dict{"totalTokens": estimateTokens(req.Text)}, 0)
}

type generateRequest struct {
	System   geminiContent     `json:"systemInstruction"`
	Contents []json.RawMessage `json:"contents"`
	Tools    geminiTools       `json:"tools"`
}

// geminiTools is a list of tools, or one of them: the API takes both.
type geminiTools []geminiTool

type geminiTool struct {
	Functions []struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"parametersJsonSchema"`
		Older  json.RawMessage `json:"parameters"`
	} `json:"functionDeclarations"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *geminiTools) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		*t = make(geminiTools, 1)
		return json.Unmarshal(data, &(*t)[0])
	}
	return json.Unmarshal(data, (*[]geminiTool)(t))
}

// geminiContent is what one side said.
type geminiContent struct {
	Role  string `json:"role"`
	Parts []struct {
		Text     string `json:"text"`
		Response *struct {
			Response json.RawMessage `json:"response"`
		} `json:"functionResponse"`
	} `json:"parts"`
}

func (d gemini) parseRequest(body []byte) (Request, error) {
	var g generateRequest
	if err := json.Unmarshal(body, &g); err != nil {
		return Request{}, fmt.Errorf("body: %w", err)
	}
	if len(g.Contents) == 0 {
		return Request{}, fmt.Errorf("contents: at least one is required")
	}
	req := Request{Model: d.model, Stream: d.stream}
	var text strings.Builder
	g.System.writeContent(&text)
	for i, raw := range g.Contents {
		var c geminiContent
		if err := json.Unmarshal(raw, &c); err != nil {
			return Request{}, fmt.Errorf("contents[%d]: %w", i, err)
		}
		if c.Role == "model" {
			req.Turn++
		}
		c.writeContent(&text)
		req.history = append(req.history, raw...)
	}
	for _, tool := range g.Tools {
		for _, f := range tool.Functions {
			if f.Schema == nil {
				f.Schema = f.Older
			}
			req.Tools, req.Schemas = append(req.Tools, f.Name), append(req.Schemas, f.Schema)
		}
	}
	req.Text = text.String()
	return req, nil
}

// writeContent writes the text of the parts, of which a tool's result is a JSON object
// of any shape.
func (c geminiContent) writeContent(b *strings.Builder) {
	for _, p := range c.Parts {
		if p.Text != "" {
			b.WriteString(p.Text + "\n")
		}
		if p.Response != nil {
			stringsIn(b, p.Response.Response)
		}
	}
}

// stringsIn writes every string of a JSON value.
func stringsIn(b *strings.Builder, raw json.RawMessage) {
	var fields map[string]json.RawMessage
	var items []json.RawMessage
	var text string
	switch {
	case json.Unmarshal(raw, &text) == nil:
		b.WriteString(text + "\n")
	case json.Unmarshal(raw, &fields) == nil:
		for _, v := range fields {
			stringsIn(b, v)
		}
	case json.Unmarshal(raw, &items) == nil:
		for _, v := range items {
			stringsIn(b, v)
		}
	}
}

func (d gemini) plainAnswer(_ Request, rep reply) any {
	parts := geminiCalls(rep)
	if rep.text != "" {
		parts = append([]any{dict{"text": rep.text}}, parts...)
	}
	whole := d.answerChunk(rep, parts, geminiFinish(rep))
	if d.list {
		return []any{whole}
	}
	return whole
}

// geminiPieces is in how many events a text arrives.
const geminiPieces = 6

// answerEvents says the text in pieces, for a client to put together.
func (d gemini) answerEvents(_ Request, rep reply) []event {
	var out []event
	text := []rune(rep.text)
	for i := range geminiPieces {
		if piece := text[len(text)*i/geminiPieces : len(text)*(i+1)/geminiPieces]; len(piece) > 0 {
			out = append(out, markRepeatable(event{data: d.answerChunk(rep, []any{dict{"text": string(piece)}}, "")}))
		}
	}
	for _, call := range geminiCalls(rep) {
		out = append(out, event{data: d.answerChunk(rep, []any{call}, "")})
	}
	return append(out, event{data: d.answerChunk(rep, []any{dict{"text": ""}}, geminiFinish(rep))})
}

// answerChunk returns one answer, or one part of a streamed one; only the last says why it
// ended. Each tells the tokens so far.
func (d gemini) answerChunk(rep reply, parts []any, finish string) dict {
	candidate := dict{"index": 0, "content": dict{"role": "model", "parts": parts}}
	usage := dict{"promptTokenCount": rep.usage.Input, "totalTokenCount": rep.usage.Input}
	if finish != "" {
		candidate["finishReason"] = finish
		usage["candidatesTokenCount"] = rep.usage.Output
		usage["totalTokenCount"] = rep.usage.Input + rep.usage.Output
	}
	return dict{"responseId": rep.id, "modelVersion": d.model, "candidates": []any{candidate}, "usageMetadata": usage}
}

func geminiCalls(rep reply) []any {
	var calls []any
	for _, call := range rep.tools {
		calls = append(calls, dict{"functionCall": dict{"name": call.Name, "args": call.Input}})
	}
	return calls
}

func geminiFinish(rep reply) string {
	switch rep.stop {
	case "":
		return "STOP"
	case "refusal":
		return "SAFETY"
	}
	return strings.ToUpper(rep.stop)
}

// failureBody: Google says when to come back in the body, not in a header.
func (gemini) failureBody(f Failure) any {
	status := f.Type
	if status == "" {
		status = geminiErrors[f.Status]
	}
	status = cmp.Or(status, "UNKNOWN")
	e := dict{"code": f.Status, "message": f.Message, "status": status}
	for name, after := range f.Headers {
		if http.CanonicalHeaderKey(name) == "Retry-After" {
			e["details"] = []dict{{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": after + "s"}}
		}
	}
	return dict{"error": e}
}

var geminiErrors = map[int]string{
	http.StatusBadRequest:          "INVALID_ARGUMENT",
	http.StatusUnauthorized:        "UNAUTHENTICATED",
	http.StatusForbidden:           "PERMISSION_DENIED",
	http.StatusNotFound:            "NOT_FOUND",
	http.StatusTooManyRequests:     "RESOURCE_EXHAUSTED",
	http.StatusInternalServerError: "INTERNAL",
	http.StatusServiceUnavailable:  "UNAVAILABLE",
	http.StatusGatewayTimeout:      "DEADLINE_EXCEEDED",
}
