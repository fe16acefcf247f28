// Package workloads holds the rules about controllers of Pods and what they are kept from.
package workloads

import "nightcrier.dev/nightcrier/internal/diagnose/internal/scene"

// Areas are all that is known here.
func Areas() []scene.Area {
	return []scene.Area{
		autoscalerRules, budgetRules, daemonRules, evictionRules, fightRules, finalizerRules, rolloutRules, scaleRules, siblingRules, statefulRules,
	}
}
