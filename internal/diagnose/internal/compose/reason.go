package compose

import (
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// tellReasons has the first of all that was found about one object say why, where it shows
// only that something is wrong and another finding about the object says why: a network
// component that is not ready because its container ends, and the line that it ends with.
// The other is then told with it, and is no hypothesis beside it.
func tellReasons(all []scene.Finding) []scene.Finding {
	n := all[0]
	if !n.Entry.Symptom || n.Why != "" || n.Object.Kind == "Node" { // what a node reports is of many things at once
		return all
	}
	i := slices.IndexFunc(all, func(o scene.Finding) bool {
		return o.Confidence != nightcrier.Low && o.Cause != n.Cause && saysWhy(o)
	})
	if i < 0 {
		return all
	}
	why := all[i]
	n.Why = why.Summary
	if why.Why != "" {
		n.Why = why.Why
	}
	n.Summary = strings.TrimSuffix(n.Summary, ".") + ". " + why.Summary
	n.Observed = slices.Concat(n.Observed, why.Observed)
	n.DependsOn = slices.Concat(n.DependsOn, why.DependsOn)
	n.Actions = slices.Concat(why.Actions, n.Actions)
	return slices.Concat([]scene.Finding{n}, all[1:i], all[i+1:])
}

// saysWhy reports whether a finding names a reason, and not only what follows from it.
func saysWhy(n scene.Finding) bool { return !n.Entry.Symptom || n.Why != "" }

// capSymptom makes a finding no more than likely that does not say why. Nobody can act on it
// before that is known.
func capSymptom(n scene.Finding) scene.Finding {
	if n.Confidence == nightcrier.High && !saysWhy(n) {
		n.Confidence = nightcrier.Medium
	}
	return n
}
