package eval

import "slices"

// Change is a case that two evaluations answer differently.
type Change struct {
	Case string `json:"case"`
	// Before and After are nil where only the other one has the case.
	Before *Score `json:"before,omitempty"`
	After  *Score `json:"after,omitempty"`
}

// Better and Worse compare the answers; a case may be neither, as with another wrong answer.
func (c Change) Better() bool {
	return c.Before != nil && c.After != nil && goodness(*c.After) > goodness(*c.Before)
}

func (c Change) Worse() bool {
	return c.Before != nil && c.After != nil && goodness(*c.After) < goodness(*c.Before)
}

// goodness orders outcomes: to be right is best, then to leave it open.
func goodness(s Score) int {
	word, _ := s.Outcome()
	return slices.Index([]string{FalseAlarm, Failed, Wrong, Object, Abstained, Exact}, word)
}

// Compare lists the cases whose answer or confidence is another than before, in the order of
// the later evaluation.
func Compare(before, after Result) (changes []Change) {
	old := map[string]*Score{}
	for i := range before.Cases {
		old[before.Cases[i].Case] = &before.Cases[i]
	}
	for i := range after.Cases {
		now := &after.Cases[i]
		was := old[now.Case]
		delete(old, now.Case)
		if was == nil || !sameAnswer(*was, *now) {
			changes = append(changes, Change{now.Case, was, now})
		}
	}
	for i := range before.Cases {
		if was, left := old[before.Cases[i].Case]; left {
			changes = append(changes, Change{was.Case, was, nil})
		}
	}
	return changes
}

func sameAnswer(a, b Score) bool {
	sameObject := a.Object == nil && b.Object == nil || a.Object != nil && b.Object != nil && *a.Object == *b.Object
	return sameObject && a.Verdict == b.Verdict && a.Cause == b.Cause && a.Confidence == b.Confidence && a.Error == b.Error
}
