package fakemodel

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// A script that answers by itself sees what tools take, in every protocol.
func TestAnswerSeesWhatToolsTake(t *testing.T) {
	s := New(t)
	const schema = `{"type":"object","properties":{"command":{"type":"string"}}}`
	var seen []string
	s.MustAdd(t, "look", Scenario{Answer: func(r Request) Step {
		seen = append(seen, r.Path+" "+strings.Join(r.Tools, ",")+" "+string(r.Schemas[0]))
		return Step{Tools: []ToolCall{{Name: r.Tools[0], Input: map[string]any{"command": "answer-of-ours"}}}}
	}})
	for path, body := range map[string]string{
		"/v1/messages":                       `{"messages":[{"role":"user","content":"a"}],"tools":[{"name":"sh","input_schema":` + schema + `}]}`,
		"/v1/chat/completions":               `{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"sh","parameters":` + schema + `}}]}`,
		"/v1/responses":                      `{"input":"a","tools":[{"type":"function","name":"sh","parameters":` + schema + `}]}`,
		"/v1beta/models/m:generateContent?a": `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[{"name":"sh","parametersJsonSchema":` + schema + `}]}]}`,
		"/v1beta/models/m:generateContent?b": `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[{"name":"sh","parameters":` + schema + `}]}]}`,
	} {
		seen = nil
		resp, err := http.Post(s.URL("look")+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !strings.Contains(string(text), "answer-of-ours") || len(seen) != 1 || !strings.HasSuffix(seen[0], " sh "+schema) {
			t.Errorf("%s: %s, seen %q", path, text, seen)
		}
	}
}
