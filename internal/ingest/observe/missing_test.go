package observe

import (
	"log/slog"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
)

// ends counts how often a detector is told that a kind has no objects.
type ends struct {
	*detect.Detector
	n int
}

func (e *ends) End(kind detect.Kind, ns string) []detect.Fault {
	e.n++
	return e.Detector.End(kind, ns)
}

// That a kind of every cluster is not found is a proxy's answer, not the end of
// all its faults; a kind that a cluster may lack has no objects then.
func TestNotFoundEndsNoFaultOfAKindThatIsEverywhere(t *testing.T) {
	for kind, want := range map[detect.Watched]int{
		{Kind: detect.Pod, APIVersion: "v1"}:                               0,
		{Kind: detect.Node, APIVersion: "v1", Optional: true}:              0,
		{Kind: detect.Deployment, APIVersion: "apps/v1"}:                   0,
		{Kind: detect.Job, APIVersion: "batch/v1"}:                         0,
		{Kind: detect.APIService, APIVersion: "apiregistration.k8s.io/v1"}: 1,
	} {
		e := &ends{Detector: detect.New(detect.Config{Now: time.Now})}
		o := New(Config{Detector: e, Kinds: []detect.Watched{kind}, Logger: slog.New(slog.DiscardHandler)})
		if _, err := newLoop(o, kind, func() {}).noteFailure(t.Context(), nightcrier.Errorf(nightcrier.NotFound, "default backend - 404")); err != nil || e.n != want {
			t.Errorf("%s: %d times all its objects were gone, want %d (%v)", kind.Kind, e.n, want, err)
		}
	}
}
