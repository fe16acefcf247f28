package pods

import (
	"cmp"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var creationRules = scene.Area{Name: "creation", Rules: []scene.Rule{podsRefused, quotaFull}, Causes: creationCauses}

var creationCauses = []scene.Cause{
	{ID: "admission-policy-refused", Category: "Cluster", Meaning: "an admission policy of the cluster denies the workload's Pods", Rank: scene.RankStated},
	{ID: "admission-webhook-refused", Category: "Cluster", Meaning: "an admission webhook denies the workload's Pods", Rank: scene.RankStated},
	{ID: "admission-webhook-unavailable", Category: "Cluster", Meaning: "an admission webhook that must be asked about Pods does not answer", Rank: scene.RankStated},
	{ID: "invalid-pod-template", Category: "Pod", Meaning: "the API server finds the Pods of the workload's template invalid", Rank: scene.RankStated},
	{ID: "limit-range-refused", Category: "Cluster", Meaning: "the namespace's limit range does not allow what the workload's Pods ask for", Rank: scene.RankStated},
	{ID: "pod-creation-refused", Category: "Pod", Meaning: "the API server refuses to make the workload's Pods", Rank: scene.RankStated, Symptom: true},
	{ID: "pod-security-refused", Category: "Cluster", Meaning: "the namespace's Pod Security level does not allow the workload's Pods", Rank: scene.RankStated},
	{ID: "priority-class-missing", Category: "Pod", Meaning: "the PriorityClass that the workload's Pods name does not exist", Rank: scene.RankStated},
	{ID: "quota-exceeded", Category: "Cluster", Meaning: "the namespace's quota lets no more of the workload's Pods or Jobs in", Rank: scene.RankStated},
	{ID: "serviceaccount-missing", Category: "Pod", Meaning: "the ServiceAccount that the workload's Pods name does not exist", Rank: scene.RankStated},
}

// refusals tell the cause from what the API server says. What matches furthest to
// the left counts: the words of a webhook or a policy itself come after it.
var refusals = []struct {
	cause string
	words *scene.Pattern
}{
	{"admission-webhook-unavailable", scene.NewPattern(`failed calling webhook "([^"]{1,253})"`)},
	{"admission-webhook-refused", scene.NewPattern(`admission webhook "([^"]{1,253})" (?:denied the request|does not support dry run|attempted to)`)},
	{"admission-policy-refused", scene.NewPattern(`ValidatingAdmissionPolicy '([^']{1,253})'`)},
	{"pod-security-refused", scene.NewPattern(`violates PodSecurity "([^"]{1,100})"|unable to validate against any (?:pod security policy|security context constraint)`)},
	{"quota-exceeded", scene.NewPattern(`(?:exceeded|failed) quota: ([^,:\s]{1,253})`)},
	{"limit-range-refused", scene.NewPattern(`(?:minimum|maximum) \S{1,100} usage per \w+ is|max limit to request ratio per \w+ is`)},
	{"serviceaccount-missing", scene.NewPattern(`error looking up service account ([^:\s]{1,320})`)},
	{"priority-class-missing", scene.NewPattern(`no PriorityClass with name (\S{1,253}) was found`)},
	{"invalid-pod-template", scene.NewPattern(`Pod "[^"]{0,253}" is invalid:`)},
}

// passing is what a controller is told while all is well: it tries again.
var passing = scene.NewPattern(`already exists|the object has been modified|connection refused$|etcdserver: request timed out`)

// parseRefusal finds the cause in what the API server says, and what it names.
func parseRefusal(said string) (cause, named string) {
	cause, first := "pod-creation-refused", len(said)+1
	for _, r := range refusals {
		m := r.words.FindStringSubmatchIndex(said)
		if m == nil || m[0] >= first {
			continue
		}
		cause, named, first = r.cause, "", m[0]
		if len(m) > 2 && m[2] >= 0 {
			named = said[m[2]:m[3]]
		}
	}
	return cause, named
}

// podsRefused finds workloads whose Pods the API server does not let be made.
func podsRefused(f *scene.Facts) []scene.Finding {
	said, ok := saidOfCreation(f)
	if !ok {
		return nil
	}
	cause, named := parseRefusal(said.Quote)
	if cause == "pod-creation-refused" && passing.MatchString(said.Quote) {
		return nil
	}
	n := scene.Finding{
		Cause: cause, Object: f.Mend(), Confidence: nightcrier.High, Observed: []scene.Observation{said},
		Summary: fmt.Sprintf("%s gets no more Pods: %s%s (%s).", f.Mend(), scene.MeaningOf(creationCauses, cause), nameAfterColon(named), text.CutMiddle(said.Quote, scene.MaxQuote)),
		WrongIf: "what refused has been changed since; the controller tries again by itself",
		Test: scene.DescribeTest(f.Mend()).
			DecidesBetween("its conditions or newest events say the same", "the Pods it wants are there"),
		Lack: lackRefused(f, cause, named, said.Quote),
	}
	n.Actions = refusalActions(f, cause, named, n.Lack)
	switch cause {
	case "admission-webhook-unavailable":
		return []scene.Finding{behindWebhook(f, n, named, said.Quote)}
	case "quota-exceeded":
		n.Affected = []nightcrier.Object{{Kind: "ResourceQuota", Namespace: f.Mend().Namespace, Name: named}}
	case "pod-creation-refused":
		n.Confidence = nightcrier.Medium
	}
	return []scene.Finding{n}
}

var runtimeAbsent = scene.NewPattern(`RuntimeClass "([^"]{1,253})" not found`)

// lackRefused is what a refusal says that the Pods of a workload lack, nil for none:
// a policy or a limit that they offend against is nothing that they lack.
func lackRefused(f *scene.Facts, cause, named, said string) *scene.Lack {
	o := nightcrier.Object{Namespace: f.Mend().Namespace, Name: named}
	switch cause {
	case "quota-exceeded":
		o.Kind = "ResourceQuota"
	case "serviceaccount-missing":
		_, name, _ := strings.Cut(named, "/")
		o.Kind, o.Name = "ServiceAccount", cmp.Or(name, named)
	case "priority-class-missing":
		o.Kind, o.Namespace = "PriorityClass", ""
	case "pod-creation-refused":
		if m := runtimeAbsent.FindStringSubmatch(said); m != nil {
			o = nightcrier.Object{Kind: "RuntimeClass", Name: m[1]}
		}
	}
	if o.Kind == "" || o.Name == "" {
		return nil
	}
	return &scene.Lack{Object: o}
}

// nameAfterColon adds a name to a sentence.
func nameAfterColon(name string) string {
	if name == "" {
		return ""
	}
	return ": " + text.CutMiddle(name, scene.MaxQuote)
}

// saidOfCreation is why Pods cannot be made: a Deployment's condition, which
// tells of now, or a controller's newest Event while it still lacks Pods.
func saidOfCreation(f *scene.Facts) (scene.Observation, bool) {
	if f.Deployment != nil {
		for _, c := range f.Deployment.Object.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				text := fmt.Sprintf("Deployment %s has %s=%s, reason %s", f.Deployment.Object.Name, c.Type, c.Status, c.Reason)
				return scene.Observation{Text: text, Quote: c.Message, Ref: f.Deployment.Ref}, true
			}
		}
	}
	if r, known := f.CountReplicas(); known && r.Made >= r.Want || jobHasPods(f) {
		return scene.Observation{}, false
	}
	for _, e := range f.Events {
		current := f.Deployment == nil || f.Hearsay
		if e.Object.Reason == "FailedCreate" && current && f.IsFresh(e) {
			return scene.ObserveEvent(e), true
		}
	}
	return scene.Observation{}, false
}

// jobHasPods reports whether the Job that the Facts are about has got its Pods.
func jobHasPods(f *scene.Facts) bool {
	return f.Job != nil && !f.Hearsay && (f.Job.Object.Status.Active > 0 || f.Job.Object.Status.Succeeded > 0)
}

// findWebhook finds an admission webhook by its name.
func findWebhook(s *scene.Scene, name string) (scene.Webhook, bool) {
	for w := range s.AllWebhooks() {
		if w.Name == name {
			return w, true
		}
	}
	return scene.Webhook{}, false
}

// webhookURL is the Service in the address that the API server tried.
var webhookURL = scene.NewPattern(`https://([a-z0-9-]{1,63})\.([a-z0-9-]{1,63})\.svc\b`)

// behindWebhook points a refusal at the webhook that did not answer, and at the
// Service and workload behind it.
func behindWebhook(f *scene.Facts, n scene.Finding, name, said string) scene.Finding {
	n.Affected = []nightcrier.Object{f.Mend()}
	w, known := findWebhook(f.Scene, name)
	if known {
		n.Object = w.Object
		n.Observed = append(n.Observed, scene.Observation{Text: fmt.Sprintf("%s has the webhook %s", w.Object, text.CutMiddle(name, scene.MaxQuote)), Quote: name, Ref: w.Ref})
		n.Test = scene.GetTest("", strings.ToLower(w.Object.Kind), w.Object.Name).
			DecidesBetween("it still has the webhook with failurePolicy Fail, and what serves it is away", "the webhook is gone, or what serves it is ready")
	}
	ns, svc := "", ""
	if known && w.Service != nil {
		ns, svc = w.Service.Namespace, w.Service.Name
	} else if m := webhookURL.FindStringSubmatch(said); m != nil {
		svc, ns = m[1], m[2]
	}
	if svc != "" {
		n.DependsOn = append([]nightcrier.Object{{Kind: "Service", Namespace: ns, Name: svc}}, f.Scene.WorkloadsBehind(ns, svc)...)
	}
	return n
}

// quotaFull finds workloads that lack Pods where the namespace's quota certainly
// has no room for one more, as in a dump without Events.
func quotaFull(f *scene.Facts) []scene.Finding {
	r, known := f.CountReplicas()
	maker, read := f.Scene.PodMakerOf(f.Mend())
	if f.Hearsay || !known || !read || r.Made >= r.Want || f.Now.Sub(maker.Since) < scene.TakeUpTime {
		return nil
	}
	one := scene.PodRequests(&corev1.Pod{Spec: *maker.Spec})
	for i := range f.Scene.Quotas {
		q := &f.Scene.Quotas[i]
		if q.Object.Namespace != f.Mend().Namespace || len(q.Object.Spec.Scopes) > 0 || q.Object.Spec.ScopeSelector != nil {
			continue
		}
		if name, used, hard, full := noRoom(&q.Object, one); full {
			return []scene.Finding{fullQuota(f, r, q, name, used, hard)}
		}
	}
	return nil
}

// noRoom is the first resource of a quota that one more Pod would not fit in.
func noRoom(q *corev1.ResourceQuota, one corev1.ResourceList) (name corev1.ResourceName, used, hard resource.Quantity, full bool) {
	for _, name := range scene.SortResourceNames(q.Status.Hard) {
		hard, used := q.Status.Hard[name], q.Status.Used[name]
		more, counted := one[corev1.ResourceName(strings.TrimPrefix(string(name), "requests."))]
		if name == corev1.ResourcePods || name == "count/pods" {
			more, counted = resource.MustParse("1"), true
		}
		if strings.HasPrefix(string(name), "limits.") || !counted {
			continue
		}
		sum := used.DeepCopy()
		sum.Add(more)
		if sum.Cmp(hard) > 0 {
			return name, used, hard, true
		}
	}
	return "", used, hard, false
}

func fullQuota(f *scene.Facts, r scene.ReplicaCount, q *scene.Read[corev1.ResourceQuota], name corev1.ResourceName, used, hard resource.Quantity) scene.Finding {
	o := nightcrier.Object{Kind: "ResourceQuota", Namespace: q.Object.Namespace, Name: q.Object.Name}
	return scene.Finding{
		Cause: "quota-exceeded", Object: f.Mend(), Confidence: nightcrier.High, Affected: []nightcrier.Object{o}, Lack: &scene.Lack{Object: o},
		Summary: fmt.Sprintf("%s has %d of %d Pods: %s leaves no room for another (%s: %s of %s used).",
			f.Mend(), r.Made, r.Want, o, name, used.String(), hard.String()),
		Observed: []scene.Observation{
			{Text: fmt.Sprintf("%s has used %s of %s of %s", o, used.String(), hard.String(), name), Quote: string(name), Ref: q.Ref},
			{Text: fmt.Sprintf("%s wants %d Pods and has %d", f.Mend(), r.Want, r.Made), Quote: fmt.Sprintf("replicas=%d", r.Want), Ref: r.Ref},
		},
		WrongIf: "something else keeps its controller from making Pods",
		Test:    scene.GetTest(q.Object.Namespace, "resourcequota", q.Object.Name).DecidesBetween("used plus one Pod is more than hard", "there is room for another Pod"),
		Actions: refusalActions(f, "quota-exceeded", q.Object.Name, &scene.Lack{Object: o}),
	}
}

// refusalActions are what helps against one kind of refusal; what is nil where the
// Pods lack nothing.
func refusalActions(f *scene.Facts, cause, named string, what *scene.Lack) []scene.Step {
	mend, ns := f.Mend().String(), f.Mend().Namespace
	named = text.CutMiddle(named, scene.MaxQuote)
	first := scene.Step{
		Action:  "Change what refuses the Pods, or what " + mend + " asks for",
		Outcome: "the controller makes the Pods by itself", Risk: "a weaker policy lets other Pods through too",
	}
	switch cause {
	case "limit-range-refused":
		first.Action = "Bring the requests and limits of " + mend + " into what the limit range of namespace " + ns + " allows"
		first.Risk, first.Do = "too little starves it under load", scene.DoEdit
	case "pod-security-refused":
		first.Action = "Give the containers of " + mend + " the security context that the level asks for"
		first.Risk, first.Do = "the process may need what it no longer may do", scene.DoEdit
	case "admission-webhook-unavailable":
		first.Action = "Bring back what serves the webhook " + named
		first.Risk = "none for the Pods"
	}
	if what != nil {
		first = what.RepairAction(mend)
	}
	look := scene.Step{Action: "Look at the quotas, limit ranges and policies of namespace " + ns, Outcome: "names what could give way", Risk: "none: read only"}
	return []scene.Step{first, look}
}
