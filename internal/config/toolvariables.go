package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/guard/toolserver"
)

// An older platform has the address and the key of a tool server in variables that bear its name
// in capitals: MCP_K8S_URL and MCP_K8S_API_KEY.
const (
	serverPrefix = "MCP_"
	serverURL    = "_URL"
	serverKey    = "_API_KEY"
)

// namedServer is the name of the tool server that a variable is about, "" for none.
func namedServer(variable, suffix string) string {
	name, ok := strings.CutPrefix(variable, serverPrefix)
	if name, has := strings.CutSuffix(name, suffix); ok && has {
		return toServerName(name)
	}
	return ""
}

// toServerName spells the name of a tool server as it is spelled here, however a skill of the older
// platform or a variable does.
func toServerName(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// readServerVariables takes the addresses and keys of tool servers from the environment. They are
// those of the entry of that name. Without one there is a server for skills alone, which get what
// they name of it.
func (l *loader) readServerVariables() {
	entries, commands := map[string]int{}, map[int]bool{}
	for _, s := range l.settings {
		switch s.key.path {
		case toolPrefix + "name":
			entries[s.value.(string)] = s.cluster
		case toolPrefix + "command":
			commands[s.cluster] = true
		}
	}
	for _, variable := range slices.Sorted(maps.Keys(l.environ)) {
		name := namedServer(variable, serverURL)
		if name == "" {
			continue
		}
		i, known := entries[name]
		err := toolserver.CheckName(name)
		switch {
		case known && commands[i]:
			err = fmt.Errorf("the entry %s of tool_servers has a command", name)
		case !known && err == nil:
			i, entries[name] = len(l.toolPlaces), len(l.toolPlaces)
			l.toolPlaces = append(l.toolPlaces, Origin{Layer: LayerEnv, Name: variable})
			l.setOfServer(i, "name", name, variable)
			l.setOfServer(i, "tools", "*", variable)
			l.setOfServer(i, "writes", "true", variable)
		}
		if err != nil {
			l.addWarning(Origin{Layer: LayerEnv, Name: variable}, variable, "has no effect: "+err.Error())
			continue
		}
		l.setOfServer(i, "url", l.environ[variable], variable)
	}
	for variable := range l.environ {
		name := namedServer(variable, serverKey)
		if i, known := entries[name]; known && !commands[i] {
			l.setOfServer(i, "token_env", variable, variable)
		}
	}
}

// setOfServer gives a key of a tool server the value that a variable says.
func (l *loader) setOfServer(entry int, name, value, variable string) {
	i := slices.IndexFunc(l.keys, func(k key) bool { return k.path == toolPrefix+name })
	k := &l.keys[i]
	l.parseSetting(k, spelling{}, k.typ.splitWords(value), place{origin: Origin{Layer: LayerEnv, Name: variable}, path: variable, cluster: entry})
}

// isOfVariables says whether a tool server stands in no file.
func isOfVariables(place Origin) bool { return place.Layer == LayerEnv }

// checkServerKeys warns of keys that belong to no server.
func (l *loader) checkServerKeys(cfg *Config) {
	for _, variable := range slices.Sorted(maps.Keys(l.environ)) {
		name := namedServer(variable, serverKey)
		used := slices.ContainsFunc(cfg.ToolServers, func(s ToolServer) bool { return s.TokenEnv == variable || slices.Contains(s.Env, variable) }) ||
			slices.ContainsFunc(cfg.Clusters, func(c Cluster) bool { return c.MCP.APIKeyEnv == variable })
		if name != "" && !used {
			l.addWarning(Origin{Layer: LayerEnv, Name: variable}, variable, fmt.Sprintf("has no effect: no tool server %q has an address", name))
		}
	}
}
