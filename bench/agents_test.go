package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/backend/process"
	"nightcrier.dev/nightcrier/internal/face/api/client"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/data"
	"nightcrier.dev/nightcrier/internal/guard/price"
	"nightcrier.dev/nightcrier/internal/test/clitest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// investigation is a workspace and a worker for it, without a server.
type investigation struct {
	workers process.Backend
	handle  backend.Handle
	spec    backend.Spec
	sec     backend.Secrets
}

// newInvestigation makes a workspace with all that an agent is given.
func newInvestigation(b *testing.B, executor string) *investigation {
	b.Helper()
	root := b.TempDir()
	ws := filepath.Join(root, "incident")
	for name, text := range map[string]string{
		"PROMPT.md": "Investigate the incident.\n", "incident.json": "{}", "context/system-instructions.txt": "Only look.\n", "output/.keep": "",
	} {
		must(b, os.MkdirAll(filepath.Dir(filepath.Join(ws, name)), 0o700))
		must(b, os.WriteFile(filepath.Join(ws, name), []byte(text), 0o600))
	}
	return &investigation{workers: process.Backend{Dir: filepath.Join(root, ".workers"), Command: []string{binary(b), "worker"}}, spec: backend.Spec{
		Version: backend.SpecVersion, RunID: nightcrier.NewID(), IncidentID: nightcrier.NewID(), Cluster: "prod", Namespace: "default",
		Step: "investigate", Attempt: 1, Workspace: ws,
		Spec: agent.Spec{Executor: executor, Shell: true, Timeout: 5 * time.Minute, Grace: 2 * time.Second},
	}}
}

// script makes the agent a shell script.
func (i *investigation) script(b *testing.B, text string) *investigation {
	b.Helper()
	i.spec.ScriptPath = filepath.Join(filepath.Dir(i.spec.Workspace), "agent.sh")
	must(b, os.WriteFile(i.spec.ScriptPath, []byte("#!/bin/sh\n"+text), 0o755))
	return i
}

func (i *investigation) launch(b *testing.B) {
	b.Helper()
	var err error
	i.handle, err = i.workers.Launch(b.Context(), i.spec, i.sec)
	must(b, err)
}

// end waits for the result.
func (i *investigation) end(b *testing.B) nightcrier.AgentResult {
	b.Helper()
	ended, err := i.workers.Follow(context.Background(), i.handle, 0, func(nightcrier.JournalEntry) error { return nil })
	must(b, err)
	return ended.Result
}

func (i *investigation) cancel(b *testing.B) {
	b.Helper()
	must(b, i.workers.Cancel(context.Background(), i.handle, "the benchmark is over"))
	i.end(b)
}

// scripted is a model that asks for what steps say, and knows when it was asked first.
type scripted struct {
	*fakemodel.Server
	url   string
	first atomic.Pointer[time.Time]
}

func newScripted(b *testing.B, steps ...fakemodel.Step) *scripted {
	b.Helper()
	s := &scripted{Server: fakemodel.New(b)}
	s.MustAdd(b, "it", fakemodel.Scenario{Steps: steps})
	target, err := url.Parse(s.URL("it"))
	must(b, err)
	through := httputil.NewSingleHostReverseProxy(target)
	through.FlushInterval = -1
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		if r.Method == http.MethodPost {
			s.first.CompareAndSwap(nil, &now)
		}
		through.ServeHTTP(w, r)
	}))
	b.Cleanup(front.Close)
	s.url = front.URL
	return s
}

// clis are the CLIs that are installed here, with how their model has them read.
func clis(b *testing.B, run func(b *testing.B, e agent.Executor, path string)) {
	for _, e := range agent.Executors() {
		if e.Command == "" {
			continue
		}
		b.Run(e.Name, func(b *testing.B) { run(b, e, clitest.CLI(b, e.Command)) })
	}
}

// ask makes an investigation of one of the CLIs with a scripted model.
func ask(b *testing.B, e agent.Executor, path, base string) *investigation {
	b.Helper()
	i := newInvestigation(b, e.Name)
	i.spec.Command, i.spec.Provider, i.spec.Model, i.spec.MaxTurns, i.spec.BaseURL = path, e.Providers[0], "sonnet", 20, base
	i.sec.ModelAPIKey = "sk-bench"
	return i
}

// withAll has the worker do all that it can besides: a strict sandbox, a budget, masking,
// and a tape of metrics.
func (i *investigation) withAll(budgets string) {
	i.spec.Require, i.spec.Model = agent.RequireStrict, "claude-sonnet-4-5"
	i.spec.Prices = []string{"*=3/15/0.3/3.75"}
	i.spec.BudgetDir, i.spec.Budget = budgets, budget.Limits{Run: budget.Limit{Money: 2 * price.Dollar}}
	i.sec.MaskKey = []byte("0123456789abcdef0123456789abcdef")
	for n := range 20 {
		i.sec.MaskValues = append(i.sec.MaskValues, fmt.Sprintf("value-that-nobody-may-see-%d", n))
	}
	i.sec.Sources = &data.Access{Prometheus: &data.Endpoint{URL: "http://127.0.0.1:9"}}
}

// BenchmarkWorkerOf reports what the worker beside an agent occupies: the script's,
// and each CLI's, with the guard of the model, with that of a real cluster, and with all
// that there is, while the model thinks about its second answer.
func BenchmarkWorkerOf(b *testing.B) {
	b.Run("script", func(b *testing.B) {
		for b.Loop() {
			i := newInvestigation(b, "script").script(b, "echo started; exec sleep 600\n")
			i.launch(b)
			until(b, "the agent's first line", func() bool { return running(i) })
			i.report(b)
		}
	})
	clis(b, func(b *testing.B, e agent.Executor, path string) {
		kubeconfig, err := os.ReadFile(kubetest.Start(b).Kubeconfig)
		must(b, err)
		for name, change := range map[string]func(*investigation){
			"model":             func(*investigation) {},
			"model-and-cluster": func(i *investigation) { i.sec.Cluster = &backend.Credential{Kubeconfig: kubeconfig} },
			"all": func(i *investigation) {
				i.sec.Cluster = &backend.Credential{Kubeconfig: kubeconfig}
				i.withAll(filepath.Join(b.TempDir(), "budget"))
			},
		} {
			b.Run(name, func(b *testing.B) {
				for b.Loop() {
					m := newScripted(b, fakemodel.Step{Text: "Thinking.", Hold: "go"})
					i := ask(b, e, path, m.url)
					change(i)
					i.launch(b)
					<-m.Held("go")
					i.report(b)
					m.Release("go")
				}
			})
		}
	})
}

// running reports whether the agent has said something.
func running(i *investigation) bool {
	spool, _ := os.ReadFile(filepath.Join(i.workers.Dir, i.handle.ID, "spool.jsonl"))
	return len(spool) > 0 && containsState(spool, nightcrier.StateRunning)
}

func containsState(spool []byte, s nightcrier.State) bool {
	return strings.Contains(string(spool), `"to":"`+string(s)+`"`)
}

// report reports the worker's memory and its sandbox's init's, and ends both.
func (i *investigation) report(b *testing.B) {
	b.Helper()
	pids := workerPIDs(b, filepath.Dir(filepath.Dir(filepath.Join(i.workers.Dir, i.handle.ID))))
	if len(pids) != 1 {
		b.Fatalf("%d workers", len(pids))
	}
	m := memoryOf(b, pids[0])
	reportMemory(b, "worker-", m)
	b.ReportMetric(m.Peak/mib, "worker-peak-MiB")
	var inits []memory
	for _, c := range children(b, pids[0]) {
		inits = append(inits, memoryOf(b, c))
	}
	reportMemory(b, "init-", mean(inits))
	b.ReportMetric(0, "ns/op")
	i.cancel(b)
}

// BenchmarkCLI compares an investigation of one turn by each CLI, started by itself
// with the same command line, with one in a worker, behind its guards and in its
// sandbox: until the model is asked for the first time, and until the end.
func BenchmarkCLI(b *testing.B) {
	clis(b, func(b *testing.B, e agent.Executor, path string) {
		b.Run("bare", func(b *testing.B) {
			measureCLI(b, func(base string) func() { return bare(b, e, path, base) })
		})
		b.Run("worker", func(b *testing.B) {
			measureCLI(b, func(base string) func() {
				i := ask(b, e, path, base)
				return func() {
					i.launch(b)
					if r := i.end(b); r.State != nightcrier.StateSuccess {
						b.Fatalf("it ended %+v", r)
					}
				}
			})
		})
	})
}

// measureCLI measures at least ten runs, each with a model and a workspace of its own.
func measureCLI(b *testing.B, prepare func(base string) (run func())) {
	b.Helper()
	var first, wall samples
	for n := 0; n < 10 || n < b.N; n++ {
		m := newScripted(b, fakemodel.Step{Text: "# Report\n"})
		run := prepare(m.url)
		begin := time.Now()
		run()
		wall = append(wall, time.Since(begin))
		at := m.first.Load()
		if at == nil {
			b.Fatal("the model was not asked")
		}
		first = append(first, at.Sub(begin))
	}
	first.report(b, "first-request")
	wall.report(b, "wall")
	b.ReportMetric(0, "ns/op")
}

// bare is the CLI with the command line and the environment that a worker gives it,
// and nothing around it.
func bare(b *testing.B, e agent.Executor, path, base string) func() {
	i := ask(b, e, path, base)
	for _, dir := range []string{"home", "tmp"} {
		must(b, os.Mkdir(filepath.Join(i.spec.Workspace, dir), 0o700))
	}
	self, err := os.Executable()
	must(b, err)
	spec := i.spec.Spec
	spec.Command, spec.Model, spec.MaxTurns, spec.Provider = path, "sonnet", 20, e.Providers[0]
	inv, err := e.Prepare(agent.Job{
		Spec: spec, IncidentID: i.spec.IncidentID, Cluster: "prod", Workspace: i.spec.Workspace, OutputDir: filepath.Join(i.spec.Workspace, "output"),
		Kubeconfig: filepath.Join(i.spec.Workspace, "home/kubeconfig"), ModelURL: base, ModelToken: "sk-bench", Self: self,
	})
	must(b, err)
	for name, data := range inv.Files {
		file := filepath.Join(i.spec.Workspace, name)
		must(b, os.MkdirAll(filepath.Dir(file), 0o700))
		must(b, os.WriteFile(file, data, 0o600))
	}
	return func() {
		cmd := exec.CommandContext(b.Context(), inv.Argv[0], inv.Argv[1:]...)
		cmd.Env, cmd.Dir = inv.Env, i.spec.Workspace
		stdin, err := os.Open(filepath.Join(i.spec.Workspace, e.Stdin))
		must(b, err)
		defer stdin.Close()
		cmd.Stdin = stdin
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
}

// stub is an agent that reads, writes a report and ends.
const stub = "cat incident.json\necho '# Report' > \"${OUTPUT_DIR:-output}/investigation.md\"\n"

// BenchmarkAtOnce starts n stub agents at once, in workers and by themselves, and
// reports how long it took until all had ended.
func BenchmarkAtOnce(b *testing.B) {
	for _, n := range []int{1, 5, 50} {
		b.Run(fmt.Sprintf("%d/worker", n), func(b *testing.B) {
			atOnce(b, n, func() func() {
				i := newInvestigation(b, "script").script(b, stub)
				return func() { i.launch(b); i.end(b) }
			})
		})
		b.Run(fmt.Sprintf("%d/exec", n), func(b *testing.B) {
			atOnce(b, n, func() func() {
				i := newInvestigation(b, "script").script(b, stub)
				return func() {
					cmd := exec.CommandContext(b.Context(), i.spec.ScriptPath)
					cmd.Dir, cmd.Env = i.spec.Workspace, []string{"PATH=" + os.Getenv("PATH")}
					must(b, cmd.Run())
				}
			})
		})
	}
}

// atOnce measures at least five rounds of n runs.
func atOnce(b *testing.B, n int, prepare func() (run func())) {
	binary(b)
	var took samples
	for round := 0; round < 5 || round < b.N; round++ {
		runs := make([]func(), n)
		for i := range runs {
			runs[i] = prepare()
		}
		var all sync.WaitGroup
		begin := time.Now()
		for _, run := range runs {
			all.Go(run)
		}
		all.Wait()
		took = append(took, time.Since(begin))
	}
	b.ReportMetric(took.at(0.5), "all-p50-ms")
	b.ReportMetric(took.at(0.5)/float64(n), "each-p50-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkServerOf reports what a server of 50 clusters occupies while n agents work.
func BenchmarkServerOf(b *testing.B) {
	for _, n := range []int{1, 5, 50} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				script := filepath.Join(b.TempDir(), "agent.sh")
				must(b, os.WriteFile(script, []byte("#!/bin/sh\necho started\nexec sleep 600\n"), 0o755))
				p := startPeer(b)
				s := serve(b, filepath.Join(b.TempDir(), "incidents"), 50, p, fmt.Sprintf(
					"max_concurrent_agents: %d\nagent: {executor: script, script_path: %q, timeout: 10m}\n", n, script))
				s.connected(b, 50)
				for i := range n {
					p.push(b, fmt.Sprintf("c-%d", i), fault(i))
				}
				until(b, "agents at work", func() bool {
					time.Sleep(100 * time.Millisecond) // asking is work as well
					list, err := s.client.Incidents(context.Background(), client.IncidentQuery{Limit: 100})
					must(b, err)
					at := 0
					for _, inc := range list.Incidents {
						if inc.State == nightcrier.StateRunning {
							at++
						}
					}
					return at == n
				})
				time.Sleep(settle)
				reportMemory(b, "", memoryOf(b, s.cmd.Process.Pid))
				_ = s.cmd.Process.Signal(os.Interrupt)
				_ = s.cmd.Process.Signal(os.Interrupt) // twice: the agents as well
				_ = s.cmd.Wait()
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
