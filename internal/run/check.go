package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/triage/falsify"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// FinalReport is the file in a workspace that has the report for people.
const FinalReport = "output/final-report.md"

// The report's other files.
const (
	agentReport  = "output/investigation.md"
	machineFile  = "output/report.json"
	auditFile    = "output/audit.jsonl"
	maxFromAgent = 4 << 20
)

// outcome is what a run came to: the checkpoint between deciding and recording.
// The report itself lies in the workspace.
type outcome struct {
	Status    nightcrier.IncidentStatus `json:"status"`
	Result    nightcrier.AgentResult    `json:"result"`
	Reason    string                    `json:"reason,omitempty"`
	Class     nightcrier.FailureClass   `json:"class,omitempty"`
	RootCause string                    `json:"rootCause,omitempty"`
	// Diagnosis is what the facts alone say.
	Diagnosis *nightcrier.RootCause `json:"diagnosis,omitempty"`
	// Conclusion is the cause that the delivered report names, if it names one.
	Conclusion *nightcrier.RootCause `json:"conclusion,omitempty"`
	// Verdict is that of the delivered report, "" without one.
	Verdict   nightcrier.Verdict    `json:"verdict,omitempty"`
	Artifacts []nightcrier.Artifact `json:"artifacts,omitempty"`
	HasReport bool                  `json:"hasReport"`
	Audit     audit.Summary         `json:"audit"`
}

// checkOutcome takes over what the agent left, holds its report against what was
// recorded, and decides how the incident ends. The report that is delivered is
// the agent's when it is valid, else our own facts.
func (r *Runner) checkOutcome(ctx context.Context, o Order, res nightcrier.AgentResult, asked repair, tests []falsify.Outcome) (outcome, error) {
	out := outcome{Status: nightcrier.Failed, Result: res, Reason: res.FailureReason, Class: res.FailureClass}
	inc, err := r.cfg.Store.Incident(ctx, o.IncidentID)
	if err != nil {
		return out, err
	}
	if r.cfg.Spent != nil {
		if usd, err := r.cfg.Spent(o, inc.Cluster); err != nil {
			r.loggerFor(inc).Warn("what the run spent is not known for certain", "event", "budget", "error", err)
		} else if usd > 0 {
			out.Result.Usage.CostUSD = usd
		}
	}
	ws, err := r.cfg.Root.Open(o.IncidentID)
	if err != nil {
		return out, nil // preparing failed before there was one, and says why
	}
	defer ws.Close()
	left, err := ws.Collect()
	if err != nil {
		return r.endUnwritten(ctx, out, err)
	}
	for _, refused := range left.Refused {
		r.loggerFor(inc).Warn("output of the agent was not taken", "event", "artifact_refused", "path", refused.Path, "reason", refused.Reason)
	}
	out.Artifacts = left.Artifacts
	if out.Audit, err = r.writeAudit(ctx, o, ws); err != nil {
		return r.endUnwritten(ctx, out, err)
	}
	rep, err := r.chooseReport(ctx, &out, o, asked, &inc, ws)
	if err != nil || rep == nil {
		return r.endUnwritten(ctx, out, err)
	}
	falsify.Apply(rep, tests)
	if err := r.deliverReport(&out, o, inc, ws, rep); err != nil {
		return r.endUnwritten(ctx, out, err)
	}
	why := out.Reason
	if out.Status == nightcrier.Resolved && asked.isDue() {
		why = "since it was asked for again"
	}
	return out, r.appendNote(ctx, o.RunID, "checked", newLogItem("checked: %s%s", out.Status.Words(), reasonSuffix(why)))
}

func reasonSuffix(reason string) string {
	if reason == "" {
		return ""
	}
	return ", " + reason
}

// endUnwritten ends a run whose report could not be written, and leaves to the
// engine what a retry can help.
func (r *Runner) endUnwritten(ctx context.Context, out outcome, err error) (outcome, error) {
	if err == nil || ctx.Err() != nil || nightcrier.CodeOf(err) == nightcrier.Unreachable {
		return out, err
	}
	out.Status, out.Reason, out.Class = nightcrier.Failed, err.Error(), classOf(err, nightcrier.FailInternal)
	return out, nil
}

// writeAudit renders what was asked of the cluster, by us and by the agent. The
// agent is gone, so nothing is added to it any more.
func (r *Runner) writeAudit(ctx context.Context, o Order, ws *workspace.Workspace) (audit.Summary, error) {
	var log audit.Log
	if err := r.eachEntry(ctx, o.RunID, log.Add); err != nil {
		return audit.Summary{}, err
	}
	var file bytes.Buffer
	sum, err := log.Write(&file)
	if err != nil {
		return sum, err
	}
	return sum, ws.WriteFile(auditFile, file.Bytes(), 0o600)
}

// chooseReport chooses the report and decides the incident's status.
func (r *Runner) chooseReport(ctx context.Context, out *outcome, o Order, asked repair, inc *nightcrier.Incident, ws *workspace.Workspace) (*nightcrier.Report, error) {
	facts, err := builtinReport(ws)
	if err != nil || facts == nil {
		return nil, err
	}
	if err := maskReport(r.maskerFor(o.RunID), facts); err != nil {
		return nil, err
	}
	out.Diagnosis = facts.RootCause
	if o.Agent.Executor == Builtin {
		if out.Result.State == nightcrier.StateSuccess {
			out.Status = nightcrier.Resolved
		}
		return facts, nil
	}
	theirs, md, err := r.readAgentReport(ctx, o, inc, ws, func() ([]byte, error) { return ws.ReadFile(agentReport) })
	if err == nil && md != nil {
		err = ws.WriteFile(agentReport, md, 0o600)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case out.Class == nightcrier.FailBudget && theirs.Valid:
		return markPartial(mergeReport(&theirs, facts, o, out.Result), *out), nil
	case out.Result.State != nightcrier.StateSuccess:
	case !theirs.Valid || asked.Failure != "":
		out.Status, out.Class = nightcrier.AgentFailed, nightcrier.FailInvalidOutput
		if asked.Full {
			out.Status, out.Class = nightcrier.Failed, nightcrier.FailDisk
		}
		out.Reason = asked.whyNoReport(theirs.Problems)
	default:
		out.Status = nightcrier.Resolved
		return mergeReport(&theirs, facts, o, out.Result), nil
	}
	facts.Problems = append(facts.Problems, fmt.Sprintf("%s delivered no valid report (%s); these are the facts collected before it ran", o.Agent.Executor, out.Reason))
	facts.SandboxLayers, facts.SandboxMissing = out.Result.Layers, out.Result.Missing
	facts.Usage.InputTokens, facts.Usage.OutputTokens, facts.Usage.CostUSD = out.Result.Usage.InputTokens, out.Result.Usage.OutputTokens, out.Result.Usage.CostUSD
	if out.Class == nightcrier.FailBudget {
		return markPartial(facts, *out), nil
	}
	return facts, nil
}

// markPartial says in a report that the money ended before the investigation did.
func markPartial(rep *nightcrier.Report, out outcome) *nightcrier.Report {
	rep.NotChecked = append(rep.NotChecked, nightcrier.NotChecked{What: "what the agent had not looked at when its budget was used up", Why: out.Reason})
	return rep
}

// builtinReport reads the diagnosis of the preparing step, nil when there is none.
func builtinReport(ws *workspace.Workspace) (*nightcrier.Report, error) {
	raw, err := ws.ReadFile(DiagnosisFile)
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rep nightcrier.Report
	if err := json.Unmarshal(raw, &rep); err != nil {
		return nil, fmt.Errorf("decode %s: %w", DiagnosisFile, err)
	}
	return &rep, nil
}

// readAgentReport returns the report that the agent wrote and its Markdown, masked: its
// file, unless there is none or only its final message is valid. Without either the
// Markdown is nil, and the report says what is missing.
func (r *Runner) readAgentReport(ctx context.Context, o Order, inc *nightcrier.Incident, ws *workspace.Workspace, file func() ([]byte, error)) (nightcrier.Report, []byte, error) {
	chosen, md := nightcrier.Report{Problems: []string{agentReport + " is missing"}}, []byte(nil)
	for _, read := range []func() ([]byte, error){file, func() ([]byte, error) { return lastWords(ws) }} {
		text, err := read()
		if nightcrier.CodeOf(err) == nightcrier.NotFound {
			continue
		}
		if err != nil {
			return chosen, nil, err
		}
		text = []byte(r.maskerFor(o.RunID).String(string(text[:min(len(text), maxFromAgent)])))
		judged, err := r.judgeReport(ctx, o, text, inc, ws)
		if err != nil {
			return chosen, nil, err
		}
		if md == nil || judged.Valid {
			chosen, md = judged, text
		}
		if chosen.Valid {
			break
		}
	}
	return chosen, md, nil
}

// lastWords is the agent's final message, NotFound when it is no report.
func lastWords(ws *workspace.Workspace) ([]byte, error) {
	text, err := ws.ReadFile(finalMessage)
	if err == nil && !bytes.Contains(text, []byte(report.Headings()[0])) {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "the agent's final message is no report")
	}
	return text, err
}

// judgeReport reads a report and holds its facts against what was recorded in this run:
// what an earlier run of the incident saw shows nothing about now.
func (r *Runner) judgeReport(ctx context.Context, o Order, md []byte, inc *nightcrier.Incident, ws *workspace.Workspace) (nightcrier.Report, error) {
	rec, err := evidence.Open(filepath.Join(ws.Dir(), evidenceDir))
	if err != nil {
		return nightcrier.Report{}, err
	}
	defer rec.Close()
	ofRun, err := r.evidenceOf(ctx, o.RunID)
	if err != nil {
		return nightcrier.Report{}, err
	}
	return report.Accept(md, inc, func(id string) (report.Recorded, bool) {
		if !ofRun[id] {
			return report.Recorded{}, false
		}
		return citableRecord(rec, id)
	}), nil
}

// citableRecord is what a report may cite: the cluster's word, and not that of whoever
// asked it.
func citableRecord(rec *evidence.Recorder, id string) (report.Recorded, bool) {
	item, there := rec.Item(id)
	body, err := rec.Load(id)
	if !there || err != nil {
		return report.Recorded{}, false
	}
	switch item.Kind {
	case "log": // it does not name its Pod
		return report.Recorded{Body: append([]byte(item.Source+"\n"), body...)}, true
	case "error":
		return report.Recorded{Body: body, Asked: item.Source}, ofOneObject(item.Source)
	case "computed", toolserver.Kind: // by the query of whoever asked; by what we do not know, of its arguments
		return report.Recorded{}, false
	case "review": // the guard's answer about itself, for objects that the asker makes up
		return report.Recorded{}, false
	}
	return report.Recorded{Body: body}, true
}

// ofOneObject reports whether a request names what it asks for, and can be read in
// full. A failure of any other is about the request alone, and repeats more of it than
// was kept: what stands in a token to go on with a list, say.
func ofOneObject(source string) bool {
	words := strings.Fields(source)
	named := len(words) > 2 && words[1] == "logs" || len(words) > 3 && words[1] == "get" && words[2] != "--raw" && !strings.HasPrefix(words[3], "-")
	return named && len(source) < evidence.MaxSource
}

// evidenceOf returns the ids of what was recorded in a run.
func (r *Runner) evidenceOf(ctx context.Context, runID string) (map[string]bool, error) {
	ids := map[string]bool{}
	return ids, r.eachEntry(ctx, runID, func(e nightcrier.JournalEntry) error {
		if e.Type != nightcrier.EntryEvidence {
			return nil
		}
		kept, err := journal.Decode[journal.Evidence](e)
		ids[kept.ID] = true
		return err
	})
}

// mergeReport completes an agent's report with what only we know.
func mergeReport(rep, facts *nightcrier.Report, o Order, res nightcrier.AgentResult) *nightcrier.Report {
	rep.Source, rep.Executor = "agent", o.Agent.Executor
	rep.SandboxLayers, rep.SandboxMissing, rep.Usage = res.Layers, res.Missing, res.Usage
	rep.Usage.DurationMS = res.EndedAt.Sub(res.StartedAt).Milliseconds()
	rep.Usage.APIRequests += facts.Usage.APIRequests
	rep.Permissions, rep.BlastRadius, rep.Changes = facts.Permissions, facts.BlastRadius, facts.Changes
	rep.Recalled, rep.Runbooks, rep.Context = facts.Recalled, facts.Runbooks, facts.Context
	if rep.Scope.Empty() {
		rep.Scope = facts.Scope
	}
	if rep.RootCause != nil && facts.RootCause != nil && rep.RootCause.Object == facts.RootCause.Object {
		rep.Consequences = facts.Consequences
	}
	rep.NotChecked = slices.Concat(rep.NotChecked, facts.NotChecked, whyClusterUnseen(facts.Permissions), res.NotChecked)
	return rep
}

// whyClusterUnseen says that the agent could not look into the cluster, where preflight
// forbade it.
func whyClusterUnseen(permissions map[string]any) []nightcrier.NotChecked {
	if may, known := permissions["agentAccess"].(bool); may || !known {
		return nil
	}
	why, _ := permissions["agentAccessReason"].(string)
	return []nightcrier.NotChecked{{What: "the cluster, by the agent itself: it had the collected facts alone", Why: why}}
}

// deliverReport writes the report that people and machines read.
func (r *Runner) deliverReport(out *outcome, o Order, inc nightcrier.Incident, ws *workspace.Workspace, rep *nightcrier.Report) error {
	now := r.cfg.Now()
	rep.IncidentID, rep.Cluster, rep.CreatedAt = inc.ID, inc.Cluster, now.UTC()
	rep.AuditHead = out.Audit.Head
	stillHolds(rep)
	if rep.RootCause != nil {
		out.RootCause = rep.RootCause.Summary
		out.Conclusion = conclusionOf(rep.RootCause, out.Diagnosis)
	}
	raw, err := report.JSON(rep)
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	if err := ws.WriteFile(machineFile, raw, 0o600); err != nil {
		return err
	}
	out.HasReport, out.Verdict = true, rep.Verdict
	inc.Status, inc.FailureReason = out.Status, out.Reason
	shown, err := r.reportDetail(o, &inc, ws, now)
	if err != nil {
		return err
	}
	if rep.Source == Builtin && rep.Executor == Builtin && out.Status == nightcrier.Resolved {
		if err := ws.WriteFile(agentReport, report.Render(rep, shown), 0o600); err != nil {
			return err
		}
	}
	return ws.WriteFile(FinalReport, report.Final(rep, shown), 0o600)
}

// reportDetail is what the rendered report shows beside the facts: what was read, and
// the ends of the logs.
func (r *Runner) reportDetail(o Order, inc *nightcrier.Incident, ws *workspace.Workspace, now time.Time) (report.Detail, error) {
	d := report.Detail{Incident: inc, Now: now}
	rec, err := evidence.Open(filepath.Join(ws.Dir(), evidenceDir))
	if err != nil {
		return d, err
	}
	defer rec.Close()
	if d.Commands, err = listCommands(ws); err != nil {
		return d, err
	}
	m := r.maskerFor(o.RunID)
	for i := range d.Commands {
		d.Commands[i] = m.String(d.Commands[i])
	}
	asked := len(d.Commands) > 0
	for _, it := range rec.Items() {
		if !asked { // a recorded cluster has no guard before it
			d.Commands = append(d.Commands, it.Source)
		}
		if it.Kind != "log" || len(d.Excerpts) == maxExcerpts {
			continue
		}
		if body, err := rec.Load(it.ID); err == nil && len(body) > 0 {
			d.Excerpts = append(d.Excerpts, report.Excerpt{Title: it.ID + ": " + it.Source, Text: lastLines(m.String(string(body)), excerptLines)})
		}
	}
	return d, nil
}

// maxCommands bounds the requests that a report lists; all are in the audit.
const maxCommands = 200

// listCommands lists what was asked of the cluster, by us and by the agent, as the
// audit has it; what was asked again with the same outcome is one line.
func listCommands(ws *workspace.Workspace) ([]string, error) {
	raw, err := ws.ReadFile(auditFile)
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	times := map[string]int{}
	more := 0
	for line := range bytes.Lines(raw) {
		var r audit.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, nightcrier.Errorf(nightcrier.Internal, "read %s: %w", auditFile, err)
		}
		command := describeRequest(r)
		switch {
		case times[command] > 0:
		case len(out) == maxCommands:
			more++
			continue
		default:
			out = append(out, command)
		}
		times[command]++
	}
	for i, command := range out {
		if n := times[command]; n > 1 {
			out[i] = fmt.Sprintf("%s (%d times)", command, n)
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more, in %s", more, auditFile))
	}
	return out, nil
}

// describeRequest puts a line of the audit into words.
func describeRequest(r audit.Record) string {
	q := journal.Request{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name, Query: r.Query}
	switch {
	case r.Decision == journal.Deny:
		return q.String() + " → DENIED: " + r.Reason
	case r.Evidence != "":
		return fmt.Sprintf("%s → %d, %s", q, r.Status, r.Evidence)
	case r.Status != 0:
		return fmt.Sprintf("%s → %d", q, r.Status)
	}
	return q.String() + " → no answer recorded"
}

// conclusionOf is the cause of a report in the words that others would use for it: those
// of the facts, where the two agree. A guess is none, nor what names no object.
func conclusionOf(of, facts *nightcrier.RootCause) *nightcrier.RootCause {
	switch {
	case of.Confidence == nightcrier.Low:
		return nil
	case facts != nil && sameDiagnosis(facts.Cause, facts.Object, of.Cause, of.Object):
		return facts
	case of.Cause == "" || of.Object.Name == "":
		return nil
	}
	return of
}

// How much of the logs a report shows; all of it is in the evidence.
const (
	maxExcerpts  = 6
	excerptLines = 40
)

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// finishRun ends the run: one transaction in the store, then incident.json.
func (r *Runner) finishRun(ctx context.Context, o Order, out outcome) error {
	ws, err := r.cfg.Root.Open(o.IncidentID)
	if err != nil {
		ws = nil // no workspace could be made; the store says why
	} else {
		defer ws.Close()
	}
	f := store.Finish{
		RunID: o.RunID, Status: out.Status, Result: out.Result, FailureReason: out.Reason, FailureClass: out.Class,
		RootCause: out.RootCause, Diagnosis: out.Diagnosis, Conclusion: out.Conclusion, Artifacts: out.Artifacts,
	}
	if ws != nil && out.HasReport {
		if f.Report, err = ws.ReadFile(machineFile); err != nil {
			return err
		}
	}
	if err := r.noteEnd(ctx, o, out); err != nil {
		return err
	}
	if ws != nil {
		r.renderLog(ctx, o, ws)
		r.writePreview(ctx, o, f, ws)
	}
	if err := r.reportToBreaker(ctx, o, out.Result); err != nil {
		return err
	}
	if err := r.cfg.Store.FinishRun(ctx, f); err != nil {
		return err
	}
	return r.showEnd(ctx, o, out, ws)
}

// reportToBreaker tells the circuit breaker how the executor did, before the lease goes:
// the next run must not be admitted on what was known before. A crash between the
// two tells it twice.
func (r *Runner) reportToBreaker(ctx context.Context, o Order, res nightcrier.AgentResult) error {
	if r.cfg.Learn == nil {
		return nil
	}
	run, err := r.cfg.Store.Run(ctx, o.RunID)
	if err != nil || run.Status == nightcrier.Finished {
		return err
	}
	return r.cfg.Learn(ctx, o.Agent.Executor, res)
}

// writePreview writes incident.json as it will be, so that whoever hears from the
// store that an incident has ended finds it so in its workspace. What cannot be
// written now is no reason not to end.
func (r *Runner) writePreview(ctx context.Context, o Order, f store.Finish, ws *workspace.Workspace) {
	inc, err := r.cfg.Store.Incident(ctx, o.IncidentID)
	if err == nil && inc.Status.Open() {
		inc = f.Preview(inc, r.cfg.Now())
		err = ws.WriteIncident(&inc)
	}
	if err != nil {
		r.cfg.Logger.Warn("incident.json is not current", "component", "run", "event", "incident_file", "incident_id", o.IncidentID, "error", err)
	}
}

// noteEnd says in the journal how the run ended, before the lease goes. A state
// that no worker has told is told here: of the built-in rules, and of an agent that
// never came to be, or whose worker died.
func (r *Runner) noteEnd(ctx context.Context, o Order, out outcome) error {
	if o.Agent.Executor == Builtin || out.Result.StartedAt.IsZero() {
		if err := r.noteState(ctx, o, journal.State{To: out.Result.State, Reason: out.Reason, FailureClass: out.Class}); err != nil {
			return err
		}
	}
	return r.appendNote(ctx, o.RunID, "finished", newLogItem("incident closed: %s%s", out.Status.Words(), reasonSuffix(out.Reason)))
}

// workloadToMend names the workload to be mended, where it is known.
func workloadToMend(inc nightcrier.Incident) string {
	if inc.Owner.IsZero() {
		return inc.Resource.String()
	}
	return inc.Owner.String()
}

// investigationTime is how long an incident was investigated, to the unit that a person reads.
func investigationTime(inc nightcrier.Incident) time.Duration {
	d := inc.CompletedAt.Sub(inc.StartedAt)
	if inc.StartedAt.IsZero() || d < 0 {
		return 0
	}
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// showEnd refreshes incident.json and tells whoever counts.
func (r *Runner) showEnd(ctx context.Context, o Order, out outcome, ws *workspace.Workspace) error {
	inc, err := r.cfg.Store.Incident(ctx, o.IncidentID)
	if err != nil {
		return err
	}
	run, err := r.cfg.Store.Run(ctx, o.RunID)
	if err != nil {
		return err
	}
	r.loggerFor(inc).Info("investigation ended", "event", "investigation_ended", "status", inc.Status, "object", workloadToMend(inc), "root_cause", inc.RootCause,
		"verdict", string(out.Verdict), "failure_reason", inc.FailureReason, "took", investigationTime(inc).String(), "workspace", inc.Workspace, "run", o.RunID,
		"cluster_requests", out.Audit.Requests, "denied", out.Audit.Denied, "blocked", out.Result.Blocked, "audit_head", out.Audit.Head)
	if r.cfg.Ended != nil {
		r.cfg.Ended(run, inc, out.Result, out.Audit)
	}
	if ws == nil {
		return nil
	}
	return ws.WriteIncident(&inc)
}

// announceEnd tells people, once. A retried incident is announced again: the key
// is the run's.
func (r *Runner) announceEnd(ctx context.Context, o Order) error {
	inc, err := r.cfg.Store.Incident(ctx, o.IncidentID)
	if err != nil {
		return err
	}
	var rep *nightcrier.Report
	raw, err := r.cfg.Store.Report(ctx, o.IncidentID)
	if err == nil {
		rep = &nightcrier.Report{}
		err = json.Unmarshal(raw, rep)
	}
	if code := nightcrier.CodeOf(err); err != nil && code != nightcrier.NotFound && code != nightcrier.NoReport {
		return err
	}
	return r.cfg.Announce.Ended(ctx, inc, rep, o.RunID)
}
