package oneshot

import (
	"context"

	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/guard/mcp"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/mask"
)

// ListTools asks the configured MCP servers what they have, as an investigation would.
func ListTools(ctx context.Context, cfg *config.Config) []mcp.Offered {
	all := make([]mcp.Offered, len(cfg.ToolServers))
	for i, s := range cfg.ToolServers {
		server, one := s.Guarded(), &all[i]
		one.Server = s.Name
		masker := mask.Fresh(cfg.Secrets()...)
		offers, err := mcp.Look(ctx, server, mcp.Options{
			Variables: cfg.VariablesOf([]toolserver.Server{server}), Unconfined: cfg.Agent.Require == agent.RequireNone,
			Mask: masker.Bytes, MaskLog: func(b []byte) []byte { masked, _ := masker.Log(b); return masked }, Note: func(text string) { one.Notes = append(one.Notes, text) },
		})
		one.Tools = append([]mcp.Offer{}, offers...) // a list in JSON as well
		if err != nil {
			one.Error = err.Error()
		}
	}
	return all
}
