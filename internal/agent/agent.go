package agent

import (
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/readonly"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox"
	"nightcrier.dev/nightcrier/internal/text"
)

// Job is what an agent is asked to do, and where.
type Job struct {
	// Spec is how it is started and bounded. Its Provider, never empty, is whose API the
	// model guard speaks.
	Spec
	IncidentID, Cluster, Namespace string
	// Workspace is the incident's directory; OutputDir is where the agent finds
	// its output directory.
	Workspace, OutputDir string
	// Kubeconfig is the file that the agent is pointed at. Kubectl is the path of a
	// kubectl for it, "" where it leads nowhere or there is none.
	Kubeconfig, Kubectl string
	// Allowed is what AllowedTools comes to; each executor says it in its CLI's words.
	Allowed readonly.Policy
	// ModelURL and ModelToken lead to the model guard; empty without one.
	ModelURL, ModelToken string
	// ToolsURL and ToolsToken lead to our MCP server, empty without one: the token goes
	// into an Authorization header (Bearer). Tools are
	// the names of what it offers; where the agent cannot look into the cluster they
	// are those that read the workspace's files alone. An agent with a shell that gets
	// the server gets its tools beside the shell.
	ToolsURL, ToolsToken string
	Tools                []string
	// Session is an earlier session of the same executor to go on with; empty begins
	// a new one.
	Session string
	// Self is the path of this program, for CLIs that can ask it before they run a
	// command.
	Self string
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
	// Files are written into the workspace before the start, by their path in it:
	// the CLI's own configuration. They hold no secret but the run's tokens.
	Files map[string][]byte
	// Notes tell what was narrowed of what was asked for.
	Notes []string
}

// Executor is one kind of agent.
type Executor struct {
	Name string
	// Command is the usual name of its CLI, Package what npm calls it; empty for
	// what the operator brings. Alias is what the package calls the command where that
	// is another name; it is looked for second.
	Command, Alias, Package string
	// Versions are those that it was tested with, the preferred one first. Another
	// one may work; doctor says so.
	Versions []string
	// Loop says that it is our own: the worker runs it itself, without a program and a sandbox.
	// SingleCall has its model answer at once, without tools.
	Loop, SingleCall bool
	// NeedsModel says that it cannot work without a model key.
	NeedsModel bool
	// Providers are those whose models it can use, the usual one first.
	Providers []nightcrier.Provider
	// DefaultModel is asked for where none is configured; empty leaves the choice to
	// the CLI, unless NamesModel says that it has to be told one.
	DefaultModel string
	NamesModel   bool
	// UsesTools says that it looks into the cluster with the tools of our MCP server
	// and has no shell; others run kubectl. ToolPrefix is what it puts in front of the
	// names of our tools, empty for one that cannot be given any.
	UsesTools  bool
	ToolPrefix string
	// FileTool is the tool that it reads files with; empty is a shell's cat.
	FileTool string
	// AnswersOnly says that it can write no file: its report is its last message.
	AnswersOnly bool
	// PreloadInSystem says that what was found before the start goes into its system
	// prompt; for others it stands in front of the user prompt, because a cluster's words
	// should not have the authority of ours.
	PreloadInSystem bool
	// Instructions say where it puts our system prompt, for the record of what was sent.
	Instructions string
	// Obeys is the name of files that it takes for instructions wherever it reads beside one,
	// "" for none: what others wrote must not be called so.
	Obeys string
	// TurnsUncounted says that it knows no limit of turns: the worker counts the
	// model's answers and ends it at Job.MaxTurns.
	TurnsUncounted bool
	// RetriesUntold says that it is silent of calls of its model that fail and that it
	// makes again: the worker journals them.
	RetriesUntold bool
	// Resumes says that a session can be gone on with. Sessions are where it keeps them,
	// patterns of paths below its HOME: whoever goes on with one finds nothing else there
	// of what was.
	Resumes  bool
	Sessions []string
	// Stdin is the file of the workspace that it reads its prompt from; empty is
	// /dev/null.
	Stdin string
	// Prepare builds the invocation; its errors are start errors.
	Prepare func(Job) (Invocation, error)
	// Calls are how a model makes it act.
	Calls Calls
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

// Resumed is implemented by parsers whose agent counts a session that is gone on
// with as a whole; it is told, before the first line, what was used before.
type Resumed interface{ Resumed(before nightcrier.Usage) }

// Complaining is implemented by parsers whose agent tells some things on stderr
// alone: it reads one line, which is journaled as it is besides.
type Complaining interface {
	Stderr(line []byte) []journal.Item
}

// Ender is implemented by parsers that hold something back: it is called once,
// after the last line.
type Ender interface{ End() []journal.Item }

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
	Unstarted bool
	// Unfinished says that it always has a last word and has not said it: to exit
	// with code 0 then is no success. Any executable can stand in agent.command: of one
	// that has not said a word of its CLI's language, none is expected.
	Unfinished   bool
	FinalMessage string
	SessionID    string
	// Usage is that of this invocation alone.
	Usage nightcrier.Usage
}

// Executors lists every executor, by name.
func Executors() []Executor {
	return []Executor{claudeCode(), codexExecutor(), geminiExecutor(), gooseExecutor(), ptcExecutor(), llmExecutor(), scriptExecutor(), triageScript()}
}

// CLIs are the executors that a vendor's program stands behind.
func CLIs() []Executor {
	return slices.DeleteFunc(Executors(), func(e Executor) bool { return e.Command == "" })
}

// WithoutShell is the executor with our tools in the place of its shell. Its error
// says that it cannot work so.
func (e Executor) WithoutShell() (Executor, error) {
	switch {
	case e.UsesTools, e.Loop:
		return e, nil
	case e.ToolPrefix == "":
		return e, nightcrier.Errorf(nightcrier.Invalid, "executor %s cannot work without a shell: choose another agent.executor, or leave agent.shell at true", e.Name)
	}
	prepare := e.Prepare
	e.UsesTools = true
	e.Prepare = func(j Job) (Invocation, error) {
		j.Shell = false
		return prepare(j)
	}
	return e, nil
}

// Install is the command that installs its CLI, in the version that is preferred.
func (e Executor) Install() string { return "npm install -g " + e.Package + "@" + e.Versions[0] }

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
func Decide(stop Stop, v Verdict, exit sandbox.Exit, stderr string) nightcrier.AgentResult {
	r := nightcrier.AgentResult{
		TerminalEvent: v.Terminal, Signal: exit.Signal, ExitCode: &exit.Code,
		SessionID: v.SessionID, Usage: v.Usage,
	}
	r.FinalMessage = text.KeepWords(v.FinalMessage, maxFinal)
	r.SessionID, r.TerminalEvent = cutWord(r.SessionID), cutWord(r.TerminalEvent)
	if r.TerminalEvent == "" {
		r.TerminalEvent = "missing"
	}
	switch {
	case stop.State != "":
		r.State, r.FailureClass, r.FailureReason = stop.State, stop.Class, stop.Reason
	case v.Failed:
		r.State, r.FailureClass, r.FailureReason = nightcrier.StateFailed, v.Class, v.Reason
	case exit.Code == 0 && v.Unfinished:
		r.State, r.FailureClass = nightcrier.StateFailed, nightcrier.FailCrash
		r.FailureReason = "the agent ended in the middle of its work, with exit code 0"
	case exit.Code == 0:
		r.State = nightcrier.StateSuccess
	default:
		r.State = nightcrier.StateFailed
		r.FailureClass = exitClass(exit, v)
		r.FailureReason = exitReason(exit, stderr)
	}
	return r
}

func exitClass(exit sandbox.Exit, v Verdict) nightcrier.FailureClass {
	switch {
	case exit.Signal != "" || exit.Code >= 128:
		return nightcrier.FailCrash
	case v.Unstarted:
		return nightcrier.FailStart
	}
	return nightcrier.FailAgent
}

func exitReason(exit sandbox.Exit, stderr string) string {
	reason := fmt.Sprintf("the agent exited with code %d", exit.Code)
	if exit.Signal != "" {
		reason = "the agent was killed by " + exit.Signal
	}
	if stderr = strings.TrimSpace(stderr); stderr != "" {
		reason += ": " + stderr
	}
	return reason
}

// toolVerbs are the kubectl verbs that our tools stand for. One that is not named
// reads no cluster.
var toolVerbs = map[string]string{
	"kubernetes_describe": "describe",
	"kubernetes_logs":     "logs",
	"kubernetes_get":      "get",
	"kubernetes_list":     "get",
	"kubernetes_events":   "get",
	"kubernetes_changes":  "get",
	"kubernetes_top":      "get",
}

// OfferedTools are the tools for an agent: of those that there are, the ones whose
// verb may be used. All of them only read. The notes say what is left out.
func OfferedTools(tools []string, may readonly.Policy) (offered, notes []string) {
	offered = []string{}
	for _, tool := range tools {
		verb, ofCluster := toolVerbs[tool]
		if ofCluster && !may.May(verb) {
			notes = append(notes, fmt.Sprintf("tool %s is left out: agent.allowed_tools does not name kubectl %s", tool, verb))
			continue
		}
		offered = append(offered, tool)
	}
	return offered, notes
}

// Call is a model's call of a tool, in the words of one CLI.
type Call struct {
	Tool  string
	Input map[string]any
}

// Calls are how a model asks an executor's CLI to act: what a scripted model says, to
// see what becomes of it. A call may be one that the CLI was not offered; it is then
// how a model would ask for it all the same. A script has none.
type Calls struct {
	// Shell runs a command.
	Shell func(command string) Call
	// Read reads a file, and Write writes one.
	Read  func(path string) Call
	Write func(path, text string) Call
	// Tool calls one of our MCP server's tools.
	Tool func(name string, args map[string]any) Call
}
