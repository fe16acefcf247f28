package agent

import (
	"encoding/json"
	"io"
	"path/filepath"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/readonly"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// HookCommand is the hidden command by which a CLI asks this program whether a
// shell command may be run: hook DIALECT WORKSPACE [VERB…].
const HookCommand = "hook"

// hookDialect is how a CLI asks before it runs a tool.
type hookDialect struct {
	// asked reads a question: the shell command, and the directory that it is to run
	// in. Its error is told to the model.
	asked func(question []byte) (command, dir string, err error)
	// answer says yes, or no for a reason.
	answer func(refusal error) any
}

// hookDialects are those of the CLIs that can ask, by the name in their command.
var hookDialects = map[string]hookDialect{"claude": claudeHook}

// maxQuestion bounds a question; a command has to be far shorter.
const maxQuestion = 1 << 20

// Hook is the body of the hidden command. It answers a question from stdin on
// stdout, and returns an exit code. Where it cannot answer it fails, which every CLI
// that asks is set up to take for a no.
func Hook(args []string, stdin io.Reader, stdout io.Writer) int {
	if len(args) < 2 {
		return 2
	}
	d, ok := hookDialects[args[0]]
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
func judgeCommand(d hookDialect, k readonly.Checker, question []byte) error {
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

// hookLine is the shell command that asks us in that dialect, and what must be
// readable for it to run.
func hookLine(j Job, dialect string) (line string, read []string, err error) {
	if j.Self == "" {
		return "", nil, nightcrier.Errorf(nightcrier.Internal, "the path of this program is not known, and no command could be judged")
	}
	if read, err = sandbox.ProgramFiles(j.Self); err != nil {
		return "", nil, err
	}
	words := append([]string{read[0], HookCommand, dialect, j.Workspace}, j.Allowed.Verbs...)
	for i, w := range words {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(words, " "), read, nil
}
