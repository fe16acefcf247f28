package fakemodel_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
)

// wire is how a client speaks one vendor's protocol: what every protocol must be
// able to say is tested over all of them.
type wire struct {
	name string
	path func(stream bool) string
	// ask offers the tool Bash, says go, and repeats the answers so far, each with
	// one call's result behind it.
	ask func(stream bool, answers ...string) message
	// errorType is where an error's type stands.
	errorType []any
	// stops are the words for: it calls a tool, it is done.
	stops [2]string
	// read puts an answer together, from one document or from a stream's events.
	read func(t *testing.T, documents []message) said
}

// said is what an answer says in any protocol.
type said struct {
	text, tool, input, stop string
	inputTokens, output     float64
}

var wires = []wire{anthropicWire, chatWire, responsesWire, geminiWire}

var anthropicWire = wire{
	name: "anthropic",
	path: func(bool) string { return "/v1/messages" },
	ask: func(stream bool, answers ...string) message {
		history := []message{user("go")}
		for _, a := range answers {
			history = append(history, assistant(a), user("result"))
		}
		return ask(stream, history...)
	},
	errorType: []any{"error", "type"}, stops: [2]string{"tool_use", "end_turn"},
	read: func(t *testing.T, documents []message) (s said) {
		for _, d := range documents {
			if content, ok := d["content"].([]any); ok {
				for _, b := range content {
					readBlock(t, &s, b)
				}
			}
			if block := at(d, "content_block"); block != nil {
				readBlock(t, &s, block)
			}
			s.text += str(at(d, "delta", "text"))
			if part := str(at(d, "delta", "partial_json")); part != "" {
				s.input = strings.TrimPrefix(s.input, "{}") + part
			}
			for _, usage := range []any{at(d, "message", "usage"), at(d, "usage")} {
				s.inputTokens = max(s.inputTokens, num(at(usage, "input_tokens")))
				s.output = max(s.output, num(at(usage, "output_tokens")))
			}
			s.stop += str(at(d, "delta", "stop_reason")) + str(at(d, "stop_reason"))
		}
		return s
	},
}

func readBlock(t *testing.T, s *said, block any) {
	t.Helper()
	s.text += str(at(block, "text"))
	if at(block, "type") == "tool_use" {
		input, err := json.Marshal(at(block, "input"))
		if err != nil {
			t.Fatal(err)
		}
		s.tool, s.input = str(at(block, "name")), string(input)
	}
}

var chatWire = wire{
	name: "openai-chat",
	path: func(bool) string { return "/v1/chat/completions" },
	ask: func(stream bool, answers ...string) message {
		history := []message{{"role": "system", "content": "help"}, user("go")}
		for _, a := range answers {
			history = append(history,
				message{"role": "assistant", "content": a, "tool_calls": []message{{"id": "c", "type": "function", "function": message{"name": "Bash", "arguments": "{}"}}}},
				message{"role": "tool", "tool_call_id": "c", "content": "result"})
		}
		return message{
			"model": "m", "stream": stream, "stream_options": message{"include_usage": true}, "messages": history,
			"tools": []message{{"type": "function", "function": message{"name": "Bash"}}},
		}
	},
	errorType: []any{"error", "type"}, stops: [2]string{"tool_calls", "stop"},
	read: func(t *testing.T, documents []message) (s said) {
		for _, d := range documents {
			s.inputTokens = max(s.inputTokens, num(at(d, "usage", "prompt_tokens")))
			s.output = max(s.output, num(at(d, "usage", "completion_tokens")))
			choice := at(d, "choices", 0)
			s.stop += str(at(choice, "finish_reason"))
			for _, part := range []any{at(choice, "message"), at(choice, "delta")} {
				s.text += str(at(part, "content"))
				s.tool += str(at(part, "tool_calls", 0, "function", "name"))
				s.input += str(at(part, "tool_calls", 0, "function", "arguments"))
			}
		}
		return s
	},
}

var responsesWire = wire{
	name: "openai-responses",
	path: func(bool) string { return "/v1/responses" },
	ask: func(stream bool, answers ...string) message {
		input := []message{{"type": "message", "role": "user", "content": []message{{"type": "input_text", "text": "go"}}}}
		for _, a := range answers {
			input = append(input,
				message{"type": "message", "role": "assistant", "content": []message{{"type": "output_text", "text": a}}},
				message{"type": "function_call", "call_id": "call_x_0_0", "name": "Bash", "arguments": "{}"},
				message{"type": "function_call_output", "call_id": "call_x_0_0", "output": "result"})
		}
		return message{"model": "m", "stream": stream, "input": input, "tools": []message{{"type": "function", "name": "Bash"}}}
	},
	errorType: []any{"error", "type"}, stops: [2]string{"completed", "completed"},
	read: func(t *testing.T, documents []message) (s said) {
		for _, d := range documents {
			s.text += str(at(d, "delta"))
			if response := at(d, "response"); response != nil { // the last event holds the whole answer
				d = message(response.(map[string]any))
			}
			s.stop, s.inputTokens, s.output = str(d["status"]), num(at(d, "usage", "input_tokens")), num(at(d, "usage", "output_tokens"))
			output, _ := d["output"].([]any)
			for _, item := range output {
				switch at(item, "type") {
				case "message":
					s.text = str(at(item, "content", 0, "text"))
				case "function_call":
					s.tool, s.input = str(at(item, "name")), str(at(item, "arguments"))
				}
			}
		}
		return s
	},
}

var geminiWire = wire{
	name: "gemini",
	path: func(stream bool) string {
		if stream {
			return "/v1beta/models/m:streamGenerateContent?alt=sse"
		}
		return "/v1beta/models/m:generateContent"
	},
	ask: func(stream bool, answers ...string) message {
		contents := []message{{"role": "user", "parts": []message{{"text": "go"}}}}
		for _, a := range answers {
			contents = append(contents,
				message{"role": "model", "parts": []message{{"text": a}, {"functionCall": message{"name": "Bash", "args": message{}}}}},
				message{"role": "user", "parts": []message{{"functionResponse": message{"name": "Bash", "response": message{"output": "result"}}}}})
		}
		return message{"stream": stream, "contents": contents, "tools": []message{{"functionDeclarations": []message{{"name": "Bash"}}}}}
	},
	errorType: []any{"error", "status"}, stops: [2]string{"STOP", "STOP"},
	read: func(t *testing.T, documents []message) (s said) {
		for _, d := range documents {
			s.inputTokens = max(s.inputTokens, num(at(d, "usageMetadata", "promptTokenCount")))
			s.output = max(s.output, num(at(d, "usageMetadata", "candidatesTokenCount")))
			s.stop += str(at(d, "candidates", 0, "finishReason"))
			parts, _ := at(d, "candidates", 0, "content", "parts").([]any)
			for _, p := range parts {
				s.text += str(at(p, "text"))
				if call := at(p, "functionCall"); call != nil {
					args, err := json.Marshal(at(call, "args"))
					if err != nil {
						t.Fatal(err)
					}
					s.tool, s.input = str(at(call, "name")), string(args)
				}
			}
		}
		return s
	},
}

// at walks into a document; nil where there is nothing.
func at(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, ok := v.(map[string]any)
			if m, named := v.(message); named {
				object, ok = m, true
			}
			if !ok {
				return nil
			}
			v = object[step]
		case int:
			list, ok := v.([]any)
			if !ok || step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}

func str(v any) string { s, _ := v.(string); return s }

func num(v any) float64 { n, _ := v.(float64); return n }

// call asks in this protocol, and returns the documents of the answer; err says
// that the connection broke before its end.
func (w wire) call(t *testing.T, base string, body message) (status int, documents []message, err error) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	stream, _ := body["stream"].(bool)
	resp, err := http.Post(base+w.path(stream), "application/json", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return resp.StatusCode, nil, err
		}
		return resp.StatusCode, []message{parsed(t, text)}, nil
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "[DONE]" {
			documents = append(documents, parsed(t, []byte(data)))
		}
	}
	return resp.StatusCode, documents, lines.Err()
}

func parsed(t *testing.T, text []byte) message {
	t.Helper()
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

// everyWire runs a test in each protocol, streamed and not.
func everyWire(t *testing.T, test func(t *testing.T, w wire, stream bool)) {
	for _, w := range wires {
		for name, stream := range map[string]bool{"stream": true, "plain": false} {
			t.Run(w.name+"/"+name, func(t *testing.T) { test(t, w, stream) })
		}
	}
}

func TestEveryProtocolSaysTheStep(t *testing.T) {
	s := fakemodel.New(t)
	s.MustAdd(t, "all", scenario(t, `{steps: [{text: "héllo", usage: {input: 7, output: 9}, tools: [{name: Bash, input: {command: ls}}]}, {text: second}]}`))
	everyWire(t, func(t *testing.T, w wire, stream bool) {
		status, documents, err := w.call(t, s.URL("all"), w.ask(stream))
		got := w.read(t, documents)
		if status != 200 || err != nil || got.text != "héllo" || got.tool != "Bash" || got.input != `{"command":"ls"}` || got.inputTokens != 7 || got.output != 9 || got.stop != w.stops[0] {
			t.Errorf("%d %v: %+v in %v", status, err, got, documents)
		}
		_, documents, _ = w.call(t, s.URL("all"), w.ask(stream, "héllo"))
		if got := w.read(t, documents); got.text != "second" || got.stop != w.stops[1] {
			t.Errorf("second turn: %+v", got)
		}
	})
}

func TestEveryProtocolFailsInItsOwnShape(t *testing.T) {
	everyWire(t, func(t *testing.T, w wire, stream bool) {
		s := fakemodel.New(t)
		s.MustAdd(t, "flaky", scenario(t, `{steps: [{text: fine, times: 1, error: {status: 429, message: busy}}]}`))
		status, documents, _ := w.call(t, s.URL("flaky"), w.ask(stream))
		if status != 429 || str(at(documents[0], w.errorType...)) == "" || str(at(documents[0], "error", "message")) != "busy" {
			t.Errorf("%d %v", status, documents)
		}
		if status, documents, _ = w.call(t, s.URL("flaky"), w.ask(stream)); status != 200 || w.read(t, documents).text != "fine" {
			t.Errorf("second attempt: %d %v", status, documents)
		}
	})
}

func TestEveryProtocolCanBeCut(t *testing.T) {
	everyWire(t, func(t *testing.T, w wire, stream bool) {
		s := fakemodel.New(t)
		s.MustAdd(t, "cut", scenario(t, `{steps: [{text: whole, cut: 1, times: 1}]}`))
		if _, _, err := w.call(t, s.URL("cut"), w.ask(stream)); err == nil {
			t.Error("the first answer ended properly, want a broken connection")
		}
		_, documents, err := w.call(t, s.URL("cut"), w.ask(stream))
		if got := w.read(t, documents); err != nil || got.text != "whole" {
			t.Errorf("the second answer: %+v, %v", got, err)
		}
	})
}

func TestEveryProtocolRefusesNonsense(t *testing.T) {
	s := fakemodel.New(t)
	everyWire(t, func(t *testing.T, w wire, stream bool) {
		if status, documents, _ := w.call(t, s.URL("plain"), message{"stream": stream}); status != 400 || at(documents[0], "error") == nil {
			t.Errorf("%d %v", status, documents)
		}
	})
}

// A client of Chat Completions that does not ask what a stream cost is not told.
func TestChatSaysUsageWhereAsked(t *testing.T) {
	s := fakemodel.New(t)
	body := chatWire.ask(true)
	delete(body, "stream_options")
	_, documents, err := chatWire.call(t, s.URL("plain"), body)
	if got := chatWire.read(t, documents); err != nil || got.text == "" || got.output != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// One turn of the Responses protocol is several items, whose results may stand
// among them.
func TestResponsesTurns(t *testing.T) {
	s := fakemodel.New(t)
	s.MustAdd(t, "steps", scenario(t, `{steps: [{text: zero}, {text: one}, {text: two}, {text: three}]}`))
	words := func(text string) message { return message{"type": "message", "role": "assistant", "content": text} }
	call := func(id string) message { return message{"type": "function_call", "call_id": id, "name": "Bash"} }
	result := func(id string) message {
		return message{"type": "function_call_output", "call_id": id, "output": []message{{"type": "input_text", "text": "r"}}}
	}
	for _, c := range []struct {
		name  string
		input []message
		want  string
	}{
		{"nothing yet", []message{user("go")}, "zero"},
		{"words and calls", []message{user("go"), words("a"), call("c_0_0"), call("c_0_1"), result("c_0_0"), result("c_0_1")}, "one"},
		{"results among calls", []message{user("go"), words("a"), call("c_0_0"), result("c_0_0"), call("c_0_1"), result("c_0_1")}, "one"},
		{"calls alone", []message{user("go"), call("c_0_0"), result("c_0_0"), call("c_1_0"), result("c_1_0")}, "two"},
		{"reasoning between", []message{user("go"), words("a"), {"type": "reasoning"}, call("c_0_0"), result("c_0_0"), {"type": "reasoning"}, words("b")}, "two"},
		{"another question", []message{user("go"), call("c_0_0"), result("c_0_0"), words("b"), user("more"), words("c"), user("still more")}, "three"},
	} {
		body := message{"model": "m", "input": c.input, "tools": []message{{"type": "function", "name": "Bash"}}}
		if _, documents, _ := responsesWire.call(t, s.URL("steps"), body); responsesWire.read(t, documents).text != c.want {
			t.Errorf("%s: %v, want step %q", c.name, documents, c.want)
		}
	}
}

// A tool is called the way it was offered; in code, where the client takes no other
// calls.
func TestResponsesCallForms(t *testing.T) {
	s := fakemodel.New(t)
	s.MustAdd(t, "forms", scenario(t, `{steps: [{tools: [{name: pods_list, input: {namespace: shop}}, {name: exec, input: {input: "text(1)"}}]}]}`))
	functions := message{"type": "namespace", "name": "mcp__k", "tools": []message{{"type": "function", "name": "pods_list"}}}
	exec := message{"type": "namespace", "name": "functions", "tools": []message{{"type": "custom", "name": "exec"}}}
	for _, c := range []struct {
		name  string
		body  message
		first message
	}{
		{"plain", message{"input": "go", "tools": []message{{"type": "function", "name": "pods_list"}}},
			message{"type": "function_call", "name": "pods_list", "namespace": nil, "arguments": `{"namespace":"shop"}`}},
		{"namespace", message{"input": "go", "tools": []message{{"type": "web_search"}, functions}},
			message{"type": "function_call", "name": "pods_list", "namespace": "mcp__k"}},
		{"code", message{"input": []message{{"type": "additional_tools", "tools": []message{exec}}, user("go")}},
			message{"type": "custom_tool_call", "name": "exec", "namespace": "functions",
				"input": `const name = Object.keys(tools).find(t => t === "pods_list" || t.endsWith("__" + "pods_list")) ?? "pods_list"; text(JSON.stringify(await tools[name]({"namespace":"shop"})))`}},
	} {
		_, documents, _ := responsesWire.call(t, s.URL("forms"), c.body)
		for field, want := range c.first {
			if got := at(documents[0], "output", 0, field); got != want {
				t.Errorf("%s: %s is %v, want %v", c.name, field, got, want)
			}
		}
	}
}

// What Gemini says of a stop has other words, the result of a tool any shape, and
// a stream that was not asked for as events is one list.
func TestGeminiForms(t *testing.T) {
	s := fakemodel.New(t)
	s.MustAdd(t, "forms", scenario(t, `{let: {id: 'evidence (E\d+)'}, steps: [{text: "seen", stop: max_tokens}, {text: "cites ${id}", stop: refusal}]}`))
	path := func(method string) string { return s.URL("forms") + "/v1beta/models/gemini-x:" + method }
	body := geminiWire.ask(true)
	resp, err := http.Post(path("streamGenerateContent"), "application/json", bytes.NewReader(marshal(t, body)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list []message
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || geminiWire.read(t, list).stop != "MAX_TOKENS" {
		t.Errorf("%v, %v", list, err)
	}
	contents := body["contents"].([]message)
	body["contents"] = append(contents,
		message{"role": "model", "parts": []message{{"text": "seen"}}},
		message{"role": "user", "parts": []message{{"functionResponse": message{"response": message{"list": []string{"x", "evidence E7"}, "n": 1}}}}})
	_, documents, _ := geminiWire.call(t, s.URL("forms"), body)
	if got := geminiWire.read(t, documents); got.text != "cites E7" || got.stop != "SAFETY" {
		t.Errorf("%+v", got)
	}
	resp, err = http.Post(path("countTokens"), "application/json", bytes.NewReader(marshal(t, body)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var counted message
	if err := json.NewDecoder(resp.Body).Decode(&counted); err != nil || num(counted["totalTokens"]) == 0 {
		t.Errorf("%v, %v", counted, err)
	}
	if r := s.Requests("forms")[0]; r.Model != "gemini-x" || r.Tools[0] != "Bash" {
		t.Errorf("recorded %+v", r)
	}
	resp, err = http.Post(path("batchGenerateContent"), "application/json", bytes.NewReader(marshal(t, body)))
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusNotFound {
		t.Errorf("another method: %d", resp.StatusCode)
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Goose sends each call of one turn as a message of its own, with its result behind
// it: it is one turn still, in either protocol.
func TestSplitTurnsCountOnce(t *testing.T) {
	s := fakemodel.New(t)
	s.MustAdd(t, "split", scenario(t, `{steps: [{text: first, tools: [{name: Bash, input: {n: 1}}, {name: Bash, input: {n: 2}}]}, {tools: [{name: Bash, input: {n: 3}}]}, {text: third}]}`))
	chat := func(text any, id string) []message {
		return []message{
			{"role": "assistant", "content": text, "tool_calls": []message{{"id": id, "type": "function", "function": message{"name": "Bash", "arguments": "{}"}}}},
			{"role": "tool", "tool_call_id": id, "content": "result"},
		}
	}
	blocks := func(_ any, id string) []message {
		return []message{
			{"role": "assistant", "content": []message{{"type": "tool_use", "id": id, "name": "Bash", "input": message{}}}},
			{"role": "user", "content": []message{{"type": "tool_result", "tool_use_id": id, "content": "result"}}},
		}
	}
	for _, c := range []struct {
		wire   wire
		prefix string
		turn   func(text any, id string) []message
	}{{chatWire, "call_", chat}, {anthropicWire, "toolu_", blocks}} {
		body := c.wire.ask(false)
		history, _ := body["messages"].([]message)
		history = append(history, c.turn("first", c.prefix+"split_0_0")...)
		history = append(history, c.turn(nil, c.prefix+"split_0_1")...)
		body["messages"] = append(history, c.turn(nil, c.prefix+"split_1_0")...)
		_, documents, err := c.wire.call(t, s.URL("split"), body)
		if got := c.wire.read(t, documents); err != nil || got.text != "third" {
			t.Errorf("%s: %+v, %v", c.wire.name, documents, err)
		}
	}
}
