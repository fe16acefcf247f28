package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/oneshot/triage"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/price"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// TestSpentDay: where a cluster's day is used up no agent is asked, the facts are
// delivered and say why, people are told once, and other clusters go on.
func TestSpentDay(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start("budget: {per_cluster_day_usd: 0.02}", "slack: {webhook_url: "+h.slack.URL+"}", "listen: 127.0.0.1:0",
		"agent: {executor: script, script_path: /bin/true, api_key: sk-of-a-test}")
	l, err := budget.Open(filepath.Join(h.root, "budget"), time.Now)
	h.must(err)
	defer l.Close()
	g, err := l.Account(budget.Who{Run: "r", Incident: "i", Cluster: "c1"}, budget.Limits{}).Reserve(t.Context(), budget.Want{Output: 2, Price: price.Price{Output: cents / 2}}, nil)
	h.must(err)
	h.must(g.Settle(price.Tokens{Output: 2}))

	const why = "the agent was not asked: budget.per_cluster_day_usd is reached: $0.02 of $0.02 are spent for cluster c1 on "
	inc := h.done()
	h.want(inc.Status == nightcrier.Failed && inc.FailureClass == nightcrier.FailBudget && strings.Contains(inc.FailureReason, why), "%s %s: %s", inc.Status, inc.FailureClass, inc.FailureReason)
	var rep nightcrier.Report
	h.must(json.Unmarshal(h.file(inc, "output/report.json"), &rep))
	last := nightcrier.NotChecked{}
	if n := len(rep.NotChecked); n > 0 {
		last = rep.NotChecked[n-1]
	}
	h.want(rep.Source == "builtin" && strings.Contains(last.Why, why), "%s: %+v", rep.Source, rep.NotChecked)
	h.closed(h.fault("d2", "critical").Incident.ID)
	h.want(len(h.orders.all()) == 0, "an agent was started")
	told := 0
	h.eventually(func() string {
		told = 0
		for _, post := range h.slack.got() {
			if strings.Contains(post, "The budget of cluster c1 is used up") {
				told++
			}
		}
		if told == 0 || len(h.slack.got()) < 3 {
			return "people were not told"
		}
		return ""
	})
	h.want(told == 1, "people were told %d times", told)
	resp, err := http.Get("http://" + h.Addr() + "/metrics")
	h.must(err)
	metrics, err := io.ReadAll(resp.Body)
	h.must(err)
	h.must(resp.Body.Close())
	h.want(strings.Contains(string(metrics), `nightcrier_budget_spent_usd{cluster="c1"} 0.02`), "%s", metrics)

	h.fault("d1", "critical", "c2")
	h.eventually(func() string {
		if len(h.orders.all()) == 1 {
			return ""
		}
		return "no agent was started for another cluster"
	})
}

// TestTriageBesideAServer: what a triage may spend is what the server's agents leave of
// a day; where no server has been it makes nothing in the workspace root.
func TestTriageBesideAServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.script("exit 1\n")
	s.env["NIGHTCRIER_BUDGET_PER_DAY_USD"], s.env["ANTHROPIC_API_KEY"] = "0.02", "sk-ant-of-a-test"
	triage := func() nightcrier.Incident {
		t.Helper()
		cfg, err := s.order().config()
		s.must(err)
		got, err := triage.Run(t.Context(), triage.Options{
			Config: cfg, Logger: slog.New(slog.DiscardHandler), Version: "e2e", Cluster: cluster, Event: fault(t, oom),
			Snapshot: demoClusters()[cluster], WorkerCommand: []string{testproc.Self(), "worker"},
		})
		s.must(err)
		return got.Incident
	}
	if inc := triage(); inc.FailureClass != nightcrier.FailAgent {
		t.Errorf("%s: %s", inc.FailureClass, inc.FailureReason)
	}
	if _, err := os.Stat(s.root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a triage made the workspace root: %v", err)
	}
	l, err := budget.Open(filepath.Join(s.root, "budget"), time.Now)
	s.must(err)
	defer l.Close()
	g, err := l.Account(budget.Who{Run: "r", Incident: "i", Cluster: "another"}, budget.Limits{}).Reserve(t.Context(), budget.Want{Output: 2, Price: price.Price{Output: cents / 2}}, nil)
	s.must(err)
	s.must(g.Settle(price.Tokens{Output: 2}))
	if inc := triage(); inc.FailureClass != nightcrier.FailBudget || !strings.Contains(inc.FailureReason, "the agent was not asked: budget.per_day_usd is reached: $0.02 of $0.02 are spent") {
		t.Errorf("%s: %s", inc.FailureClass, inc.FailureReason)
	}
}
