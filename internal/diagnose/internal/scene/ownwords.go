package scene

import (
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
}

// SelfComplaints are the objects of other kinds that say of themselves that they are not as
// they should be, in the order in which they were read.
func (s *Scene) SelfComplaints() (all []OwnWord) {
	for i := range s.Others {
		u := &s.Others[i]
		if t, bad := StatusTrouble(&u.Object); bad {
			o := objectOfOther(&u.Object)
			all = append(all, OwnWord{o, Observation{Text: o.String() + " says " + t.Says, Quote: t.Says + ": " + t.Message, Ref: u.Ref}})
		}
	}
	return all
}

// SaysItIsWell reports whether an object of another kind was read and has said, later than
// at a time, that it is as it should be.
func (s *Scene) SaysItIsWell(o nightcrier.Object, after time.Time) bool {
	for i := range s.Others {
		u := &s.Others[i].Object
		if objectOfOther(u) != o {
			continue
		}
		if _, bad := StatusTrouble(u); bad {
			return false
		}
		return slices.ContainsFunc(conditionsOf(u), func(c map[string]any) bool {
			kind, _ := c["type"].(string)
			text, _ := c["lastTransitionTime"].(string)
			at, _ := time.Parse(time.RFC3339, text) // none is long ago
			return c["status"] == string(metav1.ConditionTrue) && goodCondition.MatchString(kind) && at.After(after)
		})
	}
	return false
}

func objectOfOther(u *unstructured.Unstructured) nightcrier.Object {
	return nightcrier.Object{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}
