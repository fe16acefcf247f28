package scene

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EventsOf yields the events about one object, newest first.
func (f *Facts) EventsOf(kind, name string) iter.Seq[Read[corev1.Event]] {
	return func(yield func(Read[corev1.Event]) bool) {
		for _, e := range f.Events {
			if o := e.Object.InvolvedObject; o.Kind == kind && o.Name == name && !yield(e) {
				return
			}
		}
	}
}

// FreshFor is how old an Event may be to speak of now. One that keeps happening
// is written again about every five minutes.
const FreshFor = 15 * time.Minute

// IsFresh reports whether an Event speaks of now; what is hearsay always does.
func (f *Facts) IsFresh(e Read[corev1.Event]) bool {
	return f.Hearsay || f.Now.Sub(EventLastSeen(&e.Object)) < FreshFor
}

// EventLastSeen is when the event last happened.
func EventLastSeen(e *corev1.Event) time.Time {
	at := []metav1.Time{e.LastTimestamp, {Time: e.EventTime.Time}, e.FirstTimestamp, e.CreationTimestamp}
	if e.Series != nil {
		at = append(at, metav1.Time{Time: e.Series.LastObservedTime.Time})
	}
	return slices.MaxFunc(at, func(a, b metav1.Time) int { return cmp.Compare(a.UnixNano(), b.UnixNano()) }).Time
}

// ObserveEvent is what an Event of the cluster says.
func ObserveEvent(e Read[corev1.Event]) Observation {
	o := e.Object.InvolvedObject
	return Observation{
		Text:  fmt.Sprintf("event %s about %s %s", e.Object.Reason, o.Kind, o.Name),
		Quote: e.Object.Message, Ref: e.Ref,
	}
}

var (
	// addsNodes are the components that add nodes, as they sign their Events.
	addsNodes = NewPattern(`(?i)^(?:karpenter|cluster-autoscaler|cluster-api|node-?provision\w*)`)
	// addsNone are the reasons of Events by which they say that they add none.
	addsNone = NewPattern(`^(?:NotTriggerScaleUp|FailedToScaleUp|ScaleUpFailed|ScaleUpTimedOut)$`)
)

// IsOfAutoscaler reports whether an Event is by what adds nodes, and says that it adds none.
func IsOfAutoscaler(e *corev1.Event) bool {
	by := cmp.Or(e.Source.Component, e.ReportingController)
	return addsNone.MatchString(e.Reason) || e.Type == corev1.EventTypeWarning && addsNodes.MatchString(by)
}

// EventsAbout yields the Events about one object, newest first. ns is "" for
// cluster-wide objects.
func (s *Scene) EventsAbout(kind, ns, name string) iter.Seq[Read[corev1.Event]] {
	return func(yield func(Read[corev1.Event]) bool) {
		for _, e := range s.Events {
			o := e.Object.InvolvedObject
			if o.Kind == kind && o.Namespace == ns && o.Name == name && !yield(e) {
				return
			}
		}
	}
}

// IsFresh reports whether an Event speaks of now.
func (s *Scene) IsFresh(e Read[corev1.Event]) bool {
	return s.Now.Sub(EventLastSeen(&e.Object)) < FreshFor
}

// SortEvents puts the newest Events first.
func (s *Scene) SortEvents() {
	slices.SortStableFunc(s.Events, func(a, b Read[corev1.Event]) int {
		return EventLastSeen(&b.Object).Compare(EventLastSeen(&a.Object))
	})
}
