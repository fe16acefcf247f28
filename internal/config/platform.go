package config

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
)

// fate is what becomes of a variable that an older platform knew.
type fate int

const (
	// retired: what it controlled does not exist any more.
	retired fate = iota
	// unbuilt: what it controls is not in this version.
	unbuilt
	// refused: ignoring it would leave less protection than it asks for, or
	// obeying it would take some away.
	refused
	// shared: other programs use the name; it is left alone without a word.
	shared
)

// platformVariable is a name, or a pattern of [path.Match].
type platformVariable struct {
	name string
	fate fate
	why  string
}

// platformTable lists the variables of the platform that are no spelling of
// a key. Those that are one stand with their key.
func platformTable() []platformVariable {
	return slices.Concat(
		[]platformVariable{
			{"AUTH_REQUIRED", refused, "authentication is not available in this version; the API listens on loopback only: unset it"},
			{"PTC_HOST_NETWORK", refused, "agents never share the network of the host: unset it"},
		},
		variablesOfFate(retired, "SANDBOX_IPC_MODE", "SANDBOX_NAMESPACE", "SANDBOX_IMAGE", "SANDBOX_RUNTIME_CLASS", "SANDBOX_IMAGE_PULL_POLICY",
			"POD_READY_TIMEOUT", "PTC_WORKER_IMAGE", "PTC_WORKER_CPU", "PTC_WORKER_MEMORY", "PTC_WORKER_TIMEOUT",
			"CLAUDE_CODE_WORKER_IMAGE", "CLAUDE_CODE_WORKER_CPU", "CLAUDE_CODE_WORKER_MEMORY", "CLAUDE_CODE_WORKER_TIMEOUT",
			"EXECUTION_REQUEST", "EXECUTOR_URL", "SKILL_RUNNER_IMAGE", "DB_HOST", "DB_USER", "DB_PASSWORD", "DB_NAME",
			"AUTH_ENABLED", "UVICORN_WORKERS", "SKILL_WATCH_DEBOUNCE_MS", "AGENTURA_*", "API_TARGET", "NEXT_PUBLIC_API_URL",
			"LANDING_ONLY", "SKILL_LIBRARY_DIR", "AI_VELOCITY_DIR", "OBOT_URL"),
		variablesOfFate(unbuilt, "OPENROUTER_REFERER", "PIPELINES_DIR", "AGENCY_DIR", "ARTIFACTS_DIR", "MAX_CONTINUATIONS", "MAX_AGENT_OUTPUT_CHARS",
			"MCP_*_URL", "MCP_*_API_KEY", "MCP_CALL_TIMEOUT", "MCP_FETCH_TIMEOUT", "GATEWAY_PUBLIC_URL", "ADMIN_USER_IDS",
			"JWKS_URL", "JWT_ISSUER", "OAUTH_STATE_SECRET", "WEBHOOK_SECRET", "GITHUB_WEBHOOK_SECRET",
			"SLACK_*_SIGNING_SECRET", "SLACK_*_BOT_TOKEN", "SLACK_*_APP_TOKEN", "SLACK_BOT_TOKEN"),
		variablesOfFate(shared, "OPENROUTER_API_KEY", "WORK_DIR", "CONFIG_PATH", "DOCKER_HOST", "GITHUB_TOKEN", "HOST", "PORT",
			"DATABRICKS_*", "NOTION_API_KEY", "CLICKUP_API_KEY", "APPETIZE_API_KEY", "*_CLIENT_ID", "*_CLIENT_SECRET"),
	)
}

func variablesOfFate(f fate, names ...string) []platformVariable {
	all := make([]platformVariable, len(names))
	for i, name := range names {
		all[i] = platformVariable{name: name, fate: f}
	}
	return all
}

// fateOf returns the row of a variable; the first pattern that matches counts.
func fateOf(table []platformVariable, name string) (platformVariable, bool) {
	for _, row := range table {
		if ok, _ := path.Match(row.name, name); ok {
			return row, true
		}
	}
	return platformVariable{}, false
}

// platformVariables refuses the dangerous ones and warns once of all others.
// Those that a cluster names as its key are left alone.
func (l *loader) platformVariables(cfg *Config) {
	table := platformTable()
	found := map[fate][]string{}
	for _, name := range slices.Sorted(maps.Keys(l.environ)) {
		row, ok := fateOf(table, name)
		if !ok || slices.ContainsFunc(cfg.Clusters, func(c Cluster) bool { return c.MCP.APIKeyEnv == name }) {
			continue
		}
		if row.fate != refused {
			found[row.fate] = append(found[row.fate], name)
		} else if off, err := parseBool(l.environ[name]); err != nil || off != false {
			l.addProblem(Origin{Layer: LayerEnv, Name: name}, name, nightcrier.Errorf(nightcrier.Refused, "%s", row.why))
		}
	}
	l.warnOfVariables(found[retired], "retired and without effect: remove")
	l.warnOfVariables(found[unbuilt], "not used by this version:")
}

func (l *loader) warnOfVariables(names []string, what string) {
	if len(names) > 0 {
		l.addWarning(Origin{}, "", fmt.Sprintf("environment variables %s %s", what, strings.Join(names, ", ")))
	}
}
