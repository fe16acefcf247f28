package agent

import (
	"cmp"
	"path/filepath"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// scriptExecutor runs any executable as an agent: it gets the workspace as its argument
// and leaves output/investigation.md. Its exit code is its last word.
func scriptExecutor() Executor {
	return Executor{
		Name:         "script",
		Instructions: "as context/system-instructions.txt, for the script to hand on",
		Prepare:      prepareScript,
		NewParser:    func() Parser { return &plainParser{} },
	}
}

// triageScript runs an executable of the operator's that looks around before the
// agent does, and prints what it finds. It takes the option that keeps it from
// dumping the whole cluster.
func triageScript() Executor {
	return Executor{Name: "triage-script", NewParser: func() Parser { return &plainParser{} },
		Prepare: func(j Job) (Invocation, error) {
			inv, err := prepareScript(j)
			if err != nil {
				return Invocation{}, err
			}
			inv.Argv = []string{inv.Argv[0], "--skip-dump"}
			return inv, nil
		}}
}

func prepareScript(j Job) (Invocation, error) {
	if j.ScriptPath == "" {
		return Invocation{}, nightcrier.Errorf(nightcrier.Invalid, "agent.script_path is empty; name the script to run")
	}
	path, err := filepath.Abs(j.ScriptPath)
	if err != nil {
		return Invocation{}, nightcrier.Errorf(nightcrier.Invalid, "agent.script_path %q: %w", j.ScriptPath, err)
	}
	if path, err = findProgram(path); err != nil {
		return Invocation{}, err
	}
	if err := checkRunnable(path); err != nil {
		return Invocation{}, err
	}
	read, err := sandbox.ProgramFiles(path)
	if err != nil {
		return Invocation{}, err
	}
	env := scriptEnv(j)
	env["PATH"] = pathWith(read...)
	tool, err := addKubectl(env, j.Kubectl)
	if err != nil {
		return Invocation{}, err
	}
	read = append(read, tool...)
	notes := addExtra(env, j.ExtraEnv)
	if j.SkillsDir != "" {
		read = append(read, j.SkillsDir) // it lies outside the workspace
	}
	return Invocation{Argv: []string{path, j.Workspace}, Env: listEnv(env), Read: read, Notes: notes}, nil
}

func scriptEnv(j Job) map[string]string {
	env := baseEnv(j)
	env["WORKSPACE_DIR"] = j.Workspace
	env["OUTPUT_DIR"] = j.OutputDir
	env["AGENT_CLI"] = cmp.Or(j.CLI, "claude")
	env["AGENT_MODEL"] = j.Model
	env["AGENT_TIMEOUT"] = strconv.Itoa(int(j.Timeout.Seconds()))
	env["AGENT_ALLOWED_TOOLS"] = strings.Join(j.Allowed.Words(), ",")
	env["SKILLS_DIR"] = cmp.Or(j.SkillsDir, filepath.Join(j.Workspace, ".claude", "skills"))
	env["DISABLE_TRIAGE_PRELOAD"] = strconv.FormatBool(!j.Preload)
	addModel(env, j)
	return env
}

// plainParser takes every line as it is. The last lines are the final message.
type plainParser struct{ tail []byte }

// plainTail is how much of a plain output counts as its final message.
const plainTail = 4 << 10

func (p *plainParser) Stdout(line []byte, cut bool) []journal.Item {
	p.tail = append(append(p.tail, line[max(0, len(line)-plainTail):]...), '\n')
	if len(p.tail) > 4*plainTail { // seldom, so that short lines stay cheap
		p.tail = append(p.tail[:0], p.outputTail()...)
	}
	return []journal.Item{PlainLine("stdout", line, cut)}
}

func (p *plainParser) outputTail() []byte { return p.tail[max(0, len(p.tail)-plainTail):] }

func (p *plainParser) Abort() bool { return false }

func (p *plainParser) Verdict() Verdict {
	return Verdict{FinalMessage: strings.ToValidUTF8(strings.TrimSpace(string(p.outputTail())), "")}
}

// PlainLine is a line of output as a log entry.
func PlainLine(stream string, line []byte, cut bool) journal.Item {
	l := logText(stream, strings.ToValidUTF8(string(line), "\uFFFD"))
	l.Truncated = l.Truncated || cut
	return journal.OfLog(l)
}
