package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/guard/model"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
)

// AgentOfSkill is how the agent of a skill is started and bounded: as the configuration says, with
// the skill's executor, model and bounds. Nothing that it names gives it more than is configured; what
// a run may spend is the run's to say.
func (c *Config) AgentOfSkill(s *skill.Skill) (agent.Spec, error) {
	set := s.Settings
	refuse := func(format string, args ...any) (agent.Spec, error) {
		return agent.Spec{}, nightcrier.Errorf(nightcrier.Refused, "the skill %s cannot be executed: %w", s.FullName(), fmt.Errorf(format, args...))
	}
	a, err := c.agentOf(&set)
	if err != nil {
		return refuse("%w", err)
	}
	if a.Executor == Builtin {
		return refuse("it needs an agent, and agent.executor is %s: name one there, or as agent.executor in the skill's configuration", Builtin)
	}
	spec, vouched := a.Spec, append(slices.Clone(a.Models), a.Model)
	spec.Shell, spec.SystemPromptFile, spec.TriageScript = spec.Shell && !agent.LacksKubectl(spec.Executor), "", ""
	spec.Timeout = cmp.Or(set.Timeout, spec.Timeout)
	spec.MaxTurns = cmp.Or(set.MaxTurns, spec.MaxTurns)
	if set.MaxTokens > 0 && (spec.MaxTokens == 0 || set.MaxTokens < spec.MaxTokens) {
		spec.MaxTokens = set.MaxTokens
	}
	if set.Model != "" {
		if spec.Model, err = modelAt(a.Provider, set.Model); err != nil {
			return refuse("its model %w, which %s asks here", err, a.Executor)
		}
	}
	a.Model = spec.Model
	if err := a.checkModel(); err != nil {
		return refuse("%w", err)
	}
	for _, name := range set.Fallbacks {
		fallback, err := modelAt(a.Provider, name)
		if err != nil {
			return refuse("of its fallback_models, %w, which %s asks here", err, a.Executor)
		}
		spec.Fallbacks = append(spec.Fallbacks, fallback)
	}
	for _, name := range append(slices.Clone(spec.Fallbacks), spec.Model) {
		if model.ActsByItself(name) && !slices.Contains(vouched, name) {
			return refuse("its model %.100q acts by itself at the provider, as those do that search the web: name it in agent.models to allow that", name)
		}
	}
	if who, err := agent.For(a.Executor); err == nil && who.Loop {
		spec.Thinking, spec.Verify, spec.VerifyRetries = set.Thinking, set.Verify, set.VerifyRetries
		if set.MaxTokens == 0 && (spec.MaxTokens == 0 || spec.MaxTokens > agent.DefaultLoopTokens) {
			spec.MaxTokens = agent.DefaultLoopTokens
		}
	}
	if spec.ToolServers, err = c.serversFor(set.Tools); err != nil {
		return refuse("%w", err)
	}
	return spec, nil
}

// agentOf is the agent that a skill asks for. One that is a single call of a model needs no
// executor: OpenRouter is asked where its key is set, and else Anthropic.
func (c *Config) agentOf(set *skill.Settings) (Agent, error) {
	if !set.IsSingleCall() {
		return c.agentOn(set.Executor)
	}
	a := c.Agent
	a.Executor, a.Command, a.Model = SingleCall, "", ""
	a.Provider = nightcrier.Anthropic
	if c.ModelKey(nightcrier.OpenRouter).IsSet() {
		a.Provider = nightcrier.OpenRouter
	}
	if err := c.reachModel(&a); err != nil {
		return Agent{}, err
	}
	if !a.APIKey.IsSet() && !a.Keyless {
		return Agent{}, nightcrier.Errorf(nightcrier.Invalid, "no model can be asked: set %s or %s", KeyVariables(nightcrier.OpenRouter)[0], KeyVariables(nightcrier.Anthropic)[0])
	}
	return a, nil
}

// modelAt is what a provider calls a model of that name, in which its vendor may stand in front.
// OpenRouter knows models by both; a vendor writes the numbers of its own with a dash.
func modelAt(p nightcrier.Provider, name string) (string, error) {
	vendor, model, named := strings.Cut(name, "/")
	switch {
	case !named || p == nightcrier.OpenRouter:
		return name, nil
	case vendor != string(p):
		return "", fmt.Errorf("%.100q is not one of %s", name, p)
	case p == nightcrier.Anthropic:
		return strings.ReplaceAll(model, ".", "-"), nil
	}
	return model, nil
}

// serversFor are the configured tool servers, narrowed to what a skill wants of them.
func (c *Config) serversFor(wanted []skill.Binding) (servers []toolserver.Server, err error) {
	for _, b := range wanted {
		i := slices.IndexFunc(c.ToolServers, func(s ToolServer) bool { return s.Name == toServerName(b.Server) })
		if i < 0 {
			return nil, nightcrier.Errorf(nightcrier.Refused, "it needs the tool server %.64q: configure one of that name in tool_servers", b.Server)
		}
		server := c.ToolServers[i].Guarded()
		server.Approval, server.Writes = b.Approval, server.Writes && !b.ReadOnly
		if len(b.Tools) > 0 && !slices.Contains(b.Tools, "*") {
			only := slices.DeleteFunc(slices.Clone(b.Tools), func(tool string) bool {
				allowed, _ := server.Allows(tool)
				return !allowed || toolserver.IsPattern(tool)
			})
			if len(only) == 0 {
				return nil, nightcrier.Errorf(nightcrier.Refused, "none of the tools of %s that it names may be used: compare them with those that are configured", b.Server)
			}
			server.Only = only
			if c.ToolServers[i].Writes { // which the operator names in full, or leaves to skills
				server.Tools = only
			}
		}
		servers = append(servers, server)
	}
	return servers, nil
}
