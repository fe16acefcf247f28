// Package report is the contract of an investigation's result: it renders a
// report as Markdown, reads the Markdown that an agent wrote, says what is
// missing from it, and checks its facts against recorded evidence.
//
// Markdown is for people, nightcrier.Report for machines; they say the same.
package report

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"nightcrier.dev/nightcrier"
)

// FinalFile is the file in a workspace that has the report for people.
const FinalFile = "output/final-report.md"

// Title is the first heading of every report.
const Title = "# Kubernetes Incident Triage Report"

// headings are the sections of every report, in order.
var headings = [7]string{
	"## 0. Executive Triage Card", "## 1. Problem Statement", "## 2. Assessment & Findings", "## 3. Root Cause Analysis",
	"## 4. Remediation Plan", "## 5. Proof of Work", "## 6. Supporting Evidence",
}

// Headings returns the seven section headings, in order.
func Headings() []string { return slices.Clone(headings[:]) }

// Depth says how much a rendered report tells.
type Depth int

// The depths. BySeverity is Full for P1 and P2, Concise for P3, Minimal for P4.
const (
	BySeverity Depth = iota
	Full
	Concise
	Minimal
)

func (d Depth) forSeverity(severity string) Depth {
	if d != BySeverity {
		return d
	}
	switch severity {
	case "P3":
		return Concise
	case "P4":
		return Minimal
	}
	return Full
}

// Detail is what a rendering can show beside the report itself; all of it may be
// absent.
type Detail struct {
	Depth    Depth
	Incident *nightcrier.Incident
	// Now ends the duration of an incident that is still open.
	Now time.Time
	// Commands are the reads that were recorded, in order.
	Commands []string
	Excerpts []Excerpt
}

// Excerpt is a piece of a log or an object, for the last section.
type Excerpt struct {
	Title string
	Text  string
}

// Evidence returns what was recorded under an id such as E12; false when there is
// nothing.
type Evidence func(id string) (Recorded, bool)

// Recorded is an answer that was kept.
type Recorded struct {
	Body []byte
	// Asked is the request, of an answer that is a failure: it repeats what it was
	// asked for, and whoever asks chooses that.
	Asked string
}

// Accept reads an agent's report and judges it: problems are named, facts are
// checked, and what the text does not say is taken from the incident. The result
// is Valid when nothing that the contract demands is missing.
func Accept(md []byte, inc *nightcrier.Incident, ev Evidence) nightcrier.Report {
	r, unread := Parse(md)
	missing := Validate(md, &r)
	r.Valid = len(missing) == 0
	r.Problems = append(missing, unread...)
	completeReport(&r, inc)
	Check(&r, ev)
	return r
}

// completeReport fills in what only the incident knows.
func completeReport(r *nightcrier.Report, inc *nightcrier.Incident) {
	if inc == nil {
		return
	}
	r.IncidentID, r.Cluster, r.Executor = inc.ID, inc.Cluster, inc.Executor
	if r.Severity == "" {
		r.Severity = Priority(inc.Severity)
	}
	if r.Target.Name == "" {
		res := inc.Owner
		if res.Name == "" {
			res = inc.Resource
		}
		r.Target = nightcrier.Object{Kind: res.Kind, Namespace: res.Namespace, Name: res.Name}
	}
}

// Priority maps a severity to P1–P4 before anything is known of the blast
// radius.
func Priority(s nightcrier.Severity) string {
	switch s {
	case nightcrier.Critical:
		return "P1"
	case nightcrier.ErrorSeverity:
		return "P3"
	}
	return "P4"
}

// JSON encodes report.json. Lists are never null.
func JSON(r *nightcrier.Report) ([]byte, error) {
	out := *r
	out.Schema = nightcrier.ReportSchema
	out.Problems = orEmpty(out.Problems)
	out.Hypotheses = orEmpty(slices.Clone(out.Hypotheses))
	out.Facts = orEmpty(slices.Clone(out.Facts))
	out.Inferences = orEmpty(slices.Clone(out.Inferences))
	out.Changes, out.Actions, out.NotChecked = orEmpty(out.Changes), orEmpty(out.Actions), orEmpty(out.NotChecked)
	out.SandboxLayers = orEmpty(out.SandboxLayers)
	for i := range out.Hypotheses {
		h := &out.Hypotheses[i]
		h.For, h.Against = orEmpty(h.For), orEmpty(h.Against)
	}
	for i := range out.Facts {
		out.Facts[i].Evidence = orEmpty(out.Facts[i].Evidence)
	}
	for i := range out.Inferences {
		out.Inferences[i].BasedOn = orEmpty(out.Inferences[i].BasedOn)
	}
	if out.BlastRadius == nil {
		out.BlastRadius = map[string]any{}
	}
	if out.Permissions == nil {
		out.Permissions = map[string]any{}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(out); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "encode report.json of incident %s: %w", r.IncidentID, err)
	}
	return b.Bytes(), nil
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
