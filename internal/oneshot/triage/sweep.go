package triage

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/diagnose"
)

// SweepMost is how many objects a sweep looks at one by one, behind its look at the
// whole cluster.
const SweepMost = 10

// Swept is what came of looking at a whole cluster.
type Swept struct {
	// Whole is the look at the cluster as a whole. It is the first of Found when it has
	// found a fault.
	Whole Result
	// Found are the faults, the worst first, each once, however much follows from it.
	Found []Result
	// Unclear are objects in trouble of which no cause was found: they may follow from
	// one of Found.
	Unclear []Result
	// Left are objects in trouble that were not looked at one by one.
	Left []nightcrier.Object
	// Cut is that the look at the whole cluster names as many objects in trouble as it
	// names at most: there may be more.
	Cut bool
}

// Sweep looks at a whole cluster, and then at each object that is in trouble for no
// reason that was found yet, at SweepMost of them.
func Sweep(ctx context.Context, o Options) (s Swept, err error) {
	o.Target = nightcrier.Resource{Kind: kinds.Cluster}
	if s.Whole, err = Run(ctx, o); err != nil || s.Whole.Report == nil {
		return s, err
	}
	known := explained{}
	if known.addReport(s.Whole.Report) {
		s.Found = append(s.Found, s.Whole)
	}
	s.Cut = len(s.Whole.Report.Scope.Affected) >= diagnose.MaxScope
	looked := 0
	for _, object := range s.Whole.Report.Scope.Affected {
		switch {
		case known[object.String()]:
			continue
		case looked == SweepMost:
			s.Left = append(s.Left, object)
			continue
		}
		looked++
		t, err := o.lookAt(ctx, object, fmt.Sprintf("%d. %s", looked, object))
		switch {
		case ctx.Err() != nil:
			return s, err
		case err != nil || t.Report == nil: // it may be gone by now
			s.Left = append(s.Left, object)
		case known.addReport(t.Report):
			s.Found = append(s.Found, t)
		case t.Report.Verdict == nightcrier.VerdictUndetermined:
			s.Unclear = append(s.Unclear, t)
		}
	}
	slices.SortStableFunc(s.Found, func(a, b Result) int { return cmp.Compare(a.Report.Severity, b.Report.Severity) })
	return s, nil
}

// lookAt investigates one object of a sweep.
func (o Options) lookAt(ctx context.Context, object nightcrier.Object, about string) (Result, error) {
	o.Target = nightcrier.Resource{Kind: object.Kind, Namespace: object.Namespace, Name: object.Name}
	if tell := o.Progress; tell != nil {
		o.Progress = func(p Progress) {
			p.About = about
			tell(p)
		}
	}
	return Run(ctx, o)
}

// explained are the objects whose trouble was found the reason of, and the reasons
// themselves.
type explained map[string]bool

// addReport takes in what a report explains, and reports whether it names a fault that no
// other has named.
func (e explained) addReport(r *nightcrier.Report) bool {
	for _, c := range r.Consequences {
		e[c.Object.String()] = true
	}
	if r.RootCause == nil {
		return false
	}
	if r.Target.Kind != kinds.Cluster { // of one object, only what has its cause is affected
		for _, o := range r.Scope.Affected {
			e[o.String()] = true
		}
	}
	fault := r.RootCause.Cause + " of " + r.RootCause.Object.String()
	isNew := !e[fault]
	e[fault], e[r.RootCause.Object.String()] = true, true
	return isNew
}
