package triage

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/triage/falsify"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// The tests of our own report are run after it, on the cluster as it is then.
func TestTheReportsTestsAreRun(t *testing.T) {
	b := newBench(t, run.Builtin, nil)
	b.investigate()
	test := b.report().Hypotheses[0].Falsification
	if test.Outcome != falsify.Holds || test.Evidence == "" || test.Shown == "" || !strings.Contains(test.Why, "still find") {
		t.Errorf("%+v", test)
	}
	if index := b.read("output/evidence/index.jsonl"); !strings.Contains(index, `"id":"`+test.Evidence+`"`) {
		t.Errorf("%s was not kept", test.Evidence)
	}
	for _, want := range []string{"✓ holds: asked again at", test.Shown} {
		if !strings.Contains(b.read(report.FinalFile), want) {
			t.Errorf("the final report does not say %q", want)
		}
	}
	if log := b.read(run.AgentLogFile); !strings.Contains(log, "the report's tests were run: H1 holds") {
		t.Errorf("the log does not tell:\n%s", log)
	}
}

// A test is of the cluster's time, which is not that of this machine where the cluster was
// recorded.
func TestTestsAreOfTheClustersTime(t *testing.T) {
	b := newBench(t, run.Builtin, nil)
	b.clusters.now = func() time.Time { return time.Date(2025, 4, 5, 6, 7, 8, 0, time.UTC) }
	b.investigate()
	if test := b.report().Hypotheses[0].Falsification; !strings.Contains(test.Why, "asked again at 2025-04-05 06:07:08 UTC") {
		t.Errorf("%+v", test)
	}
}

// An agent whose own test speaks against it is still handed over, but not as sure
// as it was of itself.
func TestAnAgentIsRefutedByItsOwnTest(t *testing.T) {
	b := newBench(t, run.Builtin, nil)
	b.investigate()
	const command = "kubectl get deployment ledger -n payments -o yaml"
	var lines []string
	for l := range strings.Lines(b.read(agentReport)) {
		switch {
		case strings.HasPrefix(l, "- **Falsification test:**"):
			l = "- **Falsification test:** `" + command + "`\n"
		case strings.HasPrefix(l, "- **Expected if true:**"):
			l = "- **Expected if true:** `ProgressDeadlineOverdue` is there\n"
		case strings.HasPrefix(l, "- **Expected if false:**"):
			l = "- **Expected if false:** kind: Deployment\n"
		case strings.HasPrefix(l, "- **Outcome:**"):
			l = "- **Outcome:** ✓ holds\n"
		}
		lines = append(lines, l)
	}
	b = newBench(t, "script", nil, attempt{report: strings.Join(lines, ""), result: success()})
	inc := b.investigate()
	rep := b.report()
	test := rep.Hypotheses[0].Falsification
	if test.Command != command || test.Outcome != falsify.RuledOut || test.Evidence == "" {
		t.Errorf("%+v", test)
	}
	if inc.Status != nightcrier.Resolved || rep.RootCause.Confidence != nightcrier.Low || !strings.Contains(strings.Join(rep.Problems, "\n"), "H1 is ruled out by its own test") {
		t.Errorf("%s, %+v, problems %q", inc.Status, rep.RootCause, rep.Problems)
	}
	top, _, _ := strings.Cut(b.read(report.FinalFile), "## 1. ")
	if !strings.Contains(top, "**ruled out by its own test:**") {
		t.Errorf("the card does not say it:\n%s", top)
	}
}

// gone is a cluster that answers no more once the preparation is over.
type gone struct {
	diagnose.Reader
	after func() bool
}

func (g gone) away() error { return nightcrier.Errorf(nightcrier.Unreachable, "the cluster is away") }

func (g gone) Get(ctx context.Context, r nightcrier.Resource) ([]byte, error) {
	if g.after() {
		return nil, g.away()
	}
	return g.Reader.Get(ctx, r)
}

func (g gone) List(ctx context.Context, kind, ns, labels, fields string, limit int) ([]byte, error) {
	if g.after() {
		return nil, g.away()
	}
	return g.Reader.List(ctx, kind, ns, labels, fields, limit)
}

func (g gone) Logs(ctx context.Context, ns, pod, container string, previous bool, tail, maxBytes int64) ([]byte, error) {
	if g.after() {
		return nil, g.away()
	}
	return g.Reader.Logs(ctx, ns, pod, container, previous, tail, maxBytes)
}

func TestAClusterThatIsAwayRefutesNothing(t *testing.T) {
	d, err := scenarios()
	if err != nil {
		t.Fatal(err)
	}
	var b *bench
	prepared := func() bool {
		_, err := os.Stat(filepath.Join(b.root.Path(), "incident-"+b.inc.ID, DiagnosisFile))
		return err == nil
	}
	b = newBench(t, run.Builtin, func(name string, _ *mask.Masker, _ func(context.Context, journal.Request) error) diagnose.Reader {
		return gone{recorded(d, name), prepared}
	})
	inc := b.investigate()
	rep := b.report()
	test := rep.Hypotheses[0].Falsification
	if inc.Status != nightcrier.Resolved || rep.RootCause == nil || rep.RootCause.Confidence == nightcrier.Low || test.Outcome != falsify.NotRun || test.Why == "" {
		t.Errorf("%s, %+v, %+v", inc.Status, rep.RootCause, test)
	}
}

// A retry keeps the evidence of the run before it, and what was seen then shows
// nothing about now.
func TestEvidenceOfAnEarlierRunIsNone(t *testing.T) {
	b := newBench(t, run.Builtin, nil)
	b.investigate()
	o := b.order(agent.Spec{Executor: "script"})
	o.RunID = nightcrier.NewID()
	md := []byte(b.read(agentReport))
	for name, c := range map[string]struct {
		run  string
		seen bool
	}{"the same run": {b.run.ID, true}, "another run": {o.RunID, false}} {
		o.RunID = c.run
		s := b.session(o)
		b.must(s.OpenEvidence(t.Context()))
		rep := s.judgeReport(md)
		s.Close()
		if (rep.CheckedShare > 0) != c.seen {
			t.Errorf("%s: %.2f of the facts are checked", name, rep.CheckedShare)
		}
	}
}

// When the agent fails, the facts are the report, which says so, and its tests are
// run like those of any other.
func TestTheFallbackSaysWhatItIs(t *testing.T) {
	for name, at := range map[string]attempt{
		"it ended with an error": {result: failed(nightcrier.FailAgent, nightcrier.StateFailed, 1)},
		"it wrote rubbish":       {report: "# All fine\n", result: success()},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "script", nil, at)
			inc := b.investigate()
			rep := b.report()
			if rep.Source != run.Builtin || !rep.Valid || rep.RootCause == nil || rep.Hypotheses[0].Falsification.Outcome != falsify.Holds {
				t.Errorf("%+v", rep)
			}
			said := strings.Join(rep.Problems, "\n")
			if !strings.Contains(said, "script delivered no valid report") || !strings.Contains(said, inc.FailureReason) || !strings.Contains(b.read(report.FinalFile), "script delivered no valid report") {
				t.Errorf("problems %q of a run that ended with %q", rep.Problems, inc.FailureReason)
			}
		})
	}
}
