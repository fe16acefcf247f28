package volumes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var claimRules = scene.Area{Name: "claim", Rules: []scene.Rule{volumeMissing}, SceneRules: []scene.SceneRule{claimsUnbound}, Causes: claimCauses}

var claimCauses = []scene.Cause{
	{ID: "pvc-access-mode-unavailable", Category: "Storage", Meaning: "no volume offers the access mode that a claim asks for", Rank: scene.RankGround - 2},
	{ID: "pvc-class-missing", Category: "Storage", Meaning: "the StorageClass that a claim asks for does not exist", Rank: scene.RankGround - 2},
	{ID: "pvc-provisioner-failing", Category: "Storage", Meaning: "the provisioner of a claim's StorageClass makes no volume", Rank: scene.RankGround - 2, Symptom: true},
	{ID: "pvc-selector-unmatched", Category: "Storage", Meaning: "no volume has the labels that a claim selects by", Rank: scene.RankGround - 2},
	{ID: "pvc-size-unavailable", Category: "Storage", Meaning: "no volume is as large as a claim asks for", Rank: scene.RankGround - 2},
	{ID: "pvc-unbound", Category: "Storage", Meaning: "a claim finds no free volume", Rank: scene.RankGround - 3},
	{ID: "pvc-volume-lost", Category: "Storage", Meaning: "the volume that a claim was bound to is gone, and its data with it", Rank: scene.RankGround - 2},
	{ID: "volume-not-provisioned", Category: "Storage", Meaning: "a claim gets no volume, or not the one it asks for", Rank: scene.RankStated, Symptom: true},
}

// claimReasons are the Events of a claim that gets no volume.
var claimReasons = []string{"ProvisioningFailed", "FailedBinding", "ClaimLost", "ClaimMisbound", "VolumeMismatch", resizeFailed}

const resizeFailed = "VolumeResizeFailed"

// volumeMissing finds claims that get no volume, or not the one they ask for, by
// what was said of them alone. A claim that was read is judged by claimsUnbound.
func volumeMissing(f *scene.Facts) []scene.Finding {
	if f.Target.Kind != "PersistentVolumeClaim" {
		return nil
	}
	read := scene.FindObject(f.Scene.Claims, f.Target.Namespace, f.Target.Name) != nil
	for e := range f.EventsOf(f.Target.Kind, f.Target.Name) {
		if !slices.Contains(claimReasons, e.Object.Reason) || !f.IsFresh(e) || read && e.Object.Reason != resizeFailed {
			continue
		}
		return []scene.Finding{{
			Cause: "volume-not-provisioned", Object: f.Mend(), Confidence: nightcrier.High, Observed: []scene.Observation{scene.ObserveEvent(e)}, Why: scene.ReasonIn(e.Object.Message),
			Summary: fmt.Sprintf("%s: %s (%s).", f.Mend(), scene.MeaningOf(claimCauses, "volume-not-provisioned"), text.CutMiddle(e.Object.Message, scene.MaxQuote)),
			WrongIf: "it was bound since; the controller tries again by itself",
			Test:    scene.DescribeTest(scene.ObjectOf(f.Target)).DecidesBetween("it is Pending and its newest events say the same", "it is Bound"),
			Actions: []scene.Step{
				{Action: "Check the storage class that the claim names, and its provisioner", Outcome: "tells a wrong name from a provisioner that is down", Risk: "none: read only"},
				{Action: "Check the capacity and the zone that the claim can be served from", Outcome: "names what is short", Risk: "none: read only"},
			},
		}}
	}
	return nil
}

// claim is a claim that is being judged, with what bears on it.
type claim struct {
	s *scene.Scene
	*scene.Read[corev1.PersistentVolumeClaim]
	// class is the name of the class that it asks for, "" for none; it is the
	// default when the claim names none and one is the default.
	class string
	// named is set when the claim names a class itself, be it "".
	named bool
	// kind is the class, nil when there is none or it was not read.
	kind *scene.Read[storagev1.StorageClass]
	// said is the newest fresh Event about it that tells of trouble.
	said *scene.Read[corev1.Event]
}

// claimsUnbound finds claims without a volume, and says why. A claim that waits
// for its first Pod, or for a Pod that finds no node, lacks nothing itself.
func claimsUnbound(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Claims {
		c := newClaim(s, &s.Claims[i])
		if c.Object.DeletionTimestamp != nil {
			continue
		}
		switch c.Object.Status.Phase {
		case corev1.ClaimLost:
			n := c.claimFinding("pvc-volume-lost", nightcrier.High, fmt.Sprintf("was bound to PersistentVolume %s, which is gone or bound to another.", cmp.Or(c.Object.Spec.VolumeName, "none")))
			n.Actions = []scene.Step{{Action: "Restore the data from a backup into a new claim, or make the PersistentVolume again if its storage still exists", Outcome: "the data is back", Risk: "a new claim is empty until it is restored"}}
			out = append(out, n)
		case corev1.ClaimPending:
			if n, ok := c.pendingFinding(); ok {
				out = append(out, n)
			}
		}
	}
	return out
}

func newClaim(s *scene.Scene, r *scene.Read[corev1.PersistentVolumeClaim]) claim {
	c := claim{s: s, Read: r}
	if name := r.Object.Spec.StorageClassName; name != nil {
		c.class, c.named = *name, true
	} else if name, ok := r.Object.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		c.class, c.named = name, true
	}
	for i := range s.StorageClasses {
		k := &s.StorageClasses[i]
		byDefault := !c.named && k.Object.Annotations["storageclass.kubernetes.io/is-default-class"] == "true"
		if byDefault || c.class != "" && k.Object.Name == c.class {
			c.kind, c.class = k, k.Object.Name
		}
	}
	for e := range s.EventsAbout("PersistentVolumeClaim", r.Object.Namespace, r.Object.Name) {
		if slices.Contains(claimReasons, e.Object.Reason) && e.Object.Reason != resizeFailed && s.IsFresh(e) {
			c.said = &e
			break
		}
	}
	return c
}

// noProvisioner is the provisioner of classes whose volumes people make.
const noProvisioner = "kubernetes.io/no-provisioner"

var (
	classNotFound = scene.NewPattern(`storageclass(?:es)?\.storage\.k8s\.io "([^"]{1,253})" not found`)
	sizeWords     = scene.NewPattern(`(?i)\b(size|capacity|space|quota|too (large|small)|exceed\w*|insufficient|OutOfRange|ResourceExhausted)\b`)
	modeWords     = scene.NewPattern(`(?i)access ?mode|ReadWriteMany|ReadOnlyMany|MULTI_NODE|volume capabilit`)
)

// pendingFinding says why a claim is Pending, if it is a fault.
func (c claim) pendingFinding() (scene.Finding, bool) {
	waits := c.kind != nil && c.kind.Object.VolumeBindingMode != nil && *c.kind.Object.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	chosen := c.Object.Annotations["volume.kubernetes.io/selected-node"] != ""
	switch {
	case c.classMissing():
		return c.noClass(), true
	case waits && len(c.s.PodsUsingClaim(c.Object.Namespace, c.Object.Name)) == 0:
		return scene.Finding{}, false
	case c.byHand():
		return c.fromVolumes()
	case c.said != nil && c.said.Object.Reason == "ProvisioningFailed":
		return c.refusedFinding(), true
	case waits && !chosen:
		return scene.Finding{}, false
	case c.kind != nil && c.s.Now.Sub(c.Object.CreationTimestamp.Time) > scene.SettlingTime:
		return c.unansweredFinding(), true
	case c.said != nil:
		return c.claimFinding("pvc-unbound", nightcrier.Medium, "is not bound: "+text.CutMiddle(c.said.Object.Message, scene.MaxQuote)), true
	}
	return scene.Finding{}, false
}

// classMissing reports whether the class that the claim asks for does not exist.
// Volumes made by hand may bear the name of a class that nobody made.
func (c claim) classMissing() bool {
	if c.kind != nil || c.class == "" && c.named || slices.ContainsFunc(c.s.Volumes, func(v scene.Read[corev1.PersistentVolume]) bool { return v.Object.Spec.StorageClassName == c.class }) {
		return false
	}
	if c.said != nil && (classNotFound.MatchString(c.said.Object.Message) || strings.Contains(c.said.Object.Message, "no storage class is set")) {
		return true
	}
	return c.s.Complete("StorageClass", "") && c.Object.Spec.VolumeName == ""
}

func (c claim) noClass() scene.Finding {
	what := fmt.Sprintf("asks for StorageClass %s, which does not exist%s.", text.CutMiddle(c.class, scene.MaxQuote), c.otherClasses())
	if c.class == "" {
		what = fmt.Sprintf("names no StorageClass, and none is the default%s.", c.otherClasses())
	}
	n := c.claimFinding("pvc-class-missing", nightcrier.High, what)
	if c.class != "" {
		n.Lack = &scene.Lack{Object: nightcrier.Object{Kind: "StorageClass", Name: c.class}}
	}
	n.Actions = []scene.Step{
		{Action: "Make the claim again with a StorageClass that exists: its class cannot be changed", Outcome: "a volume is made for it", Risk: "none: a claim without a volume holds no data"},
		{Action: "Or create the StorageClass that it asks for", Outcome: "the claim is served as it is", Risk: "volumes of a class that nobody else knows"},
	}
	return n
}

func (c claim) otherClasses() string {
	var names []string
	for _, k := range c.s.StorageClasses {
		names = append(names, k.Object.Name)
	}
	if len(names) == 0 {
		return ""
	}
	return "; there is " + text.CutMiddle(strings.Join(names, ", "), scene.MaxQuote)
}

// byHand reports whether the claim can only be bound to a volume that a person
// made.
func (c claim) byHand() bool {
	if c.Object.Spec.VolumeName != "" || c.kind != nil && c.kind.Object.Provisioner == noProvisioner {
		return true
	}
	waits := slices.ContainsFunc(c.s.Volumes, func(v scene.Read[corev1.PersistentVolume]) bool {
		return v.Object.Spec.StorageClassName == c.class && c.mayBind(&v.Object)
	})
	return c.kind == nil && (c.named && c.class == "" || waits || c.s.Complete("StorageClass", ""))
}

// refusedFinding is the finding that the provisioner says why it makes no volume.
func (c claim) refusedFinding() scene.Finding {
	message := c.said.Object.Message
	cause := "pvc-provisioner-failing"
	switch {
	case modeWords.MatchString(message):
		cause = "pvc-access-mode-unavailable"
	case sizeWords.MatchString(message):
		cause = "pvc-size-unavailable"
	}
	provisioner := "its provisioner"
	if c.kind != nil {
		provisioner = text.CutMiddle(c.kind.Object.Provisioner, scene.MaxQuote)
	}
	n := c.claimFinding(cause, nightcrier.High, fmt.Sprintf("(%s, %s) gets no volume: %s says: %s", c.requestedSize(), c.accessModes(), provisioner, text.CutMiddle(message, scene.MaxQuote)))
	n.Why = scene.ReasonIn(message)
	return n
}

// unansweredFinding is the finding that the provisioner says nothing at all.
func (c claim) unansweredFinding() scene.Finding {
	provisioner := text.CutMiddle(c.kind.Object.Provisioner, scene.MaxQuote)
	n := c.claimFinding("pvc-provisioner-failing", nightcrier.Medium,
		fmt.Sprintf("waits for a volume of StorageClass %s, and its provisioner %s makes none and says nothing: is it running?", c.class, provisioner))
	n.Observed = append(n.Observed, scene.Observation{Text: "StorageClass " + c.class + " is served by " + provisioner, Quote: provisioner, Ref: c.kind.Ref})
	for e := range c.s.EventsAbout("PersistentVolumeClaim", c.Object.Namespace, c.Object.Name) {
		if e.Object.Reason == "ExternalProvisioning" && c.s.IsFresh(e) {
			n.Confidence, n.Observed = nightcrier.High, append(n.Observed, scene.ObserveEvent(e))
			break
		}
	}
	for w := range c.s.AllControllers() {
		if w.Object.Kind != "DaemonSet" && runsProvisioner(w, c.kind.Object.Provisioner) {
			n.DependsOn = append(n.DependsOn, w.Object)
		}
	}
	return n
}

// runsProvisioner reports whether a workload names the provisioner in a variable
// or an argument, or is called like it.
func runsProvisioner(w scene.PodMaker, provisioner string) bool {
	if _, last, ok := strings.Cut(provisioner, "/"); ok && (w.Object.Name == last || w.Object.Name == last+"-provisioner") {
		return true
	}
	for _, ct := range w.Spec.Containers {
		if slices.ContainsFunc(ct.Env, func(e corev1.EnvVar) bool { return e.Value == provisioner }) ||
			slices.ContainsFunc(ct.Args, func(a string) bool { return a == provisioner || strings.HasSuffix(a, "="+provisioner) }) {
			return true
		}
	}
	return false
}

// shortfall is why a volume does not serve the claim.
type shortfall struct{ cause, why string }

// fromVolumes compares the claim with the volumes that people made.
func (c claim) fromVolumes() (scene.Finding, bool) {
	if name := c.Object.Spec.VolumeName; name != "" {
		return c.fromNamed(name)
	}
	var best []shortfall
	var nearest *scene.Read[corev1.PersistentVolume]
	taken := ""
	for i := range c.s.Volumes {
		v := &c.s.Volumes[i]
		if v.Object.Spec.StorageClassName != c.class {
			continue
		}
		if !c.mayBind(&v.Object) {
			taken = fmt.Sprintf("; PersistentVolume %s is %s", v.Object.Name, strings.ToLower(string(v.Object.Status.Phase)))
			continue
		}
		m := c.shortfalls(&v.Object)
		if len(m) == 0 {
			return scene.Finding{}, false // it is about to be bound
		}
		if nearest == nil || len(m) < len(best) {
			best, nearest = m, v
		}
	}
	switch {
	case nearest != nil:
		return c.doesNotFit(nearest, best), true
	case c.s.Complete("PersistentVolume", ""):
		return c.claimFinding("pvc-unbound", nightcrier.High, fmt.Sprintf("finds no free PersistentVolume%s%s, and nobody makes one by itself.", ofClass(c.class), text.CutMiddle(taken, scene.MaxQuote))), true
	case c.said != nil:
		return c.claimFinding("pvc-unbound", nightcrier.Medium, "is not bound: "+text.CutMiddle(c.said.Object.Message, scene.MaxQuote)), true
	}
	return scene.Finding{}, false
}

func ofClass(class string) string {
	if class == "" {
		return " without a class"
	}
	return " of class " + text.CutMiddle(class, scene.MaxQuote)
}

// fromNamed judges the one volume that the claim names.
func (c claim) fromNamed(name string) (scene.Finding, bool) {
	v := scene.FindObject(c.s.Volumes, "", name)
	switch {
	case v == nil && c.s.Complete("PersistentVolume", ""):
		return c.claimFinding("pvc-unbound", nightcrier.High, fmt.Sprintf("names PersistentVolume %s, which does not exist.", text.CutMiddle(name, scene.MaxQuote))), true
	case v == nil:
		return scene.Finding{}, false
	case !c.mayBind(&v.Object):
		n := c.claimFinding("pvc-unbound", nightcrier.High, fmt.Sprintf("names PersistentVolume %s, which is %s for another claim.", v.Object.Name, strings.ToLower(string(v.Object.Status.Phase))))
		n.Observed = append(n.Observed, scene.Observation{Text: "PersistentVolume " + v.Object.Name + " is not free", Quote: "phase=" + string(v.Object.Status.Phase), Ref: v.Ref})
		return n, true
	}
	m := c.shortfalls(&v.Object)
	if v.Object.Spec.StorageClassName != c.class {
		m = append(m, shortfall{"pvc-unbound", fmt.Sprintf("it is of class %q, the claim asks for %q", v.Object.Spec.StorageClassName, c.class)})
	}
	if len(m) == 0 {
		return scene.Finding{}, false
	}
	return c.doesNotFit(v, m), true
}

// mayBind reports whether a volume may be bound to the claim.
func (c claim) mayBind(v *corev1.PersistentVolume) bool {
	if v.DeletionTimestamp != nil || v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed {
		return false
	}
	r := v.Spec.ClaimRef
	return r == nil || r.Namespace == c.Object.Namespace && r.Name == c.Object.Name && (r.UID == "" || r.UID == c.Object.UID)
}

func (c claim) shortfalls(v *corev1.PersistentVolume) []shortfall {
	var out []shortfall
	spec := c.Object.Spec
	have, want := v.Spec.Capacity[corev1.ResourceStorage], spec.Resources.Requests[corev1.ResourceStorage]
	if have.Cmp(want) < 0 {
		out = append(out, shortfall{"pvc-size-unavailable", fmt.Sprintf("it has %s, the claim asks for %s", have.String(), want.String())})
	}
	for _, m := range spec.AccessModes {
		if !slices.Contains(v.Spec.AccessModes, m) {
			out = append(out, shortfall{"pvc-access-mode-unavailable", fmt.Sprintf("it offers %s, the claim asks for %s", modeNames(v.Spec.AccessModes), m)})
			break
		}
	}
	if spec.Selector != nil && !scene.MatchesSelector(spec.Selector, v.Labels) {
		out = append(out, shortfall{"pvc-selector-unmatched", "it does not have the labels that the claim selects by"})
	}
	if modeOf(v.Spec.VolumeMode) != modeOf(spec.VolumeMode) {
		out = append(out, shortfall{"pvc-unbound", fmt.Sprintf("it is of mode %s, the claim asks for %s", modeOf(v.Spec.VolumeMode), modeOf(spec.VolumeMode))})
	}
	return out
}

func modeOf(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if m == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *m
}

func modeNames(all []corev1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range all {
		out = append(out, string(m))
	}
	return text.CutMiddle(strings.Join(out, ", "), scene.MaxQuote)
}

func (c claim) doesNotFit(v *scene.Read[corev1.PersistentVolume], m []shortfall) scene.Finding {
	var why []string
	for _, one := range m {
		why = append(why, one.why)
	}
	n := c.claimFinding(m[0].cause, nightcrier.High, fmt.Sprintf("fits no free PersistentVolume; the nearest is %s: %s.", v.Object.Name, text.CutMiddle(strings.Join(why, "; "), scene.MaxQuote)))
	n.Observed = append(n.Observed, scene.Observation{Text: "PersistentVolume " + v.Object.Name + ": " + strings.Join(why, "; "), Quote: v.Object.Name, Ref: v.Ref})
	return n
}

func (c claim) requestedSize() string {
	q := c.Object.Spec.Resources.Requests[corev1.ResourceStorage]
	return q.String()
}

func (c claim) accessModes() string { return modeNames(c.Object.Spec.AccessModes) }

// usingWorkloads are the workloads that use the claim.
func (c claim) usingWorkloads() []nightcrier.Object {
	out := c.s.WorkloadsAbove(c.s.PodsUsingClaim(c.Object.Namespace, c.Object.Name))
	for w := range c.s.WorkloadsIn(c.Object.Namespace) {
		if scene.MountsClaim(w.Spec, c.Object.Name) && !slices.Contains(out, w.Object) {
			out = append(out, w.Object)
		}
	}
	return out
}

// claimFinding is what findings about a claim have in common.
func (c claim) claimFinding(cause string, sure nightcrier.Confidence, what string) scene.Finding {
	o := nightcrier.Object{Kind: "PersistentVolumeClaim", Namespace: c.Object.Namespace, Name: c.Object.Name}
	n := scene.Finding{
		Cause: cause, Object: o, Confidence: sure, Summary: o.String() + " " + what, Affected: c.usingWorkloads(),
		Observed: []scene.Observation{{
			Text:  fmt.Sprintf("%s is %s; it asks for %s, %s", o, c.Object.Status.Phase, c.requestedSize(), c.accessModes()),
			Quote: "phase=" + string(c.Object.Status.Phase), Ref: c.Ref,
		}},
		WrongIf: "it was bound since; the controller tries again by itself",
		Test:    scene.GetTest(o.Namespace, "pvc", o.Name).DecidesBetween("status.phase is "+string(c.Object.Status.Phase), "status.phase is Bound"),
		Actions: []scene.Step{
			{Action: "Make a volume that fits " + o.String() + ", or make the claim again so that it asks for one that exists", Outcome: "the claim is bound and its Pods start", Risk: "none: a claim without a volume holds no data"},
			{Action: "Look at the log of the provisioner of its class", Outcome: "names what it lacks", Risk: "none: read only"},
		},
	}
	if c.said != nil {
		n.Observed = append(n.Observed, scene.ObserveEvent(*c.said))
	}
	return n
}
