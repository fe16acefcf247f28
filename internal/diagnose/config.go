package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
)

var configurationRules = area{of: []Rule{configMissing, configAbsent}}

var configurationCauses = []Cause{
	{ID: "missing-config-key", Category: "Pod", Meaning: "a ConfigMap or Secret lacks a key that the Pod names", Rank: rankStated},
	{ID: "missing-configmap", Category: "Pod", Meaning: "a ConfigMap that the Pod names does not exist", Rank: rankStated},
	{ID: "missing-secret", Category: "Pod", Meaning: "a Secret that the Pod names does not exist", Rank: rankStated},
}

// configWords tell what is missing from what the kubelet says.
var configWords = []struct {
	cause string
	words *pattern
}{
	{"missing-config-key", newPattern(`couldn't find key|references non-existent (config|secret) key`)},
	{"missing-configmap", newPattern(`(?i)configmaps? "[^"]{1,253}" not found|configmap .{1,253} not registered`)},
	{"missing-secret", newPattern(`(?i)secrets? "[^"]{1,253}" not found|secret .{1,253} not registered`)},
	{"serviceaccount-missing", newPattern(`(?i)serviceaccounts? "[^"]{1,253}" not found|failed to fetch token.{0,200}not found`)},
}

// missingConfig matches any of them.
var missingConfig = newPattern(`couldn't find key|(?i:(configmaps?|secrets?) "[^"]{1,253}" not found)`)

// configMissing finds containers and volumes that lack a ConfigMap, a Secret or a
// key of one, as the kubelet says.
func configMissing(f *Facts) []Finding {
	var out []Finding
	for c := range f.failingContainers() {
		reason, message := c.waitingReason()
		if reason != "CreateContainerConfigError" {
			continue
		}
		if message == "" {
			message = f.startFailure(c)
		}
		if cause := configCause(message); cause != "" {
			said := Observation{Text: fmt.Sprintf("%s waits: %s", c, reason), Quote: message, Ref: c.pod.Ref}
			out = append(out, lackFinding(f, cause, c.pod, said, lackSaid(c.pod, message)))
		}
	}
	for i := range f.Pods {
		p := &f.Pods[i]
		for e := range f.eventsOf("Pod", p.Object.Name) {
			if e.Object.Reason != "FailedMount" && e.Object.Reason != "FailedAttachVolume" || podReady(&p.Object) || !f.isFresh(e) || f.isPast(p) {
				continue
			}
			if cause := configCause(e.Object.Message); cause != "" {
				out = append(out, lackFinding(f, cause, p, sawEvent(e), lackSaid(p, e.Object.Message)))
			}
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

// lackFinding is the finding that a Pod lacks something; what is nil where nobody names it.
func lackFinding(f *Facts, cause string, p *Read[corev1.Pod], said Observation, what *lack) Finding {
	first := Step{
		Action:  "Create what is missing in namespace " + f.Mend().Namespace + ", or correct the name in " + f.Mend().String(),
		Outcome: "the Pod starts by itself", Risk: "a wrong value starts it wrongly configured",
	}
	if what != nil {
		first = what.repairAction(f.Mend().String())
	}
	return Finding{
		Cause: cause, Object: f.Mend(), Confidence: nightcrier.High, Observed: []Observation{said}, Lack: what,
		Summary: fmt.Sprintf("%s cannot start: %s (%s).", f.Mend(), causeOf(cause).Meaning, said.Quote),
		WrongIf: "it was created in the meantime; the kubelet tries again by itself",
		Test: testByDescribe(nightcrier.Resource{Kind: "Pod", Namespace: f.Mend().Namespace, Name: p.Object.Name}).
			decidesBetween("its newest events say the same", "it has started"),
		Actions: []Step{
			first,
			{Action: "Roll back if the name came with the last rollout", Do: doUndo, Outcome: "the version that ran before is back", Risk: "loses what the rollout brought"},
		},
	}
}

// source is a ConfigMap or Secret that a Pod takes something from.
type source struct {
	kind, name, key string // key is "" for all of it
	by              string // "env DB_URL of container app", "volume conf"
	ref             Ref
}

// configAbsent finds what is missing by comparing what a Pod that does not start
// names with what there is, for when nobody tells any more.
func configAbsent(f *Facts) []Finding {
	var out []Finding
	for i := range f.Pods {
		p := &f.Pods[i]
		if f.isPast(p) || !startBlocked(&p.Object) {
			continue
		}
		for _, src := range sourcesOf(p) {
			if cause, what := f.Scene.findMissing(p.Object.Namespace, src); cause != "" {
				out = append(out, f.absenceFinding(p, cause, what, src))
			}
		}
	}
	return out
}

func (f *Facts) configIsAbsent(p *Read[corev1.Pod]) bool {
	return slices.ContainsFunc(sourcesOf(p), func(src source) bool {
		cause, _ := f.Scene.findMissing(p.Object.Namespace, src)
		return cause != ""
	})
}

// startBlocked reports whether a Pod with a node has a container that waits to be
// created.
func startBlocked(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(st corev1.ContainerStatus) bool {
		w := st.State.Waiting
		return w != nil && slices.Contains([]string{"CreateContainerConfigError", "ContainerCreating", "PodInitializing"}, w.Reason)
	})
}

// sourcesOf are the ConfigMaps and Secrets that a Pod cannot start without.
func sourcesOf(p *Read[corev1.Pod]) []source {
	var out []source
	add := func(kind, name, key, by string, optional *bool) {
		if name != "" && (optional == nil || !*optional) {
			out = append(out, source{kind, name, key, by, p.Ref})
		}
	}
	for _, c := range slices.Concat(p.Object.Spec.InitContainers, p.Object.Spec.Containers) {
		in := " of container " + c.Name
		for _, e := range c.Env {
			if e.ValueFrom == nil {
				continue
			}
			if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
				add("ConfigMap", r.Name, r.Key, "env "+e.Name+in, r.Optional)
			}
			if r := e.ValueFrom.SecretKeyRef; r != nil {
				add("Secret", r.Name, r.Key, "env "+e.Name+in, r.Optional)
			}
		}
		for _, e := range c.EnvFrom {
			if r := e.ConfigMapRef; r != nil {
				add("ConfigMap", r.Name, "", "envFrom"+in, r.Optional)
			}
			if r := e.SecretRef; r != nil {
				add("Secret", r.Name, "", "envFrom"+in, r.Optional)
			}
		}
	}
	for _, v := range p.Object.Spec.Volumes {
		addVolume(v, add)
	}
	return out
}

func addVolume(v corev1.Volume, add func(kind, name, key, by string, optional *bool)) {
	by := "volume " + v.Name
	items := func(kind, name string, keys []corev1.KeyToPath, optional *bool) {
		add(kind, name, "", by, optional)
		for _, k := range keys {
			add(kind, name, k.Key, by, optional)
		}
	}
	if v.ConfigMap != nil {
		items("ConfigMap", v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional)
	}
	if v.Secret != nil {
		items("Secret", v.Secret.SecretName, v.Secret.Items, v.Secret.Optional)
	}
	if v.Projected == nil {
		return
	}
	for _, s := range v.Projected.Sources {
		if s.ConfigMap != nil && s.ConfigMap.Name != "kube-root-ca.crt" {
			items("ConfigMap", s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional)
		}
		if s.Secret != nil {
			items("Secret", s.Secret.Name, s.Secret.Items, s.Secret.Optional)
		}
	}
}

// findMissing reports what is missing of src: all of it, if every object of its kind
// was read, or its key.
func (s *Scene) findMissing(ns string, src source) (cause, what string) {
	has, keys := false, map[string]bool{}
	if src.kind == "ConfigMap" {
		if cm := findObject(s.ConfigMaps, ns, src.name); cm != nil {
			has = true
			for _, k := range slices.Concat(sortedKeys(cm.Object.Data), sortedKeys(cm.Object.BinaryData)) {
				keys[k] = true
			}
		}
	} else if secret := findObject(s.Secrets, ns, src.name); secret != nil {
		has = true
		for k := range secret.Object.Data {
			keys[k] = true
		}
		if len(keys) == 0 {
			return "", "" // its keys were not read
		}
	}
	switch {
	case !has && s.Complete(src.kind, ns):
		cause = "missing-configmap"
		if src.kind == "Secret" {
			cause = "missing-secret"
		}
		return cause, fmt.Sprintf("%s %s, which %s names, does not exist", src.kind, src.name, src.by)
	case has && src.key != "" && !keys[src.key]:
		return "missing-config-key", fmt.Sprintf("%s %s has no key %s, which %s names", src.kind, src.name, src.key, src.by)
	}
	return "", ""
}

func (f *Facts) absenceFinding(p *Read[corev1.Pod], cause, what string, src source) Finding {
	n := lackFinding(f, cause, p, Observation{Text: "Pod " + p.Object.Name + " does not start: " + what, Quote: src.name, Ref: src.ref}, lackOf(p, cause, src))
	n.Summary = fmt.Sprintf("%s cannot start: %s.", f.Mend(), what)
	if plainName(src.name) {
		n.Test = testByList(p.Object.Namespace, map[string]string{"ConfigMap": "configmaps", "Secret": "secrets"}[src.kind]).decidesBetween("what is named is not there", "it is there")
		if src.kind == "Secret" { // a Secret's data is not for us to print
			n.Test = testByDescribe(nightcrier.Resource{Kind: "Secret", Namespace: p.Object.Namespace, Name: src.name}).decidesBetween("it does not exist, or lacks the key", "it exists with the key")
		}
	}
	return n
}
