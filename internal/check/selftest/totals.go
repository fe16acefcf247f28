package selftest

import (
	"fmt"
	"slices"
	"strings"
)

// Totals count the attacks of a suite by who made them.
type Totals struct {
	Suite   string `json:"suite"`
	By      string `json:"by"`
	Attacks int    `json:"attacks"`
	// StoppedBy counts those that a layer stopped; one may be stopped by several.
	StoppedBy map[Layer]int `json:"stoppedBy"`
	Defused   int           `json:"defused"`
	// NotPossible counts those that do not work on this machine anyway.
	NotPossible int `json:"notPossible"`
	// RBACWouldStop counts those that the cluster's own rules refuse as well, of the
	// RBACAsked that they are about.
	RBACWouldStop int `json:"rbacWouldStop,omitempty"`
	RBACAsked     int `json:"rbacAsked,omitempty"`
	// Failed counts those that succeeded, were not made, or ended nobody knows why.
	Failed int `json:"failed"`
}

// sumResults adds results up, in their order.
func sumResults(results []Result) (all []Totals) {
	for _, r := range results {
		i := slices.IndexFunc(all, func(t Totals) bool { return t.Suite == r.Suite && t.By == r.By })
		if i < 0 {
			i = len(all)
			all = append(all, Totals{Suite: r.Suite, By: r.By, StoppedBy: map[Layer]int{}})
		}
		t := &all[i]
		t.Attacks++
		for _, l := range r.StoppedBy {
			t.StoppedBy[l]++
		}
		if r.Outcome == Defused {
			t.Defused++
		}
		if r.RBACWouldStop != nil {
			t.RBACAsked++
			if *r.RBACWouldStop {
				t.RBACWouldStop++
			}
		}
		switch {
		case r.Outcome == NotPossible:
			t.NotPossible++
		case !r.Passed:
			t.Failed++
		}
	}
	return all
}

// namedFailures is how many failures are named in a line.
const namedFailures = 8

// Summary says in a line how many attacks are possible here, and which of them failed:
// as many as the totals have.
func (r Report) Summary() string {
	possible := 0
	var through, unmade []string
	for _, a := range r.Attacks {
		if a.Outcome == NotPossible {
			continue
		}
		possible++
		name := fmt.Sprintf("%s by %s", a.Attack, a.By)
		switch {
		case a.Outcome == NotExercised:
			unmade = append(unmade, name)
		case !a.Passed:
			through = append(through, name)
		}
	}
	if len(through)+len(unmade) == 0 {
		return fmt.Sprintf("%d attacks, and all are stopped or defused", possible) + r.leftOut()
	}
	var failed []string
	if len(through) > 0 {
		failed = append(failed, fmt.Sprintf("%d not stopped%s", len(through), namesInBrackets(through)))
	}
	if len(unmade) > 0 {
		failed = append(failed, fmt.Sprintf("%d could not be made%s", len(unmade), namesInBrackets(unmade)))
	}
	text := fmt.Sprintf("%d attacks, of which %d failed: %s", possible, len(through)+len(unmade), strings.Join(failed, "; "))
	return text + r.leftOut()
}

// leftOut says how many attacks this machine has nothing for, "" for none.
func (r Report) leftOut() string {
	left := 0
	for _, g := range r.NotExercised {
		left += g.Attacks
	}
	if left == 0 {
		return ""
	}
	return fmt.Sprintf("; %d are not exercised", left)
}

// RBAC says in a line what the cluster's own rules would stop, "" where they were not
// asked.
func (r Report) RBAC() string {
	asked, would := 0, 0
	for _, t := range r.Totals {
		asked, would = asked+t.RBACAsked, would+t.RBACWouldStop
	}
	if asked == 0 {
		return ""
	}
	return fmt.Sprintf("RBAC alone would stop %d of %d", would, asked)
}

// namesInBrackets are some names in brackets, if they are few.
func namesInBrackets(names []string) string {
	if len(names) == 0 || len(names) > namedFailures {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// Layers says who stopped how many, for a person.
func (t Totals) Layers() string {
	var words []string
	for _, l := range []Layer{CLI, Sandbox, Guard, RBAC} {
		if n := t.StoppedBy[l]; n > 0 {
			words = append(words, fmt.Sprintf("%s %d", l, n))
		}
	}
	return strings.Join(words, ", ")
}

// Confinement is what the attacks were made in.
type Confinement struct {
	// Require is what was asked for; Layers are those that held, and Missing those that
	// a strict sandbox has besides.
	Require string   `json:"require"`
	Layers  []string `json:"layers"`
	Missing []string `json:"missing"`
}

// String says it in one line.
func (s Confinement) String() string {
	text := s.Require + ": " + strings.Join(s.Layers, ", ")
	if len(s.Layers) == 0 {
		text = s.Require + ": no layer holds"
	}
	if len(s.Missing) > 0 {
		text += "; without " + strings.Join(s.Missing, ", ")
	}
	return text
}
