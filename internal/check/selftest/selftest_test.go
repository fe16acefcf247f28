package selftest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/worker"
	"nightcrier.dev/nightcrier/internal/check/selftest/probe"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
	"nightcrier.dev/nightcrier/internal/test/clitest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// The test binary is also the worker, the sandbox's init and the CLIs' hook.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "worker" {
		syscall.Exit(worker.Main(context.Background(), os.Args[2], os.Stdin, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == process.InitCommand {
		syscall.Exit(worker.InitMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == worker.HookCommand {
		syscall.Exit(worker.HookMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == probe.Command {
		syscall.Exit(probe.Run(os.Args[2:], os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == probe.FloorCommand {
		syscall.Exit(probe.OnTheFloor(os.Args[2:], os.Stderr))
	}
	os.Exit(m.Run())
}

// withKubectl puts it where workers look for it, once: tests run beside each other.
var withKubectl sync.Once

func options(t *testing.T, suites ...string) Options {
	t.Helper()
	kubectl := kubetest.Kubectl(t)
	withKubectl.Do(func() { os.Setenv("PATH", filepath.Dir(kubectl)+string(os.PathListSeparator)+os.Getenv("PATH")) })
	return Options{Suites: suites, Dir: t.TempDir(), WorkerCommand: []string{testproc.Self(), "worker"}, Kubectl: kubectl,
		Progress: func(text string) { t.Log(text) }}
}

// passes runs suites and fails for each attack that is not passed.
func passes(t *testing.T, o Options) []Result {
	t.Helper()
	results, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results.Attacks {
		if !r.Passed && r.Outcome != NotPossible {
			t.Errorf("%+v", r)
		}
	}
	for _, s := range results.Totals {
		t.Logf("%+v", s)
	}
	return results.Attacks
}

// The shell gets a share of the orders: the command's own test gives it all of them,
// before a real cluster.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	b, err := newBench(t.Context(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	results, err := b.rawRequests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(results) < 400 {
		t.Errorf("%d raw requests", len(results))
	}
	orders, err := b.shellAttacks(t.Context(), share(t, clusterOrders(), shellShare, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range slices.Concat(results, orders) {
		if !r.Passed {
			t.Errorf("%+v", r)
		}
	}
}

// Every how manyth order a shell and a CLI get here: all of them together are for people
// who wait.
const shellShare, readonlyShare = 4, 24

// allOrders is the variable with which each gets all of them, if it is "all".
const allOrders = "NIGHTCRIER_SELFTEST"

// share is every n-th of the orders, from one of them on. Which one moves on by one each
// day, so that within n days all have their turn.
func share(t *testing.T, all []Order, n, from int) []Order {
	t.Helper()
	if os.Getenv(allOrders) == "all" {
		t.Logf("all %d orders", len(all))
		return all
	}
	day := int(time.Now().Unix() / 86_400)
	some := sharedOn(day, all, n, from)
	t.Logf("share %d of %d, that of day %d: %d of %d orders; %s=all gives all", (from+day)%n+1, n, day, len(some), len(all), allOrders)
	return some
}

func sharedOn(day int, all []Order, n, from int) (some []Order) {
	for i := (from + day) % n; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}

// Within as many days as there are shares each order has its turn once.
func TestSharesCoverAll(t *testing.T) {
	for _, all := range [][]Order{clusterOrders(), toolOrders()} {
		turns := map[string]int{}
		for day := range readonlyShare {
			for _, o := range sharedOn(20_000+day, all, readonlyShare, 3) {
				turns[o.Name]++
			}
		}
		for _, o := range all {
			if turns[o.Name] != 1 {
				t.Errorf("%s: %d turns", o.Name, turns[o.Name])
			}
		}
	}
}

func TestEveryCLIReadOnly(t *testing.T) {
	for i, a := range actors(t) {
		t.Run(a.resultName(), func(t *testing.T) {
			t.Parallel()
			a := installed(t, a)
			b, err := newBench(t.Context(), options(t))
			if err != nil {
				t.Fatal(err)
			}
			orders := share(t, b.readonlyOrders(a), readonlyShare, i)
			results, err := b.runOrders(t.Context(), a, "readonly", orders)
			if err != nil || len(results) != len(orders) {
				t.Fatal(len(results), err)
			}
			for _, r := range results {
				if !r.Passed || r.By != a.resultName() {
					t.Errorf("%+v", r)
				}
			}
			t.Logf("%+v", sumResults(results))
		})
	}
}

// actors are all modes of all CLIs.
func actors(t *testing.T) (all []Agent) {
	t.Helper()
	for _, cli := range agent.CLIs() {
		all = append(all, Agent{Executor: cli})
		if without, err := cli.WithoutShell(); err == nil && !cli.UsesTools {
			all = append(all, Agent{Executor: without, NoShell: true})
		}
	}
	if len(all) != 6 {
		t.Fatalf("%d actors", len(all))
	}
	return all
}

// installed is an actor with its CLI, and with what an investigation allows it.
func installed(t *testing.T, a Agent) Agent {
	t.Helper()
	a.Command, a.Model = clitest.CLI(t, a.Executor.Command), "scripted"
	a.AllowedTools = []string{"Read", "Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"}
	return a
}

// executor is a CLI's by name.
func executor(t *testing.T, name string) agent.Executor {
	t.Helper()
	i := slices.IndexFunc(agent.CLIs(), func(e agent.Executor) bool { return e.Name == name })
	if i < 0 {
		t.Fatalf("no executor is called %s", name)
	}
	return agent.CLIs()[i]
}

// Where two of those who refuse are heard, the answer is the same every time.
func TestWhoTurnedItAway(t *testing.T) {
	for output, want := range map[string]Layer{
		"/x is outside the workspace; /y does not exist":                  CLI,
		"\"/x\" is not open to you: list_files names what does not exist": Guard,
		"/x does not exist": Sandbox,
	} {
		for range 50 {
			res := Ran{Made: true, Output: output}.turnedAway(Result{Outcome: Unseen})
			if len(res.StoppedBy) != 1 || res.StoppedBy[0] != want {
				t.Fatalf("%q: stopped by %v, want %s", output, res.StoppedBy, want)
			}
		}
	}
}
