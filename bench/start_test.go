package bench

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/config"
)

// stages are the marks that a run's journal leaves on the way to its agent, in
// their order.
var stages = []string{"stored", "admitted", "prepared", "launch", "claimed", "starting", "first-line"}

// marks collects when each mark of the run under way was made.
type marks struct {
	mu    sync.Mutex
	at    map[string]time.Time
	ended chan nightcrier.State
}

func (m *marks) set(name string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at[name] = at
}

// entry is told each journal entry, the worker's with the worker's time.
func (m *marks) entry(e nightcrier.JournalEntry) {
	switch e.Key {
	case "state:created":
		m.set("admitted", e.Time)
	case "prepared":
		m.set("prepared", e.Time)
	case "launch#1":
		m.set("launch", e.Time)
	}
	if e.Attempt == 0 || e.Type != nightcrier.EntryState {
		return
	}
	var st struct{ To nightcrier.State }
	_ = json.Unmarshal(e.Data, &st) // the worker's own
	switch st.To {
	case nightcrier.StateCreated:
		m.set("claimed", e.Time)
	case nightcrier.StateStarting:
		m.set("starting", e.Time)
	case nightcrier.StateRunning:
		m.set("first-line", e.Time)
	}
}

// BenchmarkFaultToAgent delivers a fault and measures until its agent's first
// line is read, over at least 200 runs, one after the other: the event on disk,
// the run admitted, the cluster read, the workspace written, the worker and the
// sandbox started. The scripted agent prints its line at once.
func BenchmarkFaultToAgent(b *testing.B) {
	cluster, raw := scenario(b)
	m := &marks{ended: make(chan nightcrier.State, 1)}
	o := options(b, "echo started\n", nil)
	o.Reach = func(config.Cluster) app.Reach { return direct{cluster} }
	o.Journaled = m.entry
	a := start(b, o)
	took := map[string]samples{}
	for i := 0; i < 200 || i < b.N; i++ {
		m.at = map[string]time.Time{}
		begin := time.Now()
		id := deliver(b, a, delivery(fmt.Sprintf("c-%d", i), raw))
		m.set("stored", time.Now())
		until(b, "the end of the run", func() bool {
			inc, err := a.Store().Incident(b.Context(), id)
			must(b, err)
			return !inc.Status.Open()
		})
		m.mu.Lock()
		last := begin
		for _, s := range stages {
			at, ok := m.at[s]
			if !ok {
				b.Fatalf("the journal does not show %q", s)
			}
			took[s] = append(took[s], at.Sub(last))
			last = at
		}
		took["all"] = append(took["all"], last.Sub(begin))
		m.mu.Unlock()
	}
	took["all"].report(b, "all")
	for _, s := range stages {
		b.ReportMetric(took[s].at(0.5), s+"-p50-ms")
	}
	b.ReportMetric(0, "ns/op")
}
