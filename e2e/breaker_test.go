package e2e

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/run"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// Three runs in a row fail for want of a valid key: the queue holds, people are
// told once, a probe finds out when it works again, and nothing is lost.
func TestBreaker(t *testing.T) {
	t.Parallel()
	s := newBurstSite(t, "")
	s.env["NIGHTCRIER_MAX_CONCURRENT_AGENTS"], s.env["SLACK_WEBHOOK_URL"] = "1", s.slack.URL
	workers := newFakeWorkers(t)
	workers.badKey.Store(true)
	var ahead atomic.Int64
	a := s.app(func(o *app.Options) {
		o.Runs, o.Now = func(c *run.Config) { c.Workers = workers }, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	deliver := func(cluster string) {
		t.Helper()
		_, err := a.Deliver(t.Context(), delivery(cluster, "cart", "critical"))
		s.must(err)
	}
	for i := range 6 {
		deliver(fmt.Sprintf("c%d", i))
	}
	told := func(what string, times int) func() string {
		return func() string {
			n := 0
			for _, post := range s.slack.got() {
				if strings.Contains(post, what) {
					n++
				}
			}
			if n != times {
				return fmt.Sprintf("%q was told %d times, want %d", what, n, times)
			}
			return ""
		}
	}
	s.eventually(told("is unusable", 1))
	counts, err := a.Store().Counts(t.Context())
	s.must(err)
	if n := len(workers.launched()); n != 3 || counts.Queued != 3 {
		t.Errorf("%d agents were started and %d runs wait; want 3 and 3", n, counts.Queued)
	}

	workers.badKey.Store(false)
	ahead.Store(int64(61 * time.Second)) // a probe is due
	deliver("c6")                        // and the queue is looked at
	s.eventually(told("works again", 1))
	s.ended()
	list, _, err := a.Store().Incidents(t.Context(), store.IncidentFilter{})
	s.must(err)
	byStatus := map[nightcrier.IncidentStatus]int{}
	for _, inc := range list {
		byStatus[inc.Status]++
	}
	if byStatus[nightcrier.Failed] != 3 || byStatus[nightcrier.Resolved] != 4 {
		t.Errorf("incidents ended as %v; want 3 failed and 4 resolved", byStatus)
	}
}
