package review

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
	"nightcrier.dev/nightcrier/internal/text"
)

// planFile has the plan, before anything of it is posted.
const planFile = "output/review/plan.json"

// outcome is what the step that posts hands on.
type outcome struct {
	// Posted says that it was posted, and Why not.
	Posted bool   `json:"posted"`
	Why    string `json:"why,omitempty"`
	Head   string `json:"head,omitempty"`
	// Preview is what is posted as people read it; the artifact has it word for word.
	Preview string `json:"preview"`
	Plan    Counts `json:"found"`
}

// Counts are the findings of a plan.
type Counts struct {
	OnLines  int `json:"on_lines"`
	Listed   int `json:"listed"`
	Unsure   int `json:"unsure"`
	Repeated int `json:"repeated"`
}

// planned is the checkpoint of a plan.
type planned struct {
	outcome
	Ref      Ref                     `json:"ref"`
	Parts    []string                `json:"parts,omitempty"`
	Artifact nightcrier.Artifact     `json:"artifact"`
	Failed   string                  `json:"failed,omitempty"` // why no agent delivered anything
	Failure  string                  `json:"failure,omitempty"`
	Class    nightcrier.FailureClass `json:"class,omitempty"`
}

// post plans what is posted and posts it, each part in a checkpoint of its own: what was posted before a
// crash is adopted after it.
func (r *Reviewer) post(w *run.Work) (done run.Done, err error) {
	done.Result = w.Result
	in, agents := w.Given(), agentsOf(w.Earlier())
	p, err := run.Checkpoint(w, "plan", func(c context.Context, s *run.Session) (planned, error) {
		p, err := r.planPost(c, s, in, agents)
		if err == nil || run.CanBeRepeated(c, err) {
			return p, err
		}
		return planned{Failure: err.Error(), Class: run.ClassOf(err, nightcrier.FailInternal)}, nil
	})
	switch {
	case err != nil:
		return done, err
	case p.Failure != "":
		done.Class, done.Reason = p.Class, p.Failure
		return done, nil
	}
	var failed []string
	for _, part := range p.Parts {
		why, err := run.Checkpoint(w, "post "+part, func(c context.Context, s *run.Session) (string, error) {
			err := r.postPart(c, s, p.Ref, part)
			if err == nil || run.CanBeRepeated(c, err) {
				return "", err
			}
			return text.CutLine(err.Error(), 500), nil
		})
		if err != nil {
			return done, err
		}
		if why != "" {
			failed = append(failed, part+": "+why)
		}
	}
	done.Artifacts = []nightcrier.Artifact{p.Artifact}
	if done.Output, err = json.Marshal(p.outcome); err != nil {
		return done, err
	}
	if p.Failed != "" {
		failed = append(failed, p.Failed)
	}
	if len(failed) > 0 {
		done.Class, done.Reason = nightcrier.FailInternal, strings.Join(failed, "; ")
	}
	return done, nil
}

// agentsOf are the steps that looked.
func agentsOf(steps []nightcrier.Step) (all []Agent) {
	for _, s := range steps {
		if strings.HasPrefix(s.Uses, "action:") {
			continue
		}
		a := Agent{Step: s.ID, Model: s.Model, CostUSD: s.Usage.CostUSD}
		switch {
		case s.Skipped != "":
			continue
		case s.State != nightcrier.StateSuccess:
			a.Failure = text.FoldLine(s.FailureReason)
			if a.Failure == "" {
				a.Failure = string(s.State)
			}
		default:
			d, err := readDelivered(s.Output)
			if a.Summary, a.findings = d.Summary, d.Findings; err != nil {
				a.Failure = err.Error()
			}
		}
		all = append(all, a)
	}
	return all
}

// planPost plans, and keeps the plan in the workspace.
func (r *Reviewer) planPost(ctx context.Context, s *run.Session, in map[string]any, agents []Agent) (p planned, err error) {
	q, err := r.readRequest(in)
	if err != nil {
		return p, err
	}
	if s.Workspace == nil {
		return p, s.NoWorkspace
	}
	l := looked{agents: agents, policy: r.policyOf(q.ref.Repository), runID: s.Order.RunID}
	for name, into := range map[string]any{"diff.json": &l.diff, "about.json": &l.about} {
		raw, err := s.Workspace.ReadFile(path.Join(keptDir, name))
		if err == nil {
			err = json.Unmarshal(raw, into)
		}
		if err != nil {
			return p, fmt.Errorf("what was fetched is not there: put action: %s before it (%w)", pipeline.ActionFetch, err)
		}
	}
	if q.ref != l.about.Ref {
		return p, nightcrier.Errorf(nightcrier.Invalid, "another pull request was fetched")
	}
	p.Ref, p.Head = q.ref, l.about.Head
	if p.Why, err = r.whyNotPost(ctx, q, &l); err != nil {
		return p, err
	}
	plan := l.plan()
	raw, err := json.MarshalIndent(plan, "", "  ")
	if err != nil {
		return p, err
	}
	p.Plan = Counts{plan.OnLines, plan.Listed, plan.Unsure, plan.Repeated}
	p.Preview = text.CutBytes(plan.Preview(), maxPosted)
	p.Artifact = nightcrier.Artifact{Path: planFile, Bytes: int64(len(raw)), SHA256: text.DigestOf(raw)}
	if p.Failed = whyNothing(agents); len(agents) == 0 && slices.ContainsFunc(l.about.Files, func(f ShownFile) bool { return f.LeftOut == "" }) {
		p.Failed = "no agent looked at it"
	}
	if p.Why == "" {
		p.Posted, p.Parts = true, plan.parts()
	}
	return p, s.Workspace.WriteFile(planFile, raw, 0o600)
}

// whyNotPost says why nothing is posted, "" where it is, and reads what stands there already.
func (r *Reviewer) whyNotPost(ctx context.Context, q request, l *looked) (string, error) {
	if q.diff != "" {
		return "it is a diff, and no pull request", nil
	}
	var err error
	if l.posted, err = r.Reader.Posted(ctx, q.ref); err != nil {
		return "", err
	}
	now, err := r.Reader.Pull(ctx, q.ref)
	switch {
	case err != nil:
		return "", err
	case now.Closed:
		return "the pull request was closed meanwhile", nil
	case now.Head != l.about.Head:
		return "the pull request is at " + shortCommit(now.Head) + " by now", nil
	case q.dryRun || l.policy.DryRun:
		return "it is a dry run", nil
	}
	return "", nil
}

// whyNothing says why no agent delivered anything, "" where one did, or none was asked.
func whyNothing(agents []Agent) (why string) {
	for _, a := range agents {
		if a.Failure == "" {
			return ""
		}
		why = a.Step + ": " + a.Failure
	}
	return why
}

// parts are the names of what is posted, one after the other.
func (p *Plan) parts() (all []string) {
	if p.Review != nil {
		all = append(all, "review")
	}
	if p.Summary != nil {
		all = append(all, "summary")
	}
	for _, c := range p.Checks {
		all = append(all, c.ExternalID)
	}
	return all
}

// postPart posts a part of the plan.
func (r *Reviewer) postPart(ctx context.Context, s *run.Session, ref Ref, part string) error {
	if s.Workspace == nil {
		return s.NoWorkspace
	}
	raw, err := s.Workspace.ReadFile(planFile)
	if err != nil {
		return err
	}
	var p Plan
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	return r.write(ctx, ref, &p, part)
}

// write writes a part of a plan.
func (r *Reviewer) write(ctx context.Context, ref Ref, p *Plan, part string) error {
	switch part {
	case "review":
		return r.Writer.PostReview(ctx, ref, *p.Review)
	case "summary":
		return r.Writer.PutSummary(ctx, ref, *p.Summary)
	}
	for _, c := range p.Checks {
		if c.ExternalID == part {
			return r.Writer.PutCheck(ctx, ref, c)
		}
	}
	return nightcrier.Errorf(nightcrier.Internal, "the plan has no %s", part)
}
