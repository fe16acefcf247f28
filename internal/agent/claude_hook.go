package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"nightcrier.dev/nightcrier"
)

// claudeHook is claude's PreToolUse protocol. The CLI takes a hook that is missing,
// fails or hangs for no opinion, so the hook is what allows: no rule allows Bash, and
// nobody is there to be asked.
var claudeHook = hookDialect{asked: claudeAsks, answer: claudeAnswer}

// hookRefusal begins the reason of a refusal. The CLI shows the model a reason as the
// call's result, where we find it again.
const hookRefusal = "This investigation only reads: "

func claudeAsks(question []byte) (command, dir string, err error) {
	var tool string
	var unread json.RawMessage
	var background, unconfined bool
	asked, err := parseMembers(question)
	if err == nil {
		err = errors.Join(decodeMember(asked["tool_name"], &tool), decodeMember(asked["cwd"], &dir))
	}
	if err != nil {
		return "", "", nightcrier.Errorf(nightcrier.Refused, "the call is not understood")
	}
	if tool != "Bash" {
		return "", "", nightcrier.Errorf(nightcrier.Refused, "the tool %q is not available", tool)
	}
	input, err := parseMembers(asked["tool_input"])
	if err != nil {
		return "", "", nightcrier.Errorf(nightcrier.Refused, "the call is not understood")
	}
	known := map[string]any{
		"command": &command, "run_in_background": &background, "dangerouslyDisableSandbox": &unconfined,
		"description": &unread, "timeout": &unread,
	}
	for name, value := range input {
		into, ok := known[name]
		if !ok || decodeMember(value, into) != nil {
			return "", "", nightcrier.Errorf(nightcrier.Refused, "the call has an argument %.40q that is not understood", name)
		}
	}
	if background || unconfined {
		return "", "", nightcrier.Errorf(nightcrier.Refused, "commands run in the foreground and in the sandbox")
	}
	return command, dir, nil
}

// parseMembers returns those of a JSON object, by their very names: encoding/json takes COMMAND
// for command, and the last of two, where the CLI may take the first.
func parseMembers(object []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if begin, err := dec.Token(); err != nil || begin != json.Delim('{') {
		return nil, errors.New("no object")
	}
	all := map[string]json.RawMessage{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name := token.(string) // an object's names are
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		if _, twice := all[name]; twice {
			return nil, errors.New("a name that stands twice")
		}
		all[name] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than an object")
	}
	return all, nil
}

// decodeMember decodes a member, where it is there.
func decodeMember(value json.RawMessage, into any) error {
	if value == nil {
		return nil
	}
	return json.Unmarshal(value, into)
}

func claudeAnswer(refusal error) any {
	type decision struct {
		Event    string `json:"hookEventName"`
		Decision string `json:"permissionDecision"`
		Reason   string `json:"permissionDecisionReason,omitempty"`
	}
	d := decision{Event: "PreToolUse", Decision: "allow"}
	if refusal != nil {
		d.Decision, d.Reason = "deny", hookRefusal+refusal.Error()
	}
	return map[string]any{"hookSpecificOutput": d}
}

// hookSeconds is how long an answer may take. It takes milliseconds; a machine that
// is out of breath gets a refusal.
const hookSeconds = 20

// claudeSettings makes claude ask the hook before it runs a command.
func claudeSettings(hook string) (string, error) {
	type dict = map[string]any
	out, err := json.Marshal(dict{"hooks": dict{"PreToolUse": []any{dict{
		"matcher": "Bash",
		"hooks":   []any{dict{"type": "command", "command": hook, "timeout": hookSeconds}},
	}}}})
	return string(out), err
}
