package agent

import (
	"fmt"

	"nightcrier.dev/nightcrier/internal/guard/readonly"
)

// toolVerbs are the kubectl verbs that our tools stand for. One that is not named
// reads no cluster.
var toolVerbs = map[string]string{
	"kubernetes_describe": "describe",
	"kubernetes_logs":     "logs",
	"kubernetes_get":      "get",
	"kubernetes_list":     "get",
	"kubernetes_events":   "get",
	"kubernetes_changes":  "get",
	"kubernetes_top":      "get",
}

// OfferedTools are the tools for an agent: of those that there are, the ones whose
// verb may be used. All of them only read. The notes say what is left out.
func OfferedTools(tools []string, may readonly.Policy) (offered, notes []string) {
	offered = []string{}
	for _, tool := range tools {
		verb, ofCluster := toolVerbs[tool]
		if ofCluster && !may.May(verb) {
			notes = append(notes, fmt.Sprintf("tool %s is left out: agent.allowed_tools does not name kubectl %s", tool, verb))
			continue
		}
		offered = append(offered, tool)
	}
	return offered, notes
}
