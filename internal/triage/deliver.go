package triage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// deliverReport writes the report that people and machines read.
func (s *session) deliverReport(out *run.Outcome, rep *nightcrier.Report) error {
	now := s.Now()
	rep.IncidentID, rep.Cluster, rep.CreatedAt = s.Incident.ID, s.Incident.Cluster, now.UTC()
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
	if err := s.Workspace.WriteFile(machineFile, raw, 0o600); err != nil {
		return err
	}
	out.Report, out.Verdict, out.LookAgainAt = machineFile, rep.Verdict, rep.LookAgainAt
	shown, err := s.reportDetail(out, now)
	if err != nil {
		return err
	}
	if rep.Source == run.Builtin && rep.Executor == run.Builtin && out.Status == nightcrier.Resolved {
		if err := s.Workspace.WriteFile(agentReport, report.Render(rep, shown), 0o600); err != nil {
			return err
		}
	}
	return s.Workspace.WriteFile(report.FinalFile, report.Final(rep, shown), 0o600)
}

// reportDetail is what the rendered report shows beside the facts: what was read, and
// the ends of the logs.
func (s *session) reportDetail(out *run.Outcome, now time.Time) (report.Detail, error) {
	inc := s.Incident
	inc.Status, inc.FailureReason = out.Status, out.Reason
	d := report.Detail{Incident: &inc, Now: now}
	var err error
	if d.Commands, err = s.listCommands(); err != nil {
		return d, err
	}
	asked := len(d.Commands) > 0
	for _, it := range s.Evidence.Items() {
		if !asked { // a recorded cluster has no guard before it
			d.Commands = append(d.Commands, it.Source)
		}
		if it.Kind != "log" || len(d.Excerpts) == maxExcerpts {
			continue
		}
		if body, err := s.Evidence.Load(it.ID); err == nil && len(body) > 0 {
			d.Excerpts = append(d.Excerpts, report.Excerpt{Title: it.ID + ": " + it.Source, Text: lastLines(s.Mask.String(string(body)), excerptLines)})
		}
	}
	return d, nil
}

// maxCommands bounds the requests that a report lists; all are in the audit.
const maxCommands = 200

// listCommands lists what was asked of the cluster, by us and by the agent, as the
// audit has it; what was asked again with the same outcome is one line.
func (s *session) listCommands() ([]string, error) {
	raw, err := s.Workspace.ReadFile(auditFile)
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
		command := s.Mask.String(describeRequest(r))
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
