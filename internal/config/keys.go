package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
)

// key is one thing that can be configured.
type key struct {
	// path is the canonical spelling in the file; "clusters[]." marks what each
	// cluster has of its own.
	path string
	typ  valueType
	// def is the default in its one-line form; empty means the zero value.
	def string
	doc string
	// also are the other spellings.
	also []spelling
	// field returns where the value goes. It is nil for keys that are only
	// checked: what this version cannot change yet.
	field func(*Config, *Cluster) any
	// hook is the same for the keys that a webhook has of its own.
	hook func(*Webhook) any
	// tool is the same for the keys that a tool server has of its own.
	tool func(*ToolServer) any
	// foreign keys have no environment variable and no flag of their own.
	foreign bool
}

// clusterPrefix starts the path of every key that a cluster has of its own.
const clusterPrefix = "clusters[]."

// ofProvider says that some spellings count for one provider only.
func (k *key) ofProvider() bool {
	return slices.ContainsFunc(k.also, func(s spelling) bool { return s.provider != "" })
}

func (k *key) ofCluster() bool { return strings.HasPrefix(k.path, clusterPrefix) }

// targetIn returns where the value goes, in the entry i of the key's list; nil for a
// key that is only checked.
func (k *key) targetIn(cfg *Config, i int) any {
	switch {
	case k.hook != nil:
		return k.hook(&cfg.Webhooks[i])
	case k.tool != nil:
		return k.tool(&cfg.ToolServers[i])
	case k.field == nil:
		return nil
	case k.ofCluster():
		return k.field(cfg, &cfg.Clusters[i])
	}
	return k.field(cfg, nil)
}

// pathAt is the path of the key in the entry i of its list.
func (k *key) pathAt(i int) string {
	return strings.Replace(k.path, "[]", fmt.Sprintf("[%d]", i), 1)
}

// How the path of a key is written in a variable, and in a flag.
var (
	envWords  = strings.NewReplacer("clusters[]", "cluster", ".", "_")
	flagWords = strings.NewReplacer("clusters[]", "cluster", ".", "-", "_", "-")
)

// envName is the canonical environment variable. For a cluster's key it means the
// only cluster there is.
func (k *key) envName() string {
	return "NIGHTCRIER_" + strings.ToUpper(envWords.Replace(k.path))
}

// flagName is the canonical flag, without dashes.
func (k *key) flagName() string {
	return flagWords.Replace(k.path)
}

const day = 24 * time.Hour

// allKeys returns every key, in the order of the documentation.
func allKeys() []key {
	return slices.Concat(serverKeys(), pageKeys(), clusterKeys(), alertKeys(), sourceKeys(), hookKeys(), agentKeys(), skillKeys(), sandboxKeys(), budgetKeys(), toolKeys(), runbookKeys(), serviceKeys(), pipelineKeys(), foreignKeys())
}

func serverKeys() []key {
	return []key{
		{path: "workspace_root", typ: filePath(), def: "./incidents",
			doc:   "directory of the workspaces of incidents and of the database",
			also:  []spelling{envSpelling("WORKSPACE_ROOT"), envSpelling("AGENT_RUNTIME_WORKSPACE_ROOT"), fileSpelling("agent_runtime.workspace_root")},
			field: func(c *Config, _ *Cluster) any { return &c.WorkspaceRoot }},
		{path: "workspace_max_bytes", typ: sizeType(1<<20, 1<<40), def: "256MiB",
			doc:   "disk space that one incident may use; beyond it the agent is stopped",
			field: func(c *Config, _ *Cluster) any { return &c.Agent.MaxWorkspaceBytes }},
		{path: "retention", typ: durationType(0, 10*365*day), def: "72h",
			doc:   "how long the workspace of a finished incident is kept; 0 keeps it for ever",
			also:  []spelling{fileSpelling("agent_runtime.workspace_retention_hours").withUnit("h")},
			field: func(c *Config, _ *Cluster) any { return &c.Retention }},
		{path: "database_url", typ: secretType(checkDatabaseURL),
			doc:   "postgres:// URL; unset means SQLite in the workspace root",
			also:  []spelling{envSpelling("DATABASE_URL")},
			field: func(c *Config, _ *Cluster) any { return &c.DatabaseURL }},
		{path: "severity_threshold", typ: severityType(), def: "warning",
			doc:   "faults of a lower severity are recorded and not investigated",
			field: func(c *Config, _ *Cluster) any { return &c.SeverityThreshold }},
		{path: "dedupe_window", typ: durationType(0, 7*day), def: "5m",
			doc:   "how long after its last event a closed incident still takes in reports of the same fault, and how long a fault stays away before people are told that it is over",
			field: func(c *Config, _ *Cluster) any { return &c.DedupeWindow }},
		{path: "storm.fingerprints", typ: countType(2, 10000), def: "10",
			doc:   "number of new faults of one cluster within storm.within that count as a storm",
			field: func(c *Config, _ *Cluster) any { return &c.Storm.Fingerprints }},
		{path: "storm.within", typ: durationType(time.Second, time.Hour), def: "60s",
			doc:   "time in which storm.fingerprints are counted",
			field: func(c *Config, _ *Cluster) any { return &c.Storm.Within }},
		{path: "storm.investigate", typ: countType(1, 1000), def: "3",
			doc:   "how many incidents of a storm are investigated, the most severe first",
			field: func(c *Config, _ *Cluster) any { return &c.Storm.Investigate }},
		{path: "storm.quiet", typ: durationType(time.Second, day), def: "5m",
			doc:   "a storm ends after this long without a new fault",
			field: func(c *Config, _ *Cluster) any { return &c.Storm.Quiet }},
		{path: "max_concurrent_agents", typ: countType(1, 1000), def: "5",
			doc:   "how many investigations and other runs may be under way at once, in all clusters, and how many agents work at once",
			field: func(c *Config, _ *Cluster) any { return &c.MaxConcurrentAgents }},
		{path: "max_concurrent_per_cluster", typ: countType(1, 1000), def: "1",
			doc:   "how many investigations may run at once in one cluster",
			field: func(c *Config, _ *Cluster) any { return &c.MaxConcurrentPerCluster }},
		{path: "queue.max", typ: countType(1, 1000000), def: "1000",
			doc:   "how many investigations may wait; when there are more, the least severe one is rejected and recorded",
			field: func(c *Config, _ *Cluster) any { return &c.Queue.Max }},
		{path: "queue.expiry", typ: durationType(time.Minute, 30*day), def: "6h",
			doc:   "an investigation that has waited this long is dropped and recorded",
			field: func(c *Config, _ *Cluster) any { return &c.Queue.Expiry }},
		{path: "listen", typ: addressType(checkLoopback),
			doc:   "loopback address, such as 127.0.0.1:8080, of the HTTP API for everybody on this machine; unset means the socket in workspace_root only",
			field: func(c *Config, _ *Cluster) any { return &c.Listen }},
		{path: "health_listen", typ: addressType(checkAddress), def: defaultHealth,
			doc:   "extra address, which may be open to other machines, that serves health and metrics only; the default is for a server without listen, which serves them as well",
			field: func(c *Config, _ *Cluster) any { return &c.HealthListen }},
		{path: "log.level", typ: choiceType([]string{"debug", "info", "warn", "error"}), def: "info",
			doc:   "lowest level that is logged",
			also:  []spelling{envSpelling("LOG_LEVEL").withWords("warning=warn"), fileSpelling("agent_runtime.log_level").withWords("warning=warn")},
			field: func(c *Config, _ *Cluster) any { return &c.Log.Level }},
		{path: "log.format", typ: choiceType([]string{"auto", "json", "text", "people"}), def: "auto",
			doc:   "format of the log: text is key=value, people a line for each incident, for a terminal; auto means people on a terminal and json elsewhere",
			also:  []spelling{fileSpelling("agent_runtime.structured_logging").withWords("true=json", "false=text")},
			field: func(c *Config, _ *Cluster) any { return &c.Log.Format }},
		{path: "slack.webhook_url", typ: secretType(checkSlackURL),
			doc:   "Slack incoming webhook that outcomes are posted to",
			also:  []spelling{envSpelling("SLACK_WEBHOOK_URL")},
			field: func(c *Config, _ *Cluster) any { return &c.Slack.WebhookURL }},
	}
}

func clusterKeys() []key {
	return []key{
		{path: "clusters[].name", typ: textType(checkClusterName),
			doc:   "unique name: lower-case letters, digits, '-' and '.'",
			field: func(_ *Config, c *Cluster) any { return &c.Name }},
		{path: "clusters[].labels", typ: labelsType(),
			doc:   "free labels, shown with the cluster",
			field: func(_ *Config, c *Cluster) any { return &c.Labels }},
		{path: "clusters[].mcp.endpoint", typ: textType(checkEndpoint),
			doc:   "URL of the kubernetes-mcp-server whose faults Nightcrier subscribes to",
			also:  []spelling{envSpelling("K8S_CLUSTER_MCP_ENDPOINT"), flagSpelling("mcp-endpoint")},
			field: func(_ *Config, c *Cluster) any { return &c.MCP.Endpoint }},
		{path: "clusters[].mcp.mode", typ: choiceType([]string{"auto", "faults", "resource-faults", "events"}), def: "auto",
			doc:   "kind of subscription; auto takes the best one that the server has",
			also:  []spelling{envSpelling("SUBSCRIBE_MODE")},
			field: func(_ *Config, c *Cluster) any { return &c.MCP.Mode }},
		{path: "clusters[].mcp.api_key_env", typ: textType(checkVariableName),
			doc:   "name of the environment variable that holds the endpoint's API key",
			field: func(_ *Config, c *Cluster) any { return &c.MCP.APIKeyEnv }},
		{path: "clusters[].watch", typ: booleanType(), def: "false",
			doc:   "find faults through the Kubernetes API, with the credential in kubeconfig",
			field: func(_ *Config, c *Cluster) any { return &c.Watch }},
		{path: "clusters[].kubeconfig", typ: filePath(),
			doc:   "credential for investigations and for watch; unset means none, so that investigations have only the event to go by",
			also:  []spelling{envSpelling("AGENT_RUNTIME_KUBECONFIG"), fileSpelling("agent_runtime.kubeconfig_path")},
			field: func(_ *Config, c *Cluster) any { return &c.Kubeconfig }},
		{path: "clusters[].context", typ: textType(),
			doc:   "context within the kubeconfig; unset means its current one",
			field: func(_ *Config, c *Cluster) any { return &c.Context }},
		{path: "clusters[].namespaces", typ: namespacesType(),
			doc:   "namespaces to look at, for a credential that covers only some; faults in others are recorded and not investigated; unset means all",
			field: func(_ *Config, c *Cluster) any { return &c.Namespaces }},
		{path: "clusters[].allow_write_credential", typ: booleanType(), def: "false",
			doc:   "let agents look into this cluster although its credential could change it; otherwise a server gives them no access",
			field: func(_ *Config, c *Cluster) any { return &c.AllowWriteCredential }},
	}
}

// readOnlyTools is what a triage agent may use when nothing is said.
const readOnlyTools = "Read,Grep,Glob," + readOnlyBash

const readOnlyBash = "Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"

func agentKeys() []key {
	return []key{
		{path: "agent.executor", typ: choiceType(Executors()),
			doc:   "agent that investigates; unset means script if script_path is set, else the one whose CLI `agent.command` or `agent.cli` names, else the one that the provider or model key belongs to, else builtin",
			field: func(c *Config, _ *Cluster) any { return &c.Agent.Executor }},
		{path: "agent.provider", typ: providerType(),
			doc:   "API through which the model is called; unset means the executor's usual one",
			field: func(c *Config, _ *Cluster) any { return &c.Agent.Provider }},
		{path: "agent.script_path", typ: filePath(),
			doc:   "executable that the script executor runs with the workspace as its argument",
			also:  []spelling{envSpelling("AGENT_SCRIPT_PATH")},
			field: func(c *Config, _ *Cluster) any { return &c.Agent.ScriptPath }},
		{path: "agent.command", typ: commandType(),
			doc:   "path or name of the agent's CLI; unset means its usual name",
			also:  []spelling{envSpelling("AGENT_RUNTIME_COMMAND"), fileSpelling("agent_runtime.agent_command")},
			field: func(c *Config, _ *Cluster) any { return &c.Agent.Command }},
		{path: "agent.cli", typ: choiceType(cliWords()),
			doc:   "CLI that a script is to use, passed to it as AGENT_CLI; without a script, it selects the executor of that CLI",
			also:  []spelling{envSpelling("AGENT_CLI").withWords("claude-code=claude")},
			field: func(c *Config, _ *Cluster) any { return &c.Agent.CLI }},
		{path: "agent.model", typ: textType(checkWord),
			doc:   "model that the CLI is to use; unset means sonnet for claude-code; for others see [Agents](agents.md)",
			also:  []spelling{envSpelling("AGENT_MODEL")},
			field: func(c *Config, _ *Cluster) any { return &c.Agent.Model }},
		{path: "agent.timeout", typ: durationType(time.Second, day), def: "5m",
			doc: "how long one investigation may take",
			also: []spelling{envSpelling("AGENT_TIMEOUT").withUnit("s"), envSpelling("AGENT_RUNTIME_MAX_DURATION"),
				fileSpelling("agent_runtime.max_duration_minutes").withUnit("m"), flagSpelling("agent-timeout").withUnit("s")},
			field: func(c *Config, _ *Cluster) any { return &c.Agent.Timeout }},
		{path: "agent.graceful_shutdown", typ: durationType(0, 10*time.Minute), def: "30s",
			doc:   "how long an agent has to end when it is asked to, before it is killed",
			also:  []spelling{fileSpelling("agent_runtime.graceful_shutdown_seconds").withUnit("s")},
			field: func(c *Config, _ *Cluster) any { return &c.Agent.Grace }},
		{path: "agent.max_turns", typ: countType(1, 1000), def: "30",
			doc:   "how many turns the model may take",
			field: func(c *Config, _ *Cluster) any { return &c.Agent.MaxTurns }},
		{path: "agent.max_tokens", typ: countType(256, 1000000), def: "32000",
			doc:   "how many tokens one answer of the model may have, including its thinking",
			field: func(c *Config, _ *Cluster) any { return &c.Agent.MaxTokens }},
		{path: "agent.models", typ: listType(),
			doc:   "models that may be used besides `agent.model`, such as the small ones that a CLI uses for titles: names, or patterns with `*`; unset means none, except that scripts and CLIs without a configured model may use any. One that acts by itself, as those that search the web, must be here or in `agent.model` by its very name",
			field: func(c *Config, _ *Cluster) any { return &c.Agent.Models }},
		{path: "agent.prices", typ: priceList(),
			doc:   "prices of models that are not known, or that differ from the vendor's: `model=input/output/cache read/cache write` in dollars per million tokens, `openai:model=…` for one provider only; a model may be a pattern with `*`",
			field: func(c *Config, _ *Cluster) any { return &c.Agent.Prices }},
		{path: "agent.allowed_tools", typ: listType(), def: readOnlyTools,
			doc:   "tools that the agent may use; what goes beyond a read-only triage is narrowed, with a warning",
			also:  []spelling{envSpelling("AGENT_ALLOWED_TOOLS"), fileSpelling("agent_runtime.allowed_tools")},
			field: func(c *Config, _ *Cluster) any { return &c.Agent.AllowedTools }},
		{path: "agent.shell", typ: booleanType(), def: "true",
			doc:   "whether claude-code and gemini have a shell for `kubectl`; without it they use our tools only, as codex and goose always do",
			field: func(c *Config, _ *Cluster) any { return &c.Agent.Shell }},
		{path: "agent.system_prompt_file", typ: filePath(),
			doc:   "file that replaces the general part of the system prompt; the read-only sentence stays",
			also:  []spelling{envSpelling("AGENT_SYSTEM_PROMPT_FILE")},
			field: func(c *Config, _ *Cluster) any { return &c.Agent.SystemPromptFile }},
		{path: "agent.base_url", typ: textType(checkModelURL),
			doc: "base URL of the model API; unset means the vendor's own",
			also: []spelling{envSpelling("ANTHROPIC_BASE_URL").withProvider(nightcrier.Anthropic), envSpelling("OPENAI_BASE_URL").withProvider(nightcrier.OpenAI),
				envSpelling("GOOGLE_GEMINI_BASE_URL").withProvider(nightcrier.Google), envSpelling("OPENROUTER_BASE_URL").withProvider(nightcrier.OpenRouter)},
			field: func(c *Config, _ *Cluster) any { return &c.Agent.BaseURL }},
		{path: "agent.api_key", typ: secretType(checkAPIKey),
			doc: "key of the model API; better set in the environment than in a file",
			also: []spelling{envSpelling("ANTHROPIC_API_KEY").withProvider(nightcrier.Anthropic), envSpelling("CLAUDE_API_KEY").withProvider(nightcrier.Anthropic),
				envSpelling("OPENAI_API_KEY").withProvider(nightcrier.OpenAI), envSpelling("GEMINI_API_KEY").withProvider(nightcrier.Google), envSpelling("GOOGLE_API_KEY").withProvider(nightcrier.Google),
				envSpelling("OPENROUTER_API_KEY").withProvider(nightcrier.OpenRouter)},
			field: func(c *Config, _ *Cluster) any { return &c.Agent.APIKey }},
	}
}

func sandboxKeys() []key {
	return []key{
		{path: "sandbox.backend", typ: choiceType([]string{"process"}, "docker", "kubernetes"), def: "process",
			doc:   "where agents run",
			also:  []spelling{envSpelling("SANDBOX_BACKEND").withWords("k8s=kubernetes"), envSpelling("EXECUTION_MODE").withWords("proxy=", "${execution_mode}=")},
			field: func(c *Config, _ *Cluster) any { return &c.Sandbox.Backend }},
		{path: "sandbox.require", typ: choiceType([]string{"strict", "best-effort", "none"}), def: "best-effort",
			doc:   "how much isolation must be in place before an agent starts",
			field: func(c *Config, _ *Cluster) any { return &c.Agent.Require }},
		{path: "sandbox.uid_base", typ: countType(1000, 1<<31-1<<16), def: "1879048192",
			doc:   "first of 65536 user ids; each agent gets one of them for itself where the server is root",
			field: func(c *Config, _ *Cluster) any { return &c.Agent.UIDBase }},
		{path: "sandbox.read", typ: placesType(),
			doc:   "files and directories that agents may read besides the system's programs and their own, such as what a script calls in /usr/local",
			field: func(c *Config, _ *Cluster) any { return &c.Agent.ReadPaths }},
	}
}

// maxTokens is the largest limit of tokens.
const maxTokens = 1<<31 - 1

func budgetKeys() []key {
	return []key{
		{path: "budget.per_run_usd", typ: dollarsType(), def: "2",
			doc:   "most that one investigation may spend on models, in all its attempts; 0 means no limit, as for all keys of budget",
			field: func(c *Config, _ *Cluster) any { return &c.Budget.PerRunUSD }},
		{path: "budget.per_incident_usd", typ: dollarsType(), def: "4",
			doc:   "most that all investigations of one incident may spend",
			field: func(c *Config, _ *Cluster) any { return &c.Budget.PerIncidentUSD }},
		{path: "budget.per_cluster_day_usd", typ: dollarsType(), def: "50",
			doc:   "most that may be spent for one cluster in one day (UTC)",
			field: func(c *Config, _ *Cluster) any { return &c.Budget.PerClusterDayUSD }},
		{path: "budget.per_day_usd", typ: dollarsType(), def: "0",
			doc:   "most that may be spent in all in one day (UTC)",
			field: func(c *Config, _ *Cluster) any { return &c.Budget.PerDayUSD }},
		{path: "budget.per_run_tokens", typ: countType(0, maxTokens), def: "0",
			doc:   "like budget.per_run_usd, in tokens of all kinds; cached ones count as well",
			field: func(c *Config, _ *Cluster) any { return &c.Budget.PerRunTokens }},
		{path: "budget.per_incident_tokens", typ: countType(0, maxTokens), def: "0",
			doc:   "like budget.per_incident_usd, in tokens",
			field: func(c *Config, _ *Cluster) any { return &c.Budget.PerIncidentTokens }},
		{path: "budget.per_cluster_day_tokens", typ: countType(0, maxTokens), def: "0",
			doc:   "like budget.per_cluster_day_usd, in tokens",
			field: func(c *Config, _ *Cluster) any { return &c.Budget.PerClusterDayTokens }},
		{path: "budget.per_day_tokens", typ: countType(0, maxTokens), def: "0",
			doc:   "like budget.per_day_usd, in tokens",
			field: func(c *Config, _ *Cluster) any { return &c.Budget.PerDayTokens }},
	}
}

// foreignKeys are keys of an older file that leave nothing to choose. They are
// checked, so that nobody believes to have switched off what stays on.
func foreignKeys() []key {
	return []key{
		{path: "agent_runtime.read_only_mode", foreign: true,
			typ:  fixedType("true", nightcrier.Refused, "agents are always read-only: remove the setting"),
			doc:  "agents are always read-only: only true is accepted",
			also: []spelling{envSpelling("AGENT_RUNTIME_READ_ONLY")}},
		{path: "agent_runtime.metrics_enabled", foreign: true,
			typ: fixedType("true", nightcrier.Invalid, "metrics cannot be switched off: remove the setting; they are served on listen and health_listen only"),
			doc: "metrics are always kept: only true is accepted"},
		{path: "agent_runtime.skills[].name", foreign: true,
			typ: fixedType("k8s-troubleshooter", nightcrier.Invalid, "only the skill k8s-troubleshooter is available in this version"),
			doc: "only k8s-troubleshooter is accepted"},
		{path: "agent_runtime.skills[].enabled", foreign: true,
			typ: fixedType("true", nightcrier.Invalid, "the skill cannot be switched off: remove the entry, or use agent.executor: builtin"),
			doc: "only true is accepted"},
	}
}

// spelling is another name of a key in one layer, with the same meaning.
type spelling struct {
	layer Layer
	name  string
	// unit is what a plain number counts: "s", "m" or "h"; "" when it needs one.
	unit string
	// translate maps the spelling's own words, in lower case; a word that maps
	// to "" states nothing.
	translate map[string]string
	// provider is whose name this is: it counts only while that one is in use.
	provider nightcrier.Provider
}

func fileSpelling(path string) spelling { return spelling{layer: LayerFile, name: path} }
func envSpelling(name string) spelling  { return spelling{layer: LayerEnv, name: name} }
func flagSpelling(name string) spelling { return spelling{layer: LayerFlag, name: name} }

// withUnit says what a plain number counts.
func (s spelling) withUnit(unit string) spelling {
	s.unit = unit
	return s
}

// withProvider says which provider's name this is.
func (s spelling) withProvider(p nightcrier.Provider) spelling {
	s.provider = p
	return s
}

// withWords adds translations of the form "theirs=ours".
func (s spelling) withWords(pairs ...string) spelling {
	s.translate = map[string]string{}
	for _, pair := range pairs {
		theirs, ours, _ := strings.Cut(pair, "=")
		s.translate[theirs] = ours
	}
	return s
}

// canonicalValue turns a value in this spelling into the key's own words.
func (s spelling) canonicalValue(value string) string {
	if ours, ok := s.translate[strings.ToLower(value)]; ok {
		return ours
	}
	if _, err := strconv.ParseFloat(value, 64); err == nil && s.unit != "" {
		return value + s.unit
	}
	return value
}

// allSpellings returns all names of a key: the canonical ones and the others. A
// name that is both keeps the meaning that the table gives it.
func (k *key) allSpellings() []spelling {
	all := []spelling{fileSpelling(k.path)}
	if !k.foreign && !k.ofHook() && !k.ofTool() {
		all = append(all, envSpelling(k.envName()))
		if !k.hasSpelling(LayerFlag, k.flagName()) {
			all = append(all, flagSpelling(k.flagName()))
		}
	}
	return append(all, k.also...)
}

func (k *key) hasSpelling(layer Layer, name string) bool {
	return slices.ContainsFunc(k.also, func(s spelling) bool { return s.layer == layer && s.name == name })
}
