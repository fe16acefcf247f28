package review

import "context"

// ReviewOnce does what a run does of a review whose agents delivered this, and returns what was planned. With
// crash it posts each part twice.
func ReviewOnce(ctx context.Context, r *Reviewer, ref Ref, runID string, crash bool, agents map[string]string) (Plan, About, error) {
	f := fetching{Reviewer: r, mask: func(s string) string { return s }, policy: r.policyOf(ref.Repository)}
	q := request{ref: ref}
	if err := f.read(ctx, q); err != nil {
		return Plan{}, About{}, err
	}
	l := looked{about: f.material.about, diff: f.diff, policy: f.policy, runID: runID}
	for step, raw := range agents {
		d, err := readDelivered([]byte(raw))
		if err != nil {
			return Plan{}, About{}, err
		}
		l.agents = append(l.agents, Agent{Step: step, Summary: d.Summary, findings: d.Findings})
	}
	if why, err := r.whyNotPost(ctx, q, &l); err != nil || why != "" {
		return Plan{}, l.about, err
	}
	p, times := l.plan(), 1
	if crash {
		times = 2
	}
	for _, part := range p.parts() {
		for range times {
			if err := r.write(ctx, ref, &p, part); err != nil {
				return p, l.about, err
			}
		}
	}
	return p, l.about, nil
}
