package triage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/triage/falsify"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// The report's other files.
const (
	agentReport  = "output/investigation.md"
	machineFile  = "output/report.json"
	auditFile    = "output/audit.jsonl"
	maxFromAgent = 4 << 20
)

// checkOutcome takes over what the agent left, holds its report against what was
// recorded, and decides how the incident ends. The report that is delivered is
// the agent's when it is valid, else our own facts.
func (s *session) checkOutcome(ctx context.Context, res nightcrier.AgentResult, asked run.Review, tests []falsify.Outcome) (run.Outcome, error) {
	out := s.NewOutcome(res)
	if s.Workspace == nil {
		return out, nil // preparing failed before there was one, and says why
	}
	left, err := s.Workspace.Collect()
	if err == nil {
		err = s.OpenEvidence(ctx)
	}
	if err != nil {
		return endUnwritten(ctx, out, err)
	}
	for _, refused := range left.Refused {
		s.Log.Warn("output of the agent was not taken", "event", "artifact_refused", "path", refused.Path, "reason", refused.Reason)
	}
	out.Artifacts = left.Artifacts
	if out.Audit, err = s.writeAudit(ctx); err != nil {
		return endUnwritten(ctx, out, err)
	}
	rep, err := s.chooseReport(&out, asked)
	if err != nil || rep == nil {
		return endUnwritten(ctx, out, err)
	}
	falsify.Apply(rep, tests)
	if err := s.deliverReport(&out, rep); err != nil {
		return endUnwritten(ctx, out, err)
	}
	why := out.Reason
	if out.Status == nightcrier.Resolved && asked.IsDue() {
		why = "since it was asked for again"
	}
	return out, s.AppendNote(ctx, "checked", run.NewLogItem("checked: %s%s", out.Status.Words(), run.ReasonSuffix(why)))
}

// endUnwritten ends a run whose report could not be written, and leaves to the
// engine what a retry can help.
func endUnwritten(ctx context.Context, out run.Outcome, err error) (run.Outcome, error) {
	if err == nil || run.CanBeRepeated(ctx, err) {
		return out, err
	}
	out.Status, out.Reason, out.Class = nightcrier.Failed, err.Error(), run.ClassOf(err, nightcrier.FailInternal)
	return out, nil
}

// writeAudit renders what was asked of the cluster, by us and by the agent. The
// agent is gone, so nothing is added to it any more.
func (s *session) writeAudit(ctx context.Context) (audit.Summary, error) {
	var log audit.Log
	if err := s.EachEntry(ctx, log.Add); err != nil {
		return audit.Summary{}, err
	}
	var file bytes.Buffer
	sum, err := log.Write(&file)
	if err != nil {
		return sum, err
	}
	return sum, s.Workspace.WriteFile(auditFile, file.Bytes(), 0o600)
}

// chooseReport chooses the report and decides the incident's status.
func (s *session) chooseReport(out *run.Outcome, asked run.Review) (*nightcrier.Report, error) {
	facts, err := s.builtinReport()
	if err != nil || facts == nil {
		return nil, err
	}
	if err := maskReport(s.Mask, facts); err != nil {
		return nil, err
	}
	out.Diagnosis = facts.RootCause
	if s.Order.Agent.Executor == run.Builtin {
		if out.Result.State == nightcrier.StateSuccess {
			out.Status = nightcrier.Resolved
		}
		return facts, nil
	}
	theirs, md, err := s.readAgentReport(func() ([]byte, error) { return s.Workspace.ReadFile(agentReport) })
	if err == nil && md != nil {
		err = s.Workspace.WriteFile(agentReport, md, 0o600)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case out.Class == nightcrier.FailBudget && theirs.Valid:
		return markPartial(mergeReport(&theirs, facts, s.Order, out.Result), *out), nil
	case out.Result.State != nightcrier.StateSuccess:
	case !theirs.Valid || asked.Failure != "":
		out.Status, out.Class = nightcrier.AgentFailed, nightcrier.FailInvalidOutput
		if asked.Full {
			out.Status, out.Class = nightcrier.Failed, nightcrier.FailDisk
		}
		out.Reason = asked.WhyInvalid("report", theirs.Problems)
	default:
		out.Status = nightcrier.Resolved
		return mergeReport(&theirs, facts, s.Order, out.Result), nil
	}
	facts.Problems = append(facts.Problems, fmt.Sprintf("%s delivered no valid report (%s); these are the facts collected before it ran", s.Order.Agent.Executor, out.Reason))
	facts.SandboxLayers, facts.SandboxMissing = out.Result.Layers, out.Result.Missing
	facts.Usage.InputTokens, facts.Usage.OutputTokens, facts.Usage.CostUSD = out.Result.Usage.InputTokens, out.Result.Usage.OutputTokens, out.Result.Usage.CostUSD
	if out.Class == nightcrier.FailBudget {
		return markPartial(facts, *out), nil
	}
	return facts, nil
}

// markPartial says in a report that the money ended before the investigation did.
func markPartial(rep *nightcrier.Report, out run.Outcome) *nightcrier.Report {
	rep.NotChecked = append(rep.NotChecked, nightcrier.NotChecked{What: "what the agent had not looked at when its budget was used up", Why: out.Reason})
	return rep
}

// builtinReport reads the diagnosis of the preparing step, nil when there is none.
func (s *session) builtinReport() (*nightcrier.Report, error) {
	raw, err := s.Workspace.ReadFile(DiagnosisFile)
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
func (s *session) readAgentReport(file func() ([]byte, error)) (nightcrier.Report, []byte, error) {
	chosen, md := nightcrier.Report{Problems: []string{agentReport + " is missing"}}, []byte(nil)
	for _, read := range []func() ([]byte, error){file, func() ([]byte, error) { return s.lastWords() }} {
		text, err := read()
		if nightcrier.CodeOf(err) == nightcrier.NotFound {
			continue
		}
		if err != nil {
			return chosen, nil, err
		}
		text = []byte(s.Mask.String(string(text[:min(len(text), maxFromAgent)])))
		judged := s.judgeReport(text)
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
func (s *session) lastWords() ([]byte, error) {
	text, err := s.Workspace.ReadFile(run.FinalMessage)
	if err == nil && !bytes.Contains(text, []byte(report.Headings()[0])) {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "the agent's final message is no report")
	}
	return text, err
}

// judgeReport reads a report and holds its facts against what was recorded in this run:
// what an earlier run of the incident saw shows nothing about now.
func (s *session) judgeReport(md []byte) nightcrier.Report {
	return report.Accept(md, &s.Incident, func(id string) (report.Recorded, bool) {
		if !s.OfRun[id] {
			return report.Recorded{}, false
		}
		return citableRecord(s.Evidence, id)
	})
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

// mergeReport completes an agent's report with what only we know.
func mergeReport(rep, facts *nightcrier.Report, o run.Order, res nightcrier.AgentResult) *nightcrier.Report {
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
	rep.LookAgainAt = facts.LookAgainAt // what is awaited ends whoever writes about it
	doubtAllClear(rep, facts)
	doubtCause(rep, facts)
	return rep
}

// doubtCause holds an agent's cause to what ours is held to: where the rules suspected the
// same of the same object, and something that they saw speaks against it, it is no surer than
// theirs, unless the agent names what speaks against it too.
func doubtCause(rep, facts *nightcrier.Report) {
	if rep.RootCause == nil || len(rep.Hypotheses) == 0 || len(rep.Hypotheses[0].Against) > 0 {
		return
	}
	first := &rep.Hypotheses[0]
	for _, h := range facts.Hypotheses {
		if h.Object != rep.RootCause.Object || h.Cause != rep.RootCause.Cause || len(h.Against) == 0 || h.Confidence.Probability() >= rep.RootCause.Confidence.Probability() {
			continue
		}
		rep.RootCause.Confidence = h.Confidence
		if first.Confidence.Probability() > h.Confidence.Probability() {
			first.Confidence = h.Confidence
		}
		rep.NotChecked = append(rep.NotChecked, nightcrier.NotChecked{
			What: "what speaks against " + h.Cause + ", which the report does not mention", Why: strings.Join(textsOf(facts, h.Against), "; "),
		})
		return
	}
}

// textsOf are what facts say.
func textsOf(r *nightcrier.Report, ids []string) (list []string) {
	for _, f := range r.Facts {
		if slices.Contains(ids, f.ID) {
			list = append(list, f.Text)
		}
	}
	return list
}

// doubtAllClear holds an agent's all-clear to what ours needs: it does not stand against a
// fault that the rules have found, nor, where they could not prove that all is well, on
// facts none of which was seen in evidence, or was seen only in what had not sufficed the rules.
func doubtAllClear(rep, facts *nightcrier.Report) {
	isClear := func(v nightcrier.Verdict) bool {
		return v == nightcrier.VerdictHealthy || v == nightcrier.VerdictRecovered
	}
	if !isClear(rep.Verdict) || isClear(facts.Verdict) || facts.Verdict == nightcrier.VerdictUndetermined && hasSeenMore(rep, facts) {
		return
	}
	why := "nothing that it rests on was seen in evidence beyond what the rules had, which did not prove it"
	switch {
	case facts.RootCause != nil:
		why = "the rules found before it ran: " + facts.RootCause.Summary
	case len(facts.Hypotheses) > 0 && len(facts.Hypotheses[0].Against) > 0:
		why += ": " + strings.Join(textsOf(facts, facts.Hypotheses[0].Against), "; ")
	}
	rep.NotChecked = append(rep.NotChecked, nightcrier.NotChecked{What: fmt.Sprintf("that it is %s, as the agent says", rep.Verdict), Why: why})
	rep.Verdict = nightcrier.VerdictUndetermined
}

// hasSeenMore reports whether a fact of an agent's was seen in evidence that no fact of the
// rules rests on.
func hasSeenMore(rep, facts *nightcrier.Report) bool {
	old := map[string]bool{}
	for _, f := range facts.Facts {
		for _, id := range f.Evidence {
			old[id] = true
		}
	}
	return slices.ContainsFunc(rep.Facts, func(f nightcrier.Fact) bool {
		return f.Check == nightcrier.Seen && slices.ContainsFunc(f.Evidence, func(id string) bool { return !old[id] })
	})
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
