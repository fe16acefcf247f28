package workloads

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var daemonRules = scene.Area{Name: "daemon", Rules: []scene.Rule{daemonCoverage}, Causes: daemonCauses}

var daemonCauses = []scene.Cause{
	{ID: "daemonset-misscheduled", Category: "Pod", Meaning: "a DaemonSet runs on nodes where it should not", Rank: scene.RankFollows, Symptom: true},
	{ID: "daemonset-not-covering", Category: "Pod", Meaning: "a DaemonSet does not run on nodes where it is expected", Rank: scene.RankFollows + 2, Symptom: true},
}

// daemonCoverage finds that the DaemonSet that somebody asks about leaves nodes
// out, or runs where it should not. Of many that were looked at, one that is meant
// for other nodes is no fault.
func daemonCoverage(f *scene.Facts) []scene.Finding {
	set := scene.FindObject(f.Scene.DaemonSets, f.Owner.Namespace, f.Owner.Name)
	if f.Owner.Kind != "DaemonSet" || set == nil || !f.IsAskedAbout(f.Mend()) || !scene.HasWaited(&set.Object, f.Now, scene.TakeUpTime) {
		return nil
	}
	var out []scene.Finding
	if set.Object.Status.NumberMisscheduled > 0 {
		out = append(out, misscheduledFinding(f, set))
	}
	if left := leftOut(f, set); len(left) > 0 {
		out = append(out, notCovering(f, set, left))
	} else if st := set.Object.Status; st.CurrentNumberScheduled < st.DesiredNumberScheduled {
		out = append(out, notCovering(f, set, nil))
	}
	return out
}

// out is a node that a DaemonSet leaves out, and why.
type out struct{ node, why string }

// leftOut lists the nodes that a DaemonSet leaves out though they are ready: for
// taints, or because its selector matches no node at all. The control plane is
// left out as a rule.
func leftOut(f *scene.Facts, set *scene.Read[appsv1.DaemonSet]) []out {
	if !f.Scene.Complete("Node", "") {
		return nil
	}
	p := &corev1.Pod{Spec: set.Object.Spec.Template.Spec}
	var tainted, others []out
	chosen := 0
	for _, n := range f.Scene.Nodes {
		ready := scene.FindNodeCondition(&n.Object, corev1.NodeReady)
		if ready == nil || ready.Status != corev1.ConditionTrue {
			continue
		}
		if !scene.SelectsNode(p, &n.Object) {
			others = append(others, out{n.Object.Name, "does not match its node selector"})
			continue
		}
		chosen++
		if t := scene.UntoleratedTaint(p, &n.Object); t != nil && !scene.ControlPlaneTaint.MatchString(t.Key) {
			tainted = append(tainted, out{n.Object.Name, "has the taint " + text.CutMiddle(t.ToString(), scene.MaxQuote)})
		}
	}
	if chosen == 0 {
		return others
	}
	return tainted
}

func notCovering(f *scene.Facts, set *scene.Read[appsv1.DaemonSet], left []out) scene.Finding {
	st := set.Object.Status
	n := scene.Finding{
		Cause: "daemonset-not-covering", Object: f.Mend(), Confidence: nightcrier.Medium,
		Summary: fmt.Sprintf("%s runs on %d nodes and should on %d, and its controller makes no more Pods.", f.Mend(), st.CurrentNumberScheduled, st.DesiredNumberScheduled),
		Observed: []scene.Observation{{
			Text:  fmt.Sprintf("%s has currentNumberScheduled %d, desiredNumberScheduled %d", f.Mend(), st.CurrentNumberScheduled, st.DesiredNumberScheduled),
			Quote: fmt.Sprintf("desiredNumberScheduled=%d", st.DesiredNumberScheduled), Ref: set.Ref,
		}},
		WrongIf: "it is meant for other nodes only",
		Test:    scene.GetTest(set.Object.Namespace, "daemonset", set.Object.Name).DecidesBetween("desiredNumberScheduled is less than the nodes it is meant for", "it is as many"),
		Actions: []scene.Step{
			{Action: "Give " + f.Mend().String() + " the tolerations and the node selector of the nodes it is meant for", Do: scene.DoEdit, Outcome: "it runs there too", Risk: "it uses resources on those nodes"},
			{Action: "Check labels and taints of the nodes against what was intended", Outcome: "tells a wrong DaemonSet from a wrong node", Risk: "none: read only"},
		},
	}
	if len(left) > 0 {
		n.Summary = fmt.Sprintf("%s runs on %d nodes and leaves out %s: node %s %s.", f.Mend(), st.DesiredNumberScheduled, text.CountNoun(len(left), "ready node"), left[0].node, left[0].why)
		if node := scene.FindObject(f.Scene.Nodes, "", left[0].node); node != nil {
			n.Observed = append(n.Observed, scene.Observation{Text: "Node " + left[0].node + " " + left[0].why, Quote: left[0].node, Ref: node.Ref})
		}
	}
	return n
}

func misscheduledFinding(f *scene.Facts, set *scene.Read[appsv1.DaemonSet]) scene.Finding {
	n := set.Object.Status.NumberMisscheduled
	return scene.Finding{
		Cause: "daemonset-misscheduled", Object: f.Mend(), Confidence: nightcrier.Medium,
		Summary: fmt.Sprintf("%s runs on %s where its node selector or the taints no longer want it.", f.Mend(), text.CountNoun(int(n), "node")),
		Observed: []scene.Observation{{
			Text: fmt.Sprintf("%s has numberMisscheduled %d at %s", f.Mend(), n, f.Now.UTC().Format(time.RFC3339)), Quote: fmt.Sprintf("numberMisscheduled=%d", n), Ref: set.Ref,
		}},
		WrongIf: "its Pods there are about to end",
		Test:    scene.GetTest(set.Object.Namespace, "daemonset", set.Object.Name).DecidesBetween("numberMisscheduled is more than 0", "it is 0"),
		Actions: []scene.Step{
			{Action: "Check which labels or taints of the nodes have changed", Outcome: "tells a wrong node from a wrong DaemonSet", Risk: "none: read only"},
			{Action: "Delete the Pods of " + f.Mend().String() + " on those nodes if they shall not run there", Outcome: "they are not made again there", Risk: "whatever relies on them there loses it"},
		},
	}
}

var rolloutRules = scene.Area{Name: "rollout", Rules: []scene.Rule{rolloutStalled, rolloutPaused}, Causes: rolloutCauses}

var rolloutCauses = []scene.Cause{
	{ID: "rollout-paused", Category: "Pod", Meaning: "a rollout is paused, so that a change of the workload is not rolled out", Rank: scene.RankFollows + 1},
	{ID: "rollout-stalled", Category: "Pod", Meaning: "a rollout does not progress and its Pods do not say why", Rank: scene.RankFollows, Symptom: true},
}

// rolloutStalled finds Deployments whose rollout does not progress. Why usually
// stands with its Pods, so this ranks below every other cause.
func rolloutStalled(f *scene.Facts) []scene.Finding {
	if f.Deployment == nil {
		return nil
	}
	d := &f.Deployment.Object
	if rolledOut(d) && !f.Hearsay {
		return nil
	}
	for _, c := range d.Status.Conditions {
		if c.Type != appsv1.DeploymentProgressing || c.Status != corev1.ConditionFalse {
			continue
		}
		return []scene.Finding{{
			Cause: "rollout-stalled", Object: f.Mend(), Confidence: nightcrier.Medium,
			Summary:  fmt.Sprintf("The rollout of %s does not progress (%s).", f.Mend(), c.Reason),
			Observed: []scene.Observation{{Text: fmt.Sprintf("Deployment %s has %s=%s, reason %s", d.Name, c.Type, c.Status, c.Reason), Quote: c.Message, Ref: f.Deployment.Ref}},
			WrongIf:  "its Pods only need longer than progressDeadlineSeconds allows",
			Test: scene.GetTest(d.Namespace, "deployment", d.Name).
				DecidesBetween("the condition still stands", "Progressing is True"),
			Actions: []scene.Step{
				{Action: "Look at the newest Pods of " + f.Mend().String() + " and why they are not ready", Outcome: "names the cause", Risk: "none: read only"},
				{Action: "Roll back", Do: scene.DoUndo, Outcome: "the version that ran before is back", Risk: "loses what the rollout brought"},
			},
		}}
	}
	return nil
}

// rolledOut reports whether all of a Deployment's Pods are of its newest version
// and available.
func rolledOut(d *appsv1.Deployment) bool {
	want := scene.ReplicasOrOne(d.Spec.Replicas)
	return want > 0 && d.Status.UpdatedReplicas >= want && d.Status.AvailableReplicas >= want && d.Status.Replicas == d.Status.UpdatedReplicas
}

// rolloutPaused finds Deployments that were changed while they are paused: what was
// changed waits.
func rolloutPaused(f *scene.Facts) []scene.Finding {
	if f.Deployment == nil || f.Hearsay {
		return nil
	}
	d := &f.Deployment.Object
	want := scene.ReplicasOrOne(d.Spec.Replicas)
	if !d.Spec.Paused || want == 0 || d.Status.UpdatedReplicas >= want || !scene.HasWaited(d, f.Now, scene.TakeUpTime) {
		return nil
	}
	return []scene.Finding{{
		Cause: "rollout-paused", Object: f.Mend(), Confidence: nightcrier.High,
		Summary: fmt.Sprintf("The rollout of %s is paused: %d of %d Pods are of the newest version, and no more will be until it is resumed.", f.Mend(), d.Status.UpdatedReplicas, want),
		Observed: []scene.Observation{{
			Text:  fmt.Sprintf("Deployment %s has spec.paused true, updatedReplicas %d of %d", d.Name, d.Status.UpdatedReplicas, want),
			Quote: "paused=true", Ref: f.Deployment.Ref,
		}},
		WrongIf: "it is paused on purpose, to watch the new version first",
		Test:    scene.GetTest(d.Namespace, "deployment", d.Name).DecidesBetween("spec.paused is true and updatedReplicas is less than replicas", "it is not paused, or all Pods are updated"),
		Actions: []scene.Step{
			{Action: "Resume the rollout of " + f.Mend().String() + " if nothing speaks against it", Do: scene.DoResume, Outcome: "the change is rolled out", Risk: "whatever it was paused for happens now"},
			{Action: "Look at what changed since the version that runs", Outcome: "shows what a resume would bring", Risk: "none: read only"},
		},
	}}
}

var scaleRules = scene.Area{Name: "scale", Rules: []scene.Rule{zeroAsked}, SceneRules: []scene.SceneRule{zeroBehindService}, Causes: scaleCauses}

var scaleCauses = []scene.Cause{
	{ID: "scaled-to-zero", Category: "Pod", Meaning: "a workload that is needed is scaled to zero", Rank: scene.RankStated},
}

// restsAtZero are what marks workloads that are scaled to zero when nothing needs
// them, and up again by whoever made the mark.
var restsAtZero = []string{"scaledobject.keda.sh/name", "serving.knative.dev/service", "sablier.enable"}

// mayRestAtZero reports whether a workload is meant to rest at zero.
func mayRestAtZero(s *scene.Scene, m scene.PodMaker) bool {
	for _, label := range restsAtZero {
		if m.Labels[label] != "" {
			return true
		}
	}
	for _, h := range s.Autoscalers { // KEDA's own
		t := h.Object.Spec.ScaleTargetRef
		if h.Object.Namespace == m.Object.Namespace && t.Kind == m.Object.Kind && t.Name == m.Object.Name && strings.HasPrefix(h.Object.Name, "keda-hpa-") {
			return true
		}
	}
	return false
}

// zeroAsked finds that the very workload that somebody asks about has no Pods
// because it shall have none.
func zeroAsked(f *scene.Facts) []scene.Finding {
	o := f.Mend()
	if f.Hearsay || !f.IsAskedAbout(o) || o.Kind != "Deployment" && o.Kind != "StatefulSet" {
		return nil
	}
	r, known := f.CountReplicas()
	if !known || r.Want != 0 {
		return nil
	}
	if m, read := f.Scene.PodMakerOf(o); read && mayRestAtZero(f.Scene, m) {
		return nil
	}
	return []scene.Finding{scaledToZero(o, r.Ref, nil)}
}

// zeroBehindService finds workloads scaled to zero that a Service needs, because
// nothing else stands behind it.
func zeroBehindService(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Services {
		svc := &s.Services[i]
		if !scene.HasSelector(&svc.Object) || len(s.PodsBehind(&svc.Object)) > 0 || !s.Complete("Pod", svc.Object.Namespace) {
			continue
		}
		var resting []scene.PodMaker
		others := false
		for m := range s.WorkloadsIn(svc.Object.Namespace) {
			switch {
			case !scene.MatchesPlainSelector(svc.Object.Spec.Selector, m.Labels):
			case m.Wants == 0 && !mayRestAtZero(s, m):
				resting = append(resting, m)
			default:
				others = true
			}
		}
		if others {
			continue
		}
		for _, m := range resting {
			out = append(out, scaledToZero(m.Object, m.Ref, svc))
		}
	}
	return out
}

func scaledToZero(o nightcrier.Object, ref scene.Ref, svc *scene.Read[corev1.Service]) scene.Finding {
	n := scene.Finding{
		Cause: "scaled-to-zero", Object: o, Confidence: nightcrier.High,
		Summary:  fmt.Sprintf("%s has no Pods because it is scaled to zero (spec.replicas is 0).", o),
		Observed: []scene.Observation{{Text: o.String() + " wants 0 Pods", Quote: "replicas=0", Ref: ref}},
		WrongIf:  "it is meant to rest and nobody needs it now",
		Test:     scene.GetTest(o.Namespace, strings.ToLower(o.Kind), o.Name).DecidesBetween("spec.replicas is 0", "spec.replicas is more than 0"),
		Actions: []scene.Step{
			{Action: "Scale " + o.String() + " up again", Do: scene.DoScale, Outcome: "its Pods are made", Risk: "whoever scaled it down had a reason: ask first"},
			{Action: "Find out who scaled it to zero: a person, an autoscaler, a release", Outcome: "it does not happen again", Risk: "none: read only"},
		},
	}
	if svc != nil {
		behind := scene.ServiceObject(&svc.Object)
		n.Affected = []nightcrier.Object{behind}
		n.Summary = fmt.Sprintf("%s is scaled to zero (spec.replicas is 0), and nothing else stands behind %s.", o, behind)
		n.Observed = append(n.Observed, scene.Observation{Text: behind.String() + " selects the Pods of " + o.String(), Quote: svc.Object.Name, Ref: svc.Ref})
	}
	return n
}

var statefulRules = scene.Area{Name: "stateful", SceneRules: []scene.SceneRule{waitsForPredecessor, governingServiceMissing}, Causes: statefulCauses}

var statefulCauses = []scene.Cause{
	{ID: "statefulset-service-missing", Category: "Service", Meaning: "the Service that gives a StatefulSet's Pods their names does not exist", Rank: scene.RankShown + 8},
	{ID: "statefulset-waits-for-predecessor", Category: "Pod", Meaning: "a StatefulSet makes no further Pod before an earlier one is ready", Rank: scene.RankFollows, Symptom: true},
}

// waitsForPredecessor finds StatefulSets that make their Pods one after the other
// and are held up by one that is not ready. Why it is not stands with that Pod.
func waitsForPredecessor(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.StatefulSets {
		set := &s.StatefulSets[i]
		want := int(scene.ReplicasOrOne(set.Object.Spec.Replicas))
		if set.Object.Spec.PodManagementPolicy == appsv1.ParallelPodManagement || int(set.Object.Status.Replicas) >= want {
			continue
		}
		p := holdsUp(s, set)
		if p == nil {
			continue
		}
		o := nightcrier.Object{Kind: "StatefulSet", Namespace: set.Object.Namespace, Name: set.Object.Name}
		out = append(out, scene.Finding{
			Cause: "statefulset-waits-for-predecessor", Object: o, Confidence: nightcrier.Medium,
			Summary: fmt.Sprintf("%s has %d of %d Pods: Pod %s is not ready, and the ones after it are only made when it is.", o, set.Object.Status.Replicas, want, p.Object.Name),
			Observed: []scene.Observation{scene.PodState(*p),
				{Text: fmt.Sprintf("%s wants %d Pods and has %d", o, want, set.Object.Status.Replicas), Quote: fmt.Sprintf("replicas=%d", want), Ref: set.Ref}},
			WrongIf: "the Pod only needs longer to become ready",
			Test:    scene.GetTest(p.Object.Namespace, "pod", p.Object.Name).DecidesBetween("its condition Ready is not True", "it is True"),
			Actions: []scene.Step{
				{Action: "Find out why Pod " + p.Object.Name + " is not ready", Outcome: "names the cause", Risk: "none: read only"},
				{Action: "Set podManagementPolicy to Parallel if the Pods need no order; the StatefulSet must be made again for that", Outcome: "one Pod does not hold up the others", Risk: "Pods may start before the ones they rely on"},
			},
		})
	}
	return out
}

// holdsUp is the first Pod of a StatefulSet that is not ready, when it has had the
// time to be and none comes after it.
func holdsUp(s *scene.Scene, set *scene.Read[appsv1.StatefulSet]) *scene.Read[corev1.Pod] {
	first := 0
	if o := set.Object.Spec.Ordinals; o != nil {
		first = int(o.Start)
	}
	for n := range int(min(scene.ReplicasOrOne(set.Object.Spec.Replicas), 1000)) {
		p := scene.FindObject(s.Pods, set.Object.Namespace, set.Object.Name+"-"+strconv.Itoa(first+n))
		switch {
		case p == nil:
			return nil
		case scene.IsPodReady(&p.Object):
			continue
		case s.IsLongUnready(p):
			return p
		}
		return nil
	}
	return nil
}

// nameAway is what programs in all languages say of a name that has no address.
var nameAway = scene.NewPattern(`(?i)no such host|name or service not known|could not resolve|couldn't resolve|getaddrinfo|ENOTFOUND|NXDOMAIN|name resolution|unknown ?host|nodename nor servname|server misbehaving|name does not resolve`)

// governingServiceMissing finds StatefulSets whose Service does not exist while
// somebody fails to find their Pods by name. Without that nobody misses it.
func governingServiceMissing(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.StatefulSets {
		set := &s.StatefulSets[i]
		ns, name := set.Object.Namespace, set.Object.Spec.ServiceName
		if name == "" || !s.Complete("Service", ns) || scene.FindObject(s.Services, ns, name) != nil {
			continue
		}
		seen, ok := missesName(s, set)
		if !ok {
			continue
		}
		o := nightcrier.Object{Kind: "StatefulSet", Namespace: ns, Name: set.Object.Name}
		out = append(out, scene.Finding{
			Cause: "statefulset-service-missing", Object: o, Confidence: nightcrier.High,
			Summary: fmt.Sprintf("%s names the Service %s, which does not exist: its Pods have no names in DNS such as %s-0.%s.", o, text.CutMiddle(name, scene.MaxQuote), o.Name, text.CutLine(name, scene.MaxQuote)),
			Observed: []scene.Observation{seen,
				{Text: o.String() + " has serviceName " + text.CutMiddle(name, scene.MaxQuote) + ", and namespace " + ns + " has no such Service", Quote: "serviceName=" + name, Ref: set.Ref}},
			WrongIf: "the Service was made since",
			Test:    scene.ListTest(ns, "service").DecidesBetween("no Service is called "+text.CutMiddle(name, scene.MaxQuote), "there is one"),
			Actions: []scene.Step{
				{Action: "Make a headless Service called " + text.CutMiddle(name, scene.MaxQuote) + " that selects the Pods of " + o.String(), Outcome: "the Pods find each other by name", Risk: "none for what runs"},
			},
		})
	}
	return out
}

// missesName is what shows that the names of a StatefulSet's Pods are missed: a log
// line that fails to resolve one, or a Pod that is told one and is not ready.
func missesName(s *scene.Scene, set *scene.Read[appsv1.StatefulSet]) (scene.Observation, bool) {
	ns, service := set.Object.Namespace, set.Object.Spec.ServiceName
	host := regexp.MustCompile(`\b` + regexp.QuoteMeta(set.Object.Name) + `-(?:\d{1,4}|[$%{(]\S{0,40})\.` + regexp.QuoteMeta(service) + `\b`)
	for _, l := range s.Logs {
		if l.Namespace != ns {
			continue
		}
		for line := range strings.Lines(l.Text) {
			line = text.KeepBytes(line, 4*scene.MaxQuote)
			if nameAway.MatchString(line) && (host.MatchString(line) || regexp.MustCompile(`\b`+regexp.QuoteMeta(service)+`\.`+regexp.QuoteMeta(ns)+`\b`).MatchString(line)) {
				line = text.CutMiddle(line, scene.MaxQuote)
				return scene.Observation{Text: "the log of Pod " + l.Pod + " misses a name of " + set.Object.Name, Quote: line, Ref: l.Ref()}, true
			}
		}
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Object.Namespace != ns || !s.IsLongUnready(p) {
			continue
		}
		for _, c := range p.Object.Spec.Containers {
			for _, said := range startTexts(c) {
				if m := host.FindString(text.KeepBytes(said, 16*scene.MaxQuote)); m != "" {
					return scene.Observation{Text: "Pod " + p.Object.Name + " is told the name " + m + " and is not ready", Quote: m, Ref: p.Ref}, true
				}
			}
		}
	}
	return scene.Observation{}, false
}

// startTexts are the texts that a container is started with.
func startTexts(c corev1.Container) []string {
	texts := append(append([]string{}, c.Command...), c.Args...)
	for _, e := range c.Env {
		texts = append(texts, e.Value)
	}
	return texts
}
