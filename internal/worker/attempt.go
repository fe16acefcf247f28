package worker

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/guard/model"
	"nightcrier.dev/nightcrier/internal/journal"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

// attempt starts the agent once and returns how it ended, when its whole tree
// is verified gone. The error is that this could not be verified.
func (w *worker) attempt(ctx context.Context) (nightcrier.AgentResult, error) {
	w.move(journal.State{To: nightcrier.StateStarting})
	if err := process.Adopt(); err != nil {
		w.log.Warn("processes that the agent hides may outlive it", "error", err)
	}
	a := &attempt{worker: w}
	defer a.close()
	if err := a.start(ctx); err != nil {
		a.kill()
		if err := w.sweep(); err != nil {
			return nightcrier.AgentResult{}, err
		}
		return a.startFailure(err), nil
	}
	exit := a.await()
	if err := w.sweep(); err != nil {
		return nightcrier.AgentResult{}, err
	}
	a.tidy()
	a.output.drain()
	return a.result(exit), nil
}

// sweep ends what a namespace did not. What is below us it never gives up: once
// we were gone nobody could find it.
func (w *worker) sweep() error {
	for {
		err := within(sweepTimeout, process.SweepBelow)
		if err == nil {
			break
		}
		w.log.Error("the agent is not gone yet", "error", err)
	}
	return within(sweepTimeout, func(ctx context.Context) error { return process.Sweep(ctx, nil, w.spec.marks()...) })
}

func within(limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return do(ctx)
}

// attempt is the agent and what stands around it.
type attempt struct {
	*worker
	executor agent.Executor
	parser   agent.Parser
	box      *process.Box
	guard    *model.Guard
	cluster  *cluster // nil when the agent cannot look into it
	output   *output
}

// start prepares and starts the agent. Its errors are start errors, whatever
// was started by then.
func (a *attempt) start(ctx context.Context) error {
	var err error
	if a.executor, err = agent.For(a.spec.Executor); err != nil {
		return err
	}
	a.parser = a.executor.NewParser()
	if err := a.prepareWorkspace(); err != nil {
		return err
	}
	stdin, err := a.stdin()
	if err != nil {
		return err
	}
	defer stdin.Close()
	if a.output, err = newOutput(a.worker, a.parser); err != nil {
		return err
	}
	a.box, err = process.New(ctx, process.Options{
		Stdin: stdin, Stdout: a.output.stdout.theirs, Stderr: a.output.stderr.theirs,
		Binds:    []process.Bind{{From: a.scratch(), To: filepath.Join(a.spec.Workspace, "output")}},
		Writable: a.ownDirs(),
		Listen:   a.guards(), Name: a.spec.boxName(),
		NoNamespaces:   a.spec.Require == RequireNone,
		MaxMemoryBytes: a.spec.MaxMemoryBytes, MaxProcesses: a.spec.MaxProcesses,
	})
	a.output.started()
	if err != nil {
		return err
	}
	if err := a.recordInit(); err != nil {
		return err
	}
	return a.launch(ctx)
}

// ownDirs are the directories that the agent may write to.
func (a *attempt) ownDirs() []string {
	return []string{filepath.Join(a.spec.Workspace, "home"), filepath.Join(a.spec.Workspace, "tmp"), a.scratch()}
}

func (a *attempt) scratch() string { return filepath.Join(a.spec.Workspace, ".scratch") }

// prepareWorkspace makes the agent's own directories, where they are missing.
func (a *attempt) prepareWorkspace() error {
	ws, err := os.OpenRoot(a.spec.Workspace)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "workspace: %w", err)
	}
	defer ws.Close()
	for _, dir := range []string{"home", "tmp", ".scratch", ".scratch/artifacts", "output"} {
		if err := ws.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			return nightcrier.Errorf(nightcrier.Exhausted, "workspace: %w", err)
		}
	}
	return putKubeconfig(ws, []byte(emptyKubeconfig))
}

// The agent holds no cluster credential: its kubeconfig names the guard, or no
// cluster at all.
const (
	kubeconfigFile  = "home/kubeconfig"
	emptyKubeconfig = "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n"
)

// stdin opens the file that the executor reads its prompt from.
func (a *attempt) stdin() (*os.File, error) {
	if a.executor.Stdin == "" {
		return os.Open(os.DevNull)
	}
	ws, err := os.OpenRoot(a.spec.Workspace)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "workspace: %w", err)
	}
	defer ws.Close()
	f, err := ws.Open(a.executor.Stdin)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the agent's prompt: %w", err)
	}
	return f, nil
}

// recordInit writes down what a sweep after our death must end.
func (a *attempt) recordInit() error {
	me, err := process.Identify(os.Getpid())
	if err != nil {
		return err
	}
	init, err := process.Identify(a.box.PID())
	if err != nil {
		return err
	}
	return a.dir.write("pid", pids{Worker: me, Init: &init, Cgroups: a.box.Cgroups()})
}

// launch opens the guard, confines the box and starts the agent in it.
func (a *attempt) launch(ctx context.Context) error {
	if err := a.openGuards(); err != nil {
		return err
	}
	inv, err := a.executor.Prepare(a.job())
	if err != nil {
		return err
	}
	for _, n := range inv.Notes {
		a.note("warn", n)
	}
	layers, err := a.box.Confine(ctx, a.policy(inv))
	if err != nil {
		return err
	}
	if err := a.require(layers); err != nil {
		return err
	}
	if a.stopCause().State != "" {
		return nightcrier.Errorf(nightcrier.Interrupted, "stopped before the agent was started")
	}
	if err := a.box.Exec(ctx, process.Command{Argv: inv.Argv, Env: inv.Env, Dir: a.spec.Workspace}); err != nil {
		return err
	}
	a.output.onFirst = func() {
		a.move(journal.State{To: nightcrier.StateRunning, Layers: layers, PID: a.box.PID(), Command: inv.Argv})
	}
	a.output.pump()
	return nil
}

// guards is how many guards the agent gets, each on a port of its own.
func (a *attempt) guards() int {
	n := 0
	if a.secret.ModelAPIKey != "" {
		n++
	}
	if a.secret.Cluster != nil {
		n++
	}
	return n
}

// openGuards starts the guards on the box's listeners, which they take over.
func (a *attempt) openGuards() error {
	if a.secret.ModelAPIKey == "" && a.executor.NeedsModel {
		return authError{nightcrier.Errorf(nightcrier.Invalid, "executor %s needs a model key and there is none", a.executor.Name)}
	}
	free := a.box.Listeners()
	if a.secret.ModelAPIKey != "" {
		if err := a.openModel(free[0]); err != nil {
			return err
		}
		free = free[1:]
	}
	if a.secret.Cluster == nil {
		return nil
	}
	var err error
	if a.cluster, err = a.openCluster(free[0], a.secret.Cluster); err != nil {
		a.note("warn", "the agent cannot look into the cluster: "+err.Error())
	}
	return nil
}

func (a *attempt) openModel(l net.Listener) (err error) {
	a.guard, err = model.Start(l, model.Config{Upstream: a.spec.ModelBaseURL, Key: a.secret.ModelAPIKey, Logger: a.log})
	if err != nil {
		l.Close()
	}
	return err
}

func (a *attempt) job() agent.Job {
	j := agent.Job{
		IncidentID: a.spec.IncidentID, Cluster: a.spec.Cluster, Namespace: a.spec.Namespace,
		Workspace: a.spec.Workspace, OutputDir: filepath.Join(a.spec.Workspace, "output"),
		Kubeconfig: filepath.Join(a.spec.Workspace, kubeconfigFile),
		Command:    a.spec.Command, ScriptPath: a.spec.ScriptPath, Model: a.spec.Model, MaxTurns: a.spec.MaxTurns,
		Kubectl:      a.kubectl(),
		AllowedTools: a.spec.AllowedTools, Timeout: a.spec.Timeout, ExtraEnv: a.spec.ExtraEnv,
	}
	if len(process.Missing([]string{process.LayerMountNS}, a.box.Layers())) > 0 {
		j.OutputDir = a.scratch()
	}
	if a.guard != nil {
		j.ModelURL, j.ModelToken = a.guard.URL(), a.guard.Token()
	}
	return j
}

// maxOpenFiles is far above what an agent opens.
const maxOpenFiles = 8192

func (a *attempt) policy(inv agent.Invocation) process.Policy {
	ws := a.spec.Workspace
	p := process.Policy{
		Read:         slices.Concat(process.SystemFiles(), inv.Read, a.spec.ReadPaths, readable(ws)),
		List:         []string{ws},
		Write:        a.ownDirs(),
		Devices:      process.Devices(),
		MaxFileBytes: a.spec.MaxWorkspaceBytes, MaxOpenFiles: maxOpenFiles,
		Unconfined: a.spec.Require == RequireNone,
	}
	if a.guard != nil {
		p.ConnectPorts = append(p.ConnectPorts, a.guard.Port())
	}
	if a.cluster != nil {
		p.ConnectPorts = append(p.ConnectPorts, a.cluster.server.Port())
	}
	return p
}

// readable lists what the agent may read of its workspace: all that was there
// when it started, but not the real output.
func readable(ws string) []string {
	entries, err := os.ReadDir(ws)
	if err != nil {
		return nil
	}
	var paths []string
	for _, e := range entries {
		if name := e.Name(); name != "output" && (e.IsDir() || e.Type().IsRegular()) {
			paths = append(paths, filepath.Join(ws, name))
		}
	}
	return paths
}

// require refuses to start with less than was asked for.
func (a *attempt) require(layers []string) error {
	wanted := map[string][]string{RequireStrict: process.Strict(), RequireBestEffort: process.Floor()}[a.spec.Require]
	missing := process.Missing(wanted, layers)
	if len(missing) > 0 {
		return nightcrier.Errorf(nightcrier.Refused, "sandbox.require is %s and this machine does not grant %s", a.spec.Require, strings.Join(missing, ", "))
	}
	if a.spec.Require == RequireNone {
		a.note("warn", "sandbox.require is none: the agent runs without confinement")
	} else if weak := process.Missing(process.Strict(), layers); len(weak) > 0 {
		a.note("warn", "sandbox without "+strings.Join(weak, ", ")+": this machine does not grant them")
	}
	return nil
}

// await waits for the agent's end and sees to it that it comes: by its own
// will, by deadline, or because somebody asked.
func (a *attempt) await() process.Exit {
	deadline := time.AfterFunc(a.spec.Timeout, func() { a.stop(timedOut(a.spec.Timeout)) })
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
		a.note("warn", fmt.Sprintf("the agent did not end within %s of SIGINT and was killed", a.spec.Grace))
		a.box.Kill()
	}
	return a.box.Wait()
}

func (a *attempt) kill() {
	if a.box != nil {
		a.box.Kill()
		a.box.Wait()
	}
}

func (a *attempt) close() {
	if a.box != nil {
		if err := a.box.Close(); err != nil {
			a.log.Warn("clean up after the sandbox", "error", err)
		}
	}
	if a.guard != nil {
		_ = a.guard.Close() // what it cuts belongs to nobody any more
	}
	if a.cluster != nil {
		a.cluster.close()
	}
	if a.output != nil {
		a.output.close()
	}
}

func (a *attempt) result(exit process.Exit) nightcrier.AgentResult {
	r := agent.Decide(a.stopCause(), a.parser.Verdict(), exit, a.output.complaint())
	r.Layers = a.box.Layers()
	r.Truncated = a.output.truncated()
	if r.State == nightcrier.StateFailed && a.box.OutOfMemory() {
		r.FailureReason += fmt.Sprintf(" (over the memory limit of %d bytes)", a.spec.MaxMemoryBytes)
	}
	if a.guard != nil {
		u := a.guard.Usage()
		if r.Usage.APIRequests == 0 && u.APIRequests > 0 {
			a.record(journal.OfUsage(u)) // of an agent that does not count itself
		}
		r.Usage.APIRequests = max(r.Usage.APIRequests, u.APIRequests)
		r.Usage.InputTokens = max(r.Usage.InputTokens, u.InputTokens)
		r.Usage.OutputTokens = max(r.Usage.OutputTokens, u.OutputTokens)
	}
	return r
}

// authError marks a start that failed for want of a key.
type authError struct{ error }

func (a *attempt) startFailure(err error) nightcrier.AgentResult {
	r := nightcrier.AgentResult{State: nightcrier.StateFailed, FailureClass: nightcrier.FailStart, FailureReason: err.Error(), TerminalEvent: "missing"}
	if _, ok := err.(authError); ok {
		r.FailureClass = nightcrier.FailAuth
	}
	if stop := a.stopCause(); stop.State != "" {
		r.State, r.FailureClass, r.FailureReason = stop.State, stop.Class, stop.Reason
	}
	if a.box != nil {
		r.Layers = a.box.Layers()
	}
	return r
}
