package telemetry

import (
	"net/http"
	"time"

	"nightcrier.dev/nightcrier"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxScrapes bounds concurrent scrapes, so that an impatient scraper cannot
// pile up store reads.
const maxScrapes = 3

// Metrics counts what happens in one process. Its methods may be called from
// any goroutine.
type Metrics struct {
	registry *prometheus.Registry
	agents   agentMetrics

	events        *prometheus.CounterVec
	repeats       *prometheus.CounterVec
	eventDelay    prometheus.Histogram
	unstored      *prometheus.CounterVec
	admissionWait prometheus.Histogram
	incidents     *prometheus.CounterVec
	notifications *prometheus.CounterVec
	masked        prometheus.Counter
	checkedShare  prometheus.Histogram
	breakerOpen   *prometheus.GaugeVec
	storms        *prometheus.CounterVec
	asked         *prometheus.CounterVec
}

// NewMetrics returns a registry with every metric of the product in it. The
// version becomes a label of nightcrier_build_info.
func NewMetrics(version string) *Metrics {
	r := prometheus.NewRegistry()
	m := &Metrics{
		registry: r,
		agents:   newAgentMetrics(r),
		events: newCounter(r, "nightcrier_events_total",
			"Events received, by what became of them.", "cluster", "outcome", "reason"),
		repeats: newCounter(r, "nightcrier_events_repeated_total",
			"Events delivered once more: alerts that go on. They are no events of their own.", "cluster"),
		eventDelay: newHistogram(r, "nightcrier_event_store_seconds",
			"Time from receiving an event until it was durably stored.", prometheus.ExponentialBuckets(0.001, 4, 8)),
		unstored: newCounter(r, "nightcrier_event_store_failures_total",
			"Attempts to store an event that failed: a full disk, a database that is away. They are repeated.", "cluster", "error_type"),
		admissionWait: newHistogram(r, "nightcrier_admission_wait_seconds",
			"Time that runs waited in the queue before they were admitted.", prometheus.ExponentialBuckets(0.1, 4, 10)),
		incidents: newCounter(r, "nightcrier_incidents_closed_total",
			"Incidents whose investigation ended, by status.", "cluster", "status"),
		notifications: newCounter(r, "nightcrier_notifications_total",
			"Notifications by channel, kind and final state.", "channel", "kind", "state"),
		masked: newCounter(r, "nightcrier_masked_values_total",
			"Values that looked like secrets and were masked.").WithLabelValues(),
		checkedShare: newHistogram(r, "nightcrier_report_checked_share",
			"Share of a report's facts that recorded evidence shows, 0 to 1.", []float64{0, 0.25, 0.5, 0.75, 0.9, 1}),
		breakerOpen: newGauge(r, "nightcrier_breaker_open",
			"1 while an executor's circuit breaker holds its queue.", "executor"),
		storms: newCounter(r, "nightcrier_storms_total", "Event storms that began.", "cluster"),
		asked: newCounter(r, "nightcrier_cluster_requests_total",
			"Requests to clusters of investigations that ended, by what the guard decided.", "cluster", "decision"),
	}
	info := newGauge(r, "nightcrier_build_info", "Always 1; the label tells the version.", "version")
	info.WithLabelValues(version).Set(1)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler serves the registry in the Prometheus text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// EventDecided counts an event by what intake made of it.
func (m *Metrics) EventDecided(cluster string, outcome nightcrier.Outcome, reason nightcrier.Reason) {
	m.events.WithLabelValues(cluster, string(outcome), string(reason)).Inc()
}

// EventRepeated counts an event that was delivered once more.
func (m *Metrics) EventRepeated(cluster string) { m.repeats.WithLabelValues(cluster).Inc() }

// EventStored records how long an event took from receipt to durable storage.
func (m *Metrics) EventStored(took time.Duration) { m.eventDelay.Observe(took.Seconds()) }

// EventNotStored records that an event could not be stored, and why.
func (m *Metrics) EventNotStored(cluster string, why nightcrier.Code) {
	m.unstored.WithLabelValues(cluster, string(why)).Inc()
}

// Admitted records how long a run had waited when it was admitted.
func (m *Metrics) Admitted(waited time.Duration) { m.admissionWait.Observe(waited.Seconds()) }

// IncidentClosed counts the end of an investigation.
func (m *Metrics) IncidentClosed(cluster string, status nightcrier.IncidentStatus) {
	m.incidents.WithLabelValues(cluster, string(status)).Inc()
}

// NotificationEnded counts a notification by its final state.
func (m *Metrics) NotificationEnded(channel, kind, state string) {
	m.notifications.WithLabelValues(channel, kind, state).Inc()
}

// Masked adds n masked values.
func (m *Metrics) Masked(n int) {
	if n > 0 {
		m.masked.Add(float64(n))
	}
}

// ReportChecked records the checked share of a finished report.
func (m *Metrics) ReportChecked(share float64) { m.checkedShare.Observe(share) }

// BreakerChanged says whether the executor's breaker is open now.
func (m *Metrics) BreakerChanged(executor string, open bool) {
	m.breakerOpen.WithLabelValues(executor).Set(flagValue(open))
}

// StormStarted counts a storm.
func (m *Metrics) StormStarted(cluster string) { m.storms.WithLabelValues(cluster).Inc() }

// ClusterAsked counts what an investigation asked of its cluster.
func (m *Metrics) ClusterAsked(cluster string, allowed, denied int) {
	m.asked.WithLabelValues(cluster, "allow").Add(float64(allowed))
	m.asked.WithLabelValues(cluster, "deny").Add(float64(denied))
}

func flagValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func newCounter(r prometheus.Registerer, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	r.MustRegister(c)
	return c
}

func newGauge(r prometheus.Registerer, name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	r.MustRegister(g)
	return g
}

func newHistogram(r prometheus.Registerer, name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	r.MustRegister(h)
	return h
}
