package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/mask"
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
func (r *Runner) launchWorker(ctx context.Context, o Order, t try) (launched, error) {
	if res, err := r.cancelledEarly(ctx, o); err != nil || res.State.Terminal() {
		return launched{Result: res}, err
	}
	inc, err := r.cfg.Store.Incident(ctx, o.IncidentID)
	if err != nil {
		return launched{}, err
	}
	ws, err := r.cfg.Root.Open(o.IncidentID)
	if err != nil {
		return launched{Result: failedResult(nightcrier.FailStart, err)}, nil
	}
	defer ws.Close()
	cred, why := r.cfg.Clusters.Access(ctx, inc.Cluster, inc.Namespace())
	learned, err := r.maskerFor(o.RunID).Seal()
	if err != nil {
		return launched{}, err
	}
	if err := r.appendNote(ctx, o.RunID, fmt.Sprintf("launch#%d", t.attempt), newLogItem(t.what, o.Agent.Executor, accessText(cred != nil, why))); err != nil {
		return launched{}, err
	}
	if err := r.makeAgentLog(ctx, o, ws); err != nil {
		res, err := unpreparedResult(ctx, err)
		return launched{Result: res}, errors.Join(err, r.noteUnstarted(ctx, o, t, res))
	}
	s := workerSpec(o, inc, ws, t)
	s.BudgetDir = r.cfg.BudgetDir
	h, err := r.cfg.Workers.Launch(ctx, s, cred, learned)
	if err != nil {
		if ctx.Err() != nil {
			return launched{}, err
		}
		r.loggerFor(inc).Error("agent could not be started", "event", "agent_start_failed", "error", err, "command", o.Agent.Command, "workspace", ws.Dir())
		res := failedResult(classOf(err, nightcrier.FailStart), err)
		return launched{Result: res}, r.noteUnstarted(ctx, o, t, res)
	}
	r.loggerFor(inc).Info("agent started", "event", "agent_started", "workspace", ws.Dir(), "executor", o.Agent.Executor, "step", t.step)
	return launched{Handle: h}, nil
}

// noteUnstarted tells of a try that came to no agent, if there is another.
func (r *Runner) noteUnstarted(ctx context.Context, o Order, t try, res nightcrier.AgentResult) error {
	if !res.FailureClass.Retryable() || t.attempt >= maxAttempts {
		return nil
	}
	return r.noteRetry(ctx, o, t.attempt, res)
}

// accessText says whether the agent can look into the cluster, and what is to be
// known of that.
func accessText(can bool, why string) string {
	if can {
		return "which may look into the cluster" + reasonSuffix(why)
	}
	return "which cannot look into the cluster" + reasonSuffix(why)
}

func workerSpec(o Order, inc nightcrier.Incident, ws *workspace.Workspace, t try) backend.Spec {
	s := backend.Spec{
		Version: backend.SpecVersion, Spec: o.Agent, RunID: o.RunID, IncidentID: inc.ID, Cluster: inc.Cluster, Namespace: inc.Namespace(), Step: t.step, Attempt: t.attempt,
		Workspace: ws.Dir(),
	}
	if t.change != nil {
		t.change(&s)
	}
	return s
}

// awaitWorker follows the worker until its agent is verified gone, and files what the
// agent does in the journal and the log.
func (r *Runner) awaitWorker(ctx context.Context, o Order, t try, h backend.Handle) (nightcrier.AgentResult, error) {
	ws, err := r.cfg.Root.Open(o.IncidentID)
	if err != nil {
		return nightcrier.AgentResult{}, err
	}
	defer ws.Close()
	log, err := r.openAgentLog(ctx, o, ws)
	if err != nil {
		return nightcrier.AgentResult{}, err
	}
	defer log.Close()
	forward, stop := context.WithCancel(ctx)
	defer stop()
	go r.forwardCancel(forward, o, h)

	ended, err := r.cfg.Workers.Follow(ctx, h, 0, func(e nightcrier.JournalEntry) error {
		e.Run, e.Step, e.Attempt = o.RunID, t.step, t.attempt
		return r.fileEntry(ctx, o, ws, log, e)
	})
	if err != nil {
		return nightcrier.AgentResult{}, err
	}
	res, m := ended.Result, r.maskerFor(o.RunID)
	r.learnFrom(m, ended.Learned)
	res.FailureReason = m.String(res.FailureReason) // it is the agent's or its model's word
	if err := keepFinalMessage(ws, &res, m); err != nil {
		return res, err
	}
	if res.FailureClass.Retryable() && t.attempt < maxAttempts {
		// Half a report is nothing for the next attempt to hand in.
		err = errors.Join(ws.ClearScratch(), r.noteRetry(ctx, o, t.attempt, res))
	}
	return res, err
}

// noteRetry says why nothing happens for a while: the agent is tried again.
func (r *Runner) noteRetry(ctx context.Context, o Order, attempt int, res nightcrier.AgentResult) error {
	r.cfg.Logger.Warn("agent failed; it is tried again", "component", "run", "event", "agent_retry", "incident_id", o.IncidentID,
		"attempt", attempt, "of", maxAttempts, "retry_in", r.cfg.RetryPause.String(), "failure_class", string(res.FailureClass), "failure_reason", res.FailureReason)
	return r.appendNote(ctx, o.RunID, fmt.Sprintf("retry#%d", attempt),
		newLogItem("attempt %d of %d failed (%s); trying again in %s", attempt, maxAttempts, res.FailureClass, r.cfg.RetryPause))
}

// keepFinalMessage moves the agent's last words out of the result, which becomes
// a checkpoint. Those of an earlier attempt go.
func keepFinalMessage(ws *workspace.Workspace, res *nightcrier.AgentResult, m *mask.Masker) error {
	if res.FinalMessage == "" {
		return ws.Remove(finalMessage)
	}
	text := m.String(res.FinalMessage)
	res.FinalMessage = ""
	return ws.WriteFile(finalMessage, []byte(text), 0o600)
}

// fileEntry stores one entry of the worker and shows what it changes.
func (r *Runner) fileEntry(ctx context.Context, o Order, ws *workspace.Workspace, log *agentLog, e nightcrier.JournalEntry) error {
	entries := []nightcrier.JournalEntry{e}
	if err := r.appendEntries(ctx, o.RunID, entries); err != nil {
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
	return r.showProgress(ctx, o, ws, store.Progress{State: st.To}, details...)
}

// maxLoggedCommand bounds a command line in a log, in bytes; the journal has all of it.
const maxLoggedCommand = 1 << 10

// showProgress records progress and refreshes incident.json; the details are logged with
// the agent's state.
func (r *Runner) showProgress(ctx context.Context, o Order, ws *workspace.Workspace, p store.Progress, details ...any) error {
	inc, err := r.cfg.Store.NoteProgress(ctx, o.RunID, p)
	if err != nil {
		return err
	}
	if p.State != "" {
		level := slog.LevelInfo
		if p.State.Terminal() && p.State != nightcrier.StateSuccess {
			level = slog.LevelWarn
		}
		r.loggerFor(inc).With(details...).Log(ctx, level, "agent state", "event", "agent_"+string(p.State), "workspace", ws.Dir())
	}
	return ws.WriteIncident(&inc)
}

// forwardCancel waits for a cancellation, recorded before or during this
// process, and hands it to the worker.
func (r *Runner) forwardCancel(ctx context.Context, o Order, h backend.Handle) {
	cause, err := r.awaitCancel(ctx, o.RunID)
	if err == nil {
		err = r.cfg.Workers.Cancel(ctx, h, cause)
	}
	if err != nil && ctx.Err() == nil {
		r.cfg.Logger.Error("cancel was not delivered", "event", "cancel_failed", "incident_id", o.IncidentID, "error", err)
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
func (r *Runner) cancelledEarly(ctx context.Context, o Order) (nightcrier.AgentResult, error) {
	asked, cause, err := r.cfg.Store.CancelRequested(ctx, o.RunID)
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
