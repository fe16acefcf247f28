package diagnose

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

var statefulRules = area{scene: []SceneRule{waitsForPredecessor, governingServiceMissing}}

var statefulCauses = []Cause{
	{ID: "statefulset-service-missing", Category: "Service", Meaning: "the Service that gives a StatefulSet's Pods their names does not exist", Rank: rankShown + 8},
	{ID: "statefulset-waits-for-predecessor", Category: "Pod", Meaning: "a StatefulSet makes no further Pod before an earlier one is ready", Rank: rankFollows},
}

// waitsForPredecessor finds StatefulSets that make their Pods one after the other
// and are held up by one that is not ready. Why it is not stands with that Pod.
func waitsForPredecessor(s *Scene) []Finding {
	var out []Finding
	for i := range s.StatefulSets {
		set := &s.StatefulSets[i]
		want := int(orOne(set.Object.Spec.Replicas))
		if set.Object.Spec.PodManagementPolicy == appsv1.ParallelPodManagement || int(set.Object.Status.Replicas) >= want {
			continue
		}
		p := s.holdsUp(set)
		if p == nil {
			continue
		}
		o := nightcrier.Object{Kind: "StatefulSet", Namespace: set.Object.Namespace, Name: set.Object.Name}
		out = append(out, Finding{
			Cause: "statefulset-waits-for-predecessor", Object: o, Confidence: nightcrier.Medium,
			Summary: fmt.Sprintf("%s has %d of %d Pods: Pod %s is not ready, and the ones after it are only made when it is.", o, set.Object.Status.Replicas, want, p.Object.Name),
			Observed: []Observation{podState(*p),
				{Text: fmt.Sprintf("%s wants %d Pods and has %d", o, want, set.Object.Status.Replicas), Quote: fmt.Sprintf("replicas=%d", want), Ref: set.Ref}},
			WrongIf: "the Pod only needs longer to become ready",
			Test:    testByGet(p.Object.Namespace, "pod", p.Object.Name).decidesBetween("its condition Ready is not True", "it is True"),
			Actions: []Step{
				{Action: "Find out why Pod " + p.Object.Name + " is not ready", Outcome: "names the cause", Risk: "none: read only"},
				{Action: "Set podManagementPolicy to Parallel if the Pods need no order; the StatefulSet must be made again for that", Outcome: "one Pod does not hold up the others", Risk: "Pods may start before the ones they rely on"},
			},
		})
	}
	return out
}

// holdsUp is the first Pod of a StatefulSet that is not ready, when it has had the
// time to be and none comes after it.
func (s *Scene) holdsUp(set *Read[appsv1.StatefulSet]) *Read[corev1.Pod] {
	first := 0
	if o := set.Object.Spec.Ordinals; o != nil {
		first = int(o.Start)
	}
	for n := range int(min(orOne(set.Object.Spec.Replicas), 1000)) {
		p := findObject(s.Pods, set.Object.Namespace, set.Object.Name+"-"+strconv.Itoa(first+n))
		switch {
		case p == nil:
			return nil
		case podReady(&p.Object):
			continue
		case s.longUnready(p):
			return p
		}
		return nil
	}
	return nil
}

// nameAway is what programs in all languages say of a name that has no address.
var nameAway = newPattern(`(?i)no such host|name or service not known|could not resolve|couldn't resolve|getaddrinfo|ENOTFOUND|NXDOMAIN|name resolution|unknown ?host|nodename nor servname|server misbehaving|name does not resolve`)

// governingServiceMissing finds StatefulSets whose Service does not exist while
// somebody fails to find their Pods by name. Without that nobody misses it.
func governingServiceMissing(s *Scene) []Finding {
	var out []Finding
	for i := range s.StatefulSets {
		set := &s.StatefulSets[i]
		ns, name := set.Object.Namespace, set.Object.Spec.ServiceName
		if name == "" || !s.Complete("Service", ns) || findObject(s.Services, ns, name) != nil {
			continue
		}
		seen, ok := s.missesName(set)
		if !ok {
			continue
		}
		o := nightcrier.Object{Kind: "StatefulSet", Namespace: ns, Name: set.Object.Name}
		out = append(out, Finding{
			Cause: "statefulset-service-missing", Object: o, Confidence: nightcrier.High,
			Summary: fmt.Sprintf("%s names the Service %s, which does not exist: its Pods have no names in DNS such as %s-0.%s.", o, text.CutLine(name, maxQuote), o.Name, text.CutLine(name, maxQuote)),
			Observed: []Observation{seen,
				{Text: o.String() + " has serviceName " + text.CutLine(name, maxQuote) + ", and namespace " + ns + " has no such Service", Quote: "serviceName=" + name, Ref: set.Ref}},
			WrongIf: "the Service was made since",
			Test:    testByList(ns, "service").decidesBetween("no Service is called "+text.CutLine(name, maxQuote), "there is one"),
			Actions: []Step{
				{Action: "Make a headless Service called " + text.CutLine(name, maxQuote) + " that selects the Pods of " + o.String(), Outcome: "the Pods find each other by name", Risk: "none for what runs"},
			},
		})
	}
	return out
}

// missesName is what shows that the names of a StatefulSet's Pods are missed: a log
// line that fails to resolve one, or a Pod that is told one and is not ready.
func (s *Scene) missesName(set *Read[appsv1.StatefulSet]) (Observation, bool) {
	ns, service := set.Object.Namespace, set.Object.Spec.ServiceName
	host := regexp.MustCompile(`\b` + regexp.QuoteMeta(set.Object.Name) + `-(?:\d{1,4}|[$%{(]\S{0,40})\.` + regexp.QuoteMeta(service) + `\b`)
	for _, l := range s.Logs {
		if l.Namespace != ns {
			continue
		}
		for line := range strings.Lines(l.Text) {
			line = text.KeepBytes(line, 4*maxQuote)
			if nameAway.MatchString(line) && (host.MatchString(line) || regexp.MustCompile(`\b`+regexp.QuoteMeta(service)+`\.`+regexp.QuoteMeta(ns)+`\b`).MatchString(line)) {
				line = text.CutLine(line, maxQuote)
				return Observation{Text: "the log of Pod " + l.Pod + " misses a name of " + set.Object.Name, Quote: line, Ref: logRef(l)}, true
			}
		}
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Object.Namespace != ns || !s.longUnready(p) {
			continue
		}
		for _, c := range p.Object.Spec.Containers {
			for _, said := range startTexts(c) {
				if m := host.FindString(text.KeepBytes(said, 16*maxQuote)); m != "" {
					return Observation{Text: "Pod " + p.Object.Name + " is told the name " + m + " and is not ready", Quote: m, Ref: p.Ref}, true
				}
			}
		}
	}
	return Observation{}, false
}

// startTexts are the texts that a container is started with.
func startTexts(c corev1.Container) []string {
	texts := append(append([]string{}, c.Command...), c.Args...)
	for _, e := range c.Env {
		texts = append(texts, e.Value)
	}
	return texts
}
