package backend

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
)

// SpecVersion is the version of Spec. A worker refuses any other: it may ask for what the
// worker does not know how to grant, or set a limit that it would not keep.
const SpecVersion = 1

// Spec says what a worker is to do. It is written to disk, so it holds no secret.
type Spec struct {
	Version int `json:"version"`
	// Spec is the agent: how it is started and bounded.
	agent.Spec
	// Owner is whose worker it is: List finds it by that.
	Owner      string `json:"owner,omitempty"`
	RunID      string `json:"runId"`
	IncidentID string `json:"incidentId"`
	Cluster    string `json:"cluster"`
	Namespace  string `json:"namespace,omitempty"`
	Step       string `json:"step,omitempty"`
	Attempt    int    `json:"attempt"`
	// Alone has the worker share its process with none: an earlier attempt failed, and may have
	// been what its process died of.
	Alone bool `json:"alone,omitempty"`
	// Workspace is the absolute path of the incident's directory.
	Workspace string `json:"workspace"`
	// NoModel gives the agent no way to a model, although there is a key.
	NoModel bool `json:"noModel,omitempty"`
	// Record is the absolute path of a workspace: what ToolServers offer and answer, and
	// metrics and logs, come from its record alone, and nobody is asked. Empty asks.
	Record string `json:"record,omitempty"`
	// Session goes on with an earlier session of the agent, which reads PromptFile, a
	// path in the workspace, in place of its usual prompt.
	Session    string `json:"session,omitempty"`
	PromptFile string `json:"promptFile,omitempty"`
	// Used is what the session has used so far.
	Used nightcrier.Usage `json:"used,omitzero"`
	// ExtraEnv adds variables to the agent's environment.
	ExtraEnv map[string]string `json:"extraEnv,omitempty"`
	// BudgetDir is the absolute path of the record of what all workers spend on models, see
	// package budget; empty keeps no record, and Budget bounds nothing then.
	BudgetDir string `json:"budgetDir,omitempty"`
	// PinsDir is the absolute path of what ToolServers were when they were accepted; empty takes
	// them as they are.
	PinsDir string `json:"pinsDir,omitempty"`
	// SpendsFor is the incident or the conversation that its spending counts for, "" for IncidentID.
	SpendsFor string `json:"spendsFor,omitempty"`
	// StepID is the step of the pipeline that the agent spends for, in all its attempts.
	StepID string `json:"stepId,omitempty"`
}

// WorkerName names the worker of an attempt, and begins the names of all that it makes.
func (s *Spec) WorkerName() string { return fmt.Sprintf("%s-%d", s.RunID, s.Attempt) }

// Spender is what its calls of models are counted for.
func (s *Spec) Spender() budget.Who {
	return budget.Who{Run: s.RunID, Step: s.StepID, Incident: cmp.Or(s.SpendsFor, s.IncidentID), Cluster: s.Cluster}
}

// SharesProcess says whether the worker may be one of several in a process: it starts no program.
func (s *Spec) SharesProcess() bool {
	who, err := agent.For(s.Executor)
	return err == nil && who.Loop && !s.Alone && !slices.ContainsFunc(s.ToolServers, func(t toolserver.Server) bool { return len(t.Command) > 0 })
}

// CheckSpec says what is wrong with a Spec whose defaults are set.
func (s *Spec) CheckSpec() error {
	if s.Version != SpecVersion {
		return nightcrier.Errorf(nightcrier.Invalid, "worker spec has version %d, this binary knows %d: the program was replaced while its server runs; restart the server", s.Version, SpecVersion)
	}
	if err := nightcrier.CheckID(s.IncidentID); err != nil {
		return err
	}
	if err := nightcrier.CheckID(s.RunID); err != nil {
		return err
	}
	switch {
	case !filepath.IsAbs(s.Workspace):
		return nightcrier.Errorf(nightcrier.Invalid, "worker spec: workspace %q is not absolute", s.Workspace)
	case s.Record != "" && (!filepath.IsAbs(s.Record) || slices.ContainsFunc(s.ToolServers, toolserver.Server.Reachable)):
		return nightcrier.Errorf(nightcrier.Invalid, "worker spec: a record is played from an absolute path, and without tool servers that could be reached")
	}
	return s.Spec.CheckSpec()
}
