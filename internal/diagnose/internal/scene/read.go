package scene

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// LogExcerpt is the end of one container's log.
type LogExcerpt struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Previous  bool   `json:"previous,omitempty"`
	// Evidence is the id under which the excerpt was recorded.
	Evidence string `json:"evidence"`
	Text     string `json:"text"`
	// Source is how it was read, "" for the kubelet's log.
	Source string `json:"-"`
}

// Ref says where something was read.
type Ref struct {
	Evidence string
	Source   string
}

// Read is an object and where it was read.
type Read[T any] struct {
	Object T
	Ref    Ref
}

// Measured is what a source said of one container.
type Measured struct {
	Namespace, Pod, Container string
	Memory, Throttled         []Point
	From, To                  time.Time
	Ref
}

// Point is a measurement; text is how the source wrote it.
type Point struct {
	At    time.Time
	Value float64
	Text  string
}

// MeasuredOf is what was measured of a container, as far as has says that it is there.
func (f *Facts) MeasuredOf(c Container, has func(Measured) []Point) (Measured, []Point) {
	for _, m := range f.Scene.Measured {
		if points := has(m); len(points) > 0 && m.Namespace == c.Pod.Object.Namespace && m.Pod == c.Pod.Object.Name && m.Container == c.Status.Name {
			return m, points
		}
	}
	return Measured{}, nil
}

// ObserveUse is how the memory of a container went before it was killed. What is measured
// every half minute seldom meets the peak.
func (f *Facts) ObserveUse(c Container) (Observation, bool) {
	m, points := f.MeasuredOf(c, func(m Measured) []Point { return m.Memory })
	if len(points) == 0 {
		return Observation{}, false
	}
	most := slices.MaxFunc(points, func(a, b Point) int { return cmp.Compare(a.Value, b.Value) })
	text := fmt.Sprintf("the memory of %s went from %s to %s within %s before its end; the most that was measured is %s",
		c, bytesText(points[0].Value), bytesText(points[len(points)-1].Value), m.To.Sub(points[0].At).Round(time.Second), bytesText(most.Value))
	if limit := c.Spec.Resources.Limits.Memory(); !limit.IsZero() {
		text += fmt.Sprintf(", %.0f %% of its limit", 100*most.Value/limit.AsApproximateFloat64())
	}
	return Observation{Text: text, Quote: most.Text, Ref: m.Ref}, true
}

func bytesText(v float64) string {
	q := resource.NewQuantity(int64(v), resource.BinarySI)
	if v >= 1<<20 {
		q = resource.NewQuantity(int64(v)>>20<<20, resource.BinarySI)
	}
	return q.String()
}

// Ref is where the excerpt was read.
func (l LogExcerpt) Ref() Ref {
	return Ref{Evidence: l.Evidence, Source: "kubectl logs " + l.Pod + " -c " + l.Container + NamespaceFlag(l.Namespace)}
}

// RecentLines is how many of the last lines of a log without times tell of now.
const RecentLines = 40
