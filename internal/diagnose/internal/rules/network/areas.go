// Package network holds the rules about the way to a Pod.
package network

import "nightcrier.dev/nightcrier/internal/diagnose/internal/scene"

// Areas are all that is known here.
func Areas() []scene.Area {
	return []scene.Area{
		dnsRules, ingressRules, namingRules, policyRules, resolverRules, serviceRules,
	}
}
