package workloads

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var siblingRules = scene.Area{Name: "sibling", Rules: []scene.Rule{sidecarLacks}, Causes: siblingCauses}

var siblingCauses = []scene.Cause{
	{ID: "sidecar-missing", Category: "Pod", Meaning: "a Pod lacks a container that every other Pod of the same template was given", Rank: scene.RankStated},
}

// refusesCaller matches what a server, or the proxy before it, says that refuses a caller for
// what it is.
var refusesCaller = scene.NewPattern(`(?i)(?:\b|_)(?:403|401)\b|rbac.{0,30}denied|access denied|permission ?denied|no client certificate|handshake (?:failed|error)|plaintext`)

// sidecarLacks finds Pods of a workload that lack a container which all others of the same
// controller have. The template is the same for all of them: what differs was added, or not,
// when they were admitted.
func sidecarLacks(f *scene.Facts) []scene.Finding {
	if f.Hearsay || f.IsOfJob() {
		return nil
	}
	sets := map[nightcrier.Resource][]*scene.Read[corev1.Pod]{}
	for p := range f.AllPods() {
		if up := scene.ControllerOf(&p.Object); !up.IsZero() && p.Object.DeletionTimestamp == nil && !scene.IsFinished(&p.Object) {
			sets[up] = append(sets[up], p)
		}
	}
	for _, pods := range sets {
		if p, other, lacks := oddOne(pods); p != nil {
			return []scene.Finding{sidecarFinding(f, p, other, lacks, len(pods)-1)}
		}
	}
	return nil
}

// oddOne is the only Pod that lacks containers which all others have, one of these, and the
// names of the containers. Of two nobody knows which is the odd one.
func oddOne(pods []*scene.Read[corev1.Pod]) (odd, other *scene.Read[corev1.Pod], lacks []string) {
	if len(pods) < 3 {
		return nil, nil, nil
	}
	in := map[string]int{}
	for _, p := range pods {
		for _, name := range containerNames(&p.Object) {
			in[name]++
		}
	}
	for _, p := range pods {
		own := containerNames(&p.Object)
		var missing []string
		for name, n := range in {
			if n == len(pods)-1 && !slices.Contains(own, name) {
				missing = append(missing, name)
			}
		}
		if len(missing) == 0 {
			continue
		}
		slices.Sort(missing)
		i := slices.IndexFunc(pods, func(o *scene.Read[corev1.Pod]) bool { return o != p })
		return p, pods[i], missing
	}
	return nil, nil, nil
}

// containerNames are those of a Pod, with the init containers that run on beside it.
func containerNames(p *corev1.Pod) (names []string) {
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		names = append(names, c.Name)
	}
	return names
}

func sidecarFinding(f *scene.Facts, p, other *scene.Read[corev1.Pod], lacks []string, others int) scene.Finding {
	names := text.CutMiddle(strings.Join(lacks, ", "), scene.MaxQuote)
	pod := nightcrier.Object{Kind: "Pod", Namespace: p.Object.Namespace, Name: p.Object.Name}
	n := scene.Finding{
		Cause: "sidecar-missing", Object: f.Mend(), Confidence: nightcrier.Medium,
		Summary: fmt.Sprintf("Pod %s of %s lacks container %s, which its %d siblings of the same template have: it was not added when the Pod was made.", p.Object.Name, f.Mend(), names, others),
		Observed: []scene.Observation{
			{Text: fmt.Sprintf("Pod %s, made %s, has only the containers %s", p.Object.Name, p.Object.CreationTimestamp.UTC().Format("2006-01-02 15:04 UTC"), strings.Join(containerNames(&p.Object), ", ")), Quote: p.Object.Name, Ref: p.Ref},
			{Text: fmt.Sprintf("Pod %s has container %s", other.Object.Name, names), Quote: lacks[0], Ref: other.Ref},
		},
		WrongIf: "somebody added the container to the others by hand",
		Test:    scene.GetTest(pod.Namespace, "pod", pod.Name).DecidesBetween("it has no container "+names, "it has one"),
		Actions: []scene.Step{
			{Action: fmt.Sprintf("Delete Pod %s, so that its successor is made with container %s", p.Object.Name, names), On: pod, Outcome: "the new Pod is as its siblings are", Risk: "one Pod less serves until the new one is ready"},
			{Action: "See whether the webhook that adds " + names + " was away when the Pod was made, and whether its failurePolicy lets Pods pass then", Outcome: "tells whether it will happen again", Risk: "none: read only"},
		},
	}
	if label, differs := optedOut(&p.Object, &other.Object); differs {
		n.Summary += " It carries " + label + "."
	}
	for _, said := range refusals(f) {
		n.Confidence = nightcrier.High
		n.Observed = append(n.Observed, said.seen)
		n.Affected = append(n.Affected, said.by)
		n.Summary += fmt.Sprintf(" %s says: %s", said.by, said.seen.Quote)
	}
	return n
}

// optedOut is the label or annotation about injection that only one of two Pods has.
func optedOut(p, other *corev1.Pod) (string, bool) {
	for _, m := range []struct{ own, others map[string]string }{{p.Labels, other.Labels}, {p.Annotations, other.Annotations}} {
		for key, v := range m.own {
			if m.others[key] != v && strings.Contains(key, "inject") {
				return text.CutMiddle(key+"="+v, scene.MaxQuote), true
			}
		}
	}
	return "", false
}

// refusal is a log that refuses somebody.
type refusal struct {
	by   nightcrier.Object
	seen scene.Observation
}

// refusals are what those that a workload calls say of callers that they refuse, once for each.
func refusals(f *scene.Facts) (out []refusal) {
	s := f.Scene
	for i := range s.Services {
		svc := &s.Services[i].Object
		if !slices.ContainsFunc(scene.ClientsOf(svc, s.AllClients()), func(c scene.Client) bool { return c.Object == f.Mend() }) {
			continue
		}
		for _, l := range s.Logs {
			p := scene.FindObject(s.Pods, l.Namespace, l.Pod)
			if p == nil || !slices.Contains(s.WorkloadsBehind(svc.Namespace, svc.Name), s.WorkloadAbove("Pod", &p.Object)) {
				continue
			}
			for line := range strings.Lines(l.Text) {
				by := s.WorkloadAbove("Pod", &p.Object)
				if line = text.KeepBytes(strings.TrimSpace(line), 4*scene.MaxQuote); refusesCaller.MatchString(line) && !slices.ContainsFunc(out, func(r refusal) bool { return r.by == by }) {
					out = append(out, refusal{by, scene.Observation{Text: "the log of Pod " + l.Pod + " refuses a caller", Quote: text.CutMiddle(line, scene.MaxQuote), Ref: scene.Ref{Evidence: l.Evidence, Source: l.Source}}})
				}
			}
		}
	}
	return out
}
