// Package volumes holds the rules about claims, volumes and their way to a node.
package volumes

import "nightcrier.dev/nightcrier/internal/diagnose/internal/scene"

// Areas are all that is known here.
func Areas() []scene.Area {
	return []scene.Area{
		attachRules, claimRules,
	}
}
