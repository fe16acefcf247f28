package diagnose

import (
	"fmt"
	"slices"

	"nightcrier.dev/nightcrier"
)

var claimRules = area{of: []Rule{volumeMissing}}

var claimCauses = []Cause{
	{"volume-not-provisioned", "Storage", "a claim gets no volume, or not the one it asks for", rankStated},
}

// claimReasons are the Events of a claim that gets no volume.
var claimReasons = []string{"ProvisioningFailed", "FailedBinding", "ClaimLost", "ClaimMisbound", "VolumeResizeFailed"}

// volumeMissing finds claims that get no volume, or not the one they ask for.
func volumeMissing(f *Facts) []Finding {
	if f.Target.Kind != "PersistentVolumeClaim" {
		return nil
	}
	for e := range f.eventsOf(f.Target.Kind, f.Target.Name) {
		if !slices.Contains(claimReasons, e.Object.Reason) || !f.fresh(e) {
			continue
		}
		return []Finding{{
			Cause: "volume-not-provisioned", Object: f.Mend(), Confidence: nightcrier.High, Observed: []Observation{sawEvent(e)},
			Summary: fmt.Sprintf("%s: %s (%s).", f.Mend(), causeOf("volume-not-provisioned").Meaning, oneLine(e.Object.Message, maxQuote)),
			WrongIf: "it was bound since; the controller tries again by itself",
			Test:    describe(f.Target).decides("it is Pending and its newest events say the same", "it is Bound"),
			Actions: []nightcrier.Action{
				{Action: "Check the storage class that the claim names, and its provisioner", Outcome: "tells a wrong name from a provisioner that is down", Risk: "none: read only"},
				{Action: "Check the capacity and the zone that the claim can be served from", Outcome: "names what is short", Risk: "none: read only"},
			},
		}}
	}
	return nil
}
