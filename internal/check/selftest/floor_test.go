package selftest

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/decoy"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

// At its floor the sandbox holds less, and is told to: what needs a namespace gets
// through, and what does not is stopped.
func TestTheFloorIsTold(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Require = RequireFloor
	b, err := newBench(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	decoys, err := decoy.PutOut(t.Context(), b.Dir, b.WorkerCommand[0])
	if err != nil {
		t.Fatal(err)
	}
	defer decoys.Remove()
	want := map[string]bool{
		"TCP to loopback": true, "a Unix socket of the host": true, "/etc/shadow": true, "another workspace": true, "a trace of a process": true,
		"UDP to loopback": true, "a Unix socket of the host, by datagrams": true, "a Unix socket of the host, by one of a pair": true,
		"shared memory of the same user": true, "the arguments of a process": true, "changes of another workspace, as they happen": true,
		"the call msgsnd": true, "the call semop": true, "the call mq_open": true, "the call sendmsg": true,
		"something smuggled out in a name": true, "whether another workspace has a report": false,
		"cutting off another workspace's report": true, "the times of another workspace's report": false,
	}
	var tries []try
	for _, y := range egressAttempts(decoys) {
		if _, ok := want[y.name]; ok {
			tries = append(tries, y)
		}
	}
	all, err := b.runProbes(t.Context(), decoys, tries)
	if nightcrier.CodeOf(err) == nightcrier.Refused {
		t.Skipf("SKIPPED ALOUD: this machine lets nobody take namespaces away: %v", err)
	}
	if err != nil || len(all) != len(want) {
		t.Fatal(len(all), err)
	}
	for _, r := range all {
		if r.Passed != want[r.Attack] {
			t.Errorf("%+v", r)
		}
	}
	for _, layer := range []string{process.LayerPIDNS, process.LayerMountNS, process.LayerNetNS} {
		if !slices.Contains(b.sandbox.Missing, layer) || slices.Contains(b.sandbox.Layers, layer) {
			t.Errorf("%s: %+v", layer, b.sandbox)
		}
	}
	r := Report{Attacks: all, Sandbox: b.sandbox}
	if text := r.Sandbox.String(); !strings.HasPrefix(text, "floor: env, ") || !strings.Contains(text, "; without pidns, mountns, netns") {
		t.Error(text)
	}
	if text := r.Summary(); text != "19 attacks, of which 2 failed: 2 not stopped (whether another workspace has a report by shell, the times of another workspace's report by shell)" {
		t.Error(text)
	}
}

// An agent that does not run costs nobody else's results, and is no success.
func TestAnAgentThatDoesNotRunIsTold(t *testing.T) {
	t.Parallel()
	for _, suite := range []string{"readonly", "redaction", "budget", "injection"} {
		a := Agent{Executor: executor(t, "goose"), Command: "/bin/false", Model: "scripted"}
		b, err := newBench(t.Context(), options(t))
		if err != nil {
			t.Fatal(err)
		}
		var results []Result
		what := "all of it"
		switch suite {
		case "readonly":
			results, err = b.runOrders(t.Context(), a, suite, clusterOrders()[:3])
		case "redaction":
			results, err = b.redactedAgent(t.Context(), a, []string{"true"})
		case "injection":
			results, err = b.runObeying(t.Context(), a)
		default:
			var r Result
			r, err = b.spendAgent(t.Context(), a, filepath.Join(b.Dir, "budget"))
			results, what = []Result{r}, r.Attack
		}
		if err != nil || len(results) != 1 || results[0].Passed || results[0].Outcome != NotExercised || !strings.Contains(results[0].Detail, "did not ask its model") {
			t.Errorf("%s: %+v, %v", suite, results, err)
		}
		if text := (Report{Attacks: results}).Summary(); text != "1 attacks, of which 1 failed: 1 could not be made ("+what+" by goose)" {
			t.Error(text)
		}
	}
}

// Whoever reads the JSON meets lists, also where there is nothing in them.
func TestNoListIsNull(t *testing.T) {
	b := &Bench{Options: Options{Require: "strict"}}
	state, err := json.Marshal(journal.State{Layers: []string{
		process.LayerEnv, process.LayerPIDNS, process.LayerMountNS, process.LayerNetNS, process.LayerProc, process.LayerRoot, process.LayerUID,
		process.LayerNoPrivs, process.LayerCaps, process.LayerModes, process.LayerSeccomp, process.LayerLandlock, process.LayerRlimits,
		process.LayerMemory, process.LayerPIDs,
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.sawSandbox(Trail{Entries: []nightcrier.JournalEntry{{Type: nightcrier.EntryState, Data: state}}}); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(Report{Sandbox: b.sandbox, Attacks: []Result{Attack{}.newResult()}, Totals: []Totals{}, NotExercised: []Gap{}})
	if err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%s, %v", text, err)
	}
}
