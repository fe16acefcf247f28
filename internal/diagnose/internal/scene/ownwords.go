package scene

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nightcrier.dev/nightcrier"
)

// OwnWord is what an object of a kind that no rule knows says of itself.
type OwnWord struct {
	Object nightcrier.Object
	Seen   Observation
	Since  time.Time
}

// SelfComplaints are the objects of other kinds that say of themselves that they are not as
// they should be, in the order in which they were read.
func (s *Scene) SelfComplaints() (all []OwnWord) {
	for i := range s.Others {
		if w, bad := complaintOf(&s.Others[i]); bad {
			all = append(all, w)
		}
	}
	return all
}

// SaysItIsWell reports whether an object of another kind was read and has said, later than
// at a time, that it is as it should be.
func (s *Scene) SaysItIsWell(o nightcrier.Object, after time.Time) bool {
	for i := range s.Others {
		u := &s.Others[i]
		if u.Object.GetKind() != o.Kind || u.Object.GetNamespace() != o.Namespace || u.Object.GetName() != o.Name {
			continue
		}
		if _, bad := complaintOf(u); bad {
			return false
		}
		return slices.ContainsFunc(conditionsOf(&u.Object), func(c map[string]any) bool {
			return c["status"] == string(metav1.ConditionTrue) && goodCondition.MatchString(fieldOf(c, "type")) && timeAt(c).After(after)
		})
	}
	return false
}

func complaintOf(r *Read[unstructured.Unstructured]) (OwnWord, bool) {
	t, bad := StatusTrouble(&r.Object)
	if word := StringAt(&r.Object, "status", "sync", "status"); !bad && word == "OutOfSync" {
		t, bad = Trouble{Says: "status.sync.status=" + word, Message: word}, true
	}
	o := OtherObject(&r.Object)
	return OwnWord{Object: o, Since: t.Since, Seen: Observation{Text: o.String() + " says " + t.Says, Quote: cmp.Or(t.Message, t.Says), Ref: r.Ref}}, bad
}

func conditionsOf(u *unstructured.Unstructured) (all []map[string]any) {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range list {
		if m, ok := c.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

func fieldOf(condition map[string]any, name string) string {
	text, _ := condition[name].(string)
	return text
}

func timeAt(condition map[string]any) time.Time {
	text, _ := condition["lastTransitionTime"].(string)
	at, _ := time.Parse(time.RFC3339, text) // none is long ago
	return at
}
