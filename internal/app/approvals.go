package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/notify"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// people are who can be asked.
func (a *Investigator) people() run.People {
	c := a.cfg.Approvals
	return run.People{Approvers: c.Names(), Needed: c.Needed, Expires: c.Expires}
}

// checkApprovers refuses a pipeline that asks people whom nobody knows, or too few of them.
func (a *Investigator) checkApprovers(d *pipeline.Definition, pins map[string]pipeline.SkillPin) error {
	for _, s := range d.AllSteps() {
		if s.Approval == nil && pins[s.Skill].Approval == "" {
			continue
		}
		if len(a.cfg.Approvals.Approvers) == 0 {
			return nightcrier.Errorf(nightcrier.Conflict, "pipeline %s asks people, and nobody could answer: name them in approvals.approvers of the configuration", d.Name)
		}
		asks := pipeline.Approval{}
		if s.Approval != nil {
			asks = *s.Approval
		}
		for _, name := range asks.Approvers {
			if !a.isApprover(name) {
				return nightcrier.Errorf(nightcrier.Conflict, "step %s of pipeline %s asks %s, whom approvals.approvers of the configuration does not name", s.ID, d.Name, name)
			}
		}
		if needed := cmp.Or(asks.Needed, a.cfg.Approvals.Needed); len(asks.Approvers) == 0 && needed > len(a.cfg.Approvals.Approvers) {
			return nightcrier.Errorf(nightcrier.Conflict, "step %s of pipeline %s needs %d people to agree, and approvals.approvers of the configuration names fewer", s.ID, d.Name, needed)
		}
	}
	return nil
}

func (a *Investigator) isApprover(name string) bool {
	_, known := a.cfg.Approvals.Approvers[name]
	return known
}

// approverOf is whose token it is, "" for nobody's. It takes as long for one as for another.
func (a *Investigator) approverOf(token string) (whose string) {
	given := sha256.Sum256([]byte(token))
	for _, name := range a.cfg.Approvals.Names() {
		secret := a.cfg.Approvals.Tokens[name]
		known := sha256.Sum256([]byte(secret.Reveal()))
		if subtle.ConstantTimeCompare(given[:], known[:]) == 1 && secret.IsSet() {
			whose = name
		}
	}
	return whose
}

// DecideApproval implements api.Control.
func (a *Investigator) DecideApproval(ctx context.Context, id string, d nightcrier.Decision) (nightcrier.Approval, error) {
	if d.Arguments != nil {
		masked, err := a.masker.Strings(d.Arguments)
		if err != nil {
			return nightcrier.Approval{}, nightcrier.Errorf(nightcrier.Invalid, "arguments: %w", err)
		}
		d.Arguments = masked
	}
	d.Reason = a.masker.String(d.Reason)
	return a.store.DecideApproval(ctx, id, d)
}

// Ask implements run.Supervisor.
func (s supervisor) Ask(ctx context.Context, asked nightcrier.Approval) {
	if err := s.notifier.Notify(ctx, notify.ApprovalOf(asked)); err != nil && ctx.Err() == nil {
		s.log.Error("it is not known whether people were told that they are asked", "component", "notify", "event", "approval_not_told", "approval", asked.ID, "run", asked.RunID, "error", err)
	}
}

// approvalMessageOf makes the message of an approval of a run anew, which may be decided by now.
func (a *Investigator) approvalMessageOf(ctx context.Context, n store.Notification) (notify.Message, error) {
	list, _, err := a.store.Approvals(ctx, store.ApprovalFilter{RunID: n.RunID})
	if err != nil {
		return notify.Message{}, err
	}
	for _, asked := range list {
		if m := notify.ApprovalOf(asked); m.Key == n.Key && asked.Status == nightcrier.ApprovalPending {
			return m, nil
		}
	}
	return notify.Message{}, nightcrier.Errorf(nightcrier.Conflict, "nothing is asked any more")
}
