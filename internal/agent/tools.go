package agent

import "fmt"

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

// offeredTools are the tools for an agent: of those that there are, the ones whose
// verb may be used. All of them only read.
func offeredTools(j Job) (offered, notes []string) {
	offered = []string{}
	for _, tool := range j.Tools {
		verb, ofCluster := toolVerbs[tool]
		if ofCluster && !j.Allowed.May(verb) {
			notes = append(notes, fmt.Sprintf("tool %s is left out: agent.allowed_tools does not name kubectl %s", tool, verb))
			continue
		}
		offered = append(offered, tool)
	}
	return offered, notes
}
