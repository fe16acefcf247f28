package diagnose

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
)

var probeRules = area{of: []Rule{probeFailed}}

var probeCauses = []Cause{
	{"probe-failing", "Pod", "a liveness or startup probe fails, so the container is restarted", rankStated - 5},
	{"readiness-probe-failing", "Pod", "a readiness probe fails, so the Pod gets no traffic", rankFollows + 5},
}

// probeFailed finds Pods whose probes fail: a liveness or startup probe restarts
// the container, a readiness probe keeps traffic away.
func probeFailed(f *Facts) []Finding {
	var out []Finding
	for i := range f.Pods {
		p := &f.Pods[i]
		well := podWell(p, f.Now) // also while a kubelet is about to kill it
		for e := range f.eventsOf("Pod", p.Object.Name) {
			cause := probeCause(e.Object)
			switch {
			case cause == "" && outlived(p, e.Object) && f.Now.Sub(lastSeen(&e.Object)) < doomedFor:
				cause = "probe-failing"
			case well:
				continue
			}
			if cause != "" && f.fresh(e) {
				out = append(out, failedProbe(f, p, cause, f.saidOfProbe(p, e)))
			}
		}
	}
	return out
}

// probeCause is the cause that an Event shows, "" for none. A liveness probe
// that merely fails is no cause: a process that is dying by itself fails it too.
func probeCause(e corev1.Event) string {
	switch {
	case e.Reason == "Unhealthy" && strings.HasPrefix(e.Message, "Readiness probe"):
		return "readiness-probe-failing"
	case e.Reason == "Killing" && killedByProbe.MatchString(e.Message):
		return "probe-failing"
	}
	return ""
}

// doomedFor is for how long a probe that failed too often and is not heard of again
// may still be about to have its container killed.
const doomedFor = time.Minute

// outlived reports a probe other than that of readiness that has failed as often
// as a kubelet allows by default, of a process that does not end by itself: it is
// about to be killed for it.
func outlived(p *Read[corev1.Pod], e corev1.Event) bool {
	const allowed = 3
	if e.Reason != "Unhealthy" || strings.HasPrefix(e.Message, "Readiness probe") || e.Count < allowed {
		return false
	}
	for _, c := range podContainers(p) {
		if end := c.lastEnd(); end != nil && end.ExitCode != 0 && end.ExitCode != 137 && end.ExitCode != 143 {
			return false
		}
	}
	return true
}

// killedByProbe matches what a kubelet says when it ends a container because of
// a probe.
var killedByProbe = regexp.MustCompile(`failed (liveness|startup) probe`)

// saidOfProbe is the Event e and, when that only tells of the end, the newest
// one that tells how the probe failed.
func (f *Facts) saidOfProbe(p *Read[corev1.Pod], e Read[corev1.Event]) []Observation {
	said := []Observation{sawEvent(e)}
	if e.Object.Reason == "Unhealthy" {
		return said
	}
	for u := range f.eventsOf("Pod", p.Object.Name) {
		if u.Object.Reason == "Unhealthy" && !strings.HasPrefix(u.Object.Message, "Readiness") {
			return append(said, sawEvent(u))
		}
	}
	return said
}

func failedProbe(f *Facts, p *Read[corev1.Pod], cause string, said []Observation) Finding {
	return Finding{
		Cause: cause, Object: f.Mend(), Confidence: nightcrier.Medium, Observed: said,
		Summary: fmt.Sprintf("%s: %s (%s).", f.Mend(), causeOf(cause).Meaning, said[len(said)-1].Quote),
		WrongIf: "the probe only reports that the process is failing by itself",
		Test: describe(nightcrier.Resource{Kind: "Pod", Namespace: p.Object.Namespace, Name: p.Object.Name}).
			decides("its newest events say the same", "the probe succeeds"),
		Actions: []nightcrier.Action{
			{Action: "Check path, port and delays of the probe of " + f.Mend().String() + " against what the process serves and how long it starts", Outcome: "tells a wrong probe from a process that hangs", Risk: "none: read only"},
			{Action: "Give it a startup probe or a longer delay if it starts slowly", Outcome: "it is not killed while it starts", Risk: "a process that hangs is noticed later"},
		},
	}
}
