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
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/data"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
)

// SpecVersion is the version of Spec. A worker refuses any other: it may ask for what the
// worker does not know how to grant, or set a limit that it would not keep.
const SpecVersion = 1

// Sandbox requirements.
const (
	RequireStrict     = "strict"
	RequireBestEffort = "best-effort"
	RequireNone       = "none"
)

// Spec says what a worker is to do. It is written to disk, so it holds no secret.
type Spec struct {
	Version    int    `json:"version"`
	RunID      string `json:"runId"`
	IncidentID string `json:"incidentId"`
	Cluster    string `json:"cluster"`
	Namespace  string `json:"namespace,omitempty"`
	Step       string `json:"step,omitempty"`
	Attempt    int    `json:"attempt"`
	// Workspace is the absolute path of the incident's directory.
	Workspace string `json:"workspace"`
	// Executor is one of package agent's.
	Executor   string `json:"executor"`
	Command    string `json:"command,omitempty"`
	ScriptPath string `json:"scriptPath,omitempty"`
	Model      string `json:"model,omitempty"`
	MaxTurns   int    `json:"maxTurns,omitempty"`
	// MaxTokens bounds one answer of the model, 0 is the guard's own bound. Models are
	// those that may be asked beside Model, empty for any; Prices what models cost,
	// before the known prices.
	MaxTokens    int      `json:"maxTokens,omitempty"`
	Models       []string `json:"models,omitempty"`
	Prices       []string `json:"prices,omitempty"`
	AllowedTools []string `json:"allowedTools,omitempty"`
	// NoShell gives the agent our tools in the place of a shell.
	NoShell bool `json:"noShell,omitempty"`
	// NoModel gives the agent no way to a model, although there is a key.
	NoModel bool `json:"noModel,omitempty"`
	// ReadPaths lists more files and directories that the agent may read, such as
	// what a script calls.
	ReadPaths []string `json:"readPaths,omitempty"`
	// ToolServers are the MCP servers whose tools the agent gets; the variables that
	// they name are among Secrets.
	ToolServers []toolserver.Server `json:"toolServers,omitempty"`
	// Record is the absolute path of a workspace: what ToolServers offer and answer, and
	// metrics and logs, come from its record alone, and nobody is asked. Empty asks.
	Record string `json:"record,omitempty"`
	// Timeout ends the agent; Grace is the time between SIGINT and SIGKILL.
	Timeout time.Duration `json:"timeout"`
	Grace   time.Duration `json:"grace"`
	// Require is strict, best-effort (also when empty) or none.
	Require string `json:"require,omitempty"`
	// UIDBase is the first of the user ids that agents of a root server get; 0 is
	// process.DefaultUIDBase.
	UIDBase int `json:"uidBase,omitempty"`
	// ModelBaseURL is where the model is called, empty for the vendor's own; Provider
	// is whose API that speaks, empty for the executor's usual one.
	ModelBaseURL string              `json:"modelBaseUrl,omitempty"`
	Provider     nightcrier.Provider `json:"provider,omitempty"`
	// Keyless says that ModelBaseURL is asked without a key, where there is none.
	Keyless bool `json:"keyless,omitempty"`
	// Session goes on with an earlier session of the agent, which reads PromptFile, a
	// path in the workspace, in place of its usual prompt.
	Session    string `json:"session,omitempty"`
	PromptFile string `json:"promptFile,omitempty"`
	// Budget bounds what the agent spends on models; nil is no bound and no record.
	Budget *Budget `json:"budget,omitempty"`
	// Used is what the session has used so far.
	Used nightcrier.Usage `json:"used,omitzero"`
	// The limits; 0 is the default.
	MaxOutputBytes    int64             `json:"maxOutputBytes,omitempty"`
	MaxWorkspaceBytes int64             `json:"maxWorkspaceBytes,omitempty"`
	MaxMemoryBytes    int64             `json:"maxMemoryBytes,omitempty"`
	MaxProcesses      int               `json:"maxProcesses,omitempty"`
	ExtraEnv          map[string]string `json:"extraEnv,omitempty"`
}

// Budget is what a worker may spend, and where all of them keep a record of it.
type Budget struct {
	// Dir is the absolute path of the record; see package budget.
	Dir    string        `json:"dir"`
	Limits budget.Limits `json:"limits"`
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

// Defaults of a Spec.
const (
	DefaultTimeout           = 5 * time.Minute
	DefaultGrace             = 30 * time.Second
	DefaultMaxOutputBytes    = 32 << 20
	DefaultMaxWorkspaceBytes = 256 << 20
	DefaultMaxMemoryBytes    = 4 << 30
	DefaultMaxProcesses      = 512
)

func (s *Spec) setDefaults() {
	orDefault(&s.Timeout, DefaultTimeout)
	orDefault(&s.Grace, DefaultGrace)
	orDefault(&s.MaxOutputBytes, DefaultMaxOutputBytes)
	orDefault(&s.MaxWorkspaceBytes, DefaultMaxWorkspaceBytes)
	orDefault(&s.MaxMemoryBytes, DefaultMaxMemoryBytes)
	orDefault(&s.MaxProcesses, DefaultMaxProcesses)
	orDefault(&s.Require, RequireBestEffort)
}

func orDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
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
	case s.Timeout < 0 || s.Grace < 0:
		return nightcrier.Errorf(nightcrier.Invalid, "worker spec: timeout and grace cannot be negative")
	case s.Record != "" && (!filepath.IsAbs(s.Record) || slices.ContainsFunc(s.ToolServers, toolserver.Server.Reachable)):
		return nightcrier.Errorf(nightcrier.Invalid, "worker spec: a record is played from an absolute path, and without tool servers that could be reached")
	case s.Require != RequireStrict && s.Require != RequireBestEffort && s.Require != RequireNone:
		return nightcrier.Errorf(nightcrier.Invalid, "sandbox.require %q is none of strict, best-effort, none", s.Require)
	}
	return nil
}
