package triage

import (
	"context"
	"encoding/json"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/falsify"
	"nightcrier.dev/nightcrier/internal/triage/runbook"
)

// maxRecalled bounds what is quoted of an earlier report, in bytes.
const maxRecalled = 600

// findRunbooks finds what people wrote for such an incident. What cannot be used is no
// reason to stop: it is logged, and the page of an alert says it itself.
func (s *session) findRunbooks(ctx context.Context, ev nightcrier.Event, rep *nightcrier.Report) []nightcrier.Runbook {
	c := runbook.Case{Class: s.Incident.Class, Labels: s.Clusters.Labels(s.Incident.Cluster), Kinds: []string{s.Incident.Resource.Kind, s.Incident.Owner.Kind, rep.Target.Kind}, Namespace: s.Incident.Namespace(),
		Names: []string{s.Incident.Resource.Name, s.Incident.Owner.Name, rep.Target.Name}}
	if rep.RootCause != nil {
		c.Cause, c.Kinds = rep.RootCause.Cause, append(c.Kinds, rep.RootCause.Object.Kind)
		c.Names = append(c.Names, rep.RootCause.Object.Name)
	}
	c.Heard(ev)
	list, problems := s.Memory.For(ctx, c)
	for _, err := range problems {
		s.Log.Warn("a runbook cannot be used", "event", "runbook", "error", err)
	}
	for i := range list {
		b := &list[i]
		for _, text := range []*string{&b.Title, &b.Source, &b.Text, &b.Problem} {
			*text = s.Mask.String(*text)
		}
	}
	return list
}

// recallEarlier looks for an earlier incident of the same fault whose facts led to the
// same diagnosis. Most incidents are the first of their kind.
func (s *session) recallEarlier(ctx context.Context, rep *nightcrier.Report) error {
	if rep.RootCause == nil {
		return nil
	}
	old, err := s.Memory.Recall(ctx, s.Incident.ID, *rep.RootCause)
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	rep.Recalled = &nightcrier.Recalled{
		IncidentID: old.Incident.ID, At: old.Incident.CreatedAt, Summary: earlierConclusion(old), Notes: old.Notes,
		Cause: rep.RootCause.Cause, Object: rep.RootCause.Object,
	}
	stillHolds(rep)
	return nil
}

// earlierConclusion is what the earlier report came to, in a sentence.
func earlierConclusion(old store.Recollection) string {
	var rep nightcrier.Report
	summary := old.Incident.RootCause
	if json.Unmarshal(old.Report, &rep) == nil && rep.RootCause != nil {
		summary = rep.RootCause.Summary
	}
	return text.CutLine(summary, maxRecalled)
}

// stillHolds judges the diagnosis of an earlier incident by the report as it
// stands now: what it concludes, and what came of the tests that were run.
func stillHolds(rep *nightcrier.Report) {
	old := rep.Recalled
	if old == nil {
		return
	}
	old.Holds, old.Why = true, "the facts collected now lead to the same cause on the same object"
	if rc := rep.RootCause; rc == nil || !sameDiagnosis(old.Cause, old.Object, rc.Cause, rc.Object) {
		old.Holds, old.Why = false, "the facts lead there again, but this report concludes otherwise"
		return
	}
	for _, h := range rep.Hypotheses {
		if !sameDiagnosis(old.Cause, old.Object, h.Cause, h.Object) {
			continue
		}
		switch h.Falsification.Outcome {
		case falsify.Holds:
			old.Why += ", and the test of " + h.ID + " was run and does not refute it"
			return
		case falsify.RuledOut:
			old.Holds, old.Why = false, "the facts lead there again, but the test of "+h.ID+" was run and refutes it"
			return
		}
	}
}

// sameDiagnosis compares a diagnosis of ours with what an agent may have written: it
// need not name the cause by its id, and may name a Pod of the workload.
func sameDiagnosis(ours string, at nightcrier.Object, cause string, object nightcrier.Object) bool {
	if cause != "" && cause != ours {
		return false
	}
	if object.Namespace != "" && object.Namespace != at.Namespace {
		return false
	}
	ofWorkload := (object.Kind == "Pod" || object.Kind == "ReplicaSet") && strings.HasPrefix(object.Name, at.Name+"-")
	return ofWorkload || object.Name == at.Name && strings.EqualFold(object.Kind, at.Kind)
}
