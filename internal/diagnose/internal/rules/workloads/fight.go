package workloads

import (
	"fmt"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var fightRules = scene.Area{Name: "fight", SceneRules: []scene.SceneRule{replicasFoughtOver, writersAlternate}, Causes: fightCauses}

var fightCauses = []scene.Cause{
	{ID: "controllers-fight", Category: "Cluster", Meaning: "two controllers write the same field of an object in turn, and each undoes what the other did", Rank: scene.RankStated + 5},
}

// often is how many times in a row something is undone until that is a fight.
const often = 3

var (
	scaledBy   = scene.NewPattern(`^Scaled (up|down) replica set (\S{1,253}) (?:from \d{1,6} )?to (\d{1,6})`)
	newSize    = scene.NewPattern(`^New size: (\d{1,6}); reason: (.{0,300})`)
	belowWords = scene.NewPattern(`(?i)below target`)
)

// swings counts how often a number went up and down, of late.
type swings struct {
	up, down int
	seen     [2]*scene.Read[corev1.Event] // the last of each
}

func countOf(e *corev1.Event) int {
	n := max(1, int(e.Count))
	if e.Series != nil {
		n = max(n, int(e.Series.Count))
	}
	return n
}

func (w *swings) add(e scene.Read[corev1.Event], up bool) {
	if up {
		w.up += countOf(&e.Object)
		w.seen[0] = &e
	} else {
		w.down += countOf(&e.Object)
		w.seen[1] = &e
	}
}

// fightFor is how far back changes of a number are counted.
const fightFor = 90 * time.Minute

// replicasSwing counts how a Deployment was scaled without a rollout: one ReplicaSet of it up
// and down again.
func replicasSwing(s *scene.Scene, o nightcrier.Object) (w swings) {
	bySet := map[string]*swings{}
	for e := range s.EventsAbout(o.Kind, o.Namespace, o.Name) {
		m := scaledBy.FindStringSubmatch(e.Object.Message)
		if m == nil || e.Object.Reason != "ScalingReplicaSet" || s.Now.Sub(scene.EventLastSeen(&e.Object)) > fightFor {
			continue
		}
		if bySet[m[2]] == nil {
			bySet[m[2]] = &swings{}
		}
		bySet[m[2]].add(e, m[1] == "up")
	}
	for _, set := range bySet {
		if min(set.up, set.down) > min(w.up, w.down) {
			w = *set
		}
	}
	return w
}

// scalerSwings counts what an autoscaler says that it did itself.
func scalerSwings(s *scene.Scene, h *autoscalingv2.HorizontalPodAutoscaler) (w swings) {
	for e := range s.EventsAbout("HorizontalPodAutoscaler", h.Namespace, h.Name) {
		m := newSize.FindStringSubmatch(e.Object.Message)
		if m != nil && e.Object.Reason == "SuccessfulRescale" && s.Now.Sub(scene.EventLastSeen(&e.Object)) <= fightFor {
			w.add(e, !belowWords.MatchString(m[2]))
		}
	}
	return w
}

// replicasFoughtOver finds autoscalers whose decisions are undone: the Deployment goes up and
// down, and the autoscaler decided only one of the two; or it decides for the same again and
// again. Where it decided both, the load swings and nobody fights.
func replicasFoughtOver(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Autoscalers {
		h := &s.Autoscalers[i]
		if h.Object.DeletionTimestamp != nil {
			continue
		}
		target := scaleTarget(&h.Object)
		it, own := replicasSwing(s, target), scalerSwings(s, &h.Object)
		one := own.up >= 2 && often*own.down <= own.up || own.down >= 2 && often*own.up <= own.down
		undone := min(it.up, it.down) >= often && one
		again := max(own.up, own.down) >= often && min(own.up, own.down) == 0 && isRepeated(own) && setBack(&h.Object)
		if !undone && !again {
			continue
		}
		out = append(out, fightFinding(s, h, target, it, own))
	}
	return out
}

// isRepeated reports whether one and the same decision was taken often.
func isRepeated(w swings) bool {
	for _, e := range w.seen {
		if e != nil && countOf(&e.Object) >= often {
			return true
		}
	}
	return false
}

// setBack reports whether an autoscaler's target has another number of replicas than it has
// decided for.
func setBack(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	return h.Status.CurrentReplicas != h.Status.DesiredReplicas
}

func fightFinding(s *scene.Scene, h *scene.Read[autoscalingv2.HorizontalPodAutoscaler], target nightcrier.Object, it, own swings) scene.Finding {
	scaler := scalerObject(h)
	n := scene.Finding{
		Cause: "controllers-fight", Object: target, Confidence: nightcrier.Medium, Affected: []nightcrier.Object{target, scaler}, Weight: it.up + it.down,
		WrongIf: "somebody scales it by hand",
		Test:    scene.GetTest(target.Namespace, strings.ToLower(target.Kind), target.Name).DecidesBetween("metadata.managedFields names somebody else than the autoscaler for spec.replicas", "only the autoscaler writes spec.replicas"),
	}
	for _, e := range []*scene.Read[corev1.Event]{own.seen[0], own.seen[1], it.seen[0], it.seen[1]} {
		if e != nil {
			n.Observed = append(n.Observed, scene.ObserveEvent(*e))
		}
	}
	who, field := "somebody else", "spec.replicas"
	if by, ref, words := otherWriter(s, target); by.Name != "" {
		n.Object, n.Confidence = by, nightcrier.High
		who = by.String() + " (" + words + ")"
		n.Observed = append(n.Observed, scene.Observation{Text: fmt.Sprintf("%s delivers %s and %s", by, target, words), Quote: by.Name, Ref: ref})
	} else if meta, _ := s.WorkloadOf(target); meta != nil {
		if at, manager := scene.LastEdit(meta); s.Now.Sub(at) < fightFor && manager != "" {
			who = text.CutMiddle(manager, scene.MaxQuote) + ", which wrote it last at " + at.UTC().Format(time.RFC3339)
		}
	}
	n.Summary = fmt.Sprintf("%s and %s write %s of %s in turn: it was scaled up %d times and down %d times of late, and the autoscaler decided %d and %d of them", scaler, who, field, target, it.up, it.down, own.up, own.down)
	if last := own.seen[0]; last != nil {
		n.Summary += ": " + text.CutMiddle(last.Object.Message, scene.MaxQuote)
	}
	n.Summary += "."
	n.Actions = []scene.Step{
		{Action: fmt.Sprintf("Take %s of %s out of what %s delivers (in Argo CD: ignoreDifferences /spec/replicas with RespectIgnoreDifferences=true), and leave it to %s", field, target, n.Object, scaler), Do: scene.DoEdit, Outcome: "the number of Pods stays where the autoscaler sets it", Risk: "without the autoscaler nobody sets the number any more"},
		{Action: "Raise minReplicas of " + scaler.String() + " and the delivered number to what the load needs, until then", Outcome: "the load is carried meanwhile", Risk: "costs more than needed at night"},
	}
	return n
}

// otherWriter is what delivers a workload and puts back what differs, and the words that say so.
func otherWriter(s *scene.Scene, target nightcrier.Object) (nightcrier.Object, scene.Ref, string) {
	meta, _ := s.WorkloadOf(target)
	if meta == nil {
		return nightcrier.Object{}, scene.Ref{}, ""
	}
	for _, res := range scene.DeliveredBy(*meta) {
		u := s.FindOther(scene.Reference{Kind: res.Kind, Namespace: res.Namespace, Name: res.Name})
		if u == nil {
			continue
		}
		switch res.Kind {
		case "Application":
			if heals, _, _ := unstructured.NestedBool(u.Object.Object, "spec", "syncPolicy", "automated", "selfHeal"); !heals || ignoresReplicas(&u.Object) {
				continue
			}
			return scene.ObjectOf(res), u.Ref, "puts back what differs: selfHeal is true"
		case "Kustomization":
			return scene.ObjectOf(res), u.Ref, "applies its manifests again every " + scene.StringAt(&u.Object, "spec", "interval")
		}
	}
	return nightcrier.Object{}, scene.Ref{}, ""
}

// ignoresReplicas reports whether an Application leaves the number of replicas alone.
func ignoresReplicas(u *unstructured.Unstructured) bool {
	list, _, _ := unstructured.NestedSlice(u.Object, "spec", "ignoreDifferences")
	return strings.Contains(fmt.Sprint(list...), "/spec/replicas")
}

// Bounds of what counts as writing in turn: both have written within turnFor, and all the
// time the object is written at least so often an hour.
const (
	turnFor      = 10 * time.Minute
	leastWrites  = 100
	writesAnHour = 4
)

// writersAlternate finds workloads that two parties have both written just now, and that are
// written all the time: each rollout of the one is followed by one of the other.
func writersAlternate(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	see := func(kind string, o metav1.ObjectMeta, ref scene.Ref) {
		var first, second metav1.ManagedFieldsEntry
		for _, m := range o.ManagedFields {
			if m.Time == nil || m.Subresource != "" || scene.IsOwnController(m.Manager) || s.Now.Sub(m.Time.Time) > turnFor {
				continue
			}
			if first.Manager == "" {
				first = m
			} else if m.Manager != first.Manager {
				second = m
			}
		}
		hours := s.Now.Sub(o.CreationTimestamp.Time).Hours()
		if second.Manager == "" || o.Generation < leastWrites || float64(o.Generation) < writesAnHour*hours {
			return
		}
		is := nightcrier.Object{Kind: kind, Namespace: o.Namespace, Name: o.Name}
		words := fmt.Sprintf("%s wrote it at %s and %s at %s, and it is at generation %d", first.Manager, first.Time.UTC().Format(time.RFC3339), second.Manager, second.Time.UTC().Format(time.RFC3339), o.Generation)
		out = append(out, scene.Finding{
			Cause: "controllers-fight", Object: is, Confidence: nightcrier.Medium,
			Summary:  fmt.Sprintf("%s is written by two in turn: %s.", is, text.CutMiddle(words, scene.MaxQuote)),
			Observed: []scene.Observation{{Text: is.String() + ": " + words, Quote: first.Manager, Ref: ref}},
			WrongIf:  "the two write different fields, and somebody changes it on purpose this often",
			Test:     scene.GetTest(o.Namespace, strings.ToLower(kind), o.Name).DecidesBetween("its generation goes on to grow, and both managers have a field in common", "its generation stands still"),
			Actions: []scene.Step{
				{Action: fmt.Sprintf("Compare with --show-managed-fields which field of %s both %s and %s write, and take it out of one of the two", is, first.Manager, second.Manager), Do: scene.DoEdit, Outcome: "it is rolled out no more", Risk: "the field is then the other's alone"},
			},
		})
	}
	for i := range s.Deployments {
		see("Deployment", s.Deployments[i].Object.ObjectMeta, s.Deployments[i].Ref)
	}
	for i := range s.StatefulSets {
		see("StatefulSet", s.StatefulSets[i].Object.ObjectMeta, s.StatefulSets[i].Ref)
	}
	for i := range s.DaemonSets {
		see("DaemonSet", s.DaemonSets[i].Object.ObjectMeta, s.DaemonSets[i].Ref)
	}
	return out
}
