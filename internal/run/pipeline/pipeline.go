// Package pipeline is what a run executes, as its author writes it: a directory of YAML
// files becomes definitions without a fault ([Load]), a definition becomes something that
// nothing can change any more ([Library.Freeze]), and what is computed in it (conditions,
// inputs, keys, the ticks of a schedule) is computed here. Nothing in it runs anything.
package pipeline

import (
	"encoding/json"
	"iter"
	"path"
	"slices"
	"time"
)

// Triage is the pipeline that every incident is given to. It is part of the product; a
// file with a pipeline of that name takes its place.
const Triage = "k8s-incident-triage"

// Definition is a pipeline without a fault.
type Definition struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	On          []Trigger `json:"on,omitempty"`
	// InputMapping says under which other name a step finds an input.
	InputMapping map[string]string `json:"input_mapping,omitempty"`
	Concurrency  Concurrency       `json:"concurrency,omitzero"`
	// Deadline and BudgetUSD bound a run; 0 means as configured.
	Deadline  time.Duration `json:"deadline_ns,omitempty"`
	BudgetUSD float64       `json:"budget_usd,omitempty"`
	Phases    []Phase       `json:"phases"`
	// Notifications say who is told when a run has ended.
	Notifications []Notification `json:"notifications,omitempty"`
	// File and Lines say where it is written: the lines of the name and of each expression, by its name.
	File  string         `json:"file"`
	Lines map[string]int `json:"lines,omitempty"`
}

// The types of a trigger.
const (
	OnIncident = "incident"
	OnGitHubPR = "github_pr"
	OnWebhook  = "webhook"
	OnCron     = "cron"
	OnManual   = "manual"
)

// Trigger is something that starts a run.
type Trigger struct {
	Type string `json:"type"`
	// Actions of a pull request; none means those that change what there is to review.
	Actions []string `json:"actions,omitempty"`
	// Repositories and Branches, into which it is to be merged, are patterns as of path.Match; none
	// means all.
	Repositories []string `json:"repositories,omitempty"`
	Branches     []string `json:"branches,omitempty"`
	// Cron and TimeZone are those of a schedule; see [ParseSchedule].
	Cron     string `json:"cron,omitempty"`
	TimeZone string `json:"time_zone,omitempty"`
}

// reviewActions are those of a trigger that names none.
var reviewActions = []string{"opened", "synchronize", "reopened", "ready_for_review", "review_requested"}

// IsForPull reports whether it starts a run for what happened to a pull request. The branch of a
// comment's is not known, "", and is one of all.
func (t *Trigger) IsForPull(action, repository, branch string) bool {
	actions := t.Actions
	if len(actions) == 0 {
		actions = reviewActions
	}
	matches := func(patterns []string, name string) bool {
		return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, name); return ok })
	}
	return t.Type == OnGitHubPR && slices.Contains(actions, action) && matches(t.Repositories, repository) && (branch == "" || matches(t.Branches, branch))
}

// Policy says what becomes of a run whose key another run has.
type Policy string

// The policies: it waits, or it takes the other's place.
const (
	Queue          Policy = "queue"
	CancelPrevious Policy = "cancel-previous"
)

// Concurrency says what may not run twice at once.
type Concurrency struct {
	// Key is an expression that yields a text.
	Key    string `json:"key,omitempty"`
	Policy Policy `json:"policy,omitempty"`
}

// Phase is some steps, one after the other or side by side. Steps that are written without
// phases are one phase without a name.
type Phase struct {
	Name     string `json:"name,omitempty"`
	Parallel bool   `json:"parallel,omitempty"`
	// FanInFrom is the earlier phase whose results the steps get, by agent id.
	FanInFrom string `json:"fan_in_from,omitempty"`
	Steps     []Step `json:"steps"`
}

// StepIDs are the names of its steps.
func (p Phase) StepIDs() []string {
	ids := make([]string, len(p.Steps))
	for i, s := range p.Steps {
		ids[i] = s.ID
	}
	return ids
}

// OnFailure says what becomes of a run when a step failed.
type OnFailure string

// What follows a failure. After the last retry, a required step stops the run.
const (
	Stop     OnFailure = "stop"
	Continue OnFailure = "continue"
	Retry    OnFailure = "retry"
)

// The actions that are part of the product.
const (
	ActionCollect = "collect"
	ActionCheck   = "check"
	ActionNotify  = "notify"
	ActionHealth  = "health"
	ActionFetch   = "fetch_pull_request"
	ActionPost    = "post_review"
)

// ActionApproval is that of a step with an approval. It is not written as an action.
const ActionApproval = "approval"

// Actions lists them.
func Actions() []string {
	return []string{ActionCheck, ActionCollect, ActionFetch, ActionHealth, ActionNotify, ActionPost}
}

// ofIncident are those that only a run about an incident can do.
var ofIncident = []string{ActionCheck, ActionCollect, ActionNotify}

// NeedsIncident reports whether only a run about an incident can do the step.
func (s Step) NeedsIncident() bool {
	return slices.Contains(ofIncident, s.Action) || s.DeliversReport()
}

// Step is a skill that an agent uses, or an action of the product.
type Step struct {
	// ID names it in expressions, journals and directories.
	ID     string `json:"id"`
	Skill  string `json:"skill,omitempty"`
	Action string `json:"action,omitempty"`
	// AgentID names its result for a later phase.
	AgentID string `json:"agent_id"`
	// With are inputs of the step: expressions that yield any value.
	With map[string]string `json:"with,omitempty"`
	// If is an expression; when it is false, the step is skipped.
	If        string        `json:"if,omitempty"`
	Required  bool          `json:"required"`
	OnFailure OnFailure     `json:"on_failure"`
	Retries   int           `json:"retries,omitempty"`
	Timeout   time.Duration `json:"timeout_ns,omitempty"`
	BudgetUSD float64       `json:"budget_usd,omitempty"`
	// Approval is what people are asked in this step, nil in any other.
	Approval *Approval `json:"approval,omitempty"`
	// Deliverable is what the agent has to leave; nil means whatever it says.
	Deliverable *Deliverable `json:"deliverable,omitempty"`
	// ContextForNext says that what the step hands on is an input of the next one.
	ContextForNext bool `json:"context_for_next"`
}

// Approval is what people are asked before a run goes on. What is not given is as configured.
type Approval struct {
	// Prompt is an expression for the text that they are asked.
	Prompt    string        `json:"prompt"`
	Approvers []string      `json:"approvers,omitempty"`
	Needed    int           `json:"needed,omitempty"`
	Expires   time.Duration `json:"expires_ns,omitempty"`
}

// Uses names what does the work: "dev/deployer", "action:collect".
func (s Step) Uses() string {
	if s.Action != "" {
		return "action:" + s.Action
	}
	return s.Skill
}

// DeliversReport reports whether it is the step that investigates.
func (s Step) DeliversReport() bool {
	return s.Deliverable != nil && s.Deliverable.Kind == Report
}

// DeliverableKind is a kind of contract.
type DeliverableKind string

// The kinds: the report of an investigation, JSON that a schema describes, files.
const (
	Report DeliverableKind = "report"
	Schema DeliverableKind = "schema"
	Files  DeliverableKind = "files"
)

// Deliverable is a contract about what an agent leaves.
type Deliverable struct {
	Kind   DeliverableKind `json:"kind"`
	Schema json.RawMessage `json:"schema,omitempty"`
	// Files are patterns as of path.Match, below the step's workspace.
	Files []string `json:"files,omitempty"`
}

// AllSteps yields the steps in the order in which they are written, each with its phase.
func (d *Definition) AllSteps() iter.Seq2[*Phase, *Step] {
	return func(yield func(*Phase, *Step) bool) {
		for i := range d.Phases {
			for j := range d.Phases[i].Steps {
				if !yield(&d.Phases[i], &d.Phases[i].Steps[j]) {
					return
				}
			}
		}
	}
}

// CountSteps counts them.
func (d *Definition) CountSteps() int {
	n := 0
	for _, p := range d.Phases {
		n += len(p.Steps)
	}
	return n
}

// SkillNames lists the skills that it uses, each once.
func (d *Definition) SkillNames() []string {
	var names []string
	for _, s := range d.AllSteps() {
		if s.Skill != "" && !slices.Contains(names, s.Skill) {
			names = append(names, s.Skill)
		}
	}
	return names
}

// Schedules are the triggers that are schedules.
func (d *Definition) Schedules() ([]Schedule, error) {
	var all []Schedule
	for _, t := range d.On {
		if t.Type != OnCron {
			continue
		}
		s, err := ParseSchedule(t.Cron, t.TimeZone)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
