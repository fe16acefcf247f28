package telemetry

import (
	"nightcrier.dev/nightcrier"

	"github.com/prometheus/client_golang/prometheus"
)

// agentMetrics are what dashboards for agents rely on. How many are active is read
// at each scrape: agents outlive the server that started them.
type agentMetrics struct {
	invocations *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	size        *prometheus.GaugeVec
	errors      *prometheus.CounterVec
	processes   *prometheus.GaugeVec
}

func newAgentMetrics(r prometheus.Registerer) agentMetrics {
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "agent_runtime_duration_seconds",
		Help:    "How long agents ran, by how they ended.",
		Buckets: []float64{1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600},
	}, []string{"cluster", "status"})
	r.MustRegister(duration)
	return agentMetrics{
		duration: duration,
		invocations: newCounter(r, "agent_runtime_invocations_total",
			"Agent attempts that ended, by how.", "cluster", "status"),
		size: newGauge(r, "agent_runtime_workspace_size_bytes",
			"Bytes in the workspaces of a cluster's incidents.", "cluster"),
		errors: newCounter(r, "agent_runtime_errors_total",
			"Agent attempts that failed, by failure class.", "cluster", "error_type"),
		processes: newGauge(r, "agent_runtime_processes",
			"Processes in the agents' trees.", "cluster"),
	}
}

// AgentEnded counts the end of an attempt.
func (m *Metrics) AgentEnded(cluster string, res nightcrier.AgentResult) {
	status := string(res.State)
	m.agents.invocations.WithLabelValues(cluster, status).Inc()
	if took := res.EndedAt.Sub(res.StartedAt); !res.StartedAt.IsZero() && took >= 0 {
		m.agents.duration.WithLabelValues(cluster, status).Observe(took.Seconds())
	}
	if res.FailureClass != "" {
		m.agents.errors.WithLabelValues(cluster, string(res.FailureClass)).Inc()
	}
}

// WorkspaceSizes replaces the sizes of all workspaces, in bytes by cluster.
func (m *Metrics) WorkspaceSizes(bytes map[string]int64) {
	m.agents.size.Reset()
	for cluster, n := range bytes {
		m.agents.size.WithLabelValues(cluster).Set(float64(n))
	}
}

// AgentProcesses replaces the number of processes in agents' trees, by cluster.
func (m *Metrics) AgentProcesses(count map[string]int) {
	m.agents.processes.Reset()
	for cluster, n := range count {
		m.agents.processes.WithLabelValues(cluster).Set(float64(n))
	}
}
