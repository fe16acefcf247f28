package worker

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/guard/kept"
	"nightcrier.dev/nightcrier/internal/guard/model"
	"nightcrier.dev/nightcrier/internal/guard/tools"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

// runAttempt starts the agent once and returns how it ended, when its whole tree
// is verified gone.
func (w *worker) runAttempt(ctx context.Context) nightcrier.AgentResult {
	w.moveState(journal.State{To: nightcrier.StateStarting})
	if err := process.Adopt(); err != nil {
		w.log.Warn("processes that the agent hides may outlive it", "error", err)
	}
	a := &attempt{worker: w, blocked: blocked{worker: w}}
	defer a.endUpTo(endOfAll)
	if e, err := agent.For(w.spec.Executor); err == nil && e.Loop {
		a.executor = e
		return a.runLoop(ctx)
	}
	if err := a.startAgent(ctx); err != nil {
		a.killAgent()
		a.endUpTo(endOfTools)
		w.sweepBelow()
		return a.startFailure(err)
	}
	exit := a.awaitEnd()
	a.lastLook()
	a.endUpTo(endOfTools)
	w.sweepBelow()
	a.endUpTo(endOfGuards)
	a.tidyDisk()
	a.output.drainStreams()
	return a.decideResult(exit)
}

// sweepTimeout bounds one try to end what an agent left.
const sweepTimeout = 30 * time.Second

// sweepBelow ends what a sandbox without namespaces left below us. It never gives up: when
// this process is gone, nobody can find the others any more.
func (w *worker) sweepBelow() {
	for {
		err := runWithin(sweepTimeout, process.SweepBelow)
		if err == nil {
			return
		}
		w.log.Error("the agent is not gone yet", "error", err)
	}
}

func runWithin(limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return do(ctx)
}

// attempt is the agent with what confines it, serves it and records it.
type attempt struct {
	*worker
	executor agent.Executor
	parser   agent.Parser
	box      sandbox.Sandbox
	held     sandbox.Held // by the box, so far
	boxPID   int          // of a process above all that is in it
	guard    *model.Guard
	calls    *exchanges    // of the guard; nil when they cannot be kept
	account  *runAccount   // nil where nothing is counted
	cluster  *cluster      // nil when the agent cannot look into it
	records  *records      // nil for an agent that cannot look at anything
	tools    *tools.Server // nil for an agent that has all it needs in a shell
	output   *output
	blocked  blocked
	names    *names
	began    time.Time
	absent   []nightcrier.NotChecked // servers of tools that could not be opened
	kept     *kept.Attempt           // nil where what others answer is not kept
	ended    ending                  // the last step of the end that was taken, 0 for none
	// refused says that the model's API itself refused a call.
	refused atomic.Bool
	// answers says why an agent failed whose model's API failed.
	answers answers
	// unreachable is why the model's API was not reached, the last time.
	unreachable atomic.Pointer[string]
}

// startAgent prepares and starts the agent. Its errors are start errors, whatever
// was started by then.
func (a *attempt) startAgent(ctx context.Context) error {
	a.began = time.Now()
	var err error
	if a.executor, err = a.chosenExecutor(); err != nil {
		return err
	}
	a.parser = a.executor.NewParser()
	if p, ok := a.parser.(agent.Resumed); ok && a.spec.Session != "" {
		p.Resumed(a.spec.Used)
	}
	if err := a.prepareWorkspace(); err != nil {
		return err
	}
	if err := a.keepAnswers(); err != nil {
		return err
	}
	stdin, err := a.openStdin()
	if err != nil {
		return err
	}
	defer stdin.Close()
	if a.output, err = newOutput(a.worker, a.parser); err != nil {
		return err
	}
	guards := a.guardOpeners()
	box, err := process.New(ctx, process.Options{
		Stdin: stdin, Stdout: a.output.stdout.Theirs, Stderr: a.output.stderr.Theirs,
		Listen: len(guards), Names: true, Name: a.spec.WorkerName(), Owner: a.dir.OwnerName(),
		NoNamespaces:   a.spec.Require == agent.RequireNone,
		MaxMemoryBytes: a.spec.MaxMemoryBytes, MaxProcesses: a.spec.MaxProcesses, MaxCPUs: maxCPUs,
		UIDBase: a.spec.UIDBase,
	})
	a.output.closeTheirs()
	if err != nil {
		return err
	}
	a.box, a.held, a.boxPID = box, box.Held(), box.PID()
	a.names = serveNames(box.Names, func(name string) {
		a.blocked.noteAttempt("network", "resolve "+name, "nothing outside of the sandbox has a name in it")
	})
	return a.launchAgent(ctx, guards, box.Listeners)
}

// chosenExecutor is the executor that the spec asks for.
func (a *attempt) chosenExecutor() (agent.Executor, error) {
	e, err := agent.For(a.spec.Executor)
	if err == nil && !a.spec.Shell {
		e, err = e.WithoutShell()
	}
	return e, err
}

// launchAgent opens the guards on the listeners and starts the agent, confined.
func (a *attempt) launchAgent(ctx context.Context, guards []opener, listeners []net.Listener) error {
	if err := a.openGuards(ctx, guards, listeners); err != nil {
		return err
	}
	inv, err := a.executor.Prepare(a.newJob())
	if err != nil {
		return err
	}
	for _, n := range inv.Notes {
		a.appendNote("warn", n)
	}
	if err := a.writeFiles(inv.Files); err != nil {
		return err
	}
	command := sandbox.Command{Argv: inv.Argv, Env: inv.Env, Dir: a.spec.Workspace}
	err = a.box.Start(ctx, a.sandboxPolicy(inv), command, func(held sandbox.Held) error {
		a.held = held
		if err := a.requireLayers(held); err != nil {
			return err
		}
		if a.stopCause().State != "" {
			return nightcrier.Errorf(nightcrier.Interrupted, "stopped before the agent was started")
		}
		a.appendNote("info", startText(inv, a.spec.Workspace))
		return nil
	})
	if err != nil {
		return err
	}
	a.output.onFirst = func() {
		a.moveState(journal.State{To: nightcrier.StateRunning, Layers: a.held.Layers, Missing: process.Strict(a.held.Layers), PID: a.boxPID, Command: inv.Argv})
	}
	a.output.metered = a.guard != nil
	a.output.pumpStreams()
	return nil
}

// startText says what is started, where, and which variables it has; their values stay
// out of it.
func startText(inv agent.Invocation, dir string) string {
	names := make([]string, len(inv.Env))
	for i, kv := range inv.Env {
		names[i], _, _ = strings.Cut(kv, "=")
	}
	slices.Sort(names)
	return fmt.Sprintf("starting %s in %s, with the variables %s", inv.Argv[0], dir, strings.Join(names, " "))
}

// awaitEnd waits for the agent's end and sees to it that it comes: by its own
// will, by deadline, or because somebody asked.
func (a *attempt) awaitEnd() sandbox.Exit {
	deadline := time.AfterFunc(a.spec.Timeout, func() { a.requestStop(timedOut(a.spec.Timeout)) })
	defer deadline.Stop()
	watched := make(chan struct{})
	defer close(watched)
	go a.watchWorkspace(watched)
	select {
	case <-a.box.Done():
		return a.box.Wait()
	case <-a.stopped:
	}
	if err := a.box.Signal(syscall.SIGINT); err != nil {
		a.log.Warn("interrupt the agent", "error", err)
	}
	select {
	case <-a.box.Done():
	case <-time.After(a.spec.Grace):
		a.appendNote("warn", fmt.Sprintf("the agent did not end within %s of SIGINT and was killed", a.spec.Grace))
		a.box.Kill()
	}
	return a.box.Wait()
}

func (a *attempt) killAgent() {
	if a.box != nil {
		a.box.Kill()
		a.box.Wait()
	}
}

// ending is a step of an attempt's end.
type ending int

// The steps, in their order.
const (
	// endOfTools comes before a sweep, which awaits all that is below us: also the
	// commands behind the tools.
	endOfTools ending = iota + 1
	// endOfGuards comes when the agent is verified gone, so that nobody waits for what it
	// cuts. After it, all that was asked of the model is counted and on record.
	endOfGuards
	// endOfAll comes when the result is known.
	endOfAll
)

// endUpTo takes the steps up to this one that were not taken yet, each once and in order.
func (a *attempt) endUpTo(upTo ending) {
	for a.ended < upTo {
		a.ended++
		switch a.ended {
		case endOfTools:
			a.closeTools()
		case endOfGuards:
			a.closeGuards()
			a.endAnswers()
		case endOfAll:
			a.closeRest()
		}
	}
}

func (a *attempt) closeRest() {
	if a.box != nil {
		if err := a.box.Close(); err != nil {
			a.log.Warn("clean up after the sandbox", "error", err)
		}
	}
	if a.account != nil {
		a.account.close()
	}
	if a.cluster != nil {
		a.cluster.close()
	}
	if a.records != nil {
		a.records.close()
	}
	if a.output != nil {
		a.output.close()
	}
}
