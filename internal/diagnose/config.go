package diagnose

import (
	"fmt"
	"regexp"

	"nightcrier.dev/nightcrier"
)

var configurationRules = area{of: []Rule{configMissing}}

var configurationCauses = []Cause{
	{"missing-config-key", "Pod", "a ConfigMap or Secret lacks a key that the Pod names", rankStated},
	{"missing-configmap", "Pod", "a ConfigMap that the Pod names does not exist", rankStated},
	{"missing-secret", "Pod", "a Secret that the Pod names does not exist", rankStated},
	{"mount-failed", "Storage", "a volume cannot be mounted", rankStated - 1},
}

// configWords tell what is missing from what the kubelet says.
var configWords = []struct {
	cause string
	words *regexp.Regexp
}{
	{"missing-config-key", regexp.MustCompile(`couldn't find key|references non-existent (config|secret) key`)},
	{"missing-configmap", regexp.MustCompile(`(?i)configmaps? "[^"]{1,253}" not found`)},
	{"missing-secret", regexp.MustCompile(`(?i)secrets? "[^"]{1,253}" not found`)},
}

// missingConfig matches any of them.
var missingConfig = regexp.MustCompile(`couldn't find key|(?i:(configmaps?|secrets?) "[^"]{1,253}" not found)`)

// configMissing finds containers that lack a ConfigMap, a Secret or a key of
// one, and volumes that cannot be mounted.
func configMissing(f *Facts) []Finding {
	var out []Finding
	for c := range f.containers() {
		reason, message := c.waiting()
		if reason != "CreateContainerConfigError" {
			continue
		}
		if cause := configCause(message); cause != "" {
			said := Observation{Text: fmt.Sprintf("%s waits: %s", c, reason), Quote: message, Ref: c.pod.Ref}
			out = append(out, missing(f, cause, c.pod.Object.Name, said))
		}
	}
	for _, p := range f.Pods {
		for e := range f.eventsOf("Pod", p.Object.Name) {
			if e.Object.Reason != "FailedMount" && e.Object.Reason != "FailedAttachVolume" || podReady(&p.Object) || !f.fresh(e) {
				continue
			}
			cause := configCause(e.Object.Message)
			if cause == "" {
				cause = "mount-failed"
			}
			out = append(out, missing(f, cause, p.Object.Name, sawEvent(e)))
		}
	}
	return out
}

func configCause(message string) string {
	for _, w := range configWords {
		if w.words.MatchString(message) {
			return w.cause
		}
	}
	return ""
}

func missing(f *Facts, cause, pod string, said Observation) Finding {
	return Finding{
		Cause: cause, Object: f.Mend(), Confidence: nightcrier.High, Observed: []Observation{said},
		Summary: fmt.Sprintf("%s cannot start: %s (%s).", f.Mend(), causeOf(cause).Meaning, said.Quote),
		WrongIf: "it was created in the meantime; the kubelet tries again by itself",
		Test: describe(nightcrier.Resource{Kind: "Pod", Namespace: f.Mend().Namespace, Name: pod}).
			decides("its newest events say the same", "it has started"),
		Actions: []nightcrier.Action{
			{Action: "Create what is missing in namespace " + f.Mend().Namespace + ", or correct the name in " + f.Mend().String(), Outcome: "the Pod starts by itself", Risk: "a wrong value starts it wrongly configured"},
			{Action: "Roll back if the name came with the last rollout", Outcome: "the version that ran before is back", Risk: "loses what the rollout brought"},
		},
	}
}
