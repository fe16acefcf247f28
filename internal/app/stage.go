package app

import (
	"context"

	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/record/replay"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/run"
)

// Stage is what an App that replays takes from the record.
type Stage struct {
	// Order is that of the record; nil is one as configured now.
	Order *run.Order
	Tapes map[string]*replay.Player
	// Record is the workspace that answers in the place of tools of others, metrics and
	// logs, "" where it has no such answers; Servers are those whose tools it has.
	Record  string
	Servers []toolserver.Server
	// Skill is one more that the agent gets; nil is none.
	Skill *skill.Skill
	// Access is the way to the recorded cluster, nil where an agent had none, and why.
	Access *backend.Credential
	Why    string
}

// openTape opens the tape of a step: a new one, or that of the record.
func (a *App) openTape(ws *workspace.Workspace, runID, step string) (run.Tape, error) {
	if a.opt.Replays != nil {
		return a.opt.Replays.Tapes[step], nil
	}
	return replay.NewRecorder(runID, step, a.opt.Version, a.masker.Bytes, replay.Whole(func(packed []byte) error {
		return ws.WriteFile(replay.File(step), packed, 0o600)
	}))
}

// agentAccess is the credential that the guard of an agent may hold.
func (a *App) agentAccess(ctx context.Context, cluster, namespace string) (*backend.Credential, string) {
	if a.opt.Replays != nil {
		return a.opt.Replays.Access, a.opt.Replays.Why
	}
	return a.access.AgentAccess(ctx, cluster, namespace)
}
