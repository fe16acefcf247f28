package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// The events of a run, as the older platform calls them.
const (
	stepStarted    = "step_started"
	stepCompleted  = "step_completed"
	phaseStarted   = "phase_started"
	phaseCompleted = "phase_completed"
	agentStarted   = "agent_started"
	agentCompleted = "agent_completed"
	iteration      = "iteration"
	pipelineDone   = "pipeline_done"
	asksPeople     = "approval_requested"
	peopleDecided  = "approval_decided"
)

// sequence makes the events of a run out of its journal and its steps. Whoever makes it, while
// the run goes on or when it is over, makes the same: a step begins with its first entry, and
// has ended when a later one begins or when nothing can follow any more.
type sequence struct {
	runs Runs
	run  string
	send func(n int, event string, data any) error

	n    int   // how many events there were
	last int64 // the newest entry that was read
	// steps are the last attempts, in their order; strangers are names in the journal of
	// what is no step.
	steps      []nightcrier.Step
	strangers  map[string]bool
	begun      map[string]bool
	ended      map[string]bool
	iterations map[string]int
	phase      string
	done       []ExecutedStep
	// over is what the run came to, nil until then.
	over *Execution
}

func newSequence(runs Runs, run string, send func(n int, event string, data any) error) *sequence {
	return &sequence{runs: runs, run: run, send: send, strangers: map[string]bool{"run": true}, begun: map[string]bool{}, ended: map[string]bool{}, iterations: map[string]int{}}
}

// advance makes the events that are new. It reads the run first, then its steps, then the
// journal: what is in the one is then in all read after it.
func (q *sequence) advance(ctx context.Context) (done bool, err error) {
	run, err := q.runs.Run(ctx, q.run)
	if err == nil {
		err = q.readSteps(ctx)
	}
	if err == nil {
		err = q.readEntries(ctx)
	}
	if err != nil {
		return false, err
	}
	over := !run.Status.Open()
	if err := q.endSteps(len(q.steps), func(at int) bool { return over || q.isSettled(at) }); err != nil || !over {
		return false, err
	}
	return true, q.finish(run)
}

// readSteps reads the last attempts. What is told of the run comes after its end, and is no part of
// the sequence.
func (q *sequence) readSteps(ctx context.Context) error {
	all, err := q.runs.Steps(ctx, q.run)
	q.steps = nightcrier.LastAttempts(slices.DeleteFunc(all, func(s nightcrier.Step) bool { return s.AfterEnd }))
	return err
}

func (q *sequence) readEntries(ctx context.Context) error {
	return journal.EachEntry(ctx, q.runs, q.run, q.last+1, func(e nightcrier.JournalEntry) error {
		err := q.takeEntry(ctx, e)
		if err == nil {
			q.last = e.Seq
		}
		return err
	})
}

// takeEntry makes the events of an entry. A state may be written before its step is.
func (q *sequence) takeEntry(ctx context.Context, e nightcrier.JournalEntry) error {
	name := q.stepOf(e)
	if e.Type == nightcrier.EntryState || name == "" || q.strangers[name] {
		return nil
	}
	if !q.begun[name] {
		if err := q.readSteps(ctx); err != nil {
			return err
		}
		if q.find(name) < 0 {
			q.strangers[name] = true
			return nil
		}
		if err := q.begin(name); err != nil {
			return err
		}
	}
	switch e.Type {
	case nightcrier.EntryApproval:
		return q.takeApproval(name, e)
	case nightcrier.EntryToolCall:
		return q.takeCall(name, e)
	}
	return nil
}

// takeApproval makes the event that people are asked, or have decided.
func (q *sequence) takeApproval(name string, e nightcrier.JournalEntry) error {
	a, err := journal.Decode[journal.Approval](e)
	if err != nil {
		return err
	}
	event := asksPeople
	if a.Status != nightcrier.ApprovalPending {
		event = peopleDecided
	}
	return q.make(event, approval{q.placeOf(name), a.ID, a.Kind, a.Status, a.Prompt, a.Tool, a.Arguments, a.Server, a.Digest, a.Approvers, a.Outcome, e.Time.UTC()})
}

// takeCall makes the event of a call of a tool.
func (q *sequence) takeCall(name string, e nightcrier.JournalEntry) error {
	call, err := journal.Decode[journal.ToolCall](e)
	if err != nil {
		return err
	}
	q.iterations[name]++
	data := iterated{place: q.placeOf(name), Iteration: q.iterations[name], ToolName: call.Tool, ToolInput: call.Input, Timestamp: e.Time.UTC()}
	if len(data.ToolInput) == 0 {
		data.ToolInput, err = json.Marshal(map[string]string{"command": call.Command})
	}
	if err != nil {
		return err
	}
	return q.make(iteration, data)
}

// stepOf is the step that an entry belongs to: another round of it, and who asks for its result
// again, have names of their own.
func (q *sequence) stepOf(e nightcrier.JournalEntry) string {
	name, _, _ := strings.Cut(e.Step, "/")
	name, _, _ = strings.Cut(name, "~")
	if name == "repair" && q.find(name) < 0 { // of the first agent
		for _, s := range q.steps {
			if !strings.HasPrefix(s.Uses, "action:") {
				return s.ID
			}
		}
	}
	return name
}

func (q *sequence) find(name string) int {
	return slices.IndexFunc(q.steps, func(s nightcrier.Step) bool { return s.ID == name })
}

// begin has a step begin, with which those before it have ended.
func (q *sequence) begin(name string) error {
	at := q.find(name)
	step := q.steps[at]
	if err := q.endSteps(at, func(before int) bool { return !slices.Contains(step.Beside, q.steps[before].ID) }); err != nil {
		return err
	}
	if err := q.enterPhase(step); err != nil {
		return err
	}
	q.begun[name] = true
	if len(step.Beside) > 0 {
		return q.make(agentStarted, map[string]any{"agent_id": name, "skill": step.Uses})
	}
	return q.make(stepStarted, map[string]any{"step": at + 1, "skill": step.Uses, "status": "running"})
}

func (q *sequence) enterPhase(step nightcrier.Step) error {
	if step.Phase == q.phase {
		return nil
	}
	if err := q.leavePhase(); err != nil || step.Phase == "" {
		return err
	}
	q.phase = step.Phase
	data := map[string]any{"phase": step.Phase, "type": "sequential"}
	if len(step.Beside) > 0 {
		data["type"], data["agents"] = "parallel", step.Beside
	}
	return q.make(phaseStarted, data)
}

func (q *sequence) leavePhase() error {
	if q.phase == "" {
		return nil
	}
	left := q.phase
	q.phase = ""
	return q.make(phaseCompleted, map[string]any{"phase": left})
}

// endSteps has the steps before a place end, in their order and up to the first that is not over
// yet; those of a parallel phase together, as they are written.
func (q *sequence) endSteps(before int, isOver func(at int) bool) error {
	for at := range before {
		step := q.steps[at]
		if q.ended[step.ID] {
			continue
		}
		if !isOver(at) {
			return nil
		}
		for _, id := range step.Beside {
			if other := q.find(id); other >= 0 && !q.ended[id] {
				if err := q.end(other); err != nil {
					return err
				}
			}
		}
		if !q.ended[step.ID] {
			if err := q.end(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// isSettled reports whether nothing more can become of a step: one that failed may be tried
// again, unless something came after it.
func (q *sequence) isSettled(at int) bool {
	together := q.steps[at].Beside
	if len(together) == 0 {
		together = []string{q.steps[at].ID}
	}
	last := at
	for _, id := range together {
		other := q.find(id)
		if other < 0 || !q.steps[other].Ended() {
			return false
		}
		last = max(last, other)
	}
	if last < len(q.steps)-1 {
		return true
	}
	return !slices.ContainsFunc(together, func(id string) bool { s := q.steps[q.find(id)]; return !s.Delivered() })
}

// end has a step end.
func (q *sequence) end(at int) error {
	step := q.steps[at]
	if err := q.enterPhase(step); err != nil {
		return err
	}
	q.ended[step.ID] = true
	done := newExecutedStep(step, at)
	q.done = append(q.done, done)
	data := stepEnd{place: q.placeOf(step.ID), Skill: done.Skill, Success: done.Success, Error: done.Error, Skipped: done.Skipped, ExecutionID: done.ExecutionID, LatencyMS: done.LatencyMS, CostUSD: done.CostUSD}
	if len(step.Beside) > 0 {
		return q.make(agentCompleted, data)
	}
	data.deployed = deployedBy(step.Output)
	return q.make(stepCompleted, data)
}

// finish makes the last event.
func (q *sequence) finish(run nightcrier.Run) error {
	if err := q.leavePhase(); err != nil {
		return err
	}
	over := Execution{Pipeline: run.Pipeline, SessionID: run.ID, Success: run.Outcome == nightcrier.StateSuccess, Steps: notNil(q.done), TotalSteps: len(q.steps),
		TotalLatencyMS: milliseconds(run.EndedAt.Sub(run.QueuedAt)), TotalCostUSD: run.CostUSD}
	for i, s := range q.done {
		if s.Success {
			over.StepsCompleted++
		}
		over.URL = cmp.Or(urlIn(q.done[i].Output), over.URL)
	}
	if !over.Success {
		over.Error = run.WhyUnsuccessful()
	}
	q.over = &over
	end := over
	end.Steps = nil
	return q.make(pipelineDone, struct {
		Execution
		Steps *struct{} `json:"steps,omitempty"` // were told
	}{Execution: end})
}

func (q *sequence) make(event string, data any) error {
	q.n++
	return q.send(q.n, event, data)
}

// place says which step an event is about: by its number, or beside others by its name.
type place struct {
	Step    int    `json:"step,omitempty"`
	AgentID string `json:"agent_id,omitempty"`
}

func (q *sequence) placeOf(name string) place {
	at := q.find(name)
	if len(q.steps[at].Beside) > 0 {
		return place{AgentID: name}
	}
	return place{Step: at + 1}
}

// iterated is what an agent did.
type iterated struct {
	place
	Iteration  int             `json:"iteration"`
	ToolName   string          `json:"tool_name"`
	ToolInput  json.RawMessage `json:"tool_input"`
	ToolOutput string          `json:"tool_output"` // as ever empty
	Timestamp  time.Time       `json:"timestamp"`
}

// approval is what people are asked, or have decided.
type approval struct {
	place
	ApprovalID string                    `json:"approval_id"`
	Kind       nightcrier.ApprovalKind   `json:"kind"`
	Status     nightcrier.ApprovalStatus `json:"status"`
	Prompt     string                    `json:"prompt"`
	Tool       string                    `json:"tool,omitempty"`
	Arguments  json.RawMessage           `json:"arguments,omitempty"`
	Server     string                    `json:"server,omitempty"`
	Digest     string                    `json:"digest"`
	Approvers  []string                  `json:"approvers,omitempty"`
	Outcome    string                    `json:"outcome"`
	Timestamp  time.Time                 `json:"timestamp"`
}

// stepEnd is what a step came to, without what it delivered.
type stepEnd struct {
	place
	Skill       string  `json:"skill"`
	Success     bool    `json:"success"`
	Error       string  `json:"error,omitempty"`
	Skipped     string  `json:"skipped,omitempty"`
	ExecutionID string  `json:"execution_id"`
	LatencyMS   float64 `json:"latency_ms"`
	CostUSD     float64 `json:"cost_usd"`
	*deployed
}

// deployed is told of a step that is done alone.
type deployed struct {
	ArtifactsDir string  `json:"artifacts_dir"`
	Deployed     bool    `json:"deployed"`
	Port         *int    `json:"port"`
	URL          *string `json:"url"`
}

func newExecutedStep(s nightcrier.Step, at int) ExecutedStep {
	done := ExecutedStep{Step: at + 1, Skill: s.Uses, Status: string(s.State), Success: s.State == nightcrier.StateSuccess, ExecutionID: cmp.Or(s.FromRun, s.RunID),
		CostUSD: s.Usage.CostUSD, Output: s.Output, Error: s.FailureReason, Skipped: s.Skipped}
	if !s.EndedAt.IsZero() {
		done.LatencyMS = milliseconds(s.EndedAt.Sub(s.StartedAt))
	}
	if s.Skipped != "" {
		done.Status = "skipped"
	}
	if len(s.Beside) > 0 {
		done.Step, done.AgentID = 0, s.ID
	}
	return done
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// deployedBy is where what a step delivered can be reached, by the names url and port of its
// output.
func deployedBy(output json.RawMessage) *deployed {
	var of struct {
		URL  any `json:"url"`
		Port any `json:"port"`
	}
	_ = json.Unmarshal(output, &of) // what is no object has neither
	d := &deployed{}
	if said, ok := of.URL.(string); ok && isWebAddress(said) {
		d.Deployed, d.URL = true, &said
	}
	if n, ok := of.Port.(float64); ok && n > 0 && n < 1<<16 && n == float64(int(n)) {
		port := int(n)
		d.Port = &port
	}
	return d
}

// isWebAddress tells what a page may lead to from what it would run: a model wrote it.
func isWebAddress(said string) bool {
	u, err := url.Parse(said)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// urlIn is the URL that a step delivered under this name.
func urlIn(output json.RawMessage) string {
	if d := deployedBy(output); d.Deployed {
		return *d.URL
	}
	return ""
}
