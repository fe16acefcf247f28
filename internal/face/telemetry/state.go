package telemetry

import (
	"context"
	"time"

	"nightcrier.dev/nightcrier"

	"github.com/prometheus/client_golang/prometheus"
)

// scrapeTimeout bounds what one scrape may ask of the store.
const scrapeTimeout = 3 * time.Second

// State is what is true right now; it is asked for at each scrape, so that no
// gauge can go stale.
type State struct {
	// Queued and Leased count runs that wait and runs that hold a lease.
	Queued, Leased int
	// Waits counts the runs that wait by what for, of those that were queued last and those under way.
	Waits map[nightcrier.WaitKind]int
	// Active counts the investigations under way by cluster, those taken over
	// from an earlier server included.
	Active map[string]int
	// Incidents counts rows by status.
	Incidents map[nightcrier.IncidentStatus]int
	Sources   []nightcrier.SourceStatus
	// Spent is what models cost today, a day of UTC, by cluster.
	Spent []Spent
}

// Spent is what a cluster's agents spent on models today. Held is what is set aside
// for calls under way and for those of which nobody knows what they cost.
type Spent struct {
	Cluster      string
	USD, HeldUSD float64
	Tokens       int64
	Waiting      int // runs that wait for what is held for others
}

// WatchState makes each scrape call read, with a few seconds' time. While it
// fails the gauges are absent and nightcrier_state_readable is 0. Call it once.
func (m *Metrics) WatchState(read func(context.Context) (State, error)) {
	m.registry.MustRegister(&stateCollector{read: read})
}

var (
	readableDesc = newDesc("nightcrier_state_readable", "1 when the store answered this scrape.")
	queueDesc    = newDesc("nightcrier_queue_depth", "Runs that wait for admission.")
	waitsDesc    = newDesc("nightcrier_runs_waiting", "Runs that wait, by what for.", "for")
	leasesDesc   = newDesc("nightcrier_leases", "Runs that hold a lease.")
	activeDesc   = newDesc("agent_runtime_active_agents", "Agents at work now, those taken over from an earlier server included.", "cluster")
	incidentDesc = newDesc("nightcrier_incidents", "Incidents in the store, by status.", "status")
	sourceDesc   = newDesc("nightcrier_source_state", "1 for the state that a cluster's source is in, 0 for the others.", "cluster", "source", "state")
	heardDesc    = newDesc("nightcrier_source_last_event_timestamp_seconds", "When the newest event of a cluster arrived; absent before the first.", "cluster", "source")
	reconnDesc   = newDesc("nightcrier_source_reconnects_total", "Fresh sessions after the first; of a watch, snapshots that had to be taken again.", "cluster", "source")
	receivedDesc = newDesc("nightcrier_source_events_total", "Payloads received from a cluster's source.", "cluster", "source")
	objectsDesc  = newDesc("nightcrier_watch_objects", "Objects that a cluster's watch follows.", "cluster")
	faultsDesc   = newDesc("nightcrier_watch_active_faults", "Faults that a cluster's watch has told and that are not over.", "cluster")
	spentDesc    = newDesc("nightcrier_budget_spent_usd", "Dollars spent on models for a cluster today (UTC).", "cluster")
	heldDesc     = newDesc("nightcrier_budget_held_usd", "Dollars set aside today (UTC) for calls under way and those of unknown cost.", "cluster")
	tokensDesc   = newDesc("nightcrier_budget_spent_tokens", "Tokens of models used for a cluster today (UTC).", "cluster")
	waitingDesc  = newDesc("nightcrier_budget_waiting", "Runs of a cluster that wait until what is held for calls of others is settled.", "cluster")
	blindDesc    = newDesc("nightcrier_watch_problems", "Kinds that a cluster's watch cannot follow.", "cluster")

	stateDescs = []*prometheus.Desc{readableDesc, queueDesc, waitsDesc, leasesDesc, activeDesc, incidentDesc, sourceDesc, heardDesc, reconnDesc, receivedDesc,
		objectsDesc, faultsDesc, blindDesc, spentDesc, heldDesc, tokensDesc, waitingDesc}

	sourceStates = []nightcrier.SourceState{nightcrier.SourceConnecting, nightcrier.SourceSubscribed,
		nightcrier.SourceStale, nightcrier.SourceDown, nightcrier.SourceStopped}
)

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// stateCollector turns a State into gauges; see prometheus.Collector.
type stateCollector struct {
	read func(context.Context) (State, error)
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range stateDescs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	state, err := c.read(ctx)
	out <- gaugeValue(readableDesc, flagValue(err == nil))
	if err != nil {
		return
	}
	out <- gaugeValue(queueDesc, float64(state.Queued))
	for what, n := range state.Waits {
		out <- gaugeValue(waitsDesc, float64(n), string(what))
	}
	out <- gaugeValue(leasesDesc, float64(state.Leased))
	for cluster, n := range state.Active {
		out <- gaugeValue(activeDesc, float64(n), cluster)
	}
	for status, n := range state.Incidents {
		out <- gaugeValue(incidentDesc, float64(n), string(status))
	}
	for _, s := range state.Sources {
		collectSource(out, s)
	}
	for _, s := range state.Spent {
		out <- gaugeValue(spentDesc, s.USD, s.Cluster)
		out <- gaugeValue(heldDesc, s.HeldUSD, s.Cluster)
		out <- gaugeValue(tokensDesc, float64(s.Tokens), s.Cluster)
		out <- gaugeValue(waitingDesc, float64(s.Waiting), s.Cluster)
	}
}

func collectSource(out chan<- prometheus.Metric, s nightcrier.SourceStatus) {
	for _, state := range sourceStates {
		out <- gaugeValue(sourceDesc, flagValue(s.State == state), s.Cluster, s.Source, string(state))
	}
	if !s.LastEventAt.IsZero() {
		out <- gaugeValue(heardDesc, float64(s.LastEventAt.UnixMilli())/1000, s.Cluster, s.Source)
	}
	out <- prometheus.MustNewConstMetric(reconnDesc, prometheus.CounterValue, float64(s.Reconnects), s.Cluster, s.Source)
	out <- prometheus.MustNewConstMetric(receivedDesc, prometheus.CounterValue, float64(s.Events), s.Cluster, s.Source)
	if s.Source == "watch" {
		out <- gaugeValue(objectsDesc, float64(s.Objects), s.Cluster)
		out <- gaugeValue(faultsDesc, float64(s.ActiveFaults), s.Cluster)
		out <- gaugeValue(blindDesc, float64(len(s.Problems)), s.Cluster)
	}
}

func gaugeValue(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}
