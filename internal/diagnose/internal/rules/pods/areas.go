// Package pods holds the rules about why a Pod is not made, does not start, ends, is not ready or fails at its work.
package pods

import "nightcrier.dev/nightcrier/internal/diagnose/internal/scene"

// Areas are all that is known here.
func Areas() []scene.Area {
	return []scene.Area{
		certificateRules, configurationRules, crashRules, creationRules, cronRules, dependencyRules, environmentRules, exhaustionRules, filesystemRules, gateRules, imageRules, initContainerRules, jobRules, logRules, memoryRules, outdatedRules, probeRules, runningRules, startRules, storeRules,
	}
}
