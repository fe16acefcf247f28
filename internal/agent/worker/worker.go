// Package worker runs one attempt of one agent step in a process of its own,
// which no end of the server disturbs: it holds the run's secrets, confines and
// starts the agent, enforces the limits, spools the journal to disk, and
// answers the server on a Unix socket.
//
// All that a worker is lies in one directory:
//
//	spec.json    what to do; no secret
//	lock         held for the worker's life: the one proof that it lives
//	claim        made once, before the agent is started: it starts at most once
//	pid          the worker's and the init's process, for a sweep
//	spool.jsonl  the journal's entries, numbered from 1
//	sock         where the worker answers
//	learned      what was learned of the run's secrets, sealed by the key of the tags
//	exit.json    the result; made once the agent's whole tree is verified gone
//	worker.log   the worker's own log
//
// Launch, Follow and Cancel are the server's side; Main is the worker's.
package worker

import (
	"path/filepath"
	"slices"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/guard/data"
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
	RunID      string `json:"runId"`
	IncidentID string `json:"incidentId"`
	Cluster    string `json:"cluster"`
	Namespace  string `json:"namespace,omitempty"`
	Step       string `json:"step,omitempty"`
	Attempt    int    `json:"attempt"`
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
}

// Secrets are handed to a worker over a pipe, and to nothing else.
type Secrets struct {
	ModelAPIKey string `json:"modelApiKey,omitempty"`
	// Cluster is the credential that the worker's guard holds, nil for none: the
	// agent then cannot look into the cluster.
	Cluster *Credential `json:"cluster,omitempty"`
	// Sources are what the agent may ask for metrics and logs, nil for nothing.
	Sources *data.Access `json:"sources,omitempty"`
	// Variables are the environment variables that ToolServers name.
	Variables map[string]string `json:"variables,omitempty"`
	// MaskKey and MaskValues make the guard mask as the server does: the same secret
	// has the same tag in both.
	MaskKey    []byte   `json:"maskKey,omitempty"`
	MaskValues []string `json:"maskValues,omitempty"`
	// Learned is what the server has learned of the run's secrets, sealed by MaskKey.
	Learned []byte `json:"learned,omitempty"`
}

// Credential is what a cluster is read with.
type Credential struct {
	// Kubeconfig has one context, and certificates and keys inline.
	Kubeconfig []byte `json:"kubeconfig"`
	// Env is the whole environment of a credential plugin that it names.
	Env []string `json:"env,omitempty"`
	// Namespaces are those that an agent may read, besides what has none; empty means
	// all.
	Namespaces []string `json:"namespaces,omitempty"`
	// Recorded says that it leads to a record of a cluster, see guard/kube.Upstream.
	Recorded bool `json:"recorded,omitempty"`
}

func (s *Spec) checkSpec() error {
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
	return s.CheckSpec()
}
