package oneshot

import (
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/guard/mcp"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/mask"
)

// ListTools asks the configured MCP servers what they have, as an investigation would. It pins nothing.
func ListTools(ctx context.Context, cfg *config.Config) []mcp.Offered {
	pins := pinsOf(cfg)
	return listTools(ctx, cfg, func(server string, offered map[string]toolserver.Pin) (map[string]string, error) {
		accepted, seen, err := pins.Read(server)
		if err != nil || !seen {
			return nil, err
		}
		return toolserver.Differences(accepted, offered), nil
	})
}

func pinsOf(cfg *config.Config) toolserver.Pins {
	return toolserver.Pins{Dir: filepath.Join(cfg.WorkspaceRoot, toolserver.PinsDir)}
}

// ToolChange is a tool that is not what was accepted. Was or Is is empty where there is none.
type ToolChange struct {
	Server string          `json:"server"`
	Tool   string          `json:"tool"`
	How    string          `json:"how"`
	Was    json.RawMessage `json:"was,omitempty"`
	Is     json.RawMessage `json:"is,omitempty"`
}

// DiffTools compares what the servers have with what was accepted, of one or, without a name, of
// all. With accept that is accepted. A server that was never seen has no changes.
func DiffTools(ctx context.Context, cfg *config.Config, server string, accept bool) (changes []ToolChange, err error) {
	some := *cfg
	if server != "" {
		some.ToolServers = slices.DeleteFunc(slices.Clone(cfg.ToolServers), func(s config.ToolServer) bool { return s.Name != server })
		if len(some.ToolServers) == 0 {
			return nil, nightcrier.Errorf(nightcrier.NotFound, "tool_servers names no server %q: correct the name (`nightcrier tools list` shows them), or name the --config that has it", server)
		}
	}
	pins := pinsOf(cfg)
	all := listTools(ctx, &some, func(server string, offered map[string]toolserver.Pin) (map[string]string, error) {
		accepted, seen, err := pins.Read(server)
		if err != nil && !accept {
			return nil, err
		}
		differs := map[string]string{}
		if seen {
			differs = toolserver.Differences(accepted, offered)
		}
		for _, tool := range slices.Sorted(maps.Keys(differs)) {
			changes = append(changes, ToolChange{server, tool, differs[tool], accepted[tool].Definition, offered[tool].Definition})
		}
		if accept {
			return nil, pins.Accept(server, offered)
		}
		return nil, nil
	})
	for _, one := range all {
		if one.Error != "" {
			return changes, nightcrier.Errorf(nightcrier.Unreachable, "%s", one.Error)
		}
	}
	return changes, nil
}

func listTools(ctx context.Context, cfg *config.Config, match func(string, map[string]toolserver.Pin) (map[string]string, error)) []mcp.Offered {
	all := make([]mcp.Offered, len(cfg.ToolServers))
	for i, s := range cfg.ToolServers {
		server, one := s.Guarded(), &all[i]
		one.Server = s.Name
		masker := mask.Fresh(cfg.Secrets()...)
		offers, err := mcp.Look(ctx, server, mcp.Options{
			Variables: cfg.VariablesOf([]toolserver.Server{server}), Unconfined: cfg.Agent.Require == agent.RequireNone,
			Mask: masker.Bytes, MaskLog: func(b []byte) []byte { masked, _ := masker.Log(b); return masked }, Note: func(text string) { one.Notes = append(one.Notes, text) },
			Pins: match,
		})
		one.Tools = append([]mcp.Offer{}, offers...) // a list in JSON as well
		if err != nil {
			one.Error = err.Error()
		}
	}
	return all
}
