package triage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/guard/readonly"
	"nightcrier.dev/nightcrier/internal/guard/tools"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/triage/prompt"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// Files that the steps of a run hand on to each other. The agent can read them
// and write none.
//
// DiagnosisFile has what the facts say, before an agent was asked.
const DiagnosisFile = "context/diagnosis.json"

// prepareRun fills the workspace.
func (s *session) prepareRun(ctx context.Context) (nightcrier.AgentResult, error) {
	if s.Workspace == nil {
		return run.UnpreparedResult(ctx, s.NoWorkspace)
	}
	err := s.awaitEarlierScript(ctx)
	if err == nil {
		err = errors.Join(s.removeOldResults(), s.fillWorkspace(ctx))
	}
	if err != nil {
		return run.UnpreparedResult(ctx, err)
	}
	if res, err := s.CancelledEarly(ctx); err != nil || res.State.Terminal() {
		return res, err
	}
	if s.Order.Agent.Executor != run.Builtin {
		return nightcrier.AgentResult{State: nightcrier.StateCreated}, nil
	}
	return nightcrier.AgentResult{State: nightcrier.StateSuccess, TerminalEvent: "facts", StartedAt: s.Incident.StartedAt, EndedAt: s.Now()}, nil
}

// removeOldResults removes what an earlier run of the incident delivered, so that nothing of
// it is taken for this one's.
func (s *session) removeOldResults() error {
	err := errors.Join(s.Workspace.ClearScratch(), s.Workspace.RemoveTree(workspace.RecordDir))
	for _, rel := range []string{agentReport, run.FinalMessage, machineFile, report.FinalFile, auditFile, run.RepairPrompt, run.RefusedFile} {
		err = errors.Join(err, s.Workspace.Remove(rel))
	}
	return err
}

// fillWorkspace collects the facts and writes every file that the agent is given.
func (s *session) fillWorkspace(ctx context.Context) error {
	if err := s.OpenEvidence(ctx); err != nil {
		return err
	}
	began, err := s.newBegun(ctx)
	if err != nil {
		return err
	}
	f, err := s.collectFacts(ctx, began)
	if err != nil {
		return err
	}
	bundle, err := s.newBundle(began, f)
	if err != nil {
		return err
	}
	if err := s.writeBegun(began, f.event); err != nil {
		return err
	}
	skills, err := s.installFiles(bundle, s.Workspace)
	if err != nil {
		return err
	}
	for _, w := range bundle.Warnings {
		s.Log.Warn(w, "event", "context_size")
	}
	return s.ShowProgress(ctx, store.Progress{
		State: nightcrier.StateCreated, Executor: s.Order.Agent.Executor, Workspace: s.Workspace.Dir(),
		ContextIncomplete: bundle.Incomplete, Skills: skills,
	})
}

// installFiles writes the skills, the prompt and the context.
func (t *Triage) installFiles(bundle prompt.Bundle, ws *workspace.Workspace) ([]nightcrier.SkillRef, error) {
	files := ws.Batch()
	var refs []nightcrier.SkillRef
	for _, s := range append([]*skill.Skill{t.Skill}, t.Include...) {
		ref, err := s.Install(files)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	for rel, data := range bundle.Files {
		if err := files.WriteFile(rel, data, 0o600); err != nil {
			return nil, err
		}
	}
	return refs, files.Sync()
}

// includedSkills are the skills beside the troubleshooter, as the prompt names them.
func (t *Triage) includedSkills() []prompt.Skill {
	var all []prompt.Skill
	for _, s := range t.Include {
		all = append(all, prompt.Skill{Path: s.Path(), Description: s.Description})
	}
	return all
}

// facts are what was found out before an agent is asked.
type facts struct {
	diagnose.Diagnosis
	event nightcrier.Event
	now   time.Time
	// script is what the triage script adds to the report.
	script string
}

// collectFacts looks into the cluster, keeps what it finds, and runs the triage script.
func (s *session) collectFacts(ctx context.Context, began Begun) (facts, error) {
	spareNames(s.Mask, &s.Incident)
	look, err := s.lookIntoCluster(ctx, "prepare")
	if err != nil {
		return facts{}, err
	}
	d, err := s.diagnose(ctx, look, look.Sources)
	if err = errors.Join(err, look.close()); err != nil {
		return facts{}, err
	}
	d.Report.Context = began.Context
	d.Report.Runbooks = s.findRunbooks(ctx, look.event, &d.Report)
	if err := s.recallEarlier(ctx, &d.Report); err != nil {
		return facts{}, err
	}
	raw, err := json.MarshalIndent(d.Report, "", "  ")
	if err != nil {
		return facts{}, fmt.Errorf("encode the diagnosis: %w", err)
	}
	if err := s.Workspace.WriteFile(DiagnosisFile, raw, 0o600); err != nil {
		return facts{}, err
	}
	if err := s.AppendNotes(ctx, append(look.untoldEvidence(), run.Remark{Key: "prepared",
		Item: run.NewLogItem("facts collected: %d reads, verdict %s", d.Report.Usage.APIRequests, d.Report.Verdict)})...); err != nil {
		return facts{}, err
	}
	more, lacking, err := s.runTriageScript(ctx)
	d.Incomplete = joinReasons(d.Incomplete, lacking)
	return facts{d, look.event, look.Now, more}, err
}

// promptAgent is what the prompt has to know of an agent, and of what it may look with: the
// words of agent.allowed_tools.
func promptAgent(who agent.Executor, allowed []string) prompt.Agent {
	a := prompt.Agent{PreloadInSystem: who.PreloadInSystem, Instructions: who.Instructions, FileTool: who.FileTool, AnswersOnly: who.AnswersOnly}
	may, _ := readonly.Parse(allowed) // what it narrows was told with the configuration
	if !who.UsesTools {
		a.Verbs = may.Verbs
		return a
	}
	offered, _ := agent.OfferedTools(tools.ClusterToolNames(), may) // the worker tells what is left out
	for _, name := range offered {
		a.Tools = append(a.Tools, who.ToolPrefix+name)
	}
	return a
}

// joinReasons puts two reasons into one text; either may be "".
func joinReasons(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// newBundle makes the prompt and the context files.
func (s *session) newBundle(began Begun, f facts) (prompt.Bundle, error) {
	who, err := s.Order.Executor()
	if err != nil {
		return prompt.Bundle{}, err
	}
	logs := make([]prompt.Log, 0, len(f.Logs))
	for _, l := range f.Logs {
		logs = append(logs, prompt.Log{Namespace: l.Namespace, Pod: l.Pod, Container: l.Container, Previous: l.Previous, Evidence: l.Evidence, Text: l.Text})
	}
	shown := f.Report
	shown.Recalled, shown.Runbooks = nil, nil // they have blocks of their own
	can, as := began.Access, promptAgent(who, s.Order.Agent.AllowedTools)
	if can.Granted && len(as.Tools)+len(as.Verbs) == 0 {
		can = Access{Why: "agent.allowed_tools names nothing that looks into one"}
	}
	return prompt.Build(prompt.Input{
		CanLook: can.Granted, WhyNot: can.Why,
		Incident: &s.Incident, Event: f.event, Logs: logs, ClusterInfo: prompt.ClusterInfo(f.ClusterInfo), Permissions: f.Permissions,
		TriageReport: slices.Concat(report.Weigh(&shown), report.Render(&shown, report.Detail{Incident: &s.Incident, Now: f.now}), []byte(f.script)), Earlier: f.Report.Recalled, Runbooks: f.Report.Runbooks, Incomplete: f.Incomplete,
		Agent: as, SkillPath: s.Skill.Path(), Skills: s.includedSkills(),
		Preload: s.Order.Agent.Preload, SystemPromptFile: s.Order.Agent.SystemPromptFile, Mask: s.Mask.String,
	})
}
