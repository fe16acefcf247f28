// Package agent knows the agents that can do a step: how each is called, what
// it is given, how its output reads, and when it has succeeded. One file an
// agent; what they share is here.
package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/journal"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

// Job is what an agent is asked to do, and where.
type Job struct {
	IncidentID, Cluster, Namespace string
	// Workspace is the incident's directory; OutputDir is where the agent finds
	// its output directory.
	Workspace, OutputDir string
	// Kubeconfig is the file that the agent is pointed at. Kubectl is the path of a
	// kubectl for it, "" where it leads nowhere or there is none.
	Kubeconfig, Kubectl string
	// Command is a CLI's path or name; empty is its usual name.
	Command      string
	ScriptPath   string
	Model        string
	MaxTurns     int
	AllowedTools []string
	Timeout      time.Duration
	// ModelURL and ModelToken lead to the model guard; empty without one.
	ModelURL, ModelToken string
	// ExtraEnv adds variables; it cannot replace those that we set.
	ExtraEnv map[string]string
}

// Invocation is a command ready to be confined and started.
type Invocation struct {
	// Argv has an absolute path first.
	Argv []string
	Env  []string
	// Read lists the program's own files, links resolved.
	Read []string
	// Notes tell what was narrowed of what was asked for.
	Notes []string
}

// Executor is one kind of agent.
type Executor struct {
	Name string
	// NeedsModel says that it cannot work without a model key.
	NeedsModel bool
	// Stdin is the file of the workspace that it reads its prompt from; empty is
	// /dev/null.
	Stdin string
	// Prepare builds the invocation; its errors are start errors.
	Prepare func(Job) (Invocation, error)
	// NewParser returns a parser for one invocation's output.
	NewParser func() Parser
}

// Parser reads an agent's output while it runs. It is used from one goroutine.
type Parser interface {
	// Stdout reads one line without its newline; cut tells that it was longer.
	Stdout(line []byte, cut bool) []journal.Item
	// Abort says that going on is pointless: stop the agent now, for the
	// verdict's reason.
	Abort() bool
	// Verdict is what the output says so far.
	Verdict() Verdict
}

// Verdict is the agent's own word.
type Verdict struct {
	// Terminal is its last word, e.g. "success"; empty when it has none.
	Terminal string
	// Failed says that the last word is a failure, of this class and reason.
	Failed bool
	Class  nightcrier.FailureClass
	Reason string
	// Unstarted says that the agent should have said something by now if its
	// command line was sound.
	Unstarted    bool
	FinalMessage string
	SessionID    string
	Usage        nightcrier.Usage
}

// Executors lists every executor that runs in a sandbox, by name.
func Executors() []Executor { return []Executor{claudeCode(), script(), triageScript()} }

// For returns the executor of that name, or an Invalid error.
func For(name string) (Executor, error) {
	all := Executors()
	i := slices.IndexFunc(all, func(e Executor) bool { return e.Name == name })
	if i >= 0 {
		return all[i], nil
	}
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = e.Name
	}
	return Executor{}, nightcrier.Errorf(nightcrier.Invalid, "agent.executor %q is none of %s", name, strings.Join(names, ", "))
}

// Stop is why we ended an agent ourselves; the zero Stop says that we did not.
type Stop struct {
	State  nightcrier.State
	Class  nightcrier.FailureClass
	Reason string
}

// maxWord bounds, in bytes, what should be a word: an agent writes what it likes.
const maxWord = 256

// maxFinal bounds the final message in a result.
const maxFinal = 256 << 10

// Decide returns how a step ended: our own reason to stop it comes first, then
// the agent's last word, then its exit code. stderr is the end of what it
// complained of, for the reason of a failure that has no better one.
func Decide(stop Stop, v Verdict, exit process.Exit, stderr string) nightcrier.AgentResult {
	r := nightcrier.AgentResult{
		TerminalEvent: v.Terminal, Signal: exit.Signal, ExitCode: &exit.Code,
		SessionID: v.SessionID, Usage: v.Usage,
	}
	r.FinalMessage, _ = journal.Clip(v.FinalMessage, maxFinal)
	r.SessionID, _ = journal.Clip(r.SessionID, maxWord)
	r.TerminalEvent, _ = journal.Clip(r.TerminalEvent, maxWord)
	if r.TerminalEvent == "" {
		r.TerminalEvent = "missing"
	}
	switch {
	case stop.State != "":
		r.State, r.FailureClass, r.FailureReason = stop.State, stop.Class, stop.Reason
	case v.Failed:
		r.State, r.FailureClass, r.FailureReason = nightcrier.StateFailed, v.Class, v.Reason
	case exit.Code == 0:
		r.State = nightcrier.StateSuccess
	default:
		r.State = nightcrier.StateFailed
		r.FailureClass = exitClass(exit, v)
		r.FailureReason = exitReason(exit, stderr)
	}
	return r
}

func exitClass(exit process.Exit, v Verdict) nightcrier.FailureClass {
	switch {
	case exit.Signal != "" || exit.Code >= 128:
		return nightcrier.FailCrash
	case v.Unstarted:
		return nightcrier.FailStart
	}
	return nightcrier.FailAgent
}

func exitReason(exit process.Exit, stderr string) string {
	reason := fmt.Sprintf("the agent exited with code %d", exit.Code)
	if exit.Signal != "" {
		reason = "the agent was killed by " + exit.Signal
	}
	if stderr = strings.TrimSpace(stderr); stderr != "" {
		reason += ": " + stderr
	}
	return reason
}
