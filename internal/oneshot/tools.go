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

// ToolDiff is how what servers have differs from what was accepted.
type ToolDiff struct {
	Changes []ToolChange `json:"changes"`
	// Digests are those of all that each server has now, by its name.
	Digests  map[string]string `json:"digests"`
	Accepted bool              `json:"accepted"`
}

// DiffTools compares what the servers have with what was accepted, of one or, without a name, of
// all. A server that was never seen has no changes, unless all that it has is to be accepted. Accepted is what
// was shown, by its digest: when it is another one by now, that is a Conflict.
func DiffTools(ctx context.Context, cfg *config.Config, server string, accept bool, digest string) (diff ToolDiff, err error) {
	diff = ToolDiff{Changes: []ToolChange{}, Digests: map[string]string{}, Accepted: digest != ""}
	some := *cfg
	if server != "" {
		some.ToolServers = slices.DeleteFunc(slices.Clone(cfg.ToolServers), func(s config.ToolServer) bool { return s.Name != server })
		if len(some.ToolServers) == 0 {
			return diff, nightcrier.Errorf(nightcrier.NotFound, "tool_servers names no server %q: correct the name (`nightcrier tools list` shows them), or name the --config that has it", server)
		}
	}
	pins, changed := pinsOf(cfg), false
	all := listTools(ctx, &some, func(server string, offered map[string]toolserver.Pin) (map[string]string, error) {
		accepted, seen, err := pins.Read(server)
		if err != nil && !accept {
			return nil, err
		}
		differs := map[string]string{}
		if seen || accept {
			differs = toolserver.Differences(accepted, offered)
		}
		for _, tool := range slices.Sorted(maps.Keys(differs)) {
			diff.Changes = append(diff.Changes, ToolChange{server, tool, differs[tool], accepted[tool].Definition, offered[tool].Definition})
		}
		diff.Digests[server] = toolserver.DigestOf(offered)
		switch {
		case digest != "" && digest != diff.Digests[server]:
			changed = true
			return nil, nil
		case digest != "":
			return nil, pins.Accept(server, offered)
		}
		return nil, nil
	})
	if changed {
		return diff, nightcrier.Errorf(nightcrier.Conflict, "the tools of %s are not those that were shown, and nothing is accepted: look again with `nightcrier tools diff %s`", server, server)
	}
	for _, one := range all {
		if one.Error != "" {
			return diff, nightcrier.Errorf(nightcrier.Unreachable, "%s", one.Error)
		}
	}
	return diff, nil
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
