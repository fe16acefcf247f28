package run

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/run/engine"
	"nightcrier.dev/nightcrier/internal/triage/prompt"
)

// The worker that asks an agent for its report again is numbered behind those of the
// attempts at the investigation: so it has a directory, a claim and a record of its own.
const (
	repairAttempt = maxAttempts + 1
	repairStep    = "repair"
)

// The files of a repair: what the agent is asked, and the report that lacked
// something.
const (
	repairPrompt = "context/repair.md"
	refusedFile  = "logs/report-before-repair.md"
)

// minRepair is the least time in which a report can be written again.
const minRepair = 10 * time.Second

// repair is what became of a report that lacked something.
type repair struct {
	// Problems are those of the first report; none when it was valid, or not due.
	Problems []string `json:"problems,omitempty"`
	// Unasked says why the agent is not asked for it again, "" when it is.
	Unasked string `json:"unasked,omitempty"`
	// Failure says why asking came to nothing, "" when the agent ended well.
	Failure string `json:"failure,omitempty"`
	// Full says that it was a full disk that asking came to nothing for.
	Full bool `json:"full,omitempty"`
}

// isDue reports whether the agent is asked for its report again.
func (p repair) isDue() bool { return len(p.Problems) > 0 && p.Unasked == "" }

// whyNoReport says why there is no report of the agent's; problems are those of the one
// that is there now.
func (p repair) whyNoReport(problems []string) string {
	first := p.Problems
	if len(first) == 0 {
		first = problems
	}
	said := "the agent's report is not valid: " + strings.Join(first, "; ")
	switch {
	case p.Unasked != "":
		return said + "; it was not asked for again: " + p.Unasked
	case p.Failure != "":
		return said + "; asked for it again, the agent failed: " + p.Failure
	case p.isDue():
		return said + "; asked for again, it is still not valid: " + strings.Join(problems, "; ")
	}
	return said
}

// repairReport asks an agent that has ended well, in the same session and once, for a
// report that lacks something. It returns the agent's result with what that took.
func (r *Runner) repairReport(ctx engine.Context, o Order, first nightcrier.AgentResult) (nightcrier.AgentResult, repair, error) {
	asked, err := inSession(ctx, r, o, "review", func(c context.Context, s *session) (repair, error) { return s.reviewReport(c, first) })
	if err != nil || !asked.isDue() {
		return first, asked, err
	}
	second, err := r.runAttempt(ctx, o, newRepairAttempt(o, first))
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
// make its investigation a failure; that it was cancelled ends the run.
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
func newRepairAttempt(o Order, first nightcrier.AgentResult) try {
	return try{
		attempt: repairAttempt, step: repairStep, what: "asking %s, %s, for its report again, in the same session",
		change: func(s *backend.Spec) {
			s.Session, s.PromptFile, s.Used = first.SessionID, repairPrompt, first.Usage
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

// reviewReport looks at the report of an agent that has ended well, where the agent left
// it, and prepares to ask for it again. What is wrong with it is told in our own
// words; the report itself is not repeated to the agent.
func (s *session) reviewReport(ctx context.Context, res nightcrier.AgentResult) (repair, error) {
	if s.order.Agent.Executor == Builtin {
		return repair{}, nil
	}
	if res.State != nightcrier.StateSuccess {
		return repair{}, s.appendNote(ctx, "review", newLogItem("its report is not looked at: the agent ended as %s", res.State))
	}
	if s.ws == nil {
		return repair{}, nil // check says why
	}
	var theirs nightcrier.Report
	var md []byte
	err := s.openEvidence(ctx)
	if err == nil {
		theirs, md, err = s.readAgentReport(s.ws.Uncollected)
	}
	if err != nil && (ctx.Err() != nil || nightcrier.CodeOf(err) == nightcrier.Unreachable) {
		return repair{}, err
	}
	if err != nil || theirs.Valid {
		return repair{}, nil // check meets the same error, and ends the run
	}
	who, err := executorOf(s.order)
	if err != nil {
		return repair{}, nil // nor was it started
	}
	asked := repair{Problems: theirs.Problems, Unasked: whyUnaskable(s.order, who, res)}
	if !asked.isDue() {
		return asked, s.noteReview(ctx, asked)
	}
	if err := s.writeRepair(promptAgent(who, s.order.Agent.AllowedTools), md, asked.Problems); err != nil {
		if ctx.Err() != nil {
			return asked, err
		}
		asked.Unasked, asked.Full = err.Error(), workspace.DiskFault(err)
	}
	return asked, s.noteReview(ctx, asked)
}

// whyUnaskable says why an agent cannot be asked for its report again, "" when it can.
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

// writeRepair writes what the agent is asked, and keeps the report as it was for
// people who want to know why.
func (s *session) writeRepair(who prompt.Agent, md []byte, problems []string) error {
	ask := prompt.Repair(who, problems)
	if err := s.ws.WriteFile(repairPrompt, ask, 0o600); err != nil {
		return err
	}
	sent, err := s.ws.ReadFile(sentFile)
	if err != nil {
		return err
	}
	if err := s.ws.WriteFile(sentFile, prompt.Again(sent, ask), 0o600); err != nil {
		return err
	}
	if md == nil {
		return nil
	}
	return s.ws.WriteFile(refusedFile, md, 0o600)
}

func (s *session) noteReview(ctx context.Context, asked repair) error {
	then := "the agent is asked for it again, once"
	if !asked.isDue() {
		then = "it is not asked for again: " + asked.Unasked
	}
	s.log.Warn("the agent's report is not valid", "event", "report_refused", "problems", asked.Problems, "asked_again", asked.isDue(), "reason", asked.Unasked)
	return s.appendNote(ctx, "review", newLogItem("the report is not valid: %s; %s", strings.Join(asked.Problems, "; "), then))
}
