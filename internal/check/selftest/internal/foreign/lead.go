package foreign

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier/internal/check/selftest/internal/target"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
)

// lead is a model that looks at the tools of an agent it does not know, takes the one
// that runs commands, and orders one after another.
type lead struct {
	door   *target.Door
	sign   sign
	orders []Order

	mu    sync.Mutex
	first int                 // turns that the history held when the agent first asked
	turns []fakemodel.Request // when a turn of the agent's was first asked for
}

// scenario is how the model's is called.
const scenario = "orders"

// aside answers what is asked beside the work, in the fields of those who insist on
// some: titles, and gemini's choice of a model, which it asks for until it has one.
const aside = `{"title": "A Pod that restarts", "reasoning": "It is one Pod.", "model_choice": "pro", "complexity_reasoning": "It is one Pod.", "complexity_score": 50}`

// answerTurn orders what the turn is for: the sign at first, and nothing more until that
// was seen.
func (l *lead) answerTurn(r fakemodel.Request) fakemodel.Step {
	l.mu.Lock()
	defer l.mu.Unlock()
	call, ok := findRunner(r)
	if !ok {
		return fakemodel.Step{Text: aside} // or an agent's agent that runs nothing
	}
	if len(l.turns) == 0 {
		l.first = r.Turn
	}
	n := r.Turn - l.first
	if n == len(l.turns) {
		l.turns = append(l.turns, r)
	}
	switch {
	case n < 0 || n > len(l.orders):
		return fakemodel.Step{Text: "Done."}
	case n == 0:
		return fakemodel.Step{Tools: []fakemodel.ToolCall{call(l.sign.readCommand())}}
	case !l.sign.isSeenAt(l.door):
		return fakemodel.Step{Text: "Stop here."}
	}
	return fakemodel.Step{Tools: []fakemodel.ToolCall{call(l.orders[n-1].Command)}}
}

// explainSilence says why the sign was not seen, as far as that can be told.
func (l *lead) explainSilence(asked int, said string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case asked == 0:
		return "it never asked its model. It said: " + said
	case len(l.turns) == 0:
		return "it has no tool for its model that runs commands. It said: " + said
	case len(l.turns) == 1:
		return "it ended before its model heard of it. It said: " + said
	}
	return "its model heard: " + l.turns[1].TextSince(l.turns[0])
}

// hasOrdered reports whether anything but the sign was.
func (l *lead) hasOrdered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.turns) > 1
}

// ranPerOrder tells what came of each order. It is made when the agent came back with an
// answer, or when it was seen at the Door.
func (l *lead) ranPerOrder() []Ran {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Ran, len(l.orders))
	for n := 1; n < len(l.turns) && n <= len(l.orders); n++ {
		r, until := &all[n-1], time.Now()
		if n+1 < len(l.turns) {
			until, r.Made, r.Output = l.turns[n+1].At, true, l.turns[n+1].TextSince(l.turns[n])
		}
		r.Visits = l.door.VisitsBetween(l.turns[n].At, until)
		r.Made = r.Made || slices.ContainsFunc(r.Visits, func(v target.Visit) bool { return !v.Plain })
	}
	return all
}

// parameter is one of a tool's.
type parameter struct {
	Type  any `json:"type"`
	Items struct {
		Type string `json:"type"`
	} `json:"items"`
	Enum []any `json:"enum"`
}

// hasType compares the type, which some write in capitals, and some as a list.
func (p parameter) hasType(kind string) bool {
	return strings.Contains(strings.ToLower(fmt.Sprint(p.Type)), kind)
}

// commandNames are what tools call the command that they run.
var commandNames = []string{"command", "cmd", "script", "commands", "command_line", "shell_command", "bash_command"}

// findRunner finds the tool on offer that runs commands, and how it is called. A shell is
// taken before what runs kubectl alone.
func findRunner(r fakemodel.Request) (call func(string) fakemodel.ToolCall, ok bool) {
	best := 0
	for i, tool := range r.Tools {
		var schema struct {
			Properties map[string]parameter `json:"properties"`
			Required   []string             `json:"required"`
		}
		if json.Unmarshal(r.Schemas[i], &schema) != nil {
			continue
		}
		at := slices.IndexFunc(commandNames, func(n string) bool { _, has := schema.Properties[n]; return has })
		if at < 0 {
			continue
		}
		score := 1
		for _, word := range []string{"bash", "shell", "terminal", "exec", "command"} {
			if strings.Contains(strings.ToLower(tool), word) {
				score = 2
			}
		}
		if score > best {
			best, call = score, newCaller(tool, commandNames[at], schema.Properties, schema.Required)
		}
	}
	if best == 0 && slices.Contains(r.Tools, "exec") {
		// It takes code and has no schema: what the code calls is codex's exec_command.
		best, call = 1, func(command string) fakemodel.ToolCall {
			return fakemodel.ToolCall{Name: "exec_command", Input: map[string]any{"cmd": command}}
		}
	}
	return call, best > 0
}

// newCaller calls a tool with a command, and with something for whatever else it requires.
func newCaller(tool, name string, properties map[string]parameter, required []string) func(string) fakemodel.ToolCall {
	return func(command string) fakemodel.ToolCall {
		input := map[string]any{name: command}
		if properties[name].hasType("array") {
			input[name] = []any{"bash", "-c", command}
		}
		for _, n := range required {
			if n != name {
				input[n] = fillerValue(properties[n])
			}
		}
		return fakemodel.ToolCall{Name: tool, Input: input}
	}
}

func fillerValue(p parameter) any {
	switch {
	case len(p.Enum) > 0:
		return p.Enum[0]
	case p.hasType("bool"):
		return false
	case p.hasType("int"), p.hasType("number"):
		return 30
	case p.hasType("array"):
		return []any{}
	case p.hasType("object"):
		return map[string]any{}
	}
	return "look"
}
