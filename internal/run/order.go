package run

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// Order is a run's frozen input: what was configured when it was admitted. Neither a later
// configuration nor another file of the pipeline changes a run under way.
type Order struct {
	RunID    string             `json:"runId"`
	Subject  nightcrier.Subject `json:"subject"`
	Pipeline pipeline.Frozen    `json:"pipeline,omitzero"`
	// Unready is why the pipeline cannot be executed, "" for most.
	Unready string `json:"unready,omitempty"`
	// Input is what the run was called with, nil for nothing.
	Input json.RawMessage `json:"input,omitempty"`
	// Delivered are the steps that an earlier run did, which this one begins behind.
	Delivered []nightcrier.Step `json:"delivered,omitempty"`
	// People are who can be asked.
	People People `json:"people,omitzero"`
	// Deadline is when the run must have ended, zero for no such time.
	Deadline time.Time `json:"deadline,omitzero"`
	// Agent is how the agents of the run are started and bounded. Its credentials are no part
	// of it; they are taken when a worker starts.
	Agent agent.Spec `json:"agent"`
}

// IncidentID is the incident that the run is about, "" where it is about anything else.
func (o Order) IncidentID() string {
	return nightcrier.Run{Subject: o.Subject}.IncidentID()
}

// WorkspaceID names the workspace: it is the incident's, and else one of the run alone.
func (o Order) WorkspaceID() string {
	if id := o.IncidentID(); id != "" {
		return id
	}
	return o.RunID
}

// BudgetID is what the run is counted for beside its cluster and itself: its incident, or the
// conversation, and that about an incident has its id.
func (o Order) BudgetID() string {
	if o.Subject.Kind == nightcrier.SubjectConversation {
		return o.Subject.ID
	}
	return o.WorkspaceID()
}

// boundByPipeline has the run spend no more than its pipeline says.
func (o *Order) boundByPipeline() {
	d := &o.Pipeline.Definition
	o.Agent.Budget.Run.BoundMoney(d.BudgetUSD, "the budget of the pipeline "+d.Name)
}

// runs are the run, and those whose steps it goes on behind.
func (o Order) runs() []string {
	all := []string{o.RunID}
	for _, s := range o.Delivered {
		if s.FromRun != "" && !slices.Contains(all, s.FromRun) {
			all = append(all, s.FromRun)
		}
	}
	return all
}

// Executor returns what is known of the agent; of the built-in rules, nothing that matters here.
func (o Order) Executor() (agent.Executor, error) {
	if o.Agent.Executor == Builtin {
		return agent.Executor{}, nil
	}
	who, err := agent.For(o.Agent.Executor)
	if err == nil && !o.Agent.Shell {
		who, err = who.WithoutShell()
	}
	return who, err
}

// readOrder reads an order from a checkpoint. What this program does not know in it might be a
// bound that it would not keep.
func readOrder(input []byte) (o Order, err error) {
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&o); err != nil {
		return o, nightcrier.Errorf(nightcrier.Internal, "run: the order was written by another version of this program and cannot be read (%w): retry the incident, which writes a new one", err)
	}
	return o, nil
}
