package pods

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var outdatedRules = scene.Area{Name: "outdated", Rules: []scene.Rule{configurationOutdated}, Causes: outdatedCauses}

var outdatedCauses = []scene.Cause{
	{ID: "configuration-outdated", Category: "Pod", Meaning: "a container runs with values of a Secret or ConfigMap that was changed after it started", Rank: rankTold + 6},
}

// stale is a Secret or ConfigMap that was changed after a container had taken its values.
type stale struct {
	scene.Container
	source  nightcrier.Object
	by      string
	at      time.Time
	who     string
	ref     scene.Ref
	asFile  bool // it is a file that the kubelet renews; whether the process reads it again is not known
	started time.Time
}

// configurationOutdated finds containers whose complaint fits values that are older than
// their source: variables, and files mounted by subPath, are never renewed. Pods that started
// later and complain of the same refute it; those that started later and do well show it.
func configurationOutdated(f *scene.Facts) []scene.Finding {
	if f.Hearsay || len(f.Scene.Secrets)+len(f.Scene.ConfigMaps) == 0 {
		return nil
	}
	var old *stale
	var said complaint
	var hit, later, laterWell []string
	for p := range f.AllPods() {
		for _, c := range scene.PodContainers(p) {
			l, ok := currentLog(f, c)
			if !ok || c.Status.State.Running == nil {
				continue
			}
			t, complains := complaintOfConfig(f, l)
			st, changed := newestChange(f.Scene, c, t)
			switch {
			case complains && changed:
				hit = append(hit, c.Pod.Object.Name)
				if old == nil {
					old, said = &st, t
				}
			case complains:
				later = append(later, c.Pod.Object.Name)
			case !changed && takesConfig(c) && c.Status.Ready:
				laterWell = append(laterWell, c.Pod.Object.Name)
			}
		}
	}
	if old == nil || len(later) > 0 || !fitsTime(*old, said) {
		return nil
	}
	return []scene.Finding{outdatedFinding(f, *old, said, hit, laterWell)}
}

// takesConfig reports whether a container takes variables of a Secret or ConfigMap.
func takesConfig(c scene.Container) bool {
	return len(configOf(c)) > 0
}

// complaintOfConfig is what a log complains about now, if an old value may be why: it is
// refused, or what it calls is not there.
func complaintOfConfig(f *scene.Facts, l scene.LogExcerpt) (complaint, bool) {
	for _, t := range readComplaints(f, l) {
		if t.often >= 2 && strings.HasPrefix(t.pattern.cause, "dependency-") && t.pattern.cause != "dependency-throttles" {
			return t, true
		}
	}
	return complaint{}, false
}

// configOf are the Secrets and ConfigMaps that a container takes its variables and files of.
func configOf(c scene.Container) (out []scene.ConfigSource) {
	for _, src := range scene.ConfigSourcesOf(c.Pod) {
		volume, mounted := strings.CutPrefix(src.By, "volume ")
		own := strings.HasSuffix(src.By, " of container "+c.Spec.Name)
		if mounted {
			own = slices.ContainsFunc(c.Spec.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
		}
		if own {
			out = append(out, src)
		}
	}
	return out
}

// isRenewed reports whether what a container takes of a volume is renewed while it runs.
func isRenewed(c scene.Container, src scene.ConfigSource) bool {
	volume, mounted := strings.CutPrefix(src.By, "volume ")
	return mounted && slices.ContainsFunc(c.Spec.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume && m.SubPath == "" && m.SubPathExpr == "" })
}

// newestChange is the last change, after a container started, of what may be why it complains:
// of a Secret where it is refused, of a ConfigMap where that does not name any more what it
// calls.
func newestChange(s *scene.Scene, c scene.Container, t complaint) (newest stale, found bool) {
	started := c.Status.State.Running.StartedAt.Time
	for _, src := range configOf(c) {
		meta, ref := metaOf(s, c.Pod.Object.Namespace, src)
		if meta == nil || t.pattern != nil && !explainsComplaint(s, c, src, t) {
			continue
		}
		at, who := scene.LastEdit(meta)
		if made := meta.GetCreationTimestamp().Time; made.After(at) {
			at, who = made, "whoever made it anew"
		}
		if !at.After(started.Add(changeLag)) || at.After(s.Now) || at.Before(newest.at) {
			continue
		}
		newest = stale{Container: c, source: nightcrier.Object{Kind: src.Kind, Namespace: c.Pod.Object.Namespace, Name: src.Name}, by: src.By, at: at, who: who, ref: ref, asFile: isRenewed(c, src), started: started}
		found = true
	}
	return newest, found
}

// changeLag is how long a change may come after a start and still be what it started with.
const changeLag = 10 * time.Second

func metaOf(s *scene.Scene, ns string, src scene.ConfigSource) (metav1.Object, scene.Ref) {
	if src.Kind == "Secret" {
		if o := scene.FindObject(s.Secrets, ns, src.Name); o != nil {
			return &o.Object, o.Ref
		}
	} else if o := scene.FindObject(s.ConfigMaps, ns, src.Name); o != nil {
		return &o.Object, o.Ref
	}
	return nil, scene.Ref{}
}

// explainsComplaint reports whether an old value of a source may be why a container complains.
func explainsComplaint(s *scene.Scene, c scene.Container, src scene.ConfigSource, t complaint) bool {
	refused := t.pattern.cause == "dependency-auth-failed"
	if src.Kind == "Secret" {
		return refused
	}
	e, named := endpointIn(t.whole)
	cm := scene.FindObject(s.ConfigMaps, c.Pod.Object.Namespace, src.Name)
	if refused || !named || cm == nil {
		return false
	}
	for _, value := range cm.Object.Data { // it still says so: nothing is old
		if strings.Contains(value, e.host) {
			return false
		}
	}
	for _, v := range settingsOf(s, c) {
		if strings.Contains(v.value, e.host) {
			return false
		}
	}
	return slices.ContainsFunc(sortedKeys(cm.Object.Data), func(k string) bool { return addressLike.MatchString(cm.Object.Data[k]) })
}

// addressLike matches values that name a host.
var addressLike = scene.NewPattern(`[\w-]\.[\w-]{2,}|://|:\d{2,5}\b`)

// longBeforeChange is how long before a change the complaints may begin that it explains: who
// keeps the Secret may learn of a new password later than the database.
const longBeforeChange = time.Hour

func fitsTime(old stale, said complaint) bool {
	return said.first.IsZero() || !said.first.Before(old.at.Add(-longBeforeChange))
}

func outdatedFinding(f *scene.Facts, old stale, said complaint, hit, well []string) scene.Finding {
	o, when := f.Mend(), old.at.UTC().Format(time.RFC3339)
	takes := "takes it as " + old.by + ", which is set once"
	if old.asFile {
		takes = "reads it as a file (" + old.by + "), perhaps only when it starts"
	} else if strings.HasPrefix(old.by, "volume ") {
		takes = "reads it as a file by subPath (" + old.by + "), which is never renewed"
	}
	n := scene.Finding{
		Cause: "configuration-outdated", Object: o, Confidence: nightcrier.Medium, Weight: said.often,
		Summary: fmt.Sprintf("%s of %s run with old values: %s was changed at %s, after Pod %s had started (%s), and the container %s",
			text.CountNoun(len(hit), "Pod"), o, old.source, when, old.Pod.Object.Name, old.started.UTC().Format(time.RFC3339), takes),
		Observed: []scene.Observation{
			ObserveLog(old.Container, said.log, said.logMatch.line),
			{Text: fmt.Sprintf("%s was changed by %s after %s started", old.source, text.CutMiddle(old.who, scene.MaxQuote), old.Container), Quote: when, Ref: old.ref},
			{Text: fmt.Sprintf("%s runs since %s", old.Container, old.started.UTC().Format(time.RFC3339)), Quote: old.started.UTC().Format(time.RFC3339), Ref: old.Pod.Ref},
		},
		WrongIf: "only its labels or annotations were changed, or the new value is as wrong",
		Test:    scene.GetTest(o.Namespace, "pod", old.Pod.Object.Name).DecidesBetween("its container runs since before "+when, "it was started after "+when),
		Actions: []scene.Step{
			{Action: fmt.Sprintf("Restart %s, so that its Pods take the values that %s has since %s", o, old.source, when), Do: scene.DoRestart, Outcome: "new Pods start with the present values", Risk: "needs room for new Pods; if the new value is wrong they fail too"},
			{Action: fmt.Sprintf("Let a change of %s roll out %s by itself: a checksum of it in the Pod template, or a controller that does so", old.source, o), Outcome: "the next change is taken up", Risk: "each change restarts its Pods"},
		},
		Affected: []nightcrier.Object{old.source},
	}
	switch {
	case len(well) > 0 && !old.asFile:
		n.Confidence = nightcrier.High
	case len(well) == 0 && old.asFile:
		n.Confidence = nightcrier.Low
	}
	if len(well) > 0 {
		n.Summary += fmt.Sprintf("; Pod %s, started since, does not complain", well[0])
	}
	n.Summary += fmt.Sprintf("; its log says: %s%s", said.logMatch.line, said.describeTimes())
	return n
}
