package selftest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/clitest"
	"nightcrier.dev/nightcrier/internal/kubetest"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
	"nightcrier.dev/nightcrier/internal/worker"
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
	if len(os.Args) > 1 && os.Args[1] == ProbeCommand {
		syscall.Exit(Probe(os.Args[2:], os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == FloorCommand {
		syscall.Exit(OnTheFloor(os.Args[2:], os.Stderr))
	}
	os.Exit(m.Run())
}

// withKubectl puts it where workers look for it, once: tests run beside each other.
var withKubectl sync.Once

func options(t *testing.T, suites ...string) Options {
	t.Helper()
	kubectl := kubetest.Kubectl(t)
	withKubectl.Do(func() { os.Setenv("PATH", filepath.Dir(kubectl)+string(os.PathListSeparator)+os.Getenv("PATH")) })
	return Options{Suites: suites, Dir: t.TempDir(), WorkerCommand: []string{os.Args[0], "worker"}, Kubectl: kubectl,
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
	orders, err := b.shellAttacks(t.Context(), share(clusterOrders(), shellShare, 0))
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

// share is every n-th of the orders, from one of them on.
func share(all []Order, n, from int) (some []Order) {
	for i := from; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}

func TestEveryCLIReadOnly(t *testing.T) {
	for i, cli := range agent.CLIs() {
		t.Run(cli.Name, func(t *testing.T) {
			t.Parallel()
			b, err := newBench(t.Context(), options(t))
			if err != nil {
				t.Fatal(err)
			}
			results, err := b.ordered(t.Context(), installed(t, cli), "readonly", share(clusterOrders(), readonlyShare, i))
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if !r.Passed {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

// installed is a CLI with what an investigation allows it.
func installed(t *testing.T, cli agent.Executor) Agent {
	t.Helper()
	return Agent{Executor: cli, Command: clitest.CLI(t, cli.Command), Model: "scripted", AllowedTools: []string{"Read", "Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"}}
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
