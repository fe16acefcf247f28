package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"

	"github.com/danielgtaylor/huma/v2"
)

// maxSummary is how much of an input or an output a list shows, in bytes.
const maxSummary = 4 << 10

// ExecutionRow is a run of a pipeline as the older platform showed it.
type ExecutionRow struct {
	ExecutionID   string          `json:"execution_id" doc:"The id of the run"`
	Skill         string          `json:"skill" doc:"The skill with its domain, where the run is one of a skill alone; else the pipeline"`
	Timestamp     time.Time       `json:"timestamp"`
	InputSummary  json.RawMessage `json:"input_summary,omitempty" doc:"The input; absent in a list when it is long"`
	OutputSummary json.RawMessage `json:"output_summary,omitempty" doc:"What the last step delivered; absent in a list when it is long"`
	Outcome       string          `json:"outcome" enum:"running,pending_approval,pending_review,error" doc:"pending_review is one that succeeded, pending_approval one that waits for people"`
	CostUSD       float64         `json:"cost_usd"`
	LatencyMS     float64         `json:"latency_ms"`
	ModelUsed     string          `json:"model_used" doc:"The executors of its steps"`
	TriggeredBy   string          `json:"triggered_by,omitempty"`
	Error         string          `json:"error,omitempty"`
	// PendingApprovals are what it waits for people to decide.
	PendingApprovals []PendingApproval `json:"pending_approvals"`
}

// PendingApproval is what people are asked, as the older platform showed it.
type PendingApproval struct {
	ApprovalID string          `json:"approval_id"`
	Prompt     string          `json:"prompt"`
	Tool       string          `json:"tool,omitempty"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Server     string          `json:"server,omitempty"`
	Digest     string          `json:"digest"`
}

// ExecutionDetail is one of them.
type ExecutionDetail struct {
	Execution ExecutionRow   `json:"execution"`
	Steps     []ExecutedStep `json:"steps"`
	// Nobody corrects runs yet.
	Corrections []string `json:"corrections"`
	Reflexions  []string `json:"reflexions"`
}

// The outcomes of an execution, as the older platform calls them.
const (
	isRunning = "running"
	isAsking  = "pending_approval"
	isGood    = "pending_review"
	isError   = "error"
)

type executionQuery struct {
	Skill       string `query:"skill" maxLength:"253" doc:"A skill with its domain, or a pipeline"`
	Outcome     string `query:"outcome" enum:"running,pending_approval,pending_review,error"`
	TriggeredBy string `query:"triggered_by" maxLength:"512"`
	Limit       int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

// Triggers are the schedules of all pipelines, and whether they are followed.
type Triggers struct {
	Running bool
	// LastSync is when it was last looked whether something is due.
	LastSync time.Time
	List     []Trigger
}

// Trigger is a schedule of a pipeline.
type Trigger struct {
	Domain   string    `json:"domain" doc:"Empty: a pipeline is of no domain"`
	Skill    string    `json:"skill" doc:"pipeline: and its name"`
	Schedule string    `json:"schedule" doc:"With its time zone"`
	NextRun  time.Time `json:"next_run,omitzero"`
	PrevRun  time.Time `json:"prev_run,omitzero"`
	Missed   int       `json:"missed" doc:"How many ticks did not run because nobody looked in time"`
}

// TriggerStatus says whether schedules are followed.
type TriggerStatus struct {
	Running  bool      `json:"running"`
	Timezone string    `json:"timezone" doc:"Of a schedule that names none"`
	JobCount int       `json:"job_count"`
	LastSync time.Time `json:"last_sync,omitzero"`
}

func (a *API) executionRoutes(h huma.API) {
	huma.Register(h, newOperation("list-executions", http.MethodGet, "/executions", "Executions, newest first"), a.listExecutions)
	huma.Register(h, newOperation("get-execution", http.MethodGet, "/executions/{id}", "One execution"), a.getExecution)
	huma.Register(h, newOperation("list-triggers", http.MethodGet, "/triggers", "Schedules"), a.listTriggers)
	huma.Register(h, newOperation("get-trigger-status", http.MethodGet, "/triggers/status", "How schedules stand"), a.getTriggerStatus)
}

// listOf is a list that stands alone, as clients of the older platform expect it.
type listOf[T any] struct {
	Body []T `nullable:"false"`
}

func (a *API) listExecutions(ctx context.Context, q *executionQuery) (*listOf[ExecutionRow], error) {
	rows := []ExecutionRow{}
	f := store.RunFilter{Pipeline: pipelineOf(q.Skill), TriggeredBy: q.TriggeredBy, Limit: 200}
	if q.Outcome == isGood {
		f.Outcome = nightcrier.StateSuccess
	}
	for len(rows) < q.Limit {
		page, next, err := a.opt.Runs.ListRuns(ctx, f)
		if err != nil {
			return nil, a.problemFor(ctx, err)
		}
		for _, run := range page {
			if q.Outcome != "" && outcomeOf(run) != q.Outcome || len(rows) == q.Limit {
				continue
			}
			row, _, err := a.newExecutionRow(ctx, run)
			if err != nil {
				return nil, a.problemFor(ctx, err)
			}
			row.InputSummary, row.OutputSummary = unlessLong(row.InputSummary), unlessLong(row.OutputSummary)
			rows = append(rows, row)
		}
		if f.Cursor = next; next == "" {
			break
		}
	}
	return &listOf[ExecutionRow]{rows}, nil
}

// pipelineOf is the pipeline of the runs of a skill, or of the pipeline, that is shown by that name.
func pipelineOf(shown string) string {
	if !strings.Contains(shown, "/") {
		return shown
	}
	return nightcrier.SkillPrefix + strings.TrimPrefix(shown, NoDomain+"/")
}

func unlessLong(doc json.RawMessage) json.RawMessage {
	if len(doc) > maxSummary {
		return nil
	}
	return doc
}

func (a *API) getExecution(ctx context.Context, in *runID) (*body[ExecutionDetail], error) {
	run, err := a.readRun(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	row, steps, err := a.newExecutionRow(ctx, run)
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	return &body[ExecutionDetail]{ExecutionDetail{Execution: row, Steps: steps, Corrections: []string{}, Reflexions: []string{}}}, nil
}

// newExecutionRow shows a run, and what its steps came to.
func (a *API) newExecutionRow(ctx context.Context, run nightcrier.Run) (row ExecutionRow, steps []ExecutedStep, err error) {
	row = ExecutionRow{ExecutionID: run.ID, Skill: shownSkill(run.Pipeline), Timestamp: run.QueuedAt, Outcome: outcomeOf(run), CostUSD: run.CostUSD,
		TriggeredBy: run.TriggeredBy, PendingApprovals: []PendingApproval{}}
	if !run.EndedAt.IsZero() {
		row.LatencyMS = milliseconds(run.EndedAt.Sub(run.QueuedAt))
	}
	if row.Outcome == isError {
		row.Error = run.WhyUnsuccessful()
	}
	if row.Outcome == isAsking {
		if row.PendingApprovals, err = a.listPending(ctx, run.ID); err != nil {
			return row, nil, err
		}
	}
	if row.InputSummary, err = a.opt.Runs.RunInput(ctx, run.ID); err != nil {
		return row, nil, err
	}
	q := newSequence(a.opt.Runs, run.ID, nil)
	if err := q.readSteps(ctx); err != nil {
		return row, nil, err
	}
	run.Steps, steps = q.steps, []ExecutedStep{}
	row.ModelUsed = run.DoneBy()
	for at, s := range q.steps {
		steps = append(steps, newExecutedStep(s, at))
		if len(s.Output) > 0 {
			row.OutputSummary = s.Output
		}
	}
	return row, steps, nil
}

// listPending lists what a run waits for people to decide.
func (a *API) listPending(ctx context.Context, run string) ([]PendingApproval, error) {
	all, _, err := a.opt.Approvals.Approvals(ctx, store.ApprovalFilter{RunID: run, Status: nightcrier.ApprovalPending})
	pending := []PendingApproval{}
	for _, p := range all {
		pending = append(pending, PendingApproval{p.ID, p.Prompt, p.Tool, p.CallArguments(), p.Server, p.Digest})
	}
	return pending, err
}

// outcomeOf says how a run stands in the words of the older platform.
func outcomeOf(run nightcrier.Run) string {
	switch {
	case run.Status.Open() && run.WaitsFor != nil && run.WaitsFor.For == nightcrier.WaitApproval:
		return isAsking
	case run.Status.Open():
		return isRunning
	case run.Outcome == nightcrier.StateSuccess:
		return isGood
	}
	return isError
}

// readTriggers are the schedules; its error is an answer.
func (a *API) readTriggers(ctx context.Context) (Triggers, error) {
	if a.opt.Triggers == nil {
		return Triggers{}, nil // nobody follows any
	}
	t, err := a.opt.Triggers(ctx)
	if err != nil {
		return t, a.problemFor(ctx, err)
	}
	return t, nil
}

func (a *API) listTriggers(ctx context.Context, _ *struct{}) (*listOf[Trigger], error) {
	t, err := a.readTriggers(ctx)
	if err != nil {
		return nil, err
	}
	return &listOf[Trigger]{notNil(t.List)}, nil
}

func (a *API) getTriggerStatus(ctx context.Context, _ *struct{}) (*body[TriggerStatus], error) {
	t, err := a.readTriggers(ctx)
	if err != nil {
		return nil, err
	}
	return &body[TriggerStatus]{TriggerStatus{Running: t.Running, Timezone: "UTC", JobCount: len(t.List), LastSync: t.LastSync}}, nil
}
