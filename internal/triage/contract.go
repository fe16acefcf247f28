package triage

import (
	"context"
	"path"

	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/triage/prompt"
)

// reportContract is what the agent of an investigation delivers: the report.
type reportContract struct{ *Triage }

// Validate implements run.Deliverable.
func (c reportContract) Validate(ctx context.Context, in *run.Session) (run.Found, error) {
	s := &session{in, c.Triage}
	if err := s.OpenEvidence(ctx); err != nil {
		return run.Found{}, err
	}
	theirs, md, err := s.readAgentReport(func() ([]byte, error) { return s.Workspace.Uncollected(path.Base(agentReport)) })
	if err != nil || theirs.Valid {
		return run.Found{}, err
	}
	return run.Found{Problems: theirs.Problems, Text: md}, nil
}

// AskAgain implements run.Deliverable.
func (c reportContract) AskAgain(s *run.Session, problems []string) []byte {
	who, _ := s.Order.Executor() // it was started
	return prompt.Repair(promptAgent(who, s.Order.Agent.AllowedTools), problems)
}
