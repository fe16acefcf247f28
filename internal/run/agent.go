package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/text"
)

// BudgetDir, below the workspace root, holds the record of what all workers spend on models.
const BudgetDir = "budget"

// finalMessage keeps the agent's last words beside the logs: they may be its
// report, and are too long for a checkpoint.
const finalMessage = "logs/final-message.md"

// try is one time that an agent is started.
type try struct {
	attempt int
	step    string // in the journal
	// what is what the journal says of it, of the executor and its access.
	what string
	// change adapts the spec, nil not at all.
	change func(*backend.Spec)
}

// investigationAttempt is the n-th try at the investigation itself.
func investigationAttempt(n int) try {
	return try{attempt: n, step: step, what: fmt.Sprintf("starting %%s, attempt %d, %%s", n)}
}

// launched is the checkpoint of a try that was begun: the worker to await, or a terminal result
// where there is none.
type launched struct {
	Handle backend.Handle         `json:"handle,omitzero"`
	Result nightcrier.AgentResult `json:"result,omitzero"`
}

// launchWorker starts the worker of a try, unless it was started already.
func (s *session) launchWorker(ctx context.Context, t try) (launched, error) {
	if res, err := s.cancelledEarly(ctx); err != nil || res.State.Terminal() {
		return s.unlessLaunched(ctx, t, res, err)
	}
	if s.ws == nil {
		return launched{Result: failedResult(nightcrier.FailStart, s.noWorkspace)}, nil
	}
	cred, why := s.cfg.Clusters.Access(ctx, s.incident.Cluster, s.incident.Namespace())
	learned, err := s.mask.Seal()
	if err != nil {
		return launched{}, err
	}
	if err := s.appendNote(ctx, fmt.Sprintf("launch#%d", t.attempt), newLogItem(t.what, s.order.Agent.Executor, accessText(cred != nil, why))); err != nil {
		return launched{}, err
	}
	if err := s.makeAgentLog(ctx); err != nil {
		res, err := unpreparedResult(ctx, err)
		l, err := s.unlessLaunched(ctx, t, res, err)
		if l.Result.State.Terminal() {
			err = errors.Join(err, s.noteUnstarted(ctx, t, res))
		}
		return l, err
	}
	spec := s.workerSpec(t)
	spec.BudgetDir = s.cfg.BudgetDir
	h, err := s.cfg.Workers.Launch(ctx, spec, cred, learned)
	if err != nil {
		if ctx.Err() != nil {
			return launched{}, err
		}
		s.log.Error("agent could not be started", "event", "agent_start_failed", "error", err, "command", s.order.Agent.Command, "workspace", s.ws.Dir())
		res := failedResult(classOf(err, nightcrier.FailStart), err)
		return launched{Result: res}, s.noteUnstarted(ctx, t, res)
	}
	s.log.Info("agent started", "event", "agent_started", "workspace", s.ws.Dir(), "executor", s.order.Agent.Executor, "step", t.step)
	return launched{Handle: h}, nil
}

// unlessLaunched is the result of a try that is not begun, unless a server that died before the
// checkpoint has begun it: then its worker is awaited, and hears of a cancellation.
func (s *session) unlessLaunched(ctx context.Context, t try, res nightcrier.AgentResult, err error) (launched, error) {
	if err != nil {
		return launched{}, err
	}
	l := launched{Result: res}
	err = s.eachWorker(ctx, s.order.RunID, func(w backend.Owned) error {
		if w.Attempt == t.attempt && (w.Alive || w.Processes > 0) {
			l = launched{Handle: w.Handle, Result: nightcrier.AgentResult{State: nightcrier.StateStarting}}
		}
		return nil
	})
	return l, err
}

// noteUnstarted tells of a try that came to no agent, if there is another.
func (s *session) noteUnstarted(ctx context.Context, t try, res nightcrier.AgentResult) error {
	if !res.FailureClass.Retryable() || t.attempt >= maxAttempts {
		return nil
	}
	return s.noteRetry(ctx, t.attempt, res)
}

// accessText says whether the agent can look into the cluster, and what is to be
// known of that.
func accessText(can bool, why string) string {
	if can {
		return "which may look into the cluster" + reasonSuffix(why)
	}
	return "which cannot look into the cluster" + reasonSuffix(why)
}

func (s *session) workerSpec(t try) backend.Spec {
	spec := backend.Spec{
		Version: backend.SpecVersion, Spec: s.order.Agent, RunID: s.order.RunID, IncidentID: s.incident.ID, Cluster: s.incident.Cluster, Namespace: s.incident.Namespace(), Step: t.step, Attempt: t.attempt,
		Workspace: s.ws.Dir(),
	}
	if t.change != nil {
		t.change(&spec)
	}
	return spec
}

// awaitWorker follows the worker until its agent is verified gone, and files what the
// agent does in the journal and the log.
func (s *session) awaitWorker(ctx context.Context, t try, h backend.Handle) (nightcrier.AgentResult, error) {
	if s.ws == nil {
		return nightcrier.AgentResult{}, s.noWorkspace
	}
	log, err := s.openAgentLog(ctx)
	if err != nil {
		return nightcrier.AgentResult{}, err
	}
	defer log.Close()
	forward, stop := context.WithCancel(ctx)
	defer stop()
	go s.forwardCancel(forward, h)

	ended, err := s.cfg.Workers.Follow(ctx, h, 0, func(e nightcrier.JournalEntry) error {
		e.Run, e.Step, e.Attempt = s.order.RunID, t.step, t.attempt
		return s.fileEntry(ctx, log, e)
	})
	if err != nil {
		return nightcrier.AgentResult{}, err
	}
	res := ended.Result
	s.learnFrom(s.mask, ended)
	res.FailureReason = s.mask.String(res.FailureReason) // it is the agent's or its model's word
	if err := s.keepFinalMessage(&res); err != nil {
		return res, err
	}
	if res.FailureClass.Retryable() && t.attempt < maxAttempts {
		// Half a report is nothing for the next attempt to hand in.
		err = errors.Join(s.ws.ClearScratch(), s.noteRetry(ctx, t.attempt, res))
	}
	return res, err
}

// noteRetry says why nothing happens for a while: the agent is tried again.
func (s *session) noteRetry(ctx context.Context, attempt int, res nightcrier.AgentResult) error {
	s.log.Warn("agent failed; it is tried again", "event", "agent_retry", "attempt", attempt, "of", maxAttempts, "retry_in", s.cfg.RetryPause.String(), "failure_class", string(res.FailureClass), "failure_reason", res.FailureReason)
	return s.appendNote(ctx, fmt.Sprintf("retry#%d", attempt),
		newLogItem("attempt %d of %d failed (%s); trying again in %s", attempt, maxAttempts, res.FailureClass, s.cfg.RetryPause))
}

// keepFinalMessage moves the agent's last words out of the result, which becomes
// a checkpoint. Those of an earlier attempt go.
func (s *session) keepFinalMessage(res *nightcrier.AgentResult) error {
	if res.FinalMessage == "" {
		return s.ws.Remove(finalMessage)
	}
	text := s.mask.String(res.FinalMessage)
	res.FinalMessage = ""
	return s.ws.WriteFile(finalMessage, []byte(text), 0o600)
}

// fileEntry stores one entry of the worker and shows what it changes.
func (s *session) fileEntry(ctx context.Context, log *agentLog, e nightcrier.JournalEntry) error {
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
	if err != nil {
		return err
	}
	details := []any{"step", e.Step, "after_ms", st.AfterMS}
	if st.PID > 0 {
		details = append(details, "pid", st.PID, "command", text.CutBytes(strings.Join(st.Command, " "), maxLoggedCommand))
	}
	if st.To.Terminal() {
		details = append(details, "failure_class", string(st.FailureClass), "failure_reason", st.Reason)
	}
	return s.showProgress(ctx, store.Progress{State: st.To}, details...)
}

// maxLoggedCommand bounds a command line in a log, in bytes; the journal has all of it.
const maxLoggedCommand = 1 << 10

// showProgress records progress and refreshes incident.json; the details are logged with
// the agent's state.
func (s *session) showProgress(ctx context.Context, p store.Progress, details ...any) error {
	inc, err := s.cfg.Store.NoteProgress(ctx, s.order.RunID, p)
	if err != nil {
		return err
	}
	if p.State != "" {
		level := slog.LevelInfo
		if p.State.Terminal() && p.State != nightcrier.StateSuccess {
			level = slog.LevelWarn
		}
		s.log.With(details...).Log(ctx, level, "agent state", "event", "agent_"+string(p.State), "workspace", s.ws.Dir())
	}
	return s.ws.WriteIncident(&inc)
}

// forwardCancel waits for a cancellation, recorded before or during this
// process, and hands it to the worker.
func (s *session) forwardCancel(ctx context.Context, h backend.Handle) {
	cause, err := s.awaitCancel(ctx, s.order.RunID)
	if err == nil {
		err = s.cfg.Workers.Cancel(ctx, h, cause)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Error("cancel was not delivered", "event", "cancel_failed", "error", err)
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

// cancelledEarly is the result of a run whose cancellation was asked for before
// its agent was started.
func (s *session) cancelledEarly(ctx context.Context) (nightcrier.AgentResult, error) {
	asked, cause, err := s.cfg.Store.CancelRequested(ctx, s.order.RunID)
	if err != nil || !asked {
		return nightcrier.AgentResult{}, err
	}
	return nightcrier.AgentResult{State: nightcrier.StateCancelled, FailureClass: nightcrier.FailCancelled, FailureReason: "cancelled: " + cause}, nil
}

// classOf is disk where the disk is at fault, and else what the caller says.
func classOf(err error, otherwise nightcrier.FailureClass) nightcrier.FailureClass {
	if workspace.DiskFault(err) {
		return nightcrier.FailDisk
	}
	return otherwise
}

// failedResult is the result of an attempt that ended before there was an agent.
func failedResult(class nightcrier.FailureClass, err error) nightcrier.AgentResult {
	return nightcrier.AgentResult{State: nightcrier.StateFailed, FailureClass: class, FailureReason: err.Error()}
}
