package worker

import (
	"fmt"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
)

// stopCause is why we end an agent ourselves. In its words says that the agent has
// given up, in the reason's words, and we only did not wait.
type stopCause struct {
	agent.Stop
	inItsWords bool
}

func cancelCause(cause string) stopCause {
	if cause == "" {
		cause = "cancelled"
	}
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
