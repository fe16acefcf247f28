// Package config turns a file, the environment and command-line flags into one
// [Config].
//
// One table of keys (keys.go) drives everything: what the file may hold, how
// the environment variables and flags are called, defaults, checks, the JSON
// Schema and the table in docs/configuration.md. A flag beats the environment,
// the environment beats the file, the file beats the default. All problems are
// reported at once, each with the place it comes from.
package config

import (
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// Config is the effective configuration. Paths are absolute, values are within
// their bounds, and Agent.Executor is decided.
type Config struct {
	WorkspaceRoot string
	// DatabaseURL is a postgres:// URL; unset means SQLite in the workspace root.
	DatabaseURL       Secret
	SeverityThreshold nightcrier.Severity
	DedupeWindow      time.Duration
	Storm             Storm

	MaxConcurrentAgents     int
	MaxConcurrentPerCluster int
	Queue                   Queue

	Clusters []Cluster
	Webhooks []Webhook
	Agent    Agent
	// ToolServers are the MCP servers whose tools agents may use.
	ToolServers []ToolServer
	Skills      Skills
	Runbooks    Runbooks
	Knowledge   Knowledge
	// PipelinesDir holds pipelines; empty means none but those of the product.
	PipelinesDir string
	// HistoryDir holds what the older platform kept; empty means nothing.
	HistoryDir string
	Sandbox    Sandbox
	Budget     Budget
	Slack      Slack

	// Retention is how long a finished workspace is kept; 0 keeps it for ever.
	Retention time.Duration

	Log Log
	// Listen is the loopback address of the HTTP API; empty opens none: the API is
	// on its socket then.
	Listen string
	// HealthListen is an extra address for health and metrics; empty opens none.
	HealthListen string
	Page         Page
	// WebhookListen is an extra address for webhooks that have a token; empty opens
	// none.
	WebhookListen string

	origins map[string]Origin
	// models is what the environment has for each provider, in use or not.
	models map[nightcrier.Provider]modelAPI
}

// Storm says when many new faults of one cluster count as one storm.
type Storm struct {
	Fingerprints int
	Within       time.Duration
	Investigate  int
	Quiet        time.Duration
}

// Queue bounds the runs that wait for admission.
type Queue struct {
	Max    int
	Expiry time.Duration
}

// Cluster is one watched cluster.
type Cluster struct {
	Name   string
	Labels map[string]string
	MCP    MCP
	// Alertmanager is how its alerts arrive.
	Alertmanager Alertmanager
	// Watch: faults are found over the cluster's API, with the credential of
	// Kubeconfig, which is then set.
	Watch bool
	// Kubeconfig is the credential of investigations; empty means none.
	Kubeconfig string
	Context    string
	// Namespaces bounds what is looked at, and what is taken in, to them and to what
	// has none; empty means all.
	Namespaces []string
	// AllowWriteCredential lets agents look into the cluster although the
	// credential could change it.
	AllowWriteCredential bool
	// Sources are where its metrics and logs are asked for.
	Sources Sources
}

// MCP is where a cluster's faults come from. Endpoint is empty for a cluster
// that only one-shot commands use.
type MCP struct {
	Endpoint string
	Mode     string
	// APIKeyEnv names the environment variable that APIKey was read from.
	APIKeyEnv string
	APIKey    Secret
}

// Executors that are named here; [Executors] has all.
const (
	Builtin    = "builtin"
	Script     = "script"
	ClaudeCode = "claude-code"
	// SingleCall asks a model once, for skills that are no agents.
	SingleCall = "llm"
)

// Agent says who investigates and within which bounds.
type Agent struct {
	// Spec is what a run's order takes over. Executor and Provider are never empty,
	// AllowedTools are narrowed to what a read-only triage may use, and what comes from
	// elsewhere than agent.* and sandbox.* is added when a run is admitted.
	agent.Spec
	// APIKey is the key for the model, unset where there is none.
	APIKey Secret
}

// Sandbox says where agents run. How much of the isolation must hold is in Agent.
type Sandbox struct {
	Backend string
}

// Budget bounds what agents spend on models, in dollars and in tokens; 0 is no bound.
// A day is a day of UTC.
type Budget struct {
	PerRunUSD, PerIncidentUSD, PerClusterDayUSD, PerDayUSD             float64
	PerRunTokens, PerIncidentTokens, PerClusterDayTokens, PerDayTokens int
}

// Slack is where outcomes are announced; an unset URL announces nothing.
type Slack struct {
	WebhookURL Secret
}

// Log is what is logged and how.
type Log struct {
	Level  string
	Format string
}

// Origin returns where the value of a key came from. Keys are spelled as in
// the file, with an index for clusters: "agent.timeout", "clusters[0].name".
func (c *Config) Origin(key string) Origin { return c.origins[key] }

// secretMask is what a secret prints as.
const secretMask = "‹secret›"

// Secret is a text that no printer, encoder or logger shows. The text is
// behind a pointer, so that even printing a struct that holds a Secret in an
// unexported field does not reach it. The zero Secret is unset.
type Secret struct{ text *string }

// NewSecret returns a Secret that holds text; an empty text is unset.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal returns the text, "" when unset.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsSet reports whether there is a text.
func (s Secret) IsSet() bool { return s.text != nil }

// Equal reports whether both hold the same text.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// String returns the mask, "" when unset.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return secretMask
}

// Format prints the mask whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.String()) }

// MarshalText encodes the mask, for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue logs the mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Secrets are all that the configuration holds.
func (c *Config) Secrets() []string {
	database := c.DatabaseURL.Reveal()
	values := []string{c.Slack.WebhookURL.Reveal(), database}
	if u, err := url.Parse(database); err == nil && u.User != nil {
		password, _ := u.User.Password()
		values = append(values, password)
	}
	for _, key := range c.ModelKeys() {
		values = append(values, key.Reveal())
	}
	for _, cl := range c.Clusters {
		values = append(values, cl.MCP.APIKey.Reveal(), cl.Alertmanager.Token.Reveal())
		for _, e := range []Endpoint{cl.Sources.Prometheus, cl.Sources.Loki} {
			values = append(values, e.Token.Reveal(), e.Password.Reveal())
		}
	}
	for _, w := range c.Webhooks {
		values = append(values, w.Token.Reveal())
	}
	for _, s := range c.ToolServers {
		for _, value := range s.Variables {
			values = append(values, value.Reveal())
		}
	}
	return values
}

// Limits are those that are set, as the ledger takes them.
func (b *Budget) Limits() budget.Limits {
	limit := func(usd float64, tokens int) budget.Limit {
		return budget.Limit{Money: price.FromDollars(usd), Tokens: int64(tokens)}
	}
	return budget.Limits{
		Run: limit(b.PerRunUSD, b.PerRunTokens), Incident: limit(b.PerIncidentUSD, b.PerIncidentTokens),
		ClusterDay: limit(b.PerClusterDayUSD, b.PerClusterDayTokens), Day: limit(b.PerDayUSD, b.PerDayTokens),
	}
}
