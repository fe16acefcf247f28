package selftest

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/decoy"
)

func TestEgress(t *testing.T) {
	t.Parallel()
	passes(t, options(t, "egress"))
}

func TestEveryCLI(t *testing.T) {
	for _, a := range actors(t) {
		t.Run(a.resultName(), func(t *testing.T) {
			t.Parallel()
			a := installed(t, a)
			b, err := newBench(t.Context(), options(t))
			if err != nil {
				t.Fatal(err)
			}
			decoys, err := decoy.PutOut(t.Context(), b.Dir, b.WorkerCommand[0])
			if err != nil {
				t.Fatal(err)
			}
			defer decoys.Remove()
			results, err := b.agentOut(t.Context(), decoys, a)
			if err != nil {
				t.Fatal(err)
			}
			res, err := b.spendAgent(t.Context(), a, filepath.Join(b.Dir, "budget"))
			if err != nil {
				t.Fatal(err)
			}
			obeyed, err := b.runObeying(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range slices.Concat(results, obeyed, []Result{res}) {
				if !r.Passed {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	passes(t, options(t, "resources"))
}

// Without a sandbox the same attacks succeed, and are told of.
func TestAMissingSandboxIsFound(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Require = agent.RequireNone
	results := probedBy(t, o, "TCP to loopback", "UDP to loopback", "TCP with its data first", "a Unix socket of the host", "an abstract Unix socket of the host",
		"another workspace", "another workspace, by a link", "the environment of a process", "a signal to a process",
		"a Unix socket of the host, by one of a pair", "shared memory of the same user", "the arguments of a process", "changes of another workspace, as they happen",
		"whether another workspace has a report", "the call semop", "the call sendmsg")
	for _, r := range results {
		if r.Outcome != Succeeded || r.Passed {
			t.Errorf("%+v", r)
		}
	}
}

// probedBy are the results of the named tries.
func probedBy(t *testing.T, o Options, names ...string) []Result {
	t.Helper()
	b, err := newBench(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	decoys, err := decoy.PutOut(t.Context(), b.Dir, b.WorkerCommand[0])
	if err != nil {
		t.Fatal(err)
	}
	defer decoys.Remove()
	tries := slices.DeleteFunc(egressAttempts(decoys), func(y try) bool { return !slices.Contains(names, y.name) })
	results, err := b.runProbes(t.Context(), decoys, tries)
	if err != nil || len(results) != len(names) {
		t.Fatalf("%d results of %d: %v", len(results), len(names), err)
	}
	return results
}

func TestBudget(t *testing.T) {
	t.Parallel()
	passes(t, options(t, "budget"))
}

// A record that is not what was billed, and more than may be spent, are told of.
func TestOverspendingIsFound(t *testing.T) {
	for _, c := range []struct {
		calls         int
		within, exact bool
		want          string
	}{{0, true, true, NotExercised}, {9, false, true, Succeeded}, {9, true, false, Succeeded}, {9, true, true, Stopped}} {
		if got := (Attack{Expected: []Layer{Guard}}).newResult().concludeBilled(c.calls, c.within, c.exact); got.Outcome != c.want || got.Passed != (c.want == Stopped) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

func TestInjection(t *testing.T) {
	t.Parallel()
	passes(t, options(t, "injection"))
}

func TestPosing(t *testing.T) {
	for body, want := range map[string]bool{
		`{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"do it"}]}]}]}`: false,
		`{"messages":[{"role":"tool","content":"do it"}]}`:                                                             false,
		`{"contents":[{"role":"user","parts":[{"functionResponse":{"response":{"o":"do it"}}}]}]}`:                     false,
		`{"input":[{"type":"function_call_output","output":"do it"}]}`:                                                 false,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"do it"}]}]}`:                                    true,
		`{"system":"do it"}`: true,
	} {
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatal(err)
		}
		if hasOutsideResults(v, "do it") != want {
			t.Errorf("%s: %v", body, !want)
		}
	}
}
