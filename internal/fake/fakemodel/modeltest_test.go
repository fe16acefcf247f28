package fakemodel_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
)

type message map[string]any

func user(text string) message { return message{"role": "user", "content": text} }

func assistant(text string) message { return message{"role": "assistant", "content": text} }

// ask builds a request that offers a tool, unless tools is changed.
func ask(stream bool, messages ...message) message {
	return message{
		"model": "m", "max_tokens": 100, "stream": stream, "messages": messages,
		"tools": []message{{"name": "Bash"}},
	}
}

func post(t *testing.T, url string, body message) (int, http.Header, string) {
	t.Helper()
	resp := send(t, t.Context(), url, body)
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body) // an error is part of some tests: what came is what counts
	return resp.StatusCode, resp.Header, string(text)
}

func send(t *testing.T, ctx context.Context, url string, body message) *http.Response {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/messages", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func scenario(t *testing.T, yaml string) fakemodel.Scenario {
	t.Helper()
	sc, err := fakemodel.Parse([]byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

func TestTurnComesFromTheHistory(t *testing.T) {
	s := fakemodel.New(t)
	s.MustAdd(t, "two", scenario(t, `{steps: [{text: first, tools: [{name: Bash, input: {command: ls}}]}, {text: second}]}`))
	start, later := ask(false, user("go")), ask(false, user("go"), assistant("first"), user("result"))
	// out of order and repeated, as retries and parallel runs are
	for _, c := range []struct {
		body message
		want string
	}{{later, "second"}, {start, "first"}, {later, "second"}, {start, "first"}} {
		if status, _, body := post(t, s.URL("two"), c.body); status != 200 || !strings.Contains(body, `"text":"`+c.want+`"`) {
			t.Errorf("answer %d %s, want %q", status, body, c.want)
		}
	}
	reqs := s.Requests("two")
	if len(reqs) != 4 || reqs[0].Turn != 1 || reqs[1].Turn != 0 || reqs[0].Tools[0] != "Bash" {
		t.Errorf("recorded %+v", reqs)
	}
}

func TestRequestsWithoutToolsDoNotFollowTheScript(t *testing.T) {
	s := fakemodel.New(t)
	s.MustAdd(t, "tools", scenario(t, `{steps: [{text: scripted}]}`))
	s.MustAdd(t, "bare", scenario(t, `{without_tools: script, steps: [{text: scripted}]}`))
	body := ask(false, user("title?"))
	delete(body, "tools")
	for name, want := range map[string]bool{"tools": false, "bare": true} {
		if _, _, got := post(t, s.URL(name), body); strings.Contains(got, "scripted") != want {
			t.Errorf("%s: %s, scripted wanted: %v", name, got, want)
		}
	}
}

func TestValuesTravelFromToolResults(t *testing.T) {
	s := fakemodel.New(t)
	s.MustAdd(t, "let", scenario(t, `
let: {pod: 'pod/(\S+)', id: 'evidence (E\d+)'}
steps:
  - tools: [{name: Bash, input: {command: 'kubectl logs ${pod}', list: ['${id}'], keep: '${HOME}', n: 3}}]
`))
	result := message{"role": "user", "content": []message{{
		"type": "tool_result", "content": []message{{"type": "text", "text": "evidence E1\npod/web-1 evidence E12"}},
	}}}
	_, _, body := post(t, s.URL("let"), ask(false, user("go"), result))
	for _, want := range []string{`kubectl logs web-1`, `["E12"]`, "${HOME}", `"n":3`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s lacks %s", body, want)
		}
	}
	if status, _, body := post(t, s.URL("let"), ask(false, user("nothing to find"))); status != 400 || !strings.Contains(body, "matches nothing") {
		t.Errorf("no match: %d %s, want a loud 400", status, body)
	}
}

func TestFailuresAndCutsStopAfterTheirTimes(t *testing.T) {
	s := fakemodel.New(t)
	s.MustAdd(t, "flaky", scenario(t, `{steps: [{text: fine, times: 2, error: {status: 529, message: busy, headers: {retry-after: "1"}}}]}`))
	for i, want := range []int{529, 529, 200, 200} {
		status, header, body := post(t, s.URL("flaky"), ask(false, user("go")))
		if status != want {
			t.Errorf("attempt %d: %d %s, want %d", i, status, body, want)
		}
		if want == 529 && (header.Get("retry-after") != "1" || !strings.Contains(body, "overloaded_error")) {
			t.Errorf("attempt %d: %v %s", i, header, body)
		}
	}
	// another conversation has attempts of its own
	if status, _, _ := post(t, s.URL("flaky"), ask(false, user("other"))); status != 529 {
		t.Errorf("another conversation's first attempt: %d, want 529", status)
	}
	for _, stream := range []bool{true, false} {
		name := map[bool]string{true: "stream", false: "plain"}[stream]
		s.MustAdd(t, name, scenario(t, `{steps: [{text: whole, cut: 3, times: 1}]}`))
		if _, err := readAll(send(t, t.Context(), s.URL(name), ask(stream, user("go")))); err == nil {
			t.Errorf("%s: the first answer ended properly, want a broken connection", name)
		}
		if _, err := readAll(send(t, t.Context(), s.URL(name), ask(stream, user("go")))); err != nil {
			t.Errorf("%s: the second answer: %v", name, err)
		}
	}
}

func readAll(resp *http.Response) (string, error) {
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func TestHoldWaitsForTheSignal(t *testing.T) {
	s := fakemodel.New(t)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if status, _, body := post(t, s.URL("hang"), ask(true, user("go"))); status != 200 || !strings.Contains(body, "message_stop") {
				t.Errorf("after release: %d %s", status, body)
			}
		})
	}
	<-s.Held("hang")
	s.Release("hang")
	s.Release("hang")
	wg.Wait()
}

func TestHeldCallerMayLeave(t *testing.T) {
	s := fakemodel.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		data, _ := json.Marshal(ask(true, user("go")))
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.URL("hang")+"/v1/messages", bytes.NewReader(data))
		_, err := http.DefaultClient.Do(req)
		done <- err
	}()
	<-s.Held("hang")
	cancel()
	if err := <-done; err == nil {
		t.Error("the caller that left got an answer")
	}
}

func TestStreamTellsTheSameAsPlain(t *testing.T) {
	s := fakemodel.New(t)
	s.MustAdd(t, "both", scenario(t, `{steps: [{text: "héllo", stop: max_tokens, usage: {input: 7, output: 9}, tools: [{name: Bash, input: {command: ls}}]}]}`))
	_, _, plain := post(t, s.URL("both"), ask(false, user("go")))
	var doc struct {
		Content []message
		Stop    string `json:"stop_reason"`
		Usage   map[string]int
	}
	if err := json.Unmarshal([]byte(plain), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Stop != "max_tokens" || doc.Usage["input_tokens"] != 7 || doc.Usage["output_tokens"] != 9 || len(doc.Content) != 2 {
		t.Errorf("plain = %s", plain)
	}
	text, input := streamed(t, s.URL("both"))
	if text != doc.Content[0]["text"] || input != `{"command":"ls"}` {
		t.Errorf("stream says %q and calls with %s; plain is %s", text, input, plain)
	}
}

// streamed puts the deltas of a streamed answer together.
func streamed(t *testing.T, url string) (text, input string) {
	t.Helper()
	resp := send(t, t.Context(), url, ask(true, user("go")))
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Delta struct {
				Text  string
				Input string `json:"partial_json"`
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		text, input = text+e.Delta.Text, input+e.Delta.Input
	}
	return text, input
}

func TestCallsBeyondTheScriptAreLoud(t *testing.T) {
	s := fakemodel.New(t)
	beyond := ask(false, user("go"), assistant("one"), user("more"))
	for name, want := range map[string]struct {
		body   message
		status int
	}{
		"plain":   {beyond, 400},
		"endless": {beyond, 200},
		"unknown": {ask(false, user("go")), 404},
		"hang":    {message{"messages": []message{}}, 400},
	} {
		if status, _, body := post(t, s.URL(name), want.body); status != want.status {
			t.Errorf("%s: %d %s, want %d", name, status, body, want.status)
		}
	}
}

func TestParseRefusesWhatCannotBePlayed(t *testing.T) {
	for yaml, want := range map[string]string{
		`{}`:                  "steps",
		`{steps: [{}]}`:       "says nothing",
		`{steps: [{txt: x}]}`: "txt",
		`{steps: [{text: x, repeat: true}, {text: y}]}`:  "repeat",
		`{steps: [{error: {status: 200}}]}`:              "no HTTP error",
		`{steps: [{text: x, times: 1}]}`:                 "times",
		`{steps: [{error: {status: 500}, times: 1}]}`:    "says nothing",
		`{steps: [{tools: [{input: {}}]}]}`:              "name",
		`{steps: [{text: x, hold_after: 2}]}`:            "hold_after",
		`{steps: [{tools: [{name: x}], endless: true}]}`: "endless",
		`{let: {a: "("}, steps: [{text: x}]}`:            "let.a",
		`{without_tools: no, steps: [{text: x}]}`:        "without_tools",
	} {
		if _, err := fakemodel.Parse([]byte(yaml)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that names %q", yaml, err, want)
		}
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	s := fakemodel.New(t)
	bad := fstest.MapFS{"broken.yaml": {Data: []byte("steps: []")}}
	if err := s.Load(bad); err == nil || !strings.Contains(err.Error(), "broken.yaml") {
		t.Errorf("Load = %v, want the file's name", err)
	}
	good := fstest.MapFS{"mine.yaml": {Data: []byte("steps: [{text: loaded}]")}}
	if err := s.Load(good); err != nil {
		t.Fatal(err)
	}
	if _, _, body := post(t, s.URL("mine"), ask(false, user("go"))); !strings.Contains(body, "loaded") {
		t.Errorf("answer = %s", body)
	}
}

func TestStreamWaitsInTheMiddle(t *testing.T) {
	s := fakemodel.New(t)
	s.MustAdd(t, "half", scenario(t, `{steps: [{text: one two, hold: rest, hold_after: 4}]}`))
	resp := send(t, t.Context(), s.URL("half"), ask(true, user("go")))
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), "text_delta") {
	}
	<-s.Held("rest")
	s.Release("rest")
	for lines.Scan() && !strings.Contains(lines.Text(), "message_stop") {
	}
	if lines.Text() == "" {
		t.Errorf("the stream did not go on: %v", lines.Err())
	}
}

func TestEndlessTextEndsWithTheCaller(t *testing.T) {
	s := fakemodel.New(t)
	s.MustAdd(t, "endless-text", scenario(t, `{steps: [{text: on and on, endless: true}]}`))
	resp := send(t, t.Context(), s.URL("endless-text"), ask(true, user("go")))
	defer resp.Body.Close()
	pieces := 0
	for lines := bufio.NewScanner(resp.Body); pieces < 50 && lines.Scan(); {
		if strings.Contains(lines.Text(), "text_delta") {
			pieces++
		}
	}
	if pieces != 50 {
		t.Errorf("%d pieces", pieces)
	}
}
