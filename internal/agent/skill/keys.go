package skill

// Effect says what becomes of a key of a skill.
type Effect string

// The effects.
const (
	Used Effect = "used"
	// Shown is what people see of a skill; nothing acts upon it.
	Shown  Effect = "shown"
	Unused Effect = "no effect"
	// RefusedWhenSet is a promise that cannot be kept here: a skill that asks for it is not executed.
	RefusedWhenSet Effect = "refused"
)

// Key is a key of agentura.config.yaml, or of the front matter of a SKILL.md. Keys of lists are
// written like those of mappings.
type Key struct {
	Path string
	Effect
	// Note is what its author is told who may expect more of it, "" for nothing.
	Note string
}

// Keys are those of agentura.config.yaml that are known. What lies below one without an effect has
// none either.
func Keys() []Key {
	const bounds = "the operator's bounds hold"
	return []Key{
		{"agent", Used, ""}, {"sandbox", Used, ""}, {"agent.executor", Used, ""}, {"agent.max_iterations", Used, ""},
		{"agent.max_tokens", Used, ""}, {"agent.timeout", Used, ""}, {"agent.budget_tokens", Used, ""}, {"agent.fallback_models", Used, ""}, {"skills.fallback_models", Used, ""},
		{"agent.backend", Unused, bounds}, {"agent.cpu", Unused, bounds},
		{"agent.memory", Unused, bounds}, {"agent.template", Unused, "there is one kind of sandbox"},
		{"deliver", Used, ""}, {"deliver.files", Used, ""}, {"deliver.report", Used, ""}, {"deliver.schema", Used, ""},
		{"description", Shown, ""}, {"display", Shown, ""}, {"domain", Used, ""}, {"domain.description", Shown, ""}, {"domain.name", Used, ""}, {"domain.owner", Shown, ""},
		{"feedback", Shown, "nothing is learned from corrections yet"},
		{"guardrails", Used, ""}, {"guardrails.budget", Used, ""}, {"guardrails.budget.alert_at", Unused, "the operator's budget warns"},
		{"guardrails.budget.max_cost_per_alert", Used, ""}, {"guardrails.budget.max_cost_per_execution", Used, ""}, {"guardrails.budget.max_per_execution", Used, ""},
		{"guardrails.human_in_loop", Used, ""}, {"guardrails.human_in_loop.approval_prompt", Used, ""}, {"guardrails.human_in_loop.require_approval", Used, ""},
		{"guardrails.human_in_loop.required_for", RefusedWhenSet, ""},
		{"guardrails.max_concurrent", Used, ""}, {"guardrails.rate_limits", Used, ""}, {"guardrails.rate_limits.max_executions_per_minute", Used, ""}, {"guardrails.rate_limits.requests_per_minute", Used, ""},
		{"mcp_tools", Used, ""}, {"mcp_tools.approval_required", Used, ""}, {"mcp_tools.read_only", Used, ""}, {"mcp_tools.server", Used, ""}, {"mcp_tools.tools", Used, ""},
		{"notifications", Used, ""}, {"notifications.channel", Used, ""}, {"notifications.on", Used, ""}, {"notifications.config", Unused, "the operator says which channel it is"},
		{"observability", Unused, "the journal and the metrics of the server have it"},
		{"routing", Shown, "the steps of a pipeline say what follows"},
		{"skills", Used, ""}, {"skills.cost_budget", Used, ""}, {"skills.cost_budget_per_execution", Used, ""}, {"skills.deploy_status", Used, ""}, {"skills.model", Used, ""},
		{"skills.name", Used, ""}, {"skills.path", Unused, ""}, {"skills.role", Used, ""},
		{"skills.triggers", Shown, startsIt}, {"skills.version", Used, ""}, {"triggers", Shown, startsIt},
		{"verify", Used, ""}, {"verify.criteria", Used, ""}, {"verify.enabled", Used, ""}, {"verify.max_retries", Used, ""},
	}
}

const startsIt = "`on` of a pipeline starts a run"

// FrontKeys are those of the front matter of a SKILL.md that are known. What a CLI would take for
// a right of the skill is none here.
func FrontKeys() []Key {
	const ofCLI, fallback = "it is for one CLI, and is left out", "when there is no agentura.config.yaml"
	return []Key{
		{"agent", Unused, ofCLI}, {"allowed-tools", Unused, "what an agent may use is the operator's to say; mcp_tools in agentura.config.yaml asks for tools"},
		{"argument-hint", Unused, ofCLI}, {"compatibility", Shown, ""}, {"context", Unused, ofCLI}, {"cost_budget_per_execution", Used, ""},
		{"cron", Unused, startsIt}, {"description", Used, ""}, {"disable-model-invocation", Unused, ofCLI}, {"display", Shown, ""}, {"domain", Used, ""},
		{"hooks", Unused, ofCLI}, {"license", Shown, ""}, {"mcp_tools", Used, fallback}, {"metadata", Unused, "only metadata.version counts"},
		{"metadata.version", Used, ""}, {"model", Used, ""}, {"name", Used, ""}, {"role", Used, ""}, {"routes_to", Shown, "the steps of a pipeline say what follows"},
		{"timeout", Used, ""}, {"trigger", Shown, ""}, {"triggers", Shown, startsIt}, {"user-invocable", Unused, ofCLI}, {"version", Used, ""},
		{"when_to_use", Unused, "say it in description"},
	}
}
