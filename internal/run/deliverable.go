package run

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/record/workspace"
)

// Deliverable is the contract of what an agent hands in. What lacks something is asked for again,
// once, in the same session; an agent has succeeded when it ended well and what it delivered is
// valid.
type Deliverable interface {
	// Validate looks at what an agent that ended well left, where it left it.
	Validate(ctx context.Context, s *Session) (Found, error)
	// AskAgain is what the agent is told where that lacks something: our own words, which
	// repeat nothing of what it delivered.
	AskAgain(s *Session, problems []string) []byte
}

// Found is what was found of a deliverable.
type Found struct {
	// Problems are what is lacking, none of a valid one.
	Problems []string
	// Text is what there is, nil for nothing. Before it is asked for again it is kept for people
	// who want to know why.
	Text []byte
	// Output is what later steps see of it, as JSON.
	Output json.RawMessage
}

// The worker that asks an agent again is numbered behind those of the attempts at the work
// itself: so it has a directory, a claim and a record of its own.
const (
	repairAttempt = maxAttempts + 1
	repairStep    = "repair"
)

// The files of a repair: what the agent is asked, and what lacked something. Behind the prompt
// stands what was asked later.
const (
	RepairPrompt = "context/repair.md"
	RefusedFile  = "logs/report-before-repair.md"
	SentFile     = "prompt-sent.md"
)

// minRepair is the least time in which something can be delivered again.
const minRepair = 10 * time.Second

// Review is what became of a deliverable that lacked something.
type Review struct {
	// Problems are those of the first one; none when it was valid, or not due.
	Problems []string `json:"problems,omitempty"`
	// Unasked says why the agent is not asked for it again, "" when it is.
	Unasked string `json:"unasked,omitempty"`
	// Failure says why asking came to nothing, "" when the agent ended well.
	Failure string `json:"failure,omitempty"`
	// Full says that it was a full disk that asking came to nothing for.
	Full bool `json:"full,omitempty"`
}

// IsDue reports whether the agent is asked again.
func (v Review) IsDue() bool { return len(v.Problems) > 0 && v.Unasked == "" }

// WhyInvalid says why there is no valid one of what the agent delivers, such as a report;
// problems are those of the one that is there now.
func (v Review) WhyInvalid(what string, problems []string) string {
	first := v.Problems
	if len(first) == 0 {
		first = problems
	}
	said := "the agent's " + what + " is not valid: " + strings.Join(first, "; ")
	switch {
	case v.Unasked != "":
		return said + "; it was not asked for again: " + v.Unasked
	case v.Failure != "":
		return said + "; asked for it again, the agent failed: " + v.Failure
	case v.IsDue():
		return said + "; asked for again, it is still not valid: " + strings.Join(problems, "; ")
	}
	return said
}

// repairDeliverable asks an agent that has ended well, in the same session and once, for what
// lacks something. It returns the agent's result with what that took.
func (w *Work) repairDeliverable(d Deliverable, first nightcrier.AgentResult) (nightcrier.AgentResult, Review, error) {
	asked, err := Checkpoint(w, "review", func(c context.Context, s *Session) (Review, error) { return s.reviewDeliverable(c, d, first) })
	if err != nil || !asked.IsDue() {
		return first, asked, err
	}
	second, _, err := w.runAttempt(w.newRepairAttempt(first))
	if err != nil {
		return first, asked, err
	}
	res := mergeRepairResult(first, second)
	if second.State != nightcrier.StateSuccess {
		asked.Failure, asked.Full = second.FailureReason, second.FailureClass == nightcrier.FailDisk
	}
	return res, asked, nil
}

// mergeRepairResult is how an agent ended that was asked again. That it failed then does not
// make its work a failure; that it was cancelled ends the run.
func mergeRepairResult(first, second nightcrier.AgentResult) nightcrier.AgentResult {
	first.Usage = first.Usage.Plus(second.Usage)
	first.Truncated = first.Truncated || second.Truncated
	if !second.EndedAt.IsZero() {
		first.EndedAt = second.EndedAt
	}
	if second.State == nightcrier.StateCancelled {
		first.State, first.FailureClass, first.FailureReason = second.State, second.FailureClass, second.FailureReason
		first.ExitCode, first.Signal, first.TerminalEvent = second.ExitCode, second.Signal, second.TerminalEvent
	}
	return first
}

// newRepairAttempt returns the try that goes on with the session of an agent, with what is left of
// its bounds.
func (w *Work) newRepairAttempt(first nightcrier.AgentResult) try {
	o, name := w.Order, repairStep
	if w.place.keys != "" {
		name = w.place.keys + repairStep
	}
	return try{
		attempt: repairAttempt, step: name, what: "asking %s, %s, for its " + w.place.deliverable() + " again, in the same session",
		change: func(s *backend.Spec) {
			s.Session, s.PromptFile, s.Used = first.SessionID, RepairPrompt, first.Usage
			s.Used.CostUSD = 0 // it is reckoned by our prices, and a CLI's own sum by others
			s.Timeout = timeLeft(o, first)
			if s.MaxTurns > 0 {
				s.MaxTurns = turnsLeft(o, first)
			}
		},
	}
}

func timeLeft(o Order, res nightcrier.AgentResult) time.Duration {
	return cmp.Or(o.Agent.Timeout, agent.DefaultTimeout) - res.EndedAt.Sub(res.StartedAt)
}

func turnsLeft(o Order, res nightcrier.AgentResult) int {
	return o.Agent.MaxTurns - res.Usage.APIRequests
}

// reviewDeliverable looks at what an agent that has ended well delivered, and prepares to ask
// for it again.
func (s *Session) reviewDeliverable(ctx context.Context, d Deliverable, res nightcrier.AgentResult) (Review, error) {
	if res.State != nightcrier.StateSuccess {
		return Review{}, s.AppendNote(ctx, "review", NewLogItem("its %s is not looked at: the agent ended as %s", s.place.deliverable(), res.State))
	}
	if s.Workspace == nil {
		return Review{}, nil // who takes it over says why
	}
	found, err := d.Validate(ctx, s)
	if err != nil && CanBeRepeated(ctx, err) {
		return Review{}, err
	}
	if err != nil || len(found.Problems) == 0 {
		return Review{}, nil // who takes it over meets the same error, and ends the run
	}
	who, err := s.Order.Executor()
	if err != nil {
		return Review{}, nil // nor was it started
	}
	asked := Review{Problems: found.Problems, Unasked: whyUnaskable(s.Order, who, res)}
	if !asked.IsDue() {
		return asked, s.noteReview(ctx, asked)
	}
	if err := s.writeRepair(d.AskAgain(s, asked.Problems), found.Text); err != nil {
		if ctx.Err() != nil {
			return asked, err
		}
		asked.Unasked, asked.Full = err.Error(), workspace.DiskFault(err)
	}
	return asked, s.noteReview(ctx, asked)
}

// whyUnaskable says why an agent cannot be asked again, "" when it can.
func whyUnaskable(o Order, who agent.Executor, res nightcrier.AgentResult) string {
	switch {
	case !who.Resumes:
		return o.Agent.Executor + " cannot go on with a session"
	case res.SessionID == "":
		return "the agent named no session"
	case timeLeft(o, res) < minRepair:
		return fmt.Sprintf("less than %s is left of its time", minRepair)
	case o.Agent.MaxTurns > 0 && turnsLeft(o, res) < 1:
		return fmt.Sprintf("its %d turns are used up", o.Agent.MaxTurns)
	}
	return ""
}

// writeRepair writes what the agent is asked, and keeps what it delivered as it was.
func (s *Session) writeRepair(ask, refused []byte) error {
	if err := s.Workspace.WriteFile(RepairPrompt, ask, 0o600); err != nil {
		return err
	}
	sent, err := s.Workspace.ReadFile(SentFile)
	if err != nil {
		return err
	}
	if err := s.Workspace.WriteFile(SentFile, appendAsked(sent, ask), 0o600); err != nil {
		return err
	}
	if refused == nil {
		return nil
	}
	return s.Workspace.WriteFile(RefusedFile, refused, 0o600)
}

// appendAsked adds what was asked later to the record of what was sent. It is added once.
func appendAsked(sent, asked []byte) []byte {
	more := append([]byte("\n\n# Asked again, in the same session\n\n"), asked...)
	if bytes.HasSuffix(sent, more) {
		return sent
	}
	return append(slices.Clone(sent), more...)
}

func (s *Session) noteReview(ctx context.Context, asked Review) error {
	then := "the agent is asked for it again, once"
	if !asked.IsDue() {
		then = "it is not asked for again: " + asked.Unasked
	}
	s.Log.Warn("what the agent delivered is not valid", "event", "report_refused", "problems", asked.Problems, "asked_again", asked.IsDue(), "reason", asked.Unasked)
	return s.AppendNote(ctx, "review", NewLogItem("the %s is not valid: %s; %s", s.place.deliverable(), strings.Join(asked.Problems, "; "), then))
}
