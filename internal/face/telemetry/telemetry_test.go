package telemetry

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text/strictyaml"
)

// exercised returns a Metrics on which each method was called once, so that
// every metric has a sample.
func exercised(t *testing.T) *Metrics {
	t.Helper()
	start := time.Unix(1000, 0)
	m := NewMetrics("1.2.3")
	m.EventDecided("prod", nightcrier.Suppressed, nightcrier.BelowThreshold)
	m.EventRepeated("prod")
	m.EventStored(2 * time.Millisecond)
	m.EventNotStored("prod", nightcrier.Exhausted)
	m.Admitted(time.Second)
	m.IncidentClosed("prod", nightcrier.Resolved)
	m.NotificationEnded("slack", "incident", "sent")
	m.Masked(3)
	m.ReportChecked(0.5)
	m.BreakerChanged("claude-code", true)
	m.StormStarted("prod")
	m.ClusterAsked("prod", 12, 2)
	m.AgentEnded("prod", nightcrier.AgentResult{State: nightcrier.StateFailed, FailureClass: nightcrier.FailAuth,
		StartedAt: start, EndedAt: start.Add(42 * time.Second)})
	m.WorkspaceSizes(map[string]int64{"prod": 4096})
	m.AgentProcesses(map[string]int{"prod": 7})
	m.WatchState(func(context.Context) (State, error) {
		return State{Queued: 5, Leased: 2, Waits: map[nightcrier.WaitKind]int{nightcrier.WaitKey: 4}, Active: map[string]int{"prod": 1}, Incidents: map[nightcrier.IncidentStatus]int{nightcrier.Failed: 9},
			Sources: []nightcrier.SourceStatus{
				{Cluster: "prod", Source: "mcp", State: nightcrier.SourceStale, Events: 11, Reconnects: 4, LastEventAt: start},
				{Cluster: "prod", Source: "watch", State: nightcrier.SourceSubscribed, Objects: 5000, ActiveFaults: 2, Problems: []string{"Node: no"}},
			}}, nil
	})
	return m
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if rec.Code != 200 {
		t.Fatalf("scrape: status %d: %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

func TestMetrics(t *testing.T) {
	text := scrape(t, exercised(t))
	for _, line := range []string{
		`nightcrier_cluster_requests_total{cluster="prod",decision="deny"} 2`,
		`agent_runtime_invocations_total{cluster="prod",status="failed"} 1`,
		`agent_runtime_duration_seconds_sum{cluster="prod",status="failed"} 42`,
		`agent_runtime_active_agents{cluster="prod"} 1`,
		`agent_runtime_errors_total{cluster="prod",error_type="auth"} 1`,
		`agent_runtime_workspace_size_bytes{cluster="prod"} 4096`,
		`agent_runtime_processes{cluster="prod"} 7`,
		`nightcrier_events_total{cluster="prod",outcome="suppressed",reason="below_threshold"} 1`,
		`nightcrier_events_repeated_total{cluster="prod"} 1`,
		`nightcrier_event_store_failures_total{cluster="prod",error_type="exhausted"} 1`,
		`nightcrier_queue_depth 5`,
		`nightcrier_runs_waiting{for="key"} 4`,
		`nightcrier_leases 2`,
		`nightcrier_incidents{status="failed"} 9`,
		`nightcrier_admission_wait_seconds_sum 1`,
		`nightcrier_source_state{cluster="prod",source="mcp",state="stale"} 1`,
		`nightcrier_source_state{cluster="prod",source="mcp",state="subscribed"} 0`,
		`nightcrier_source_events_total{cluster="prod",source="mcp"} 11`,
		`nightcrier_source_state{cluster="prod",source="watch",state="subscribed"} 1`,
		`nightcrier_watch_objects{cluster="prod"} 5000`,
		`nightcrier_watch_active_faults{cluster="prod"} 2`,
		`nightcrier_watch_problems{cluster="prod"} 1`,
		`nightcrier_notifications_total{channel="slack",kind="incident",state="sent"} 1`,
		`nightcrier_masked_values_total 3`,
		`nightcrier_breaker_open{executor="claude-code"} 1`,
		`nightcrier_build_info{version="1.2.3"} 1`,
		`nightcrier_state_readable 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("missing %s", line)
		}
	}
}

func TestGaugesForgetWhatIsGone(t *testing.T) {
	m := exercised(t)
	m.WorkspaceSizes(nil)
	m.AgentProcesses(map[string]int{"other": 1})
	text := scrape(t, m)
	if strings.Contains(text, "agent_runtime_workspace_size_bytes{") || strings.Contains(text, `agent_runtime_processes{cluster="prod"}`) {
		t.Error("a gauge of a cluster that is gone remains")
	}
}

func TestUnreadableStateStaysScrapable(t *testing.T) {
	m := NewMetrics("x")
	m.WatchState(func(context.Context) (State, error) { return State{Queued: 3}, errors.New("disk gone") })
	text := scrape(t, m)
	if !strings.Contains(text, "nightcrier_state_readable 0\n") || strings.Contains(text, "nightcrier_queue_depth") {
		t.Errorf("an unreadable store must show as such and nothing else:\n%s", text)
	}
}

// TestAlerts reads the shipped rules and holds each metric they name against
// the registry.
func TestAlerts(t *testing.T) {
	raw, err := os.ReadFile("../../../deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := strictyaml.Unmarshal(raw, &file); err != nil {
		t.Fatalf("alerts.yaml: %v", err)
	}
	known := registered(t)
	metric := regexp.MustCompile(`\b(?:agent_runtime|nightcrier)_[a-z_]+`)
	rules := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			rules++
			if r.Alert == "" || r.Annotations["summary"] == "" || r.Labels["severity"] == "" {
				t.Errorf("group %s: rule %q lacks a name, a summary or a severity", g.Name, r.Alert)
			}
			used := metric.FindAllString(r.Expr, -1)
			if len(used) == 0 {
				t.Errorf("%s uses no metric of ours: %s", r.Alert, r.Expr)
			}
			for _, name := range used {
				if !known[name] {
					t.Errorf("%s uses %s, which is not registered", r.Alert, name)
				}
			}
		}
	}
	if rules < 5 {
		t.Errorf("only %d rules were read", rules)
	}
}

func TestTheDocumentNamesEveryMetric(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	ours := registered(t)
	for name := range ours {
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") && !strings.Contains(string(doc), "`"+name+"`") {
			t.Errorf("docs/operations.md does not name %s", name)
		}
	}
	for _, name := range regexp.MustCompile(`\b(?:agent_runtime|nightcrier)_[a-z_]+`).FindAllString(string(doc), -1) {
		if !ours[name] {
			t.Errorf("docs/operations.md names %s, which is not registered", name)
		}
	}
}

func registered(t *testing.T) map[string]bool {
	t.Helper()
	families, err := exercised(t).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range families {
		known[f.GetName()] = true
	}
	return known
}
