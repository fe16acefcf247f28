package loop

import (
	"encoding/json"

	"nightcrier.dev/nightcrier"
)

// dialect is how one API is spoken.
type dialect interface {
	// path is where it is asked.
	path() string
	// writeRequest is the body of a request for the next message of a conversation.
	writeRequest(l *loop, free bool) ([]byte, error)
	// readAnswer reads a whole answer. An error says that it is none.
	readAnswer(body []byte) (answer, error)
	// writeSaid is a message of the model's that says this text and calls nothing, nil for "".
	writeSaid(text string) json.RawMessage
}

var dialects = map[nightcrier.Provider]dialect{
	nightcrier.Anthropic: messages{}, nightcrier.OpenAI: chat{}, nightcrier.OpenRouter: chat{thoughtsByTokens: true},
}

// stop is why the model stopped.
type stop int

const (
	stopEnded   stop = iota // it has said all, or waits for what comes of its calls
	stopCut                 // the answer was as long as it may be
	stopPaused              // it wants to go on
	stopRefused             // it does not want to answer
	stopWindow              // the conversation is as long as it may be
)

// stops are the reasons of all APIs. One that is not among them is taken for an end: what was
// said and called counts.
var stops = map[string]stop{
	"end_turn": stopEnded, "stop_sequence": stopEnded, "tool_use": stopEnded, "max_tokens": stopCut, "pause_turn": stopPaused, "refusal": stopRefused,
	"model_context_window_exceeded": stopWindow,
	"stop":                          stopEnded, "tool_calls": stopEnded, "function_call": stopEnded, "length": stopCut, "content_filter": stopRefused,
}

// call is a call of a tool.
type call struct {
	id, name string
	input    json.RawMessage // an object
	wrong    string          // why input is none, "" where it is
}

// answer is a message of the model's.
type answer struct {
	said   json.RawMessage // in the words of the API, to be sent back; nil for nothing
	text   string
	calls  []call
	stop   stop
	reason string // as the API says it
	tokens int    // of the conversation with the answer
}

// withoutCalls is the answer with its text alone.
func (a answer) withoutCalls(d dialect) answer {
	a.said, a.calls = d.writeSaid(a.text), nil
	return a
}

// readInput takes what a model wrote for the arguments of a call: an object, or nothing.
func readInput(raw []byte) (json.RawMessage, string) {
	if len(raw) == 0 {
		return json.RawMessage("{}"), ""
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return json.RawMessage("{}"), "its arguments are no JSON object"
	}
	return raw, ""
}
