package e2e

import (
	"fmt"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/test/fakemcp"
)

// states are those of the sources by cluster.
func states(a *app.App) map[string]nightcrier.SourceStatus {
	m := map[string]nightcrier.SourceStatus{}
	for _, st := range a.Statuses() {
		m[st.Cluster] = st
	}
	return m
}

// Broken endpoints delay neither the start nor each other, are shown as what
// they are, and work again by themselves when their server does.
func TestBrokenEndpoints(t *testing.T) {
	t.Parallel()
	broken := map[string]fakemcp.Behaviour{
		"refuses":          {Abort: true},
		"hangs-initialize": {Hang: []string{"initialize"}},
		"hangs-subscribe":  {Hang: []string{"events_subscribe"}},
		"garbage":          {Garbage: true},
		"denies":           {Status: 403},
	}
	s := newSite(t, "")
	s.env["NIGHTCRIER_MAX_CONCURRENT_AGENTS"] = "1"
	s.clusters = append(s.clusters, "forgets")
	for name, b := range broken {
		s.peer.Behave(name, b)
		s.clusters = append(s.clusters, name)
	}
	// One that the start waited for would keep it for ever.
	s.must(s.app(func(o *app.Options) { o.SourceTimings.Call = time.Hour }).Stop(t.Context()))
	a := s.app(nil)
	s.push(cluster, fault(t, oom))
	if inc := s.ended(); inc.Cluster != cluster || inc.Status != nightcrier.Resolved {
		t.Errorf("the fault of the good cluster ended as %+v", inc)
	}
	for name := range broken {
		s.eventually(func() string {
			st := states(a)[name]
			if st.State != nightcrier.SourceDown || st.LastError == "" || st.RetryAt.IsZero() {
				return fmt.Sprintf("%s is %s, error %q", name, st.State, st.LastError)
			}
			return ""
		})
	}
	if st := states(a)[cluster]; st.State != nightcrier.SourceSubscribed || st.Events != 1 {
		t.Errorf("the good one is %+v", st)
	}
	s.peer.ForgetSubscriptions("forgets")
	for name := range broken {
		s.peer.Behave(name, fakemcp.Behaviour{})
	}
	n := 1
	for name := range states(a) {
		if name == cluster {
			continue
		}
		s.push(name, delivery(name, "web", "critical").Raw)
		n++
	}
	s.eventually(func() string {
		if got := len(s.incidents(a.Store())); got != n {
			return fmt.Sprintf("%d incidents of %d", got, n)
		}
		return ""
	})
	s.ended()
	for name, st := range states(a) {
		if st.State != nightcrier.SourceSubscribed || st.Events != 1 || name == "forgets" && st.Reconnects == 0 {
			t.Errorf("recovered, %s is %+v", name, st)
		}
	}
}

// A server that restarts, again and again, loses no fault that was pushed while
// somebody listened.
func TestSessionsAreForgotten(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	a := s.app(nil)
	for i := range 5 {
		s.push(cluster, delivery(cluster, fmt.Sprintf("web-%d", i), "critical").Raw)
		s.eventually(func() string {
			if got := len(s.incidents(a.Store())); got != i+1 {
				return fmt.Sprintf("%d incidents of %d", got, i+1)
			}
			return ""
		})
		before := s.peer.Stats(cluster).Initializes
		s.peer.ForgetSessions(cluster)
		s.eventually(func() string {
			if s.peer.Stats(cluster).Initializes == before {
				return "no new session"
			}
			return ""
		})
	}
	s.ended()
}
