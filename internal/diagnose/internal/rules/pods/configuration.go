package pods

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var configurationRules = scene.Area{Name: "configuration", Rules: []scene.Rule{configMissing, configAbsent, optionalKeyAbsent}, Causes: configurationCauses}

var configurationCauses = []scene.Cause{
	{ID: "missing-config-key", Category: "Pod", Meaning: "a ConfigMap or Secret lacks a key that the Pod names", Rank: scene.RankStated},
	{ID: "missing-configmap", Category: "Pod", Meaning: "a ConfigMap that the Pod names does not exist", Rank: scene.RankStated},
	{ID: "missing-secret", Category: "Pod", Meaning: "a Secret that the Pod names does not exist", Rank: scene.RankStated},
}

// lackCauses are the causes of what a Pod names and does not get.
var lackCauses = map[string]string{
	"key": "missing-config-key", "ConfigMap": "missing-configmap", "Secret": "missing-secret", "ServiceAccount": "serviceaccount-missing",
}

// configMissing finds containers and volumes that lack a ConfigMap, a Secret or a
// key of one, as the kubelet says.
func configMissing(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for c := range f.FailingContainers() {
		reason, message := c.WaitingReason()
		if reason != "CreateContainerConfigError" {
			continue
		}
		if message == "" {
			message = startFailure(f, c)
		}
		if cause := lackCauses[scene.WhatIsMissing(message)]; cause != "" {
			said := scene.Observation{Text: fmt.Sprintf("%s waits: %s", c, reason), Quote: message, Ref: c.Pod.Ref}
			out = append(out, lackFinding(f, cause, c.Pod, said, scene.ParseLack(c.Pod, message)))
		}
	}
	for i := range f.Pods {
		p := &f.Pods[i]
		for e := range f.EventsOf("Pod", p.Object.Name) {
			if e.Object.Reason != "FailedMount" && e.Object.Reason != "FailedAttachVolume" || scene.IsPodReady(&p.Object) || !f.IsFresh(e) || f.IsPast(p) {
				continue
			}
			if cause := lackCauses[scene.WhatIsMissing(e.Object.Message)]; cause != "" {
				out = append(out, lackFinding(f, cause, p, scene.ObserveEvent(e), scene.ParseLack(p, e.Object.Message)))
			}
		}
	}
	return out
}

// lackFinding is the finding that a Pod lacks something; what is nil where nobody names it.
func lackFinding(f *scene.Facts, cause string, p *scene.Read[corev1.Pod], said scene.Observation, what *scene.Lack) scene.Finding {
	first := scene.Step{
		Action:  "Create what is missing in namespace " + f.Mend().Namespace + ", or correct the name in " + f.Mend().String(),
		Outcome: "the Pod starts by itself", Risk: "a wrong value starts it wrongly configured",
	}
	if what != nil {
		first = what.RepairAction(f.Mend().String())
	}
	return scene.Finding{
		Cause: cause, Object: f.Mend(), Confidence: nightcrier.High, Observed: []scene.Observation{said}, Lack: what,
		Summary: fmt.Sprintf("%s cannot start: %s (%s).", f.Mend(), scene.MeaningOf(slices.Concat(configurationCauses, creationCauses), cause), said.Quote),
		WrongIf: "it was created in the meantime; the kubelet tries again by itself",
		Test: scene.DescribeTest(nightcrier.Object{Kind: "Pod", Namespace: f.Mend().Namespace, Name: p.Object.Name}).
			DecidesBetween("its newest events say the same", "it has started"),
		Actions: []scene.Step{
			first,
			{Action: "Roll back if the name came with the last rollout", Do: scene.DoUndo, Outcome: "the version that ran before is back", Risk: "loses what the rollout brought"},
		},
	}
}

// configAbsent finds what is missing by comparing what a Pod that does not start
// names with what there is, for when nobody tells any more.
func configAbsent(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for i := range f.Pods {
		p := &f.Pods[i]
		if f.IsPast(p) || !startBlocked(&p.Object) {
			continue
		}
		for _, src := range scene.ConfigSourcesOf(p) {
			if cause, what := findMissing(f.Scene, p.Object.Namespace, src); cause != "" {
				out = append(out, absenceFinding(f, p, cause, what, src))
			}
		}
	}
	return out
}

// unsetWords match what a program says of a variable that it was not given.
var unsetWords = scene.NewPattern(`(?i)\b(?:empty|not set|unset|missing|undefined|not (?:defined|provided|found|specified)|required|using (?:the )?default|falling back|defaults? to|no value)\b`)

// optionalKeyAbsent finds containers that fail and whose log names a variable that they were
// not given: it is taken from a key which does not exist, and which may be absent, so that
// nobody else complains. A variable that the log does not name was left out on purpose.
func optionalKeyAbsent(f *scene.Facts) []scene.Finding {
	for c := range f.FailingContainers() {
		l, ok := f.FindLog(c)
		if !ok || !endedWithError(c) && !unreadyLong(c, f.Now) {
			continue
		}
		for _, e := range c.Spec.Env {
			src, optional := optionalSource(e, c)
			if !optional {
				continue
			}
			cause, what := findMissing(f.Scene, c.Pod.Object.Namespace, src)
			line := lineAbout(l.Text, e.Name)
			if cause == "" || line == "" {
				continue
			}
			n := lackFinding(f, cause, c.Pod, scene.Observation{Text: what, Quote: e.Name, Ref: src.Ref}, scene.LackOfSource(c.Pod, cause, src))
			n.Rank = rankTold + 5 // that something fails for want of it is what the program says
			n.Observed = append(n.Observed, ObserveLog(c, l, line))
			n.Summary = fmt.Sprintf("%s fails because it does not get %s: %s, and it is marked optional, so that the container starts without; its log says: %s", c.DescribeIn(f), e.Name, what, line)
			n.WrongIf = "the process does well without " + e.Name + ", and fails for another reason"
			if src.Kind == "ConfigMap" {
				n.Summary += likeKeys(f.Scene, c.Pod.Object.Namespace, src)
			}
			return []scene.Finding{n}
		}
	}
	return nil
}

// optionalSource is the key that a variable is taken from, if it may be absent.
func optionalSource(e corev1.EnvVar, c scene.Container) (scene.ConfigSource, bool) {
	src := scene.ConfigSource{By: "env " + e.Name + " of container " + c.Status.Name, Ref: c.Pod.Ref}
	if e.ValueFrom == nil {
		return src, false
	}
	var optional *bool
	switch from := e.ValueFrom; {
	case from.ConfigMapKeyRef != nil:
		src.Kind, src.Name, src.Key, optional = "ConfigMap", from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Optional
	case from.SecretKeyRef != nil:
		src.Kind, src.Name, src.Key, optional = "Secret", from.SecretKeyRef.Name, from.SecretKeyRef.Key, from.SecretKeyRef.Optional
	}
	return src, optional != nil && *optional
}

// lineAbout is the line of a log that says that a variable was not given, "" for none.
func lineAbout(log, variable string) string {
	for line := range strings.SplitSeq(log, "\n") {
		line = text.KeepBytes(line, 4*scene.MaxQuote)
		i := strings.Index(line, variable)
		if i < 0 || !unsetWords.MatchString(line) {
			continue
		}
		after := strings.TrimLeft(line[i+len(variable):], "_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
		if len(after) == len(line)-i-len(variable) { // the whole name, not the beginning of another
			return text.CutMiddle(line, scene.MaxQuote)
		}
	}
	return ""
}

// likeKeys says which keys of the ConfigMap have words of the one that is missing.
func likeKeys(s *scene.Scene, ns string, src scene.ConfigSource) string {
	cm := scene.FindObject(s.ConfigMaps, ns, src.Name)
	words := strings.FieldsFunc(strings.ToLower(src.Key), func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	if cm == nil || len(words) == 0 {
		return ""
	}
	var like []string
	for _, k := range sortedKeys(cm.Object.Data) {
		if strings.HasSuffix(strings.ToLower(k), words[len(words)-1]) {
			like = append(like, k)
		}
	}
	if len(like) == 0 {
		return ""
	}
	return "; " + src.Name + " has " + text.CutMiddle(strings.Join(like, ", "), scene.MaxQuote)
}

func configIsAbsent(f *scene.Facts, p *scene.Read[corev1.Pod]) bool {
	return slices.ContainsFunc(scene.ConfigSourcesOf(p), func(src scene.ConfigSource) bool {
		cause, _ := findMissing(f.Scene, p.Object.Namespace, src)
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

// findMissing reports what is missing of src: all of it, if every object of its kind
// was read, or its key.
func findMissing(s *scene.Scene, ns string, src scene.ConfigSource) (cause, what string) {
	has, keys := false, map[string]bool{}
	if src.Kind == "ConfigMap" {
		if cm := scene.FindObject(s.ConfigMaps, ns, src.Name); cm != nil {
			has = true
			for _, k := range slices.Concat(sortedKeys(cm.Object.Data), sortedKeys(cm.Object.BinaryData)) {
				keys[k] = true
			}
		}
	} else if secret := scene.FindObject(s.Secrets, ns, src.Name); secret != nil {
		has = true
		for k := range secret.Object.Data {
			keys[k] = true
		}
		if len(keys) == 0 {
			return "", "" // its keys were not read
		}
	}
	switch {
	case !has && s.Complete(src.Kind, ns):
		cause = "missing-configmap"
		if src.Kind == "Secret" {
			cause = "missing-secret"
		}
		return cause, fmt.Sprintf("%s %s, which %s names, does not exist", src.Kind, src.Name, src.By)
	case has && src.Key != "" && !keys[src.Key]:
		return "missing-config-key", fmt.Sprintf("%s %s has no key %s, which %s names", src.Kind, src.Name, src.Key, src.By)
	}
	return "", ""
}

func absenceFinding(f *scene.Facts, p *scene.Read[corev1.Pod], cause, what string, src scene.ConfigSource) scene.Finding {
	n := lackFinding(f, cause, p, scene.Observation{Text: "Pod " + p.Object.Name + " does not start: " + what, Quote: src.Name, Ref: src.Ref}, scene.LackOfSource(p, cause, src))
	n.Summary = fmt.Sprintf("%s cannot start: %s.", f.Mend(), what)
	if scene.IsPlainName(src.Name) {
		n.Test = scene.ListTest(p.Object.Namespace, map[string]string{"ConfigMap": "configmaps", "Secret": "secrets"}[src.Kind]).DecidesBetween("what is named is not there", "it is there")
		if src.Kind == "Secret" { // a Secret's data is not for us to print
			n.Test = scene.DescribeTest(nightcrier.Object{Kind: "Secret", Namespace: p.Object.Namespace, Name: src.Name}).DecidesBetween("it does not exist, or lacks the key", "it exists with the key")
		}
	}
	return n
}
