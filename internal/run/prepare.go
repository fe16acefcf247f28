package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/evidence"
	"nightcrier.dev/nightcrier/internal/journal"
	"nightcrier.dev/nightcrier/internal/prompt"
	"nightcrier.dev/nightcrier/internal/report"
	"nightcrier.dev/nightcrier/internal/store"
	"nightcrier.dev/nightcrier/internal/workspace"
)

// Files that the steps of a run hand on to each other. The agent can read them
// and write none.
const (
	diagnosisFile = "context/diagnosis.json"
	evidenceDir   = "output/evidence"
)

// prepare makes the workspace and fills it: the facts, the context, the prompt,
// the skill. Its result is terminal when no agent is to be started: the builtin
// executor has its report, the run was cancelled, or there is no workspace.
func (r *Runner) prepare(ctx context.Context, o Order) (nightcrier.AgentResult, error) {
	inc, err := r.cfg.Store.BeginRun(ctx, o.RunID)
	if err != nil {
		return nightcrier.AgentResult{}, err
	}
	r.logger(inc).Info("investigation begins", "event", "investigation_started", "run", o.RunID)
	ws, err := r.cfg.Root.Create(inc.ID)
	if err != nil {
		return unprepared(ctx, err)
	}
	defer ws.Close()
	if err := r.noteState(ctx, o, nightcrier.StateCreated, ""); err != nil {
		return nightcrier.AgentResult{}, err
	}
	if err := errors.Join(forget(ws), r.fill(ctx, o, inc, ws)); err != nil {
		return unprepared(ctx, err)
	}
	if res, err := r.cancelledEarly(ctx, o); err != nil || res.State.Terminal() {
		return res, err
	}
	if o.Executor != Builtin {
		return nightcrier.AgentResult{State: nightcrier.StateCreated}, nil
	}
	return nightcrier.AgentResult{State: nightcrier.StateSuccess, TerminalEvent: "facts", StartedAt: inc.StartedAt, EndedAt: r.cfg.Now()}, nil
}

// forget removes what an earlier run of the incident delivered, so that nothing of
// it is taken for this one's.
func forget(ws *workspace.Workspace) error {
	err := ws.ClearScratch()
	for _, rel := range []string{agentReport, finalMessage, machineFile, finalReport, auditFile} {
		err = errors.Join(err, ws.Remove(rel))
	}
	return err
}

// unprepared tells what can be tried again (the store is away, the server
// stops) from what ends the run: a workspace that cannot be written.
func unprepared(ctx context.Context, err error) (nightcrier.AgentResult, error) {
	if ctx.Err() != nil || nightcrier.CodeOf(err) == nightcrier.Unreachable {
		return nightcrier.AgentResult{}, err
	}
	class := nightcrier.FailStart
	if nightcrier.CodeOf(err) == nightcrier.Exhausted {
		class = nightcrier.FailDisk
	}
	return failure(class, err), nil
}

func (r *Runner) noteState(ctx context.Context, o Order, to nightcrier.State, reason string) error {
	return r.note(ctx, o.RunID, "state:"+string(to), journal.OfState(journal.State{To: to, Reason: reason}))
}

// fill collects the facts and writes every file that the agent is given.
func (r *Runner) fill(ctx context.Context, o Order, inc nightcrier.Incident, ws *workspace.Workspace) error {
	ev, err := r.cfg.Store.Event(ctx, inc.EventID)
	if err != nil {
		return err
	}
	d, err := r.diagnose(ctx, o, &inc, ev, ws)
	if err != nil {
		return err
	}
	more, lacking, err := r.runTriageScript(ctx, o, inc, ws)
	if err != nil {
		return err
	}
	d.Incomplete = joined(d.Incomplete, lacking)
	bundle, err := r.bundle(ctx, o, &inc, ev, d, more)
	if err != nil {
		return err
	}
	ref, err := r.install(bundle, ws)
	if err != nil {
		return err
	}
	for _, w := range bundle.Warnings {
		r.logger(inc).Warn(w, "event", "context_size")
	}
	return r.show(ctx, o, ws, store.Progress{
		State: nightcrier.StateCreated, Executor: o.Executor, Workspace: ws.Dir(),
		ContextIncomplete: bundle.Incomplete, Skills: []nightcrier.SkillRef{ref},
	})
}

// install writes the skill, the prompt and the context.
func (r *Runner) install(bundle prompt.Bundle, ws *workspace.Workspace) (nightcrier.SkillRef, error) {
	files := ws.Batch()
	ref, err := r.cfg.Skill.Install(files)
	if err != nil {
		return ref, err
	}
	for rel, data := range bundle.Files {
		if err := files.WriteFile(rel, data, 0o600); err != nil {
			return ref, err
		}
	}
	return ref, files.Sync()
}

// diagnose looks into the cluster and keeps what it finds.
func (r *Runner) diagnose(ctx context.Context, o Order, inc *nightcrier.Incident, ev nightcrier.Event, ws *workspace.Workspace) (diagnose.Diagnosis, error) {
	rec, err := evidence.Open(filepath.Join(ws.Dir(), evidenceDir))
	if err != nil {
		return diagnose.Diagnosis{}, err
	}
	defer rec.Close()
	look := r.newReads(ctx, o, inc.StartedAt, rec)
	d, err := diagnose.Run(ctx, diagnose.Input{
		Incident: inc, Event: ev, Reader: r.cfg.Reader(inc.Cluster, look.audit), Evidence: look, Mask: r.cfg.Mask.String,
		Now: func() time.Time { return r.cfg.ClusterNow(inc.Cluster) },
	})
	if err = errors.Join(err, look.flush()); err != nil {
		return d, err
	}
	d.Report.Runbooks = r.runbooks(ctx, inc, ev, &d.Report)
	if err := r.recall(ctx, inc, &d.Report); err != nil {
		return d, err
	}
	raw, err := json.MarshalIndent(d.Report, "", "  ")
	if err != nil {
		return d, fmt.Errorf("encode the diagnosis: %w", err)
	}
	if err := ws.WriteFile(diagnosisFile, raw, 0o600); err != nil {
		return d, err
	}
	return d, r.notes(ctx, o.RunID, append(look.untold(), remark{"prepared",
		logged("facts collected: %d reads, verdict %s", d.Report.Usage.APIRequests, d.Report.Verdict)})...)
}

// joined puts two reasons into one text; either may be "".
func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// bundle makes the prompt and the context files; more is put behind the facts.
func (r *Runner) bundle(ctx context.Context, o Order, inc *nightcrier.Incident, ev nightcrier.Event, d diagnose.Diagnosis, more string) (prompt.Bundle, error) {
	logs := make([]prompt.Log, 0, len(d.Logs))
	for _, l := range d.Logs {
		logs = append(logs, prompt.Log{Namespace: l.Namespace, Pod: l.Pod, Container: l.Container, Previous: l.Previous, Evidence: l.Evidence, Text: l.Text})
	}
	facts := d.Report
	facts.Recalled, facts.Runbooks = nil, nil // they have blocks of their own
	cred, why := r.cfg.Access(ctx, inc.Cluster, inc.Namespace())
	return prompt.Build(prompt.Input{
		CanLook: cred != nil, WhyNot: why,
		Incident: inc, Event: ev, Logs: logs, ClusterInfo: prompt.ClusterInfo(d.ClusterInfo), Permissions: d.Permissions,
		TriageReport: append(report.Render(&facts, report.Detail{Incident: inc, Now: r.cfg.Now()}), more...), Earlier: d.Report.Recalled, Runbooks: d.Report.Runbooks, Incomplete: d.Incomplete, Executor: o.Executor, SkillPath: r.cfg.Skill.Path(),
		Preload: o.Agent.Preload, SystemPromptFile: o.Agent.SystemPromptFile, Mask: r.cfg.Mask.String,
	})
}
