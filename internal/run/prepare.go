package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/guard/readonly"
	"nightcrier.dev/nightcrier/internal/guard/tools"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/triage/prompt"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// Files that the steps of a run hand on to each other. The agent can read them
// and write none.
const (
	// DiagnosisFile has what the facts say, before an agent was asked.
	DiagnosisFile = "context/diagnosis.json"
	evidenceDir   = "output/evidence"
	sentFile      = "prompt-sent.md"
)

// prepareRun makes the workspace and fills it: the facts, the context, the prompt,
// the skill. Its result is terminal when no agent is to be started: the builtin
// executor has its report, the run was cancelled, or there is no workspace.
func (r *Runner) prepareRun(ctx context.Context, o Order) (nightcrier.AgentResult, error) {
	s, err := r.beginSession(ctx, o)
	if err != nil {
		return nightcrier.AgentResult{}, err
	}
	defer s.close()
	s.log.Info("investigation begins", "event", "investigation_started", "run", o.RunID)
	if s.ws == nil {
		return unpreparedResult(ctx, s.noWorkspace)
	}
	if err := s.noteState(ctx, journal.State{To: nightcrier.StateCreated}); err != nil {
		return nightcrier.AgentResult{}, err
	}
	if err := errors.Join(s.removeOldResults(), s.fillWorkspace(ctx)); err != nil {
		return unpreparedResult(ctx, err)
	}
	if res, err := s.cancelledEarly(ctx); err != nil || res.State.Terminal() {
		return res, err
	}
	if o.Agent.Executor != Builtin {
		return s.checkBudget(), nil
	}
	return nightcrier.AgentResult{State: nightcrier.StateSuccess, TerminalEvent: "facts", StartedAt: s.incident.StartedAt, EndedAt: r.cfg.Now()}, nil
}

// checkBudget says how a run goes on whose facts are collected: its agent is asked, unless
// nothing is left to spend on it.
func (s *session) checkBudget() nightcrier.AgentResult {
	if err := s.cfg.Supervisor.Afford(s.order, s.incident.Cluster); err != nil {
		s.log.Warn("the agent is not asked", "event", "budget", "error", err)
		return failedResult(nightcrier.FailBudget, fmt.Errorf("the agent was not asked: %w", err))
	}
	return nightcrier.AgentResult{State: nightcrier.StateCreated}
}

// removeOldResults removes what an earlier run of the incident delivered, so that nothing of
// it is taken for this one's.
func (s *session) removeOldResults() error {
	err := errors.Join(s.ws.ClearScratch(), s.ws.RemoveTree(workspace.RecordDir))
	for _, rel := range []string{agentReport, finalMessage, machineFile, FinalReport, auditFile, repairPrompt, refusedFile} {
		err = errors.Join(err, s.ws.Remove(rel))
	}
	return err
}

// unpreparedResult tells what can be tried again (the store is away, the server
// stops) from what ends the run: a workspace that cannot be written.
func unpreparedResult(ctx context.Context, err error) (nightcrier.AgentResult, error) {
	if ctx.Err() != nil || nightcrier.CodeOf(err) == nightcrier.Unreachable {
		return nightcrier.AgentResult{}, err
	}
	return failedResult(classOf(err, nightcrier.FailStart), err), nil
}

func (s *session) noteState(ctx context.Context, st journal.State) error {
	return s.appendNote(ctx, "state:"+string(st.To), journal.OfState(st))
}

// fillWorkspace collects the facts and writes every file that the agent is given.
func (s *session) fillWorkspace(ctx context.Context) error {
	if err := s.openEvidence(ctx); err != nil {
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
	skills, err := s.installFiles(bundle, s.ws)
	if err != nil {
		return err
	}
	for _, w := range bundle.Warnings {
		s.log.Warn(w, "event", "context_size")
	}
	return s.showProgress(ctx, store.Progress{
		State: nightcrier.StateCreated, Executor: s.order.Agent.Executor, Workspace: s.ws.Dir(),
		ContextIncomplete: bundle.Incomplete, Skills: skills,
	})
}

// installFiles writes the skills, the prompt and the context.
func (r *Runner) installFiles(bundle prompt.Bundle, ws *workspace.Workspace) ([]nightcrier.SkillRef, error) {
	files := ws.Batch()
	var refs []nightcrier.SkillRef
	for _, s := range append([]*skill.Skill{r.cfg.Skill}, r.cfg.Include...) {
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
func (r *Runner) includedSkills() []prompt.Skill {
	var all []prompt.Skill
	for _, s := range r.cfg.Include {
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
	spareNames(s.mask, &s.incident)
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
	if err := s.ws.WriteFile(DiagnosisFile, raw, 0o600); err != nil {
		return facts{}, err
	}
	if err := s.appendNotes(ctx, append(look.untoldEvidence(), remark{"prepared",
		newLogItem("facts collected: %d reads, verdict %s", d.Report.Usage.APIRequests, d.Report.Verdict)})...); err != nil {
		return facts{}, err
	}
	more, lacking, err := s.runTriageScript(ctx)
	d.Incomplete = joinReasons(d.Incomplete, lacking)
	return facts{d, look.event, look.Now, more}, err
}

// executorOf returns what is known of the agent; of the built-in rules, nothing that
// matters here.
func executorOf(o Order) (agent.Executor, error) {
	if o.Agent.Executor == Builtin {
		return agent.Executor{}, nil
	}
	who, err := agent.For(o.Agent.Executor)
	if err == nil && !o.Agent.Shell {
		who, err = who.WithoutShell()
	}
	return who, err
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
	who, err := executorOf(s.order)
	if err != nil {
		return prompt.Bundle{}, err
	}
	logs := make([]prompt.Log, 0, len(f.Logs))
	for _, l := range f.Logs {
		logs = append(logs, prompt.Log{Namespace: l.Namespace, Pod: l.Pod, Container: l.Container, Previous: l.Previous, Evidence: l.Evidence, Text: l.Text})
	}
	shown := f.Report
	shown.Recalled, shown.Runbooks = nil, nil // they have blocks of their own
	can, as := began.Access, promptAgent(who, s.order.Agent.AllowedTools)
	if can.Granted && len(as.Tools)+len(as.Verbs) == 0 {
		can = Access{Why: "agent.allowed_tools names nothing that looks into one"}
	}
	return prompt.Build(prompt.Input{
		CanLook: can.Granted, WhyNot: can.Why,
		Incident: &s.incident, Event: f.event, Logs: logs, ClusterInfo: prompt.ClusterInfo(f.ClusterInfo), Permissions: f.Permissions,
		TriageReport: append(report.Render(&shown, report.Detail{Incident: &s.incident, Now: f.now}), f.script...), Earlier: f.Report.Recalled, Runbooks: f.Report.Runbooks, Incomplete: f.Incomplete,
		Agent: as, SkillPath: s.cfg.Skill.Path(), Skills: s.includedSkills(),
		Preload: s.order.Agent.Preload, SystemPromptFile: s.order.Agent.SystemPromptFile, Mask: s.mask.String,
	})
}
