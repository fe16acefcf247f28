package agent

import (
	"slices"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
)

// Spec is how an agent is started and bounded: what the operator configured, as it was when a
// run was admitted. The configuration fills it in, a run's order freezes it, the worker keeps to
// it, and the executor reads it. It holds no secret. A zero value is the default that its field
// names.
type Spec struct {
	// Executor is who investigates, by its name. Never empty.
	Executor string `json:"executor"`
	// Command is the path or the name of a CLI; empty is its usual name.
	Command string `json:"command,omitempty"`
	// ScriptPath is the executable of the executor script; empty for the others.
	ScriptPath string `json:"scriptPath,omitempty"`
	// CLI is what a script is told to use, in the words of AGENT_CLI; empty is claude.
	CLI string `json:"cli,omitempty"`
	// SkillsDir is where a script finds skills; empty is its workspace's copy.
	SkillsDir string `json:"skillsDir,omitempty"`
	// SystemPromptFile is put in front of our own instructions; empty for none.
	SystemPromptFile string `json:"systemPromptFile,omitempty"`
	// Preload puts the facts into the prompt; without it the agent finds them itself.
	Preload bool `json:"preload,omitempty"`
	// TriageScript is an executable of the operator's whose output is added to the facts;
	// empty for none.
	TriageScript string `json:"triageScript,omitempty"`

	// Model is what the agent asks for; empty leaves it to the CLI. Models are patterns of
	// those that may be asked beside it; empty is any.
	Model  string   `json:"model,omitempty"`
	Models []string `json:"models,omitempty"`
	// Fallbacks are asked in turn by our own agents where Model cannot answer.
	Fallbacks []string `json:"fallbacks,omitempty"`
	// Provider is whose API the model speaks; empty is the executor's usual one.
	Provider nightcrier.Provider `json:"provider,omitempty"`
	// BaseURL is where the model is called; empty is the provider's own address.
	BaseURL string `json:"baseUrl,omitempty"`
	// Keyless says that BaseURL is asked without a key, where there is none.
	Keyless bool `json:"keyless,omitempty"`
	// MaxTurns bounds the model's answers in one session; 0 is no bound.
	MaxTurns int `json:"maxTurns,omitempty"`
	// MaxTokens bounds one answer of the model, in tokens; 0 is the guard's own bound.
	MaxTokens int `json:"maxTokens,omitempty"`
	// Thinking is how many tokens of an answer of our own agents may be thoughts; 0 is none.
	Thinking int `json:"thinking,omitempty"`
	// Verify are criteria that our own agents hold their work against.
	Verify []string `json:"verify,omitempty"`
	// VerifyRetries is how often they may mend what does not meet them.
	VerifyRetries int `json:"verifyRetries,omitempty"`
	// Prices are what models cost, as price.ParseEntry reads them, before the known prices.
	Prices []string `json:"prices,omitempty"`
	// Budget bounds what is spent on models; its zero value bounds nothing.
	Budget budget.Limits `json:"budget,omitzero"`

	// AllowedTools are the tools and commands that the agent may use, as readonly.Parse reads
	// them; empty is what it may use at most.
	AllowedTools []string `json:"allowedTools,omitempty"`
	// Shell leaves the agent its shell, where it can have one; without it, it gets our tools
	// in the shell's place.
	Shell bool `json:"shell,omitempty"`
	// ToolServers are the MCP servers whose tools the agent gets. The variables that they
	// name are secrets, and handed over apart.
	ToolServers []toolserver.Server `json:"toolServers,omitempty"`

	// Require is how much of the sandbox must hold; empty is RequireBestEffort.
	Require string `json:"require,omitempty"`
	// UIDBase is the first of the user ids that agents of a root server get; 0 is the
	// sandbox's own first.
	UIDBase int `json:"uidBase,omitempty"`
	// ReadPaths are files and directories that the agent may read beside its own.
	ReadPaths []string `json:"readPaths,omitempty"`
	// Timeout ends the agent; 0 is DefaultTimeout. Grace is the time between SIGINT and
	// SIGKILL; 0 is DefaultGrace.
	Timeout time.Duration `json:"timeout,omitempty"`
	Grace   time.Duration `json:"grace,omitempty"`
	// The bounds of what it prints, what it leaves on the disk, the memory of all its
	// processes, all in bytes, and the number of these. 0 is the default below.
	MaxOutputBytes    int64 `json:"maxOutputBytes,omitempty"`
	MaxWorkspaceBytes int64 `json:"maxWorkspaceBytes,omitempty"`
	MaxMemoryBytes    int64 `json:"maxMemoryBytes,omitempty"`
	MaxProcesses      int   `json:"maxProcesses,omitempty"`
}

// What Spec.Require may be.
const (
	RequireStrict     = "strict"
	RequireBestEffort = "best-effort"
	RequireNone       = "none"
)

// Strictness lists what Spec.Require may be, the least first.
func Strictness() []string { return []string{RequireNone, RequireBestEffort, RequireStrict} }

// Defaults of a Spec.
const (
	DefaultTimeout           = 5 * time.Minute
	DefaultGrace             = 30 * time.Second
	DefaultMaxOutputBytes    = 32 << 20
	DefaultMaxWorkspaceBytes = 256 << 20
	DefaultMaxMemoryBytes    = 4 << 30
	DefaultMaxProcesses      = 512
)

// SetDefaults puts the defaults in the place of what is zero, where the zero value has a
// meaning of its own nowhere.
func (s *Spec) SetDefaults() {
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

// CheckSpec says what is wrong with a Spec whose defaults are set.
func (s *Spec) CheckSpec() error {
	switch {
	case s.Timeout < 0 || s.Grace < 0:
		return nightcrier.Errorf(nightcrier.Invalid, "agent: timeout and grace cannot be negative")
	case !slices.Contains(Strictness(), s.Require):
		return nightcrier.Errorf(nightcrier.Invalid, "sandbox.require %q is none of strict, best-effort, none", s.Require)
	}
	return nil
}
