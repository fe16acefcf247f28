package nodes

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var operatorRules = scene.Area{Name: "operator", SceneRules: []scene.SceneRule{saysTrouble}, Causes: operatorCauses}

var operatorCauses = []scene.Cause{
	{ID: "custom-resource-failing", Category: "Cluster", Meaning: "an object of an operator says that what it asks for failed, and why", Rank: scene.RankStated + 5},
	{ID: "custom-resource-waiting", Category: "Cluster", Meaning: "an object of an operator is not ready, because something else is not", Rank: scene.RankFollows + 2, Symptom: true},
}

// waitsLong is how long an object may say that it waits until that counts as anything.
const waitsLong = 10 * time.Minute

// saysTrouble finds objects of operators whose status, or fresh Events, say that something
// is wrong. What they refer to, and what is made for them on the way, is where it begins.
func saysTrouble(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Others {
		u := &s.Others[i]
		if isReadElsewhere(u.Object.GetKind()) || s.IsNodeLaunching(&u.Object) {
			continue
		}
		t, bad := scene.StatusTrouble(&u.Object)
		seen := scene.Observation{Text: scene.OtherObject(&u.Object).String() + " says " + t.Says, Quote: t.Message, Ref: u.Ref}
		if t.Message == "" {
			_, seen.Quote, _ = strings.Cut(t.Says, "=")
		}
		if !bad {
			if t, seen, bad = eventTrouble(s, &u.Object); !bad {
				continue
			}
		}
		if t.Waits && s.Now.Sub(t.Since) < waitsLong {
			continue
		}
		out = append(out, troubleFinding(u, t, seen))
	}
	return out
}

// isReadElsewhere reports whether rules of their own read objects of a kind.
func isReadElsewhere(kind string) bool {
	return kind == "APIService" || kind == "ControllerRevision" || strings.HasSuffix(kind, "Route")
}

// eventTrouble is what fresh Warnings about an object say, where its status says nothing.
func eventTrouble(s *scene.Scene, u *unstructured.Unstructured) (scene.Trouble, scene.Observation, bool) {
	for e := range s.EventsAbout(u.GetKind(), u.GetNamespace(), u.GetName()) {
		if e.Object.Type == corev1.EventTypeWarning && s.IsFresh(e) {
			return scene.Trouble{Says: "by an event " + e.Object.Reason, Message: e.Object.Message, Since: e.Object.FirstTimestamp.Time}, scene.ObserveEvent(e), true
		}
	}
	return scene.Trouble{}, scene.Observation{}, false
}

func troubleFinding(u *scene.Read[unstructured.Unstructured], t scene.Trouble, seen scene.Observation) scene.Finding {
	o := scene.OtherObject(&u.Object)
	n := scene.Finding{
		Cause: "custom-resource-failing", Object: o, Confidence: nightcrier.High,
		Summary: fmt.Sprintf("%s says %s", o, text.CutMiddle(t.Says, scene.MaxQuote)), Observed: []scene.Observation{seen},
		WrongIf: "its operator has not looked again since it was mended",
		Test: scene.DescribeTest(o).
			DecidesBetween("its status still says so", "its status says that it is well"),
		Actions: []scene.Step{
			{Action: "Mend what " + o.String() + " complains of", Outcome: "its operator tries again by itself", Risk: "its next try changes what it manages"},
			{Action: "Read the log of the operator about " + o.Name, Outcome: "tells a wrong object from an operator that is not well", Risk: "none: read only"},
		},
	}
	if t.Message != "" {
		n.Summary += ": " + text.CutMiddle(t.Message, scene.MaxQuote)
		n.Actions[0].Action += " (" + text.CutMiddle(t.Message, scene.MaxQuote/2) + ")"
	}
	if t.Waits {
		n.Cause, n.Confidence = "custom-resource-waiting", nightcrier.Medium
	}
	if made := scene.MakesObject(&u.Object); made.Name != "" {
		n.Affected = []nightcrier.Object{made}
	}
	return n
}
