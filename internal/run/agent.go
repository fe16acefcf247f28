package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/retry"
	"nightcrier.dev/nightcrier/internal/text"
)

// BudgetDir, below the workspace root, holds the record of what all workers spend on models.
const BudgetDir = "budget"

// FinalMessage keeps the agent's last words beside the logs: they may be its
// report, and are too long for a checkpoint.
const FinalMessage = "logs/final-message.md"

// try is one time that an agent is started.
type try struct {
	attempt int
	step    string // in the journal
	// what is what the journal says of it, of the executor and its access.
	what string
	// task is what the workspace is filled for before the first of them, nil where it is.
	task *Task
	// change adapts the spec, nil not at all.
	change func(*backend.Spec)
}

// firstAttempt is the n-th try at the work itself.
func (w *Work) firstAttempt(n int) try {
	return try{attempt: n, step: w.place.step, what: fmt.Sprintf("starting %%s, attempt %d, %%s", n)}
}

// launched is the checkpoint of a try that was begun: the worker to await, or a terminal result
// where there is none.
type launched struct {
	Handle backend.Handle         `json:"handle,omitzero"`
	Result nightcrier.AgentResult `json:"result,omitzero"`
}

// launchWorker starts the worker of a try, unless it was started already.
func (s *Session) launchWorker(ctx context.Context, t try) (launched, error) {
	if res, err := s.CancelledEarly(ctx); err != nil || res.State.Terminal() {
		return s.unlessLaunched(ctx, t, res, err)
	}
	if s.Workspace == nil {
		return launched{Result: FailedResult(nightcrier.FailStart, s.NoWorkspace)}, nil
	}
	if res, err := s.readyAgent(ctx, t); err != nil || res.State.Terminal() {
		return s.unlessLaunched(ctx, t, res, err)
	}
	cred, why := s.access(ctx)
	learned, err := s.Mask.Seal()
	if err != nil {
		return launched{}, err
	}
	if err := s.AppendNote(ctx, fmt.Sprintf("launch#%d", t.attempt), NewLogItem(t.what, s.Order.Agent.Executor, accessText(cred != nil, why))); err != nil {
		return launched{}, err
	}
	if err := s.makeAgentLog(ctx); err != nil {
		res, err := UnpreparedResult(ctx, err)
		l, err := s.unlessLaunched(ctx, t, res, err)
		if l.Result.State.Terminal() {
			err = errors.Join(err, s.noteUnstarted(ctx, t, res))
		}
		return l, err
	}
	spec := s.workerSpec(t)
	spec.BudgetDir = s.runner.cfg.BudgetDir
	if left := s.Order.Deadline.Sub(s.Now()); !s.Order.Deadline.IsZero() && left < cmp.Or(spec.Timeout, agent.DefaultTimeout) {
		spec.Timeout = left
	}
	h, err := s.runner.cfg.Workers.Launch(ctx, spec, cred, learned)
	if err != nil {
		if ctx.Err() != nil {
			return launched{}, err
		}
		s.Log.Error("agent could not be started", "event", "agent_start_failed", "error", err, "command", s.Order.Agent.Command, "workspace", s.Workspace.Dir())
		res := FailedResult(ClassOf(err, nightcrier.FailStart), err)
		return launched{Result: res}, s.noteUnstarted(ctx, t, res)
	}
	s.Log.Info("agent started", "event", "agent_started", "workspace", s.Workspace.Dir(), "executor", s.Order.Agent.Executor, "step", t.step)
	return launched{Handle: h}, nil
}

// readyAgent fills the workspace of an agent before its first attempt. Its result is terminal
// where no agent is asked: the money or the time is up, or something is missing.
func (s *Session) readyAgent(ctx context.Context, t try) (res nightcrier.AgentResult, err error) {
	if !s.Order.Deadline.IsZero() && !s.Now().Before(s.Order.Deadline) {
		res = FailedResult(nightcrier.FailTimeout, fmt.Errorf("the agent was not asked: the deadline of the run, %s, is over", s.Order.Deadline.UTC().Format(time.RFC3339)))
		res.State = nightcrier.StateTimeout
		return res, nil
	}
	if t.attempt != 1 || t.task == nil {
		return res, nil
	}
	if res := s.afford(); res.State.Terminal() {
		return res, nil
	}
	if err = s.writeInput(t.task.Input); err == nil {
		err = s.runner.cfg.Skills.PrepareSkill(ctx, s, *t.task)
	}
	if err == nil || CanBeRepeated(ctx, err) {
		return res, err
	}
	return FailedResult(ClassOf(err, nightcrier.FailInternal), err), nil
}

// writeInput writes what an agent is given, where that is something.
func (s *Session) writeInput(in map[string]any) error {
	if len(in) == 0 {
		return nil
	}
	raw, err := json.MarshalIndent(in, "", "  ")
	if err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "%s: %w", InputFile, err)
	}
	return s.Workspace.WriteFile(InputFile, []byte(s.Mask.String(string(raw))), 0o600)
}

// access is how the agent reaches the cluster of the run, nil and why where it does not; nil and ""
// where the run is about none.
func (s *Session) access(ctx context.Context) (*backend.Credential, string) {
	cluster, namespace := s.Target()
	if cluster == "" {
		return nil, ""
	}
	return s.runner.cfg.Clusters.Access(ctx, cluster, namespace)
}

// unlessLaunched is the result of a try that is not begun, unless a server that died before the
// checkpoint has begun it: then its worker is awaited, and hears of a cancellation.
func (s *Session) unlessLaunched(ctx context.Context, t try, res nightcrier.AgentResult, err error) (launched, error) {
	if err != nil {
		return launched{}, err
	}
	l := launched{Result: res}
	err = s.runner.eachWorker(ctx, s.Order.RunID, func(w backend.Owned) error {
		if w.Attempt == s.place.seat+t.attempt && (w.Alive || w.Processes > 0) {
			l = launched{Handle: w.Handle, Result: nightcrier.AgentResult{State: nightcrier.StateStarting}}
		}
		return nil
	})
	return l, err
}

// noteUnstarted tells of a try that came to no agent, if there is another.
func (s *Session) noteUnstarted(ctx context.Context, t try, res nightcrier.AgentResult) error {
	if !res.FailureClass.Retryable() || t.attempt >= maxAttempts {
		return nil
	}
	return s.noteRetry(ctx, t.attempt, res)
}

// accessText says whether the agent can look into the cluster, and what is to be
// known of that.
func accessText(can bool, why string) string {
	switch {
	case can:
		return "which may look into the cluster" + ReasonSuffix(why)
	case why == "":
		return "which looks into no cluster"
	}
	return "which cannot look into the cluster" + ReasonSuffix(why)
}

func (s *Session) workerSpec(t try) backend.Spec {
	cluster, namespace := s.Target()
	spec := backend.Spec{
		Version: backend.SpecVersion, Spec: s.Order.Agent, RunID: s.Order.RunID, IncidentID: s.Order.WorkspaceID(), SpendsFor: s.Order.BudgetID(), Cluster: cluster, Namespace: namespace, Step: t.step, StepID: s.place.id, Attempt: s.place.seat + t.attempt,
		Alone: t.attempt == maxAttempts, Workspace: s.Workspace.Dir(),
	}
	if t.change != nil {
		t.change(&spec)
	}
	return spec
}

// RunBeside runs a program beside the agent, as an agent is run: in a worker, which change tells
// what to do. It follows it to its end; heard is told each entry, masked. That the program cannot
// be started is a result.
func (s *Session) RunBeside(ctx context.Context, step string, attempt int, cred *backend.Credential, change func(*backend.Spec), heard func(nightcrier.JournalEntry)) (nightcrier.AgentResult, error) {
	learned, err := s.Mask.Seal()
	if err != nil {
		return nightcrier.AgentResult{}, err
	}
	h, err := s.runner.cfg.Workers.Launch(ctx, s.workerSpec(try{attempt: attempt, step: step, change: change}), cred, learned)
	if err != nil {
		return FailedResult(nightcrier.FailStart, err), ctx.Err()
	}
	forward, stop := context.WithCancel(ctx)
	defer stop()
	go s.forwardCancel(forward, h)

	ended, err := s.runner.cfg.Workers.Follow(ctx, h, 0, func(e nightcrier.JournalEntry) error {
		if e.Type == nightcrier.EntryState {
			return nil // it is not the agent's
		}
		e.Run, e.Step, e.Attempt = s.Order.RunID, step, attempt
		entries := []nightcrier.JournalEntry{e}
		if err := s.appendEntries(ctx, entries); err != nil {
			return err
		}
		heard(entries[0]) // masked
		return nil
	})
	s.runner.learnFrom(s.Mask, ended)
	if err == nil {
		err = s.Workspace.ClearScratch() // what it leaves there is no agent's
	}
	return ended.Result, err
}

// awaitWorker follows the worker until its agent is verified gone, and files what the
// agent does in the journal and the log. One of which nothing is left is lost.
func (s *Session) awaitWorker(ctx context.Context, t try, h backend.Handle) (nightcrier.AgentResult, error) {
	if s.Workspace == nil {
		return s.endWithoutWorkspace(ctx, h)
	}
	log, err := s.openAgentLog(ctx)
	if err != nil {
		return nightcrier.AgentResult{}, err
	}
	defer log.Close()
	forward, stop := context.WithCancel(ctx)
	defer stop()
	go s.forwardCancel(forward, h)

	var unfiled error
	ended, err := s.runner.cfg.Workers.Follow(ctx, h, 0, func(e nightcrier.JournalEntry) error {
		e.Run, e.Step, e.Attempt = s.Order.RunID, t.step, t.attempt
		unfiled = s.fileEntry(ctx, log, e)
		return unfiled
	})
	res := ended.Result
	switch {
	case err != nil && unfiled == nil && ctx.Err() == nil && nightcrier.CodeOf(err) == nightcrier.NotFound:
		s.Log.Error("a worker has left nothing", "event", "agent_lost", "worker", h.ID, "error", err)
		res = FailedResult(nightcrier.FailLost, fmt.Errorf("the worker %s is not there any more: %w", h.ID, err))
	case err != nil:
		return nightcrier.AgentResult{}, err
	}
	if err == nil {
		s.runner.learnFrom(s.Mask, ended)
	}
	res.FailureReason = s.Mask.String(res.FailureReason) // it is the agent's or its model's word
	if err := s.keepFinalMessage(&res); err != nil {
		return res, err
	}
	if res.FailureClass.Retryable() && t.attempt < maxAttempts {
		// Half a result is nothing for the next attempt to hand in.
		err = errors.Join(s.Workspace.ClearScratch(), s.noteRetry(ctx, t.attempt, res))
	} else {
		err = nil
	}
	return res, err
}

// endWithoutWorkspace ends a worker whose workspace is gone: what it does leads nowhere.
func (s *Session) endWithoutWorkspace(ctx context.Context, h backend.Handle) (nightcrier.AgentResult, error) {
	if CanBeRepeated(ctx, s.NoWorkspace) {
		return nightcrier.AgentResult{}, s.NoWorkspace
	}
	err := s.runner.cfg.Workers.Cancel(ctx, h, "its workspace is gone")
	if err == nil {
		_, err = s.runner.cfg.Workers.Follow(ctx, h, 0, nil)
	}
	if err != nil && nightcrier.CodeOf(err) != nightcrier.NotFound {
		return nightcrier.AgentResult{}, err
	}
	return FailedResult(nightcrier.FailLost, s.NoWorkspace), nil
}

// keepFinalMessage moves the agent's last words out of the result, which becomes
// a checkpoint. Those of an earlier attempt go.
func (s *Session) keepFinalMessage(res *nightcrier.AgentResult) error {
	if res.FinalMessage == "" {
		return s.Workspace.Remove(FinalMessage)
	}
	text := s.Mask.String(res.FinalMessage)
	res.FinalMessage = ""
	return s.Workspace.WriteFile(FinalMessage, []byte(text), 0o600)
}

// noteRetry says why nothing happens for a while: the agent is tried again.
func (s *Session) noteRetry(ctx context.Context, attempt int, res nightcrier.AgentResult) error {
	s.Log.Warn("agent failed; it is tried again", "event", "agent_retry", "attempt", attempt, "of", maxAttempts, "retry_in", s.runner.cfg.RetryPause.String(), "failure_class", string(res.FailureClass), "failure_reason", res.FailureReason)
	return s.AppendNote(ctx, fmt.Sprintf("retry#%d", attempt),
		NewLogItem("attempt %d of %d failed (%s); trying again in %s", attempt, maxAttempts, res.FailureClass, s.runner.cfg.RetryPause))
}

// fileEntry stores one entry of the worker and shows what it changes.
func (s *Session) fileEntry(ctx context.Context, log *agentLog, e nightcrier.JournalEntry) error {
	entries := []nightcrier.JournalEntry{e}
	if err := s.appendEntries(ctx, entries); err != nil {
		return err
	}
	e = entries[0] // masked
	if err := log.addEntry(e); err != nil {
		return err
	}
	if e.Type != nightcrier.EntryState {
		return nil
	}
	st, err := journal.Decode[journal.State](e)
	if err != nil { // it shows how far the agent is, and decides nothing
		s.Log.Warn("a state of the agent cannot be read", "event", "agent_state", "error", err)
		return nil
	}
	details := []any{"step", e.Step, "after_ms", st.AfterMS}
	if st.PID > 0 {
		details = append(details, "pid", st.PID, "command", text.CutBytes(strings.Join(st.Command, " "), maxLoggedCommand))
	}
	if st.To.Terminal() {
		details = append(details, "failure_class", string(st.FailureClass), "failure_reason", st.Reason)
	}
	return s.ShowProgress(ctx, store.Progress{State: st.To}, details...)
}

// maxLoggedCommand bounds a command line in a log, in bytes; the journal has all of it.
const maxLoggedCommand = 1 << 10

// afford is the result of an agent that is not asked, as nothing is left to spend on it; else it
// is not terminal.
func (s *Session) afford() nightcrier.AgentResult {
	cluster, _ := s.Target()
	if err := s.runner.cfg.Supervisor.Afford(s.Order, s.place.id, cluster); err != nil {
		s.Log.Warn("the agent is not asked", "event", "budget", "error", err)
		return FailedResult(nightcrier.FailBudget, fmt.Errorf("the agent was not asked: %w", err))
	}
	return nightcrier.AgentResult{State: nightcrier.StateCreated}
}

// ShowProgress records progress and refreshes incident.json; the details are logged with
// the agent's state.
func (s *Session) ShowProgress(ctx context.Context, p store.Progress, details ...any) error {
	inc, err := s.runner.cfg.Store.NoteProgress(ctx, s.Order.RunID, p)
	if err != nil {
		return err
	}
	if p.State != "" {
		level := slog.LevelInfo
		if p.State.Terminal() && p.State != nightcrier.StateSuccess {
			level = slog.LevelWarn
		}
		s.Log.With(details...).Log(ctx, level, "agent state", "event", "agent_"+string(p.State), "workspace", s.Workspace.Dir())
	}
	if inc.ID == "" {
		return nil
	}
	return s.Workspace.WriteIncident(&inc)
}

// forwardCancel waits for a cancellation, recorded before or during this
// process, and hands it to the worker, until that succeeds.
func (s *Session) forwardCancel(ctx context.Context, h backend.Handle) {
	again := retry.Backoff{Min: min(s.runner.cfg.RetryPause, time.Second), Max: 30 * time.Second}
	for failures := 1; ; failures++ {
		cause, err := s.runner.awaitCancel(ctx, s.Order.RunID)
		if err == nil {
			err = s.runner.cfg.Workers.Cancel(ctx, h, cause)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		s.Log.Error("cancel was not delivered; it is tried again", "event", "cancel_failed", "error", err)
		if !again.Sleep(ctx, failures) {
			return
		}
	}
}

// awaitCancel waits until the cancellation of a run is recorded, which may have been
// before this process began, and returns its cause.
func (r *Runner) awaitCancel(ctx context.Context, runID string) (cause string, err error) {
	asked, cause, err := r.cfg.Store.CancelRequested(ctx, runID)
	if err != nil || asked {
		return cause, err
	}
	select {
	case <-r.cancelSignal(runID):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	_, cause, err = r.cfg.Store.CancelRequested(ctx, runID)
	return cause, err
}

// CancelledEarly is the result of a run whose cancellation was asked for before
// its agent was started.
func (s *Session) CancelledEarly(ctx context.Context) (nightcrier.AgentResult, error) {
	run, err := s.runner.cfg.Store.Run(ctx, s.Order.RunID)
	switch {
	case err != nil:
		return nightcrier.AgentResult{}, err
	case run.CancelRequested:
		return nightcrier.AgentResult{State: nightcrier.StateCancelled, FailureClass: nightcrier.FailCancelled, FailureReason: "cancelled: " + run.Cause}, nil
	case run.Status == nightcrier.Finished: // it was given up
		return nightcrier.AgentResult{State: nightcrier.StateCancelled, FailureClass: nightcrier.FailCancelled, FailureReason: "the run has ended"}, nil
	}
	return nightcrier.AgentResult{}, nil
}
