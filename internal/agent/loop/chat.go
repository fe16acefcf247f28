package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// chat is OpenAI's Chat Completions, which many servers speak.
type chat struct {
	// thoughtsByTokens says that how much may be thought is said in tokens.
	thoughtsByTokens bool
}

func (chat) path() string { return "/v1/chat/completions" }

// writeRequest leaves it to the guard how the bound of an answer is called: servers differ.
func (c chat) writeRequest(l *loop, free bool) ([]byte, error) {
	request := object{"model": l.Model, "messages": chatOf(l.System, l.history)}
	if l.Thinking > 0 && c.thoughtsByTokens {
		request["reasoning"] = object{"max_tokens": l.Thinking}
	}
	if tools := l.offered(); len(tools) > 0 {
		var all []object
		for _, t := range tools {
			all = append(all, object{"type": "function", "function": object{"name": t.Name, "description": t.About, "parameters": t.Schema}})
		}
		request["tools"] = all
		if !free {
			request["tool_choice"] = "none"
		}
	}
	return json.Marshal(request)
}

func chatOf(system string, history []turn) []any {
	all := []any{object{"role": "system", "content": system}}
	for _, t := range history {
		if t.Said != nil {
			all = append(all, t.Said)
			continue
		}
		for _, r := range t.Results {
			text := r.Text
			if r.Failed {
				text = "[error] " + text
			}
			all = append(all, object{"role": "tool", "tool_call_id": r.ID, "content": text})
		}
		if t.Asked != "" {
			all = append(all, object{"role": "user", "content": t.Asked})
		}
	}
	return all
}

func (chat) writeSaid(text string) json.RawMessage {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	raw, err := json.Marshal(object{"role": "assistant", "content": text})
	if err != nil {
		return nil
	}
	return raw
}

func (chat) readAnswer(body []byte) (answer, error) {
	var doc struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
				Refusal string `json:"refusal"`
				Calls   []struct {
					ID       string `json:"id"`
					Function struct {
						Name      string `json:"name"`
						Arguments string `json:"arguments"`
					} `json:"function"`
				} `json:"tool_calls"`
			} `json:"message"`
			Reason string `json:"finish_reason"`
		} `json:"choices"`
		Usage struct {
			Total int `json:"total_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return answer{}, fmt.Errorf("it is no JSON: %w", err)
	}
	if len(doc.Choices) == 0 {
		return answer{}, errors.New("it is no completion")
	}
	choice := doc.Choices[0]
	a := answer{text: choice.Message.Content, stop: stops[choice.Reason], reason: choice.Reason, tokens: doc.Usage.Total}
	if choice.Reason == "error" { // of a gateway, whose model failed in the middle
		return answer{}, errors.New("the model failed in the middle of it")
	}
	if choice.Message.Refusal != "" {
		a.stop = stopRefused
	}
	said := object{"role": "assistant", "content": a.text}
	var calls []object
	for i, c := range choice.Message.Calls {
		if c.ID == "" {
			c.ID = fmt.Sprintf("call_%d_%d", a.tokens, i)
		}
		input, wrong := readInput([]byte(c.Function.Arguments))
		a.calls = append(a.calls, call{c.ID, c.Function.Name, input, wrong})
		calls = append(calls, object{"id": c.ID, "type": "function", "function": object{"name": c.Function.Name, "arguments": string(input)}})
	}
	if len(calls) > 0 {
		said["tool_calls"] = calls
	} else if strings.TrimSpace(a.text) == "" {
		return a, nil
	}
	raw, err := json.Marshal(said)
	a.said = raw
	return a, err
}
