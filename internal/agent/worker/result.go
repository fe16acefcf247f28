package worker

import (
	"cmp"
	"fmt"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/sandbox"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

func (a *attempt) decideResult(exit sandbox.Exit) nightcrier.AgentResult {
	r := a.explainResult(agent.Decide(a.stopCause(), a.parser.Verdict(), exit, a.output.complaintText()))
	r.Layers = a.held.Layers
	r.Missing = process.Strict(r.Layers)
	r.Truncated = a.output.isTruncated()
	if r.FailureClass == nightcrier.FailStart && a.executor.Package != "" {
		// Most often it is a version that lacks a flag.
		r.FailureReason += fmt.Sprintf(" (%s was tested: npm install -g %s@%[1]s)", a.executor.Versions[0], a.executor.Package)
	}
	if r.State == nightcrier.StateFailed && exit.OutOfMemory {
		r.FailureReason += fmt.Sprintf(" (over the memory limit of %d bytes)", a.spec.MaxMemoryBytes)
	}
	if r.State == nightcrier.StateFailed && exit.OutOfProcesses {
		r.FailureReason += fmt.Sprintf(" (over the limit of %d processes)", a.spec.MaxProcesses)
	}
	return r
}

// explainResult adds to a result what the guards know of it.
func (a *attempt) explainResult(r nightcrier.AgentResult) nightcrier.AgentResult {
	a.withdrawKeyFailure(&r)
	a.explainFailure(&r)
	if why := a.unreachable.Load(); why != nil && r.State == nightcrier.StateFailed {
		// The agent knows only that its guard could not, and the guard's address.
		r.FailureReason = "the model's API could not be reached (" + *why + "): " + r.FailureReason
	}
	r.Blocked = a.blocked.countAttempts()
	r.NotChecked = a.absent
	if a.guard != nil {
		u := a.guard.Usage()
		r.Usage.APIRequests = max(r.Usage.APIRequests, u.APIRequests)
		r.Usage.InputTokens = max(r.Usage.InputTokens, u.InputTokens)
		r.Usage.OutputTokens = max(r.Usage.OutputTokens, u.OutputTokens)
		r.Usage.CostUSD = u.CostUSD // what a CLI says is by prices of its own, also for models that cost nothing
		if r.Usage.APIRequests > 0 {
			a.recordItems(journal.OfUsage(r.Usage))
		}
	}
	return r
}

// withdrawKeyFailure takes back that the key or its quota failed, where the agent says so and the
// model's API never did: it would keep every other agent from being started.
func (a *attempt) withdrawKeyFailure(r *nightcrier.AgentResult) {
	keys := r.FailureClass == nightcrier.FailAuth || r.FailureClass == nightcrier.FailQuota
	if keys && a.guard != nil && !a.refused.Load() {
		r.FailureClass = nightcrier.FailAgent
		r.FailureReason += " (so the agent says; the model's API refused no call of it)"
	}
}

// authError marks a start that failed for want of a key.
type authError struct{ error }

func (a *attempt) startFailure(err error) nightcrier.AgentResult {
	r := nightcrier.AgentResult{State: nightcrier.StateFailed, FailureClass: nightcrier.FailStart, FailureReason: err.Error(), TerminalEvent: "missing"}
	if _, ok := err.(authError); ok {
		r.FailureClass = nightcrier.FailAuth
	}
	if _, ok := err.(budgetError); ok {
		r.FailureClass = nightcrier.FailBudget
	}
	if workspace.DiskFault(err) {
		r.FailureClass = nightcrier.FailDisk
	}
	if stop := a.stopCause(); stop.State != "" {
		r.State, r.FailureClass, r.FailureReason = stop.State, stop.Class, stop.Reason
	}
	return r
}

// stopCause is why we end an agent ourselves. In its words says that the agent has
// given up, in the reason's words, and we only did not wait.
type stopCause struct {
	agent.Stop
	inItsWords bool
}

func cancelCause(cause string) stopCause {
	cause = cmp.Or(cause, "cancelled")
	return stopCause{Stop: agent.Stop{State: nightcrier.StateCancelled, Class: nightcrier.FailCancelled, Reason: cause}}
}

func timedOut(limit time.Duration) stopCause {
	return stopCause{Stop: agent.Stop{State: nightcrier.StateTimeout, Class: nightcrier.FailTimeout, Reason: fmt.Sprintf("the agent did not end within %s", limit)}}
}

func outOfTurns(limit int) stopCause {
	return stopCause{Stop: agent.Stop{State: nightcrier.StateFailed, Class: nightcrier.FailAgent, Reason: fmt.Sprintf("the agent did not end within agent.max_turns (%d): it asked the model for one answer more", limit)}}
}

func diskFull(reason string) stopCause {
	return stopCause{Stop: agent.Stop{State: nightcrier.StateFailed, Class: nightcrier.FailDisk, Reason: reason}}
}

// gaveUp is the cause where an agent says that going on is pointless.
func gaveUp(v agent.Verdict) stopCause {
	c := abortCause(v.Class, v.Reason)
	c.inItsWords = true
	return c
}

func abortCause(class nightcrier.FailureClass, reason string) stopCause {
	return stopCause{Stop: agent.Stop{State: nightcrier.StateFailed, Class: class, Reason: reason}}
}

// requestStop asks for the agent's end. Only the first cause counts.
func (w *worker) requestStop(c stopCause) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cause != nil {
		return
	}
	w.cause = &c
	close(w.stopped)
}

// inItsWords reports whether the agent itself says why it ended: nobody else ended it.
func (w *worker) inItsWords() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cause == nil || w.cause.inItsWords
}

// stopCause returns why the agent was stopped, the zero Stop when it was not.
func (w *worker) stopCause() agent.Stop {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cause == nil {
		return agent.Stop{}
	}
	return w.cause.Stop
}
