package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/skill"
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
	a, err := c.AgentFor(set.Executor)
	if err != nil {
		return refuse("%w", err)
	}
	if a.Executor == Builtin {
		return refuse("it needs an agent, and agent.executor is %s: name one there, or as agent.executor in the skill's configuration", Builtin)
	}
	spec := a.Spec
	spec.Shell, spec.SystemPromptFile, spec.TriageScript = spec.Shell && !agent.LacksKubectl(spec.Executor), "", ""
	spec.Timeout = cmp.Or(set.Timeout, spec.Timeout)
	spec.MaxTurns = cmp.Or(set.MaxTurns, spec.MaxTurns)
	if set.MaxTokens > 0 && (spec.MaxTokens == 0 || set.MaxTokens < spec.MaxTokens) {
		spec.MaxTokens = set.MaxTokens
	}
	if set.Model != "" {
		vendor, model, named := strings.Cut(set.Model, "/")
		if named && vendor != string(a.Provider) {
			return refuse("its model %.100q is not one of %s, which %s asks here", set.Model, a.Provider, a.Executor)
		}
		if spec.Model = set.Model; named {
			spec.Model = model
		}
	}
	if spec.ToolServers, err = c.serversFor(set.Tools); err != nil {
		return refuse("%w", err)
	}
	return spec, nil
}

// serversFor are the configured tool servers, narrowed to what a skill wants of them.
func (c *Config) serversFor(wanted []skill.Binding) (servers []toolserver.Server, err error) {
	for _, b := range wanted {
		i := slices.IndexFunc(c.ToolServers, func(s ToolServer) bool { return s.Name == b.Server })
		if i < 0 {
			return nil, nightcrier.Errorf(nightcrier.Refused, "it needs the tool server %.64q: configure one of that name in tool_servers", b.Server)
		}
		server := c.ToolServers[i].Guarded()
		all := len(b.Tools) == 0 || slices.Contains(b.Tools, "*")
		if all && len(b.Approval) > 0 {
			return nil, nightcrier.Errorf(nightcrier.Refused, "some tools of %s need an approval, which nobody can give here: name the others under tools, not all", b.Server)
		}
		if !all {
			server.Tools = slices.DeleteFunc(slices.Clone(b.Tools), func(tool string) bool {
				allowed, _ := c.ToolServers[i].Guarded().Allows(tool)
				return !allowed || toolserver.IsPattern(tool) || slices.Contains(b.Approval, tool)
			})
		}
		if len(server.Tools) == 0 {
			return nil, nightcrier.Errorf(nightcrier.Refused, "none of the tools of %s that it names may be used without an approval: compare them with those that are configured", b.Server)
		}
		servers = append(servers, server)
	}
	return servers, nil
}
