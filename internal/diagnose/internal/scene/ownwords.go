package scene

import (
	"slices"
	"strings"
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

// Conditions and words by which objects of any kind say whether they are as they should be:
// the usual ones of operators, positive and negative, and the words of phases and healths.
var (
	goodConditions = []string{"Ready", "Available", "Healthy", "Synced", "Reconciled", "Established", "Programmed", "Accepted", "Succeeded", "Valid", "Released"}
	badConditions  = []string{"Degraded", "Failed", "Failure", "Stalled", "Error", "ReconcileError", "ComparisonError", "SyncError", "InvalidSpecError", "InvalidRequest"}
	badWords       = []string{"Failed", "Error", "Degraded", "Unhealthy", "Missing", "OutOfSync", "Invalid", "Lost"}
	wordPaths      = [][]string{{"status", "phase"}, {"status", "state"}, {"status", "health", "status"}, {"status", "sync", "status"}, {"status", "operationState", "phase"}, {"status", "sealStatus"}}
)

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
			return c["status"] == string(metav1.ConditionTrue) && isWord(c["type"], goodConditions) && timeAt(c).After(after)
		})
	}
	return false
}

func complaintOf(r *Read[unstructured.Unstructured]) (OwnWord, bool) {
	u := &r.Object
	w := OwnWord{Object: nightcrier.Object{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}}
	note := func(text, quote string) (OwnWord, bool) {
		w.Seen = Observation{Text: w.Object.String() + " says " + text, Quote: quote, Ref: r.Ref}
		return w, true
	}
	for _, c := range conditionsOf(u) {
		kind, _ := c["type"].(string)
		status, _ := c["status"].(string)
		if status == string(metav1.ConditionFalse) && isWord(kind, goodConditions) || status == string(metav1.ConditionTrue) && isWord(kind, badConditions) {
			reason, _ := c["reason"].(string)
			message, _ := c["message"].(string)
			w.Since = timeAt(c)
			return note(kind+"="+status, strings.Trim(reason+": "+message, ": "))
		}
	}
	for _, path := range wordPaths {
		if word := StringAt(u, path...); isWord(word, badWords) {
			return note(strings.Join(path, ".")+"="+word, word)
		}
	}
	return w, false
}

func isWord(word any, of []string) bool {
	s, _ := word.(string)
	return slices.Contains(of, s)
}

func timeAt(condition map[string]any) time.Time {
	text, _ := condition["lastTransitionTime"].(string)
	at, _ := time.Parse(time.RFC3339, text) // none is long ago
	return at
}
