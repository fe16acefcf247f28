package agent

import (
	"encoding/json"

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
	var q struct {
		Dir   string `json:"cwd"`
		Tool  string `json:"tool_name"`
		Input struct {
			Command    string `json:"command"`
			Background bool   `json:"run_in_background"`
			Unconfined bool   `json:"dangerouslyDisableSandbox"`
		} `json:"tool_input"`
	}
	switch err := json.Unmarshal(question, &q); {
	case err != nil:
		return "", "", nightcrier.Errorf(nightcrier.Refused, "the call is not understood")
	case q.Tool != "Bash":
		return "", "", nightcrier.Errorf(nightcrier.Refused, "the tool %q is not available", q.Tool)
	case q.Input.Background || q.Input.Unconfined:
		return "", "", nightcrier.Errorf(nightcrier.Refused, "commands run in the foreground and in the sandbox")
	}
	return q.Input.Command, q.Dir, nil
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
