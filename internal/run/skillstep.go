package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/run/instruct"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
	"nightcrier.dev/nightcrier/internal/text"
)

// SkillSteps makes agents ready for any skill, from the copies that were pinned. Whoever delivers
// the report of an investigation is another's business.
type SkillSteps struct {
	Copies skill.Copies
	Report Skills
	// Knowledge is what agents are given beside their input, nil for nothing.
	Knowledge Knowledge
}

// Knowledge is what is known beside the input of a step: by the keys of an input, of which it has none that is
// there.
type Knowledge interface {
	Given(skill string, input map[string]any, workloads ...string) map[string]any
}

// earlierDir has what earlier steps left, by their ids.
const earlierDir = "context/steps"

// maxEarlier bounds what is copied of that into one workspace, in bytes.
const maxEarlier = 64 << 20

// PrepareSkill implements Skills.
func (k SkillSteps) PrepareSkill(ctx context.Context, s *Session, t Task) error {
	if t.Step.DeliversReport() {
		return k.Report.PrepareSkill(ctx, s, t)
	}
	sk, err := k.Copies.Open(t.Skill.Digest)
	if err != nil {
		return err
	}
	who, err := s.Order.Executor()
	if err != nil {
		return err
	}
	given, err := k.completeInput(ctx, s, t)
	if err != nil {
		return err
	}
	earlier, err := s.copyEarlier(ctx, t.Before, who.Obeys)
	if err != nil {
		return err
	}
	cluster, _ := s.Target()
	var writes []string
	if t.Skill.Agent != nil {
		for _, server := range t.Skill.Agent.ToolServers {
			if server.Writes {
				writes = append(writes, server.Name)
			}
		}
	}
	files := s.Workspace.Batch()
	ref, err := sk.Install(files)
	if err != nil {
		return err
	}
	for name, data := range instruct.Build(instruct.Input{
		Pipeline: s.Order.Pipeline.Definition.Name, Step: t.Step.ID, Skill: sk, Agent: who, Given: given, InputFile: InputFile,
		Deliverable: t.Step.Deliverable, Cluster: cluster, Writes: writes, Earlier: earlier,
	}) {
		if err := files.WriteFile(name, data, 0o600); err != nil {
			return err
		}
	}
	if err := files.Sync(); err != nil {
		return err
	}
	return s.AppendNote(ctx, "skill", NewLogItem("the skill %s %s (%s) is installed", t.Step.Skill, ref.Version, ref.Digest))
}

// completeInput adds what is known to the input of a step, and returns it as it is in the workspace, nil
// for none.
func (k SkillSteps) completeInput(ctx context.Context, s *Session, t Task) ([]byte, error) {
	given, err := s.Workspace.ReadFile(InputFile)
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		given, err = nil, nil
	}
	if err != nil || k.Knowledge == nil {
		return given, err
	}
	input := maps.Clone(t.Input)
	if input == nil {
		input = map[string]any{}
	}
	known := k.Knowledge.Given(t.Step.Skill, input, s.Incident.Resource.Name, s.Incident.Owner.Name)
	if len(known) == 0 {
		return given, nil
	}
	maps.Copy(input, known)
	if err := s.writeInput(input); err != nil {
		return nil, err
	}
	said := text.JoinWords(slices.Sorted(maps.Keys(known)), "and")
	if err := s.AppendNote(ctx, "knowledge", NewLogItem("the agent is given beside its input: %s", said)); err != nil {
		return nil, err
	}
	return s.Workspace.ReadFile(InputFile)
}

// Target is the cluster that a step may look into, and where in it: that of the incident, or the
// one that the input names.
func (s *Session) Target() (cluster, namespace string) {
	if s.Incident.ID != "" {
		return s.Incident.Cluster, s.Incident.Namespace()
	}
	return s.place.cluster, s.place.namespace
}

// namedCluster is the cluster that the run was called with, or that its pipeline hands to the step.
// What an agent delivered does not count: it could name itself another one.
func (w *Work) namedCluster() (cluster, namespace string) {
	in := maps.Clone(w.input)
	with, err := w.frozen.Pipeline.Definition.EvalWith(w.ctx, w.step, w.scope(w.step))
	if err != nil {
		return "", "" // tryStep has met it
	}
	maps.Copy(in, with)
	cluster, _ = in["cluster"].(string)
	namespace, _ = in["namespace"].(string)
	return cluster, namespace
}

// copyEarlier copies what earlier steps left into the workspace, and returns the directories that
// it made. What is too much, not there any more, not what it was, or called as what the agent would
// obey, is left out, and noted.
func (s *Session) copyEarlier(ctx context.Context, before []nightcrier.Step, obeyed string) (dirs []string, err error) {
	left := int64(maxEarlier)
	var without []string
	defer func() {
		if err == nil && len(without) > 0 {
			err = s.AppendNote(ctx, "handed-on", NewLogItem("not all that earlier steps left is handed on: %s", text.CutLine(strings.Join(without, "; "), maxProblem)))
		}
	}()
	for _, step := range before {
		ws, err := s.openEarlier(step)
		if nightcrier.CodeOf(err) == nightcrier.NotFound {
			without = append(without, "what "+step.ID+" left is not there any more")
			continue
		}
		if err != nil {
			return nil, err
		}
		dir := path.Join(earlierDir, step.ID)
		data := slices.DeleteFunc(slices.Clone(step.Artifacts), func(a nightcrier.Artifact) bool {
			obeys := strings.EqualFold(path.Base(a.Path), obeyed)
			if obeys {
				without = append(without, a.Path+" has the name of what "+s.Order.Agent.Executor+" takes for instructions")
			}
			return obeys
		})
		n, not, err := s.copyArtifacts(ws, data, dir, &left)
		without = append(without, not...)
		if err = errors.Join(err, ws.Close()); err != nil {
			return nil, err
		}
		if n > 0 {
			dirs = append(dirs, dir+"/")
		}
	}
	return dirs, nil
}

// copyArtifacts copies what there is room for and is what was left, and returns what it did not.
func (s *Session) copyArtifacts(from *workspace.Workspace, all []nightcrier.Artifact, dir string, left *int64) (n int, without []string, err error) {
	for _, a := range all {
		if a.Bytes > *left {
			without = append(without, fmt.Sprintf("%s has %d bytes, of which there is no room for (%d in all)", a.Path, a.Bytes, maxEarlier))
			continue
		}
		data, err := from.ReadFile(a.Path)
		switch {
		case err != nil && CanBeRepeated(context.Background(), err):
			return n, without, err
		case err != nil:
			without = append(without, a.Path+": "+err.Error())
			continue
		case text.DigestOf(data) != a.SHA256:
			without = append(without, a.Path+" is not what it was when the step ended")
			continue
		}
		if err := s.Workspace.WriteFile(path.Join(dir, strings.TrimPrefix(a.Path, "output/")), data, 0o600); err != nil {
			return n, without, err
		}
		*left -= int64(len(data))
		n++
	}
	return n, without, nil
}

// openEarlier opens the workspace of a step that is done.
func (s *Session) openEarlier(step nightcrier.Step) (*workspace.Workspace, error) {
	o := s.Order
	if step.FromRun != "" {
		o.RunID = step.FromRun
	}
	ws, err := s.runner.cfg.Root.Open(o.WorkspaceID())
	if err != nil || isAction(step) {
		return ws, err
	}
	return openOwn(ws, nightcrier.DerivedID(o.RunID, attemptName(step.ID, step.Attempt)), false)
}

// isAction reports whether a step is one of ours.
func isAction(step nightcrier.Step) bool { return strings.HasPrefix(step.Uses, "action:") }

// before are the steps that left files.
func (w *Work) before() (all []nightcrier.Step) {
	for _, id := range slices.Sorted(maps.Keys(w.done)) {
		row := w.done[id]
		if row.State == nightcrier.StateSuccess && len(row.Artifacts) > 0 && len(row.Artifacts) <= store.MaxStepArtifacts {
			all = append(all, row)
		}
	}
	return all
}

// applySkill has what was pinned of a skill count for the step: how its agent is started and
// bounded, and what it delivers. What the step says itself counts before it.
func (w *Work) applySkill(step *pipeline.Step) *pipeline.Step {
	pin := w.frozen.Pipeline.Skills[step.Skill]
	if pin.Agent != nil {
		bounds := w.Order.Agent.Budget
		w.Order.Agent = *pin.Agent
		w.Order.Agent.Budget = bounds
	}
	w.Order.Agent.Budget.Step.BoundMoney(pin.BudgetUSD, "the budget of the skill "+step.Skill)
	if step.Deliverable != nil || pin.Deliverable == nil {
		return step
	}
	with := *step
	with.Deliverable = pin.Deliverable
	return &with
}
