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
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/replay"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/triage/prompt"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// Files that the steps of a run hand on to each other. The agent can read them
// and write none.
const (
	diagnosisFile = "context/diagnosis.json"
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
	if err := errors.Join(removeOldResults(ws), r.fillOnTape(ctx, o, inc, ws)); err != nil {
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
	err := ws.ClearScratch()
	tapes := []string{replay.File(replay.Prepare), replay.File(replay.Test), replay.File(replay.Check)}
	for n := 1; n <= replay.MaxAttempts; n++ {
		tapes = append(tapes, replay.File(replay.Agent(n)))
	}
	for _, rel := range append(tapes, agentReport, finalMessage, machineFile, FinalReport, auditFile, repairPrompt, refusedFile) {
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

// fillOnTape is fillWorkspace, with all that is learned in it on tape.
func (r *Runner) fillOnTape(ctx context.Context, o Order, inc nightcrier.Incident, ws *workspace.Workspace) error {
	tape, err := r.openTape(ws, o.RunID, replay.Prepare)
	if err != nil {
		return err
	}
	return errors.Join(r.fillWorkspace(ctx, o, inc, ws, tape), tape.Close())
}

// fillWorkspace collects the facts and writes every file that the agent is given.
func (r *Runner) fillWorkspace(ctx context.Context, o Order, inc nightcrier.Incident, ws *workspace.Workspace, tape Tape) error {
	ev, err := r.cfg.Store.Event(ctx, inc.EventID)
	if err != nil {
		return err
	}
	d, err := r.diagnoseIncident(ctx, o, &inc, ev, ws, tape)
	if err != nil {
		return err
	}
	more, lacking, err := r.triageScript(ctx, o, inc, ws, tape)
	if err != nil {
		return err
	}
	d.Incomplete = joinReasons(d.Incomplete, lacking)
	who, err := executorOf(o)
	if err != nil {
		return err
	}
	bundle, err := r.newBundle(ctx, o, who, &inc, ev, d, more, tape)
	if err != nil {
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

// diagnoseIncident looks into the cluster and keeps what it finds.
func (r *Runner) diagnoseIncident(ctx context.Context, o Order, inc *nightcrier.Incident, ev nightcrier.Event, ws *workspace.Workspace, tape Tape) (diagnose.Diagnosis, error) {
	rec, err := evidence.Open(filepath.Join(ws.Dir(), evidenceDir))
	if err != nil {
		return diagnose.Diagnosis{}, err
	}
	defer rec.Close()
	if err := r.noteBegun(ctx, o, inc, ev, len(rec.Items()), ws.Dir(), tape); err != nil {
		return diagnose.Diagnosis{}, err
	}
	look, err := r.newReads(ctx, o, inc.StartedAt, rec)
	if err != nil {
		return diagnose.Diagnosis{}, err
	}
	m := r.maskerFor(o.RunID)
	spareNames(m, inc)
	d, err := r.runDiagnosis(ctx, diagnose.Input{Incident: inc, Event: ev, Evidence: look, Mask: m.String}, m, look, tape)
	if err != nil {
		return d, err
	}
	if d.Report.Runbooks, err = recordKnownValue(tape, "runbooks", func() []nightcrier.Runbook { return r.findRunbooks(ctx, m, inc, ev, &d.Report) }); err != nil {
		return d, err
	}
	if err := r.recallEarlier(ctx, inc, &d.Report, tape); err != nil {
		return d, err
	}
	raw, err := json.MarshalIndent(d.Report, "", "  ")
	if err != nil {
		return d, fmt.Errorf("encode the diagnosis: %w", err)
	}
	if err := ws.WriteFile(diagnosisFile, raw, 0o600); err != nil {
		return d, err
	}
	return d, r.appendNotes(ctx, o.RunID, append(look.untoldEvidence(), remark{"prepared",
		newLogItem("facts collected: %d reads, verdict %s", d.Report.Usage.APIRequests, d.Report.Verdict)})...)
}

// runDiagnosis makes one diagnosis: what it asks and the time it takes are on tape.
func (r *Runner) runDiagnosis(ctx context.Context, in diagnose.Input, m *mask.Masker, look *reads, tape Tape) (d diagnose.Diagnosis, err error) {
	cluster := in.Incident.Cluster
	if in.Reader, err = onTape(tape, r.cfg.Reader(cluster, m, look.auditRequest)); err != nil {
		return d, err
	}
	if in.Sources, err = sourcesOnTape(tape, r.cfg.Sources(cluster, m, look.auditRequest)); err != nil {
		return d, err
	}
	now, err := recordKnownValue(tape, TapeNow, func() time.Time { return r.cfg.ClusterNow(cluster) })
	if err != nil {
		return d, err
	}
	in.Now = func() time.Time { return now }
	if d, err = diagnose.Run(ctx, in); err != nil {
		return d, errors.Join(err, look.flushAnswers())
	}
	if d.Report.Context, err = recordKnownValue(tape, tapeContext, func() string { return r.context(cluster) }); err != nil {
		return d, err
	}
	took := d.Report.Usage.DurationMS
	if d.Report.Usage.DurationMS, err = recordKnownValue(tape, tapeTook, func() int64 { return took }); err != nil {
		return d, err
	}
	return d, look.endReads(tape)
}

func (r *Runner) context(cluster string) string {
	if r.cfg.Context == nil {
		return ""
	}
	return r.cfg.Context(cluster)
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
func (r *Runner) newBundle(ctx context.Context, o Order, who agent.Executor, inc *nightcrier.Incident, ev nightcrier.Event, d diagnose.Diagnosis, more string, tape Tape) (prompt.Bundle, error) {
	logs := make([]prompt.Log, 0, len(d.Logs))
	for _, l := range d.Logs {
		logs = append(logs, prompt.Log{Namespace: l.Namespace, Pod: l.Pod, Container: l.Container, Previous: l.Previous, Evidence: l.Evidence, Text: l.Text})
	}
	facts := d.Report
	facts.Recalled, facts.Runbooks = nil, nil // they have blocks of their own
	now, err := recordKnownValue(tape, TapeNow, r.cfg.Now)
	if err != nil {
		return prompt.Bundle{}, err
	}
	can, err := recordKnownValue(tape, TapeAccess, func() Access { return accessOf(r.cfg.Access(ctx, inc.Cluster, inc.Namespace())) })
	if err != nil {
		return prompt.Bundle{}, err
	}
	as := promptAgent(who, o.Agent.AllowedTools)
	if can.Granted && len(as.Tools)+len(as.Verbs) == 0 {
		can = Access{Why: "agent.allowed_tools names nothing that looks into one"}
	}
	return prompt.Build(prompt.Input{
		CanLook: can.Granted, WhyNot: can.Why,
		Incident: inc, Event: ev, Logs: logs, ClusterInfo: prompt.ClusterInfo(d.ClusterInfo), Permissions: d.Permissions,
		TriageReport: append(report.Render(&facts, report.Detail{Incident: inc, Now: now}), more...), Earlier: d.Report.Recalled, Runbooks: d.Report.Runbooks, Incomplete: d.Incomplete, Agent: as, SkillPath: r.cfg.Skill.Path(), Skills: r.includedSkills(),
		Preload: o.Agent.Preload, SystemPromptFile: o.Agent.SystemPromptFile, Mask: r.maskerFor(o.RunID).String,
	})
}
