// Package nodes holds the rules about nodes, who is put on them, the control plane and the operators that run there.
package nodes

import "nightcrier.dev/nightcrier/internal/diagnose/internal/scene"

// Areas are all that is known here.
func Areas() []scene.Area {
	return []scene.Area{
		aggregationRules, controlPlaneRules, filledRules, nodeRules, operatorRules, provisionRules, schedulingRules,
	}
}
