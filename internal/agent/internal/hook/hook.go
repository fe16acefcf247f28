// Package hook judges the shell commands of agents whose CLI asks this program before it runs one.
package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/readonly"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// Command is the hidden command by which a CLI asks this program whether a
// shell command may be run: hook DIALECT WORKSPACE [VERB…].
const Command = "hook"

// dialect is how a CLI asks before it runs a tool.
type dialect struct {
	// asked reads a question: the shell command, and the directory that it is to run
	// in. Its error is told to the model.
	asked func(question []byte) (command, dir string, err error)
	// answer says yes, or no for a reason.
	answer func(refusal error) any
}

// dialects are those of the CLIs that can ask, by the name in their command.
var dialects = map[string]dialect{"claude": claudeHook}

// maxQuestion bounds a question; a command has to be far shorter.
const maxQuestion = 1 << 20

// AnswerQuestion is the body of the hidden command. It answers a question from stdin on
// stdout, and returns an exit code. Where it cannot answer it fails, which every CLI
// that asks is set up to take for a no.
func AnswerQuestion(args []string, stdin io.Reader, stdout io.Writer) int {
	if len(args) < 2 {
		return 2
	}
	d, ok := dialects[args[0]]
	if !ok {
		return 2
	}
	question, err := io.ReadAll(io.LimitReader(stdin, maxQuestion+1))
	if err != nil {
		return 2
	}
	answer := d.answer(judgeCommand(d, readonly.Checker{Workspace: args[1], Policy: readonly.Policy{Verbs: args[2:]}}, question))
	if json.NewEncoder(stdout).Encode(answer) != nil {
		return 2
	}
	return 0
}

// judgeCommand returns why a command may not be run, nil when it may.
func judgeCommand(d dialect, k readonly.Checker, question []byte) error {
	if len(question) > maxQuestion {
		return nightcrier.Errorf(nightcrier.Refused, "the command is too long")
	}
	command, dir, err := d.asked(question)
	if err != nil {
		return err
	}
	if dir = filepath.Clean(dir); dir != k.Workspace && !strings.HasPrefix(dir, k.Workspace+"/") {
		return nightcrier.Errorf(nightcrier.Refused, "commands are run in the workspace: cd %s first", k.Workspace)
	}
	return k.Check(command)
}

// CommandLine is the shell command that asks the program self in that dialect whether a command
// may be run in the workspace, and what must be readable for it to run.
func CommandLine(self, dialect, workspace string, verbs []string) (line string, read []string, err error) {
	if self == "" {
		return "", nil, nightcrier.Errorf(nightcrier.Internal, "the path of this program is not known, and no command could be judged")
	}
	if read, err = sandbox.ProgramFiles(self); err != nil {
		return "", nil, err
	}
	words := append([]string{read[0], Command, dialect, workspace}, verbs...)
	for i, w := range words {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(words, " "), read, nil
}

// claudeHook is claude's PreToolUse protocol. The CLI takes a hook that is missing,
// fails or hangs for no opinion, so the hook is what allows: no rule allows Bash, and
// nobody is there to be asked.
var claudeHook = dialect{asked: claudeAsks, answer: claudeAnswer}

// Refusal begins the reason of a refusal. The CLI shows the model a reason as the
// call's result, where we find it again.
const Refusal = "This investigation only reads: "

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
		d.Decision, d.Reason = "deny", Refusal+refusal.Error()
	}
	return map[string]any{"hookSpecificOutput": d}
}

// answerSeconds is how long an answer may take. It takes milliseconds; a machine that
// is out of breath gets a refusal.
const answerSeconds = 20

// ClaudeSettings makes claude ask the hook before it runs a command.
func ClaudeSettings(hook string) (string, error) {
	type dict = map[string]any
	out, err := json.Marshal(dict{"hooks": dict{"PreToolUse": []any{dict{
		"matcher": "Bash",
		"hooks":   []any{dict{"type": "command", "command": hook, "timeout": answerSeconds}},
	}}}})
	return string(out), err
}
