package volumes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var attachRules = scene.Area{Name: "attach", Rules: []scene.Rule{volumeNotMounted, ownershipSlow}, SceneRules: []scene.SceneRule{attachmentErrors, attachedElsewhere}, Causes: attachCauses}

var attachCauses = []scene.Cause{
	{ID: "csi-driver-missing", Category: "Storage", Meaning: "the CSI driver of a volume does not run on the Pod's node", Rank: scene.RankStated + 1},
	{ID: "mount-failed", Category: "Storage", Meaning: "a volume cannot be mounted", Rank: scene.RankStated - 1, Symptom: true},
	{ID: "volume-attach-failed", Category: "Storage", Meaning: "a volume cannot be attached to the Pod's node", Rank: scene.RankStated, Symptom: true},
	{ID: "volume-ownership-slow", Category: "Storage", Meaning: "the kubelet changes the owner of all files of a volume before the Pod starts, which takes long", Rank: scene.RankStated + 1},
}

// What the kubelet and the attach controller say about volumes.
var (
	noDriver  = scene.NewPattern(`driver name ([\w.-]{1,253}) not found in the list of registered CSI drivers|CSINode \S{1,253} does not contain driver ([\w.-]{1,253})`)
	attaching = scene.NewPattern(`Multi-Attach error|AttachVolume\.|external-attacher|volume attachment (is being deleted|limit)|attachment timeout|WaitForAttach`)
	// notVolumes are complaints about volumes of ConfigMaps, Secrets and tokens,
	// or such as pass by themselves while a kubelet starts.
	notVolumes = scene.NewPattern(`failed to sync (configmap|secret) cache|not registered|failed to fetch token|ConfigMap|configmap|[Ss]ecret "`)
	generic    = scene.NewPattern(`Unable to attach or mount volumes|timed out waiting for the condition|context deadline exceeded`)
	unmounted  = scene.NewPattern(`unmounted volumes=\[([^\]]{0,500})\]`)
	ofVolume   = scene.NewPattern(`for volume "([^"]{1,253})"`)
	usedBy     = scene.NewPattern(`already used by pod\(s\) ([\w., -]{1,500}?)(?: and \d+ pod|$)`)
)

// mountWhys tell what a failed mount lacks; the first that matches counts.
var mountWhys = []struct {
	words     *scene.Pattern
	why, mend string
}{
	{scene.NewPattern(`hostPath type check failed`), "the node does not have what the hostPath names, or it is of another type", "Correct the path or the type of the hostPath volume"},
	{scene.NewPattern(`access denied by server|(?i)permission denied|Operation not permitted`), "the server or the node denies it", "Let the storage server admit the node, and check credentials and ownership"},
	{scene.NewPattern(`No such file or directory|does not exist|special device .{0,200}does not exist`), "what it names does not exist on the server or the node", "Correct the path or the device that the volume names"},
	{scene.NewPattern(`(?i)connection timed out|connection refused|no route to host|i/o timeout|portmap query failed|Name or service not known|Failed to resolve server`), "the storage server does not answer", "Bring the storage server back, or correct its address in the volume"},
	{scene.NewPattern(`wrong fs type|bad superblock|unknown filesystem type|mount\.nfs|mount\.cifs|need a /sbin/mount`), "the node cannot mount a file system of this type", "Correct the file system type of the volume, or install its helper on the node"},
	{scene.NewPattern(`'?fsck'? found errors|Structure needs cleaning|input/output error`), "the file system on it is damaged", "Repair the file system, or restore the data to a new volume"},
}

// volumeNotMounted finds Pods that do not start because a volume is not attached
// or not mounted, by what is said about them now.
func volumeNotMounted(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for i := range f.Pods {
		p := &f.Pods[i]
		if scene.IsPodReady(&p.Object) || f.IsPast(p) || !f.Hearsay && hasStarted(&p.Object) {
			continue
		}
		if e, ok := volumeTrouble(f, p); ok {
			out = append(out, notMounted(f, p, e))
		}
	}
	return out
}

// hasStarted reports whether any container of a Pod has run, which takes all of
// its volumes.
func hasStarted(p *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(st corev1.ContainerStatus) bool {
		return st.State.Running != nil || st.State.Terminated != nil || st.LastTerminationState.Terminated != nil
	})
}

// saidOnce matches what the attach controller says once for a Pod, however long
// it then waits.
var saidOnce = scene.NewPattern(`^Multi-Attach error`)

// volumeTrouble is the newest Event about a volume of p, one that says why before
// one that says only that it takes long.
func volumeTrouble(f *scene.Facts, p *scene.Read[corev1.Pod]) (scene.Read[corev1.Event], bool) {
	var found scene.Read[corev1.Event]
	ok := false
	for e := range f.EventsOf("Pod", p.Object.Name) {
		if !slices.Contains([]string{"FailedMount", "FailedAttachVolume", "FailedMapVolume"}, e.Object.Reason) || !f.IsFresh(e) && !saidOnce.MatchString(e.Object.Message) {
			continue
		}
		if !aboutVolume(&p.Object, e.Object.Message) {
			if !generic.MatchString(e.Object.Message) && !f.Hearsay {
				return scene.Read[corev1.Event]{}, false // another rule says what is missing
			}
			continue
		}
		says := !generic.MatchString(e.Object.Message) || attaching.MatchString(e.Object.Message)
		if says {
			return e, true
		}
		if !ok {
			found, ok = e, true
		}
	}
	return found, ok
}

// aboutVolume reports whether a message is about a volume with data in it, rather
// than about a ConfigMap or a Secret that is mounted.
func aboutVolume(p *corev1.Pod, message string) bool {
	if scene.WhatIsMissing(message) != "" || notVolumes.MatchString(message) {
		return false
	}
	m := unmounted.FindStringSubmatch(message)
	if m == nil {
		return true
	}
	for _, name := range strings.Fields(m[1]) {
		i := slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
		if i < 0 || p.Spec.Volumes[i].ConfigMap == nil && p.Spec.Volumes[i].Secret == nil && p.Spec.Volumes[i].Projected == nil {
			return true
		}
	}
	return false
}

func notMounted(f *scene.Facts, p *scene.Read[corev1.Pod], e scene.Read[corev1.Event]) scene.Finding {
	message := text.CutMiddle(e.Object.Message, scene.MaxQuote)
	n := mountFinding(f.Mend(), p, scene.ObserveEvent(e))
	n.DependsOn = volumeOf(f.Scene, p, e.Object.Message)
	switch driver := noDriver.FindStringSubmatch(e.Object.Message); {
	case driver != nil:
		n.Cause = "csi-driver-missing"
		n.Summary = fmt.Sprintf("%s cannot start: CSI driver %s is not registered on node %s.", f.Mend(), driver[1]+driver[2], text.CutMiddle(p.Object.Spec.NodeName, scene.MaxQuote))
		n.DependsOn = append(n.DependsOn, driverSets(f.Scene, driver[1]+driver[2])...)
		n.Actions[0] = scene.Step{Action: "Let the node plugin of the driver run on that node: its DaemonSet, tolerations and log", On: nightcrier.Object{Kind: "Node", Name: p.Object.Spec.NodeName}, Outcome: "the volume is mounted and the Pod starts", Risk: "none for running Pods"}
	case e.Object.Reason == "FailedAttachVolume" || attaching.MatchString(e.Object.Message):
		n.Cause = "volume-attach-failed"
		n.Summary = fmt.Sprintf("%s cannot start: a volume cannot be attached to node %s (%s).", f.Mend(), text.CutMiddle(p.Object.Spec.NodeName, scene.MaxQuote), message)
		n.DependsOn = append(n.DependsOn, holdersOfVolume(f.Scene, p.Object.Namespace, e.Object.Message)...)
	default:
		why := ""
		for _, w := range mountWhys {
			if w.words.MatchString(e.Object.Message) {
				why = w.why + ": "
				n.Actions[0].Action = w.mend
				break
			}
		}
		n.Summary = fmt.Sprintf("%s cannot start: a volume cannot be mounted (%s%s).", f.Mend(), why, message)
		if why == "" && generic.MatchString(e.Object.Message) {
			n.Confidence = nightcrier.Medium
		}
	}
	return n
}

// mountFinding is what findings about a Pod's volumes have in common.
func mountFinding(o nightcrier.Object, p *scene.Read[corev1.Pod], said scene.Observation) scene.Finding {
	return scene.Finding{
		Cause: "mount-failed", Object: o, Confidence: nightcrier.High, Observed: []scene.Observation{said}, Why: scene.ReasonIn(said.Quote),
		WrongIf: "it was mounted since; the kubelet tries again by itself",
		Test: scene.DescribeTest(nightcrier.Object{Kind: "Pod", Namespace: p.Object.Namespace, Name: p.Object.Name}).
			DecidesBetween("its newest events say the same", "it has started"),
		Actions: []scene.Step{
			{Action: "Mend what the message names in " + o.String() + ", its volume or its node", On: nightcrier.Object{Kind: "Pod", Namespace: p.Object.Namespace, Name: p.Object.Name}, Outcome: "the kubelet mounts it at its next try", Risk: "needs a new rollout where the Pod is changed"},
		},
	}
}

// volumeOf is the claim of p that a message is about, by the name of its volume.
func volumeOf(s *scene.Scene, p *scene.Read[corev1.Pod], message string) []nightcrier.Object {
	m := ofVolume.FindStringSubmatch(message)
	if m == nil {
		return nil
	}
	if v := scene.FindObject(s.Volumes, "", m[1]); v != nil && v.Object.Spec.ClaimRef != nil {
		r := v.Object.Spec.ClaimRef
		return []nightcrier.Object{{Kind: "PersistentVolumeClaim", Namespace: r.Namespace, Name: r.Name}}
	}
	for _, c := range s.Claims {
		if c.Object.Namespace == p.Object.Namespace && c.Object.Spec.VolumeName == m[1] {
			return []nightcrier.Object{{Kind: "PersistentVolumeClaim", Namespace: c.Object.Namespace, Name: c.Object.Name}}
		}
	}
	return nil
}

// holdersOfVolume are the nodes of the Pods that a Multi-Attach error names: one that is
// away never lets go of the volume.
func holdersOfVolume(s *scene.Scene, ns, message string) []nightcrier.Object {
	m := usedBy.FindStringSubmatch(message)
	if m == nil {
		return nil
	}
	var out []nightcrier.Object
	for _, name := range strings.Split(m[1], ", ") {
		if p := scene.FindObject(s.Pods, ns, strings.TrimSpace(name)); p != nil && p.Object.Spec.NodeName != "" {
			out = append(out, nightcrier.Object{Kind: "Node", Name: p.Object.Spec.NodeName})
		}
	}
	return out
}

// driverSets are the DaemonSets that run a CSI driver, by the path at which it
// registers.
func driverSets(s *scene.Scene, driver string) []nightcrier.Object {
	var out []nightcrier.Object
	for w := range s.AllControllers() {
		if w.Object.Kind != "DaemonSet" {
			continue
		}
		for _, v := range s.SettingsOfMaker(w) {
			if strings.Contains(v.Quote, "/"+driver+"/") || v.Quote == driver {
				out = append(out, w.Object)
				break
			}
		}
	}
	return out
}

// attachmentErrors finds attachments that failed, by what they say themselves,
// while a Pod waits for the volume.
func attachmentErrors(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Attachments {
		a := &s.Attachments[i]
		err := a.Object.Status.AttachError
		if a.Object.Status.Attached || err == nil || a.Object.DeletionTimestamp != nil || s.Now.Sub(err.Time.Time) > scene.FreshFor {
			continue
		}
		p := podWaitingFor(s, &a.Object)
		if p == nil {
			continue
		}
		o := s.WorkloadAbove("Pod", &p.Object)
		n := mountFinding(o, p, scene.Observation{Text: "VolumeAttachment " + a.Object.Name + " says why", Quote: err.Message, Ref: a.Ref})
		n.Cause = "volume-attach-failed"
		n.Summary = fmt.Sprintf("%s cannot start: its volume cannot be attached to node %s (%s).", o, text.CutMiddle(a.Object.Spec.NodeName, scene.MaxQuote), text.CutLine(err.Message, scene.MaxQuote))
		out = append(out, n)
	}
	return out
}

// podWaitingFor is a Pod on the attachment's node that has not started and uses its
// volume.
func podWaitingFor(s *scene.Scene, a *storagev1.VolumeAttachment) *scene.Read[corev1.Pod] {
	name := a.Spec.Source.PersistentVolumeName
	if name == nil {
		return nil
	}
	for _, c := range s.Claims {
		if c.Object.Spec.VolumeName != *name {
			continue
		}
		for _, p := range s.PodsUsingClaim(c.Object.Namespace, c.Object.Name) {
			if p.Object.Spec.NodeName == a.Spec.NodeName && !hasStarted(&p.Object) {
				return p
			}
		}
	}
	return nil
}

// attachedElsewhere finds Pods that wait for a volume which a Pod on another node
// holds, for when nobody tells any more: a claim of mode ReadWriteOnce serves one
// node at a time.
func attachedElsewhere(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Claims {
		c := newClaim(s, &s.Claims[i])
		if c.Object.Status.Phase != corev1.ClaimBound || !oneNode(c.Object.Spec.AccessModes) {
			continue
		}
		pods := c.s.PodsUsingClaim(c.Object.Namespace, c.Object.Name)
		for _, p := range pods {
			holder := slices.IndexFunc(pods, func(h *scene.Read[corev1.Pod]) bool {
				return hasStarted(&h.Object) && h.Object.Spec.NodeName != p.Object.Spec.NodeName
			})
			if holder < 0 || p.Object.Spec.NodeName == "" || hasStarted(&p.Object) || !isCreating(&p.Object) || s.Now.Sub(p.Object.CreationTimestamp.Time) < scene.SettlingTime {
				continue
			}
			out = append(out, heldElsewhere(s, c, p, pods[holder]))
			break
		}
	}
	return out
}

func oneNode(modes []corev1.PersistentVolumeAccessMode) bool {
	return len(modes) > 0 && !slices.Contains(modes, corev1.ReadWriteMany) && !slices.Contains(modes, corev1.ReadOnlyMany)
}

// isCreating reports whether a Pod waits for its containers to be made.
func isCreating(p *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(st corev1.ContainerStatus) bool {
		return st.State.Waiting != nil && slices.Contains([]string{"ContainerCreating", "PodInitializing"}, st.State.Waiting.Reason)
	})
}

func heldElsewhere(s *scene.Scene, c claim, p, holder *scene.Read[corev1.Pod]) scene.Finding {
	o := s.WorkloadAbove("Pod", &p.Object)
	n := mountFinding(o, p, scene.Observation{
		Text:  fmt.Sprintf("Pod %s waits on node %s", p.Object.Name, p.Object.Spec.NodeName),
		Quote: "nodeName=" + p.Object.Spec.NodeName, Ref: p.Ref,
	})
	n.Cause, n.Confidence = "volume-attach-failed", nightcrier.Medium
	n.Summary = fmt.Sprintf("%s cannot start: its PersistentVolumeClaim %s (%s) is in use by Pod %s on another node, %s.",
		o, c.Object.Name, c.accessModes(), holder.Object.Name, text.CutMiddle(holder.Object.Spec.NodeName, scene.MaxQuote))
	n.Observed = append(n.Observed, scene.Observation{Text: fmt.Sprintf("Pod %s holds the volume on node %s", holder.Object.Name, holder.Object.Spec.NodeName), Quote: "nodeName=" + holder.Object.Spec.NodeName, Ref: holder.Ref})
	n.DependsOn = []nightcrier.Object{{Kind: "Node", Name: holder.Object.Spec.NodeName}}
	n.Actions[0] = scene.Step{Action: "Run one Pod at a time (strategy Recreate, one replica), or use a claim that several nodes may mount", Do: scene.DoEdit, Outcome: "the volume is free when the Pod starts", Risk: "Recreate stops the old Pod before the new one runs"}
	return n
}

// slowOwnership is what a kubelet says that changes the owner of a volume's files for long.
var slowOwnership = scene.NewPattern(`(?i)setting volume ownership for .{1,300}(?:taking longer|processed (\d{1,12}) files)`)

// ownershipSlow finds Pods that do not start because the kubelet changes the owner of each
// file of a volume at every start, as fsGroup asks for. It is refuted by a Pod that has started.
func ownershipSlow(f *scene.Facts) []scene.Finding {
	for i := range f.Pods {
		p := &f.Pods[i]
		security := p.Object.Spec.SecurityContext
		if f.Hearsay || f.IsPast(p) || hasStarted(&p.Object) || security == nil || security.FSGroup == nil {
			continue
		}
		if policy := security.FSGroupChangePolicy; policy != nil && *policy == corev1.FSGroupChangeOnRootMismatch {
			continue
		}
		for e := range f.EventsOf("Pod", p.Object.Name) {
			m := slowOwnership.FindStringSubmatch(e.Object.Message)
			if m == nil || !f.IsFresh(e) {
				continue
			}
			n := mountFinding(f.Mend(), p, scene.ObserveEvent(e))
			n.Cause = "volume-ownership-slow"
			n.Summary = fmt.Sprintf("%s cannot start: by fsGroup %d the kubelet changes the ownership of each file of a volume before each start, and has not come to the end (%s).", f.Mend(), *security.FSGroup, text.CutMiddle(e.Object.Message, scene.MaxQuote))
			n.Observed = append(n.Observed, scene.Observation{Text: fmt.Sprintf("Pod %s sets fsGroup %d without fsGroupChangePolicy OnRootMismatch", p.Object.Name, *security.FSGroup), Quote: fmt.Sprintf("fsGroup=%d", *security.FSGroup), Ref: p.Ref})
			n.WrongIf = "the storage is slow, so that anything would take as long"
			n.Actions = []scene.Step{
				{Action: "Set fsGroupChangePolicy: OnRootMismatch in the securityContext of " + f.Mend().String(), Do: scene.DoEdit, Outcome: "files that have the right owner are left alone, and the Pod starts at once", Risk: "makes the Pods anew; files of another owner deep below stay as they are"},
				{Action: "Wait for this start, and look for what makes so many files", Outcome: "the Pod starts in the end", Risk: "none: read only"},
			}
			return []scene.Finding{n}
		}
	}
	return nil
}
