package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/guard/mcp"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
)

// toolsFor are the MCP servers for the investigations of one cluster.
func toolsFor(all []config.ToolServer, cluster string) (servers []toolserver.Server) {
	for _, s := range all {
		if len(s.Clusters) == 0 || slices.Contains(s.Clusters, cluster) {
			servers = append(servers, toolServer(s))
		}
	}
	return servers
}

func toolServer(s config.ToolServer) toolserver.Server {
	return toolserver.Server{Name: s.Name, URL: s.URL, Command: s.Command, TokenEnv: s.TokenEnv, Env: s.Env, Read: s.Read, Ports: s.Ports, Tools: s.Tools, Timeout: s.Timeout}
}

// variablesFor are the values that a run's servers need: no others leave us.
func variablesFor(all []config.ToolServer, servers []toolserver.Server) map[string]string {
	values := map[string]string{}
	for _, s := range servers {
		i := slices.IndexFunc(all, func(c config.ToolServer) bool { return c.Name == s.Name })
		for _, name := range s.Variables() {
			if i >= 0 && all[i].Variables[name].IsSet() {
				values[name] = all[i].Variables[name].Reveal()
			}
		}
	}
	return values
}

// OfferedTools is what a configured MCP server has, and what of it agents get.
type OfferedTools struct {
	Server string      `json:"server"`
	Tools  []mcp.Offer `json:"tools"`
	// Notes are what an investigation would note of how it is started.
	Notes []string `json:"notes,omitempty"`
	// Error says why it could not be asked.
	Error string `json:"error,omitempty"`
}

// ListTools asks the configured MCP servers what they have, as an investigation would.
func ListTools(ctx context.Context, cfg *config.Config) []OfferedTools {
	all := make([]OfferedTools, len(cfg.ToolServers))
	for i, s := range cfg.ToolServers {
		server, one := toolServer(s), &all[i]
		one.Server = s.Name
		masker := freshMask(secretsOf(cfg)...)
		offers, err := mcp.Look(ctx, server, mcp.Options{
			Variables: variablesFor(cfg.ToolServers, []toolserver.Server{server}), Unconfined: cfg.Agent.Require == agent.RequireNone,
			Mask: masker.Bytes, MaskLog: func(b []byte) []byte { masked, _ := masker.Log(b); return masked }, Note: func(text string) { one.Notes = append(one.Notes, text) },
		})
		one.Tools = append([]mcp.Offer{}, offers...) // a list in JSON as well
		if err != nil {
			one.Error = err.Error()
		}
	}
	return all
}

// checkToolServers asks each server what it offers.
func checkToolServers(ctx context.Context, cfg *config.Config) (checks []Check) {
	const hint = "nightcrier tools list shows what the server has and why agents do not get it"
	for _, o := range ListTools(ctx, cfg) {
		c := Check{Code: CheckTools, Name: o.Server}
		offered := slices.DeleteFunc(slices.Clone(o.Tools), func(t mcp.Offer) bool { return !t.Offered })
		names := make([]string, len(offered))
		for i, t := range offered {
			names[i] = t.ShownAs
		}
		switch {
		case o.Error != "":
			c = c.asFailed(fmt.Errorf("%s", o.Error), "investigations go on without its tools")
			c.Status = statusWarn
		case len(offered) == 0:
			c = c.asFailed(fmt.Errorf("agents get none of its %d tools", len(o.Tools)), hint)
			c.Status = statusWarn
		default:
			detail := fmt.Sprintf("agents get %d of its %d tools: %s", len(offered), len(o.Tools), strings.Join(names, ", "))
			c = c.asOK(strings.Join(append([]string{detail}, o.Notes...), "; "))
		}
		checks = append(checks, c)
	}
	return checks
}
