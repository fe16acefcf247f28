package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/guard/readonly"
	"nightcrier.dev/nightcrier/internal/record/evidence"
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
	inc, err := r.cfg.Store.BeginRun(ctx, o.RunID)
	if err != nil {
		return nightcrier.AgentResult{}, err
	}
	r.loggerFor(inc).Info("investigation begins", "event", "investigation_started", "run", o.RunID)
	ws, err := r.cfg.Root.Create(inc.ID)
	if err != nil {
		return unpreparedResult(ctx, err)
	}
	defer ws.Close()
	if err := r.noteState(ctx, o, journal.State{To: nightcrier.StateCreated}); err != nil {
		return nightcrier.AgentResult{}, err
	}
	if err := errors.Join(removeOldResults(ws), r.fillWorkspace(ctx, o, inc, ws)); err != nil {
		return unpreparedResult(ctx, err)
	}
	if res, err := r.cancelledEarly(ctx, o); err != nil || res.State.Terminal() {
		return res, err
	}
	if o.Agent.Executor != Builtin {
		return r.checkBudget(o, inc), nil
	}
	return nightcrier.AgentResult{State: nightcrier.StateSuccess, TerminalEvent: "facts", StartedAt: inc.StartedAt, EndedAt: r.cfg.Now()}, nil
}

// checkBudget says how a run goes on whose facts are collected: its agent is asked, unless
// nothing is left to spend on it.
func (r *Runner) checkBudget(o Order, inc nightcrier.Incident) nightcrier.AgentResult {
	if r.cfg.Afford != nil {
		if err := r.cfg.Afford(o, inc.Cluster); err != nil {
			r.loggerFor(inc).Warn("the agent is not asked", "event", "budget", "error", err)
			return failedResult(nightcrier.FailBudget, fmt.Errorf("the agent was not asked: %w", err))
		}
	}
	return nightcrier.AgentResult{State: nightcrier.StateCreated}
}

// removeOldResults removes what an earlier run of the incident delivered, so that nothing of
// it is taken for this one's.
func removeOldResults(ws *workspace.Workspace) error {
	err := errors.Join(ws.ClearScratch(), ws.RemoveTree(workspace.RecordDir))
	for _, rel := range []string{agentReport, finalMessage, machineFile, FinalReport, auditFile, repairPrompt, refusedFile} {
		err = errors.Join(err, ws.Remove(rel))
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

func (r *Runner) noteState(ctx context.Context, o Order, s journal.State) error {
	return r.appendNote(ctx, o.RunID, "state:"+string(s.To), journal.OfState(s))
}

// fillWorkspace collects the facts and writes every file that the agent is given.
func (r *Runner) fillWorkspace(ctx context.Context, o Order, inc nightcrier.Incident, ws *workspace.Workspace) error {
	ev, err := r.cfg.Store.Event(ctx, inc.EventID)
	if err != nil {
		return err
	}
	began := Begun{Incident: inc, Event: ev, Order: o, Workspace: ws.Dir(), Context: r.cfg.Clusters.Context(inc.Cluster)}
	if began.Run, err = r.cfg.Store.Run(ctx, o.RunID); err != nil {
		return err
	}
	d, now, err := r.diagnoseIncident(ctx, &began, ws)
	if err != nil {
		return err
	}
	more, lacking, err := r.runTriageScript(ctx, o, inc, ws)
	if err != nil {
		return err
	}
	d.Incomplete = joinReasons(d.Incomplete, lacking)
	who, err := executorOf(o)
	if err != nil {
		return err
	}
	began.Access = accessOf(r.cfg.Clusters.Access(ctx, inc.Cluster, inc.Namespace()))
	bundle, err := r.newBundle(began, who, d, more, now)
	if err != nil {
		return err
	}
	if err := r.writeBegun(began, ws); err != nil {
		return err
	}
	skills, err := r.installFiles(bundle, ws)
	if err != nil {
		return err
	}
	for _, w := range bundle.Warnings {
		r.loggerFor(inc).Warn(w, "event", "context_size")
	}
	return r.showProgress(ctx, o, ws, store.Progress{
		State: nightcrier.StateCreated, Executor: o.Agent.Executor, Workspace: ws.Dir(),
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

// diagnoseIncident looks into the cluster and keeps what it finds. It returns the time of
// that look as well.
func (r *Runner) diagnoseIncident(ctx context.Context, began *Begun, ws *workspace.Workspace) (d diagnose.Diagnosis, now time.Time, err error) {
	o, inc := began.Order, &began.Incident
	rec, err := evidence.Open(filepath.Join(ws.Dir(), evidenceDir))
	if err != nil {
		return d, now, err
	}
	defer rec.Close()
	began.Evidence = len(rec.Items())
	look, err := r.newReads(ctx, o, inc.StartedAt, rec)
	if err != nil {
		return d, now, err
	}
	m := r.maskerFor(o.RunID)
	spareNames(m, inc)
	view, err := r.cfg.Clusters.Look(Look{Cluster: inc.Cluster, RunID: o.RunID, Step: "prepare", Workspace: ws, Mask: m, Audit: look.auditRequest})
	if err != nil {
		return d, now, err
	}
	d, err = diagnose.Run(ctx, diagnose.Input{
		Incident: inc, Event: began.Event, Evidence: look, Mask: m.String, Reader: view.Reader, Sources: view.Sources, Now: func() time.Time { return view.Now },
	})
	if err := errors.Join(err, look.flushAnswers(), view.Close()); err != nil {
		return d, now, err
	}
	d.Report.Context = began.Context
	d.Report.Runbooks = r.findRunbooks(ctx, m, inc, began.Event, &d.Report)
	if err := r.recallEarlier(ctx, inc, &d.Report); err != nil {
		return d, now, err
	}
	raw, err := json.MarshalIndent(d.Report, "", "  ")
	if err != nil {
		return d, now, fmt.Errorf("encode the diagnosis: %w", err)
	}
	if err := ws.WriteFile(DiagnosisFile, raw, 0o600); err != nil {
		return d, now, err
	}
	return d, view.Now, r.appendNotes(ctx, o.RunID, append(look.untoldEvidence(), remark{"prepared",
		newLogItem("facts collected: %d reads, verdict %s", d.Report.Usage.APIRequests, d.Report.Verdict)})...)
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
	var all []string
	for _, t := range kubetool.New(kubetool.Config{}).Tools() {
		all = append(all, t.Name)
	}
	offered, _ := agent.OfferedTools(all, may) // the worker tells what is left out
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

// newBundle makes the prompt and the context files; more is put behind the facts.
func (r *Runner) newBundle(began Begun, who agent.Executor, d diagnose.Diagnosis, more string, now time.Time) (prompt.Bundle, error) {
	o, inc := began.Order, &began.Incident
	logs := make([]prompt.Log, 0, len(d.Logs))
	for _, l := range d.Logs {
		logs = append(logs, prompt.Log{Namespace: l.Namespace, Pod: l.Pod, Container: l.Container, Previous: l.Previous, Evidence: l.Evidence, Text: l.Text})
	}
	facts := d.Report
	facts.Recalled, facts.Runbooks = nil, nil // they have blocks of their own
	can, as := began.Access, promptAgent(who, o.Agent.AllowedTools)
	if can.Granted && len(as.Tools)+len(as.Verbs) == 0 {
		can = Access{Why: "agent.allowed_tools names nothing that looks into one"}
	}
	return prompt.Build(prompt.Input{
		CanLook: can.Granted, WhyNot: can.Why,
		Incident: inc, Event: began.Event, Logs: logs, ClusterInfo: prompt.ClusterInfo(d.ClusterInfo), Permissions: d.Permissions,
		TriageReport: append(report.Render(&facts, report.Detail{Incident: inc, Now: now}), more...), Earlier: d.Report.Recalled, Runbooks: d.Report.Runbooks, Incomplete: d.Incomplete, Agent: as, SkillPath: r.cfg.Skill.Path(), Skills: r.includedSkills(),
		Preload: o.Agent.Preload, SystemPromptFile: o.Agent.SystemPromptFile, Mask: r.maskerFor(o.RunID).String,
	})
}
