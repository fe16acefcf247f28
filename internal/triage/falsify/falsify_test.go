package falsify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

const cartPod = `{"kind":"Pod","metadata":{"name":"cart-1","namespace":"shop"},"status":{"phase":"Running","containerStatuses":[` +
	`{"name":"app","ready":false,"restartCount":7,"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}}`

// cluster answers from a table, by what was asked.
type cluster map[string]string

func (c cluster) answer(key string) ([]byte, error) {
	body, ok := c[key]
	switch {
	case !ok:
		return nil, nightcrier.Errorf(nightcrier.NotFound, "%s: not found", key)
	case body == "denied":
		return nil, nightcrier.Errorf(nightcrier.Refused, "%s: the credential may not", key)
	case body == "huge":
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "%s: the answer is larger than is read", key)
	}
	return []byte(body), nil
}

func (c cluster) Get(_ context.Context, r nightcrier.Resource) ([]byte, error) {
	return c.answer("get " + r.String())
}
func (c cluster) List(_ context.Context, kind, ns, labels, fields string, _ int) ([]byte, error) {
	return c.answer(strings.TrimSpace("list " + kind + " " + ns + " " + labels + fields))
}
func (c cluster) Logs(_ context.Context, ns, pod, container string, previous bool, _, _ int64) ([]byte, error) {
	return c.answer(fmt.Sprintf("logs %s/%s %s %t", ns, pod, container, previous))
}

// records counts what is kept.
type records struct {
	bodies []string
	err    error
}

func (r *records) Record(_, _ string, body []byte) (string, error) {
	r.bodies = append(r.bodies, string(body))
	return fmt.Sprintf("E%d", len(r.bodies)), r.err
}

var shop = cluster{
	"get shop/Pod/cart-1": cartPod,
	"list Pod shop":       `{"kind":"PodList","metadata":{"continue":"more"},"items":[` + cartPod + `]}`,
	"list Event shop involvedObject.kind=Pod,involvedObject.name=cart-1": `{"kind":"EventList","metadata":{},"items":[{"metadata":{"name":"cart-1.17a"},"reason":"BackOff","message":"Back-off restarting failed container app"}]}`,
	"logs shop/cart-1 app true":     "starting\n\x1b[2Jfatal: hunter2 heap\u202e exhausted\n",
	"get shop/ConfigMap/secret-ish": "denied",
	"get shop/ConfigMap/everything": "huge",
}

func input(c cluster) (Input, *records) {
	rec := &records{}
	return Input{
		Reader: c, Evidence: rec, Namespace: "shop", Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
		Clean: func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "hunter2", "‹secret›")) },
	}, rec
}

func TestAgentsTests(t *testing.T) {
	for _, c := range []struct {
		name, command, ifTrue, ifFalse string
		outcome, why, shown            string
	}{
		{"found", "kubectl get pod cart-1", "the reason is `OOMKilled`", "the reason is `Error`", Holds, "OOMKilled", "status.containerStatuses[app].lastState.terminated.reason: OOMKilled"},
		{"a pair as describe has it", "kubectl describe pod cart-1", "Exit Code: 137", "Exit Code: 1", Holds, "Exit Code: 137", "exitCode: 137"},
		{"an event of describe", "kubectl describe pod cart-1", `"Back-off restarting failed container"`, "`Completed`", Holds, "Back-off", "items[cart-1.17a].message: Back-off restarting"},
		{"a coined word", "kubectl get pod cart-1", "OOMKilled", "CrashLoopBackOff", Holds, "OOMKilled", ""},
		{"a jsonpath", "kubectl get pod cart-1 -o jsonpath='{.status.containerStatuses[*].lastState.terminated.reason}'", "`OOMKilled`", "`Error`", Holds, "OOMKilled", "OOMKilled"},
		{"no such object is an answer", "kubectl get cm app-config", "`not found`", "`app-config` is printed", Holds, "not found", "not found"},
		{"a log", "kubectl logs cart-1 -c app --previous", "`heap exhausted`", "`shutting down`", Holds, "heap exhausted", "starting\nfatal: ‹secret› heap exhausted"},
		{"a short word of a log", "kubectl logs cart-1 -c app --previous", "`fatal:`", "`shutting down`", NotRun, "", ""},
		{"ruled out", "kubectl get pod cart-1", "the reason is `ContainerCannotRun`", "the reason is `OOMKilled`", RuledOut, "as expected if it is false", "OOMKilled"},

		{"neither", "kubectl get pod cart-1", "`ContainerCannotRun`", "`DeadlineExceeded`", NotRun, "does not stand in the answer", "restartCount: 7"},
		{"both", "kubectl get pod cart-1", "`OOMKilled`", "`Running`", NotRun, "holds what is expected if it is true and", ""},
		{"a negation", "kubectl get pod cart-1", "it is not `OOMKilled`", "`Evicted`", NotRun, "does not decide", ""},
		{"a comparison", "kubectl get pod cart-1", "restartCount: 7 or higher", "fewer", NotRun, "does not decide", ""},
		{"prose", "kubectl get pod cart-1", "memory is short", "memory is plenty", NotRun, "does not decide", "phase: Running"},
		{"only what the command says", "kubectl get pod cart-1", "`cart-1` is listed", "", NotRun, "does not decide", ""},
		{"a partial list rules nothing out", "kubectl get pods", "`ContainerCannotRun`", "`OOMKilled`", NotRun, "does not decide", ""},
		{"only trivial values", "kubectl get pod cart-1", "`app`", "`x`", NotRun, "does not decide", ""},
		{"no command", "", "a", "b", NotRun, "names no command", ""},
		{"a pipe", "kubectl get pods | grep x", "`OOMKilled`", "", NotRun, "shell", ""},
		{"a write", "kubectl delete pod cart-1", "`deleted`", "", NotRun, "none of get", ""},
		{"more than is read", "kubectl get cm everything", "`OOMKilled`", "", NotRun, "larger than is read", ""}, // and others are still run
		{"denied", "kubectl get cm secret-ish", "`OOMKilled`", "", NotRun, "may not", ""},
		{"a jsonpath that cannot be read", "kubectl get pod cart-1 -o jsonpath='{.status['", "`OOMKilled`", "", NotRun, "jsonpath", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, rec := input(shop)
			r := nightcrier.Report{Source: "agent", Hypotheses: []nightcrier.Hypothesis{{ID: "H1", Confidence: nightcrier.High,
				Falsification: nightcrier.Falsification{Command: c.command, IfTrue: c.ifTrue, IfFalse: c.ifFalse, Outcome: Holds, Shown: "forged", Evidence: "E99"}}}}
			got, _, err := Run(t.Context(), in, &r)
			if err != nil {
				t.Fatal(err)
			}
			test := got[0].Test
			if test.Outcome != c.outcome || !strings.Contains(test.Why, c.why) || !strings.Contains(test.Shown, c.shown) || test.Shown == "forged" {
				t.Errorf("%s, %q, shown:\n%s", test.Outcome, test.Why, test.Shown)
			}
			if test.Evidence == "E99" || test.Outcome != NotRun && test.Evidence != "E1" {
				t.Errorf("evidence %q", test.Evidence)
			}
			if all := strings.Join(rec.bodies, "") + test.Shown; strings.Contains(all, "hunter2") || strings.ContainsAny(test.Shown, "\x1b\u202e") {
				t.Errorf("a secret or a control character is kept: %q", all)
			}
		})
	}
}

func builtin() nightcrier.Report {
	cart := nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"}
	return nightcrier.Report{Source: "builtin", Verdict: nightcrier.VerdictFault, Facts: []nightcrier.Fact{{ID: "FACT-1", Check: nightcrier.Verified}},
		RootCause: &nightcrier.RootCause{Cause: "oom-killed", Object: cart, Summary: "it needs more", Confidence: nightcrier.High},
		Hypotheses: []nightcrier.Hypothesis{{ID: "H1", Cause: "oom-killed", Object: cart, Confidence: nightcrier.High,
			Falsification: nightcrier.Falsification{Command: "kubectl get pod cart-1 -n shop", Outcome: NotRun}}}}
}

func TestOurOwnTests(t *testing.T) {
	gone := nightcrier.Report{Verdict: nightcrier.VerdictRecovered, Hypotheses: []nightcrier.Hypothesis{{ID: "H1", Statement: "all is well"}}}
	gone.Facts = []nightcrier.Fact{{ID: "FACT-1", Check: nightcrier.Verified}}
	hearsay := builtin()
	hearsay.Facts[0].Check = nightcrier.Seen
	blind := gone
	blind.NotChecked = []nightcrier.NotChecked{{What: "Pods", Why: "denied"}}
	follows := gone
	follows.Consequences = []nightcrier.Consequence{{Cause: "oom-killed", Object: builtin().RootCause.Object}}
	for _, c := range []struct {
		name         string
		again        nightcrier.Report
		err          error
		outcome, why string
	}{
		{"the same", builtin(), nil, Holds, "asked again at 03:04:05 UTC, the rules still find oom-killed at Deployment shop/cart"},
		{"now a consequence", follows, nil, Holds, "still find"},
		{"gone", gone, nil, RuledOut, "the rules say: recovered"},
		{"less could be read", blind, nil, NotRun, "less could be read"},
		{"only the event is known", hearsay, nil, NotRun, "the cluster told nothing"},
		{"no answer", nightcrier.Report{}, context.DeadlineExceeded, NotRun, "could not be asked again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, _ := input(shop)
			asked := 0
			in.Again = func(context.Context) (nightcrier.Report, error) { asked++; return c.again, c.err }
			r := builtin()
			r.Hypotheses = append(r.Hypotheses, r.Hypotheses[0])
			r.Hypotheses[1].ID = "H2"
			got, _, err := Run(t.Context(), in, &r)
			if err != nil {
				t.Fatal(err)
			}
			if test := got[0].Test; test.Outcome != c.outcome || !strings.Contains(test.Why, c.why) || test.Evidence != "E1" || !strings.Contains(test.Shown, "OOMKilled") {
				t.Errorf("%+v", test)
			}
			if asked != 1 {
				t.Errorf("the rules were asked %d times for one report", asked)
			}
		})
	}
}

// A recording says the same however often it is asked: its rules are asked once.
func TestARecordingIsNotAskedAgain(t *testing.T) {
	in, _ := input(shop)
	in.Still = true
	in.Again = func(context.Context) (nightcrier.Report, error) {
		t.Error("the rules were asked again")
		return nightcrier.Report{}, nil
	}
	r := builtin()
	got, _, err := Run(t.Context(), in, &r)
	if err != nil {
		t.Fatal(err)
	}
	if test := got[0].Test; test.Outcome != Holds || !strings.Contains(test.Why, "recording") || test.Evidence != "E1" || !strings.Contains(test.Shown, "OOMKilled") {
		t.Errorf("%+v", test)
	}
}

// The day is named where it is another one than that of the investigation.
func TestTheDayOfATestIsNamed(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 4, 0, time.UTC)
	for started, want := range map[time.Time]string{
		{}:                        "00:00:04 UTC",
		now.Add(-4 * time.Second): "00:00:04 UTC",
		now.Add(-5 * time.Second): "2026-11-23 00:00:04 UTC",
		now.AddDate(0, 0, 2):      "2026-11-23 00:00:04 UTC",
		now.In(time.FixedZone("west", -8*3600)).Add(time.Second): "00:00:04 UTC",
	} {
		if got := (Input{Now: func() time.Time { return now }, Started: started}).timeOfDay(); got != want {
			t.Errorf("started %s: %s, want %s", started, got, want)
		}
	}
}

func TestNoCredentialNoTest(t *testing.T) {
	in, _ := input(shop)
	in.Reader = nil
	r := builtin()
	got, reads, err := Run(t.Context(), in, &r)
	if err != nil || reads != 0 || got[0].Test.Outcome != NotRun || !strings.Contains(got[0].Test.Why, "no credential") {
		t.Errorf("%+v, %d reads, %v", got, reads, err)
	}
}

func TestTestsAreBounded(t *testing.T) {
	in, rec := input(shop)
	r := nightcrier.Report{Source: "agent"}
	for i := range 9 {
		r.Hypotheses = append(r.Hypotheses, nightcrier.Hypothesis{ID: fmt.Sprintf("H%d", i+1), Falsification: nightcrier.Falsification{Command: "kubectl get pod cart-1"}})
	}
	got, reads, err := Run(t.Context(), in, &r)
	if err != nil || reads != MaxTests || len(rec.bodies) != MaxTests || len(got) != 9 || !strings.Contains(got[8].Test.Why, "only the tests of the first 5") {
		t.Errorf("%d outcomes, %d reads, %d records, %v", len(got), reads, len(rec.bodies), err)
	}
}

func TestHugeAnswersShowLittle(t *testing.T) {
	deep := strings.Repeat(`{"status":`, 5_000) + `{"reason":"x"}` + strings.Repeat("}", 5_000)
	wide := `{"items":[` + strings.TrimSuffix(strings.Repeat(`{"status":{"reason":"`+strings.Repeat("x", 5_000)+`"}},`, 500), ",") + `]}`
	for name, body := range map[string]string{"deep": deep, "wide": wide, "no JSON": "{", "nothing": ""} {
		in, _ := input(cluster{"get shop/Pod/cart-1": body})
		r := nightcrier.Report{Source: "agent", Hypotheses: []nightcrier.Hypothesis{{ID: "H1", Falsification: nightcrier.Falsification{Command: "kubectl get pod cart-1"}}}}
		got, _, err := Run(t.Context(), in, &r)
		if err != nil || len(got[0].Test.Shown) > shownLines*(shownLine+8) {
			t.Errorf("%s: %d bytes are shown, %v", name, len(got[0].Test.Shown), err)
		}
	}
}

func TestFullEvidenceIsAnError(t *testing.T) {
	in, rec := input(shop)
	rec.err = nightcrier.Errorf(nightcrier.Exhausted, "the disk is full")
	r := nightcrier.Report{Source: "agent", Hypotheses: []nightcrier.Hypothesis{{Falsification: nightcrier.Falsification{Command: "kubectl get pod cart-1"}}}}
	if _, _, err := Run(t.Context(), in, &r); nightcrier.CodeOf(err) != nightcrier.Exhausted {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, _ = input(shop)
	if _, _, err := Run(ctx, in, &r); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestApply(t *testing.T) {
	r := builtin()
	Apply(&r, []Outcome{{"H1", nightcrier.Falsification{Command: r.Hypotheses[0].Falsification.Command, Outcome: RuledOut, Why: "it is gone"}}, {"H7", nightcrier.Falsification{}}})
	if r.RootCause.Confidence != nightcrier.Low || r.Hypotheses[0].Confidence != nightcrier.Low || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "it is gone") {
		t.Errorf("%+v", r)
	}
	r = builtin()
	Apply(&r, []Outcome{{"H1", nightcrier.Falsification{Command: "another", Outcome: RuledOut}}})
	if r.RootCause.Confidence != nightcrier.High || len(r.Problems) != 0 {
		t.Error("the outcome of another test was applied")
	}
}
