package worker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	backendprocess "nightcrier.dev/nightcrier/internal/agent/backend/process"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// The test binary is also the worker, the sandbox's init and a server that is
// killed while it launches. These end by the system call: the race detector would let
// each of them sleep for a second first.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "worker" {
		syscall.Exit(Main(context.Background(), os.Args[2], os.Stdin, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == process.InitCommand {
		syscall.Exit(InitMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == HookCommand {
		syscall.Exit(HookMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "strangers" {
		os.Exit(strangersMain())
	}
	if len(os.Args) > 1 && os.Args[1] == "ask-on" {
		syscall.Exit(askOn())
	}
	if len(os.Args) > 2 && os.Args[1] == "server" {
		os.Exit(serverMain(os.Args[2]))
	}
	if err := kubetest.KubectlFirst(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// bench is a workspace with a worker's directory beside it.
type bench struct {
	testing.TB
	ws string
	// workers is where its workers are processes.
	workers backendprocess.Backend
	// program is what its workers are started from: this one, with the race detector where
	// it has that.
	program string
	spec    backend.Spec
	sec     backend.Secrets
}

// newBench makes a workspace whose agent is the given shell script.
func newBench(t testing.TB, script string) *bench {
	t.Helper()
	root := t.TempDir()
	b := &bench{TB: t, ws: filepath.Join(root, "incident"), program: os.Args[0]}
	b.workers.Dir = filepath.Join(root, ".workers")
	for _, dir := range []string{b.ws, filepath.Join(b.ws, "context"), filepath.Join(b.ws, "output")} {
		b.must(os.Mkdir(dir, 0o700))
	}
	b.write("context/incident.json", `{"x":1}`)
	path := filepath.Join(root, "agent.sh")
	b.must(os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
	t.Cleanup(b.raceless)
	b.spec = backend.Spec{
		Version: backend.SpecVersion, RunID: nightcrier.NewID(), IncidentID: nightcrier.NewID(), Cluster: "prod-1", Namespace: "shop",
		Step: "investigate", Attempt: 1, Workspace: b.ws,
		Spec: agent.Spec{Executor: "script", ScriptPath: path, Preload: true, Shell: true, Timeout: 30 * time.Second, Grace: 300 * time.Millisecond},
	}
	return b
}

// raceless fails when a worker of the test, or what it started, had a race.
func (b *bench) raceless() {
	logs, err := filepath.Glob(filepath.Join(b.workers.Dir, "*", "worker.log"))
	b.must(err)
	for _, path := range logs {
		if log, _ := os.ReadFile(path); strings.Contains(string(log), "DATA RACE") {
			b.Errorf("%s", log)
		}
	}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) write(name, text string) {
	b.Helper()
	b.must(os.WriteFile(filepath.Join(b.ws, name), []byte(text), 0o600))
}

func (b *bench) read(name string) string {
	b.Helper()
	data, err := os.ReadFile(filepath.Join(b.ws, name))
	b.must(err)
	return string(data)
}

// patience is how long an agent may take on a busy machine, a real CLI and the start of it
// included.
const patience = 3 * time.Minute

func (b *bench) launch() {
	b.Helper()
	b.must(b.launchWith(b.program, "worker"))
}

func (b *bench) launchWith(command ...string) error {
	b.workers.Command = command
	_, err := b.workers.Launch(b.Context(), b.spec, b.sec)
	return err
}

// dir is the directory of its worker, and handle what it is known by.
func (b *bench) dir() workdir.Dir { return workdir.At(b.workers.Dir, b.spec.WorkerName()) }

func (b *bench) handle() backend.Handle {
	return backend.Handle{Backend: backendprocess.Name, ID: b.spec.WorkerName()}
}

func (b *bench) cancel(cause string) {
	b.Helper()
	b.must(b.workers.Cancel(b.Context(), b.handle(), cause))
}

// follow follows to the end and returns the result and all entries.
func (b *bench) follow() (nightcrier.AgentResult, []nightcrier.JournalEntry) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience+time.Minute)
	defer cancel()
	var entries []nightcrier.JournalEntry
	ended, err := b.workers.Follow(ctx, b.handle(), 0, func(e nightcrier.JournalEntry) error {
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		log, _ := os.ReadFile(b.dir().PathOf("worker.log"))
		b.Fatalf("follow: %v\nworker.log:\n%s", err, log)
	}
	return ended.Result, entries
}

func (b *bench) run() (nightcrier.AgentResult, []nightcrier.JournalEntry) {
	b.Helper()
	b.launch()
	return b.follow()
}

// states renders the transitions of a journal.
func states(t *testing.T, entries []nightcrier.JournalEntry) string {
	t.Helper()
	var words []string
	for _, e := range entries {
		if e.Type == nightcrier.EntryState {
			s, err := journal.Decode[journal.State](e)
			if err != nil {
				t.Fatal(err)
			}
			words = append(words, string(s.To))
		}
	}
	return strings.Join(words, " ")
}

func text(entries []nightcrier.JournalEntry) string {
	var b strings.Builder
	for _, e := range entries {
		b.Write(journal.AgentLog(e, nil))
	}
	return b.String()
}

func TestScriptSucceeds(t *testing.T) {
	b := newBench(t, `echo hello "$1"; cat context/incident.json; echo "# report" > "$OUTPUT_DIR/investigation.md"`)
	r, entries := b.run()
	if r.State != nightcrier.StateSuccess || r.TerminalEvent != "missing" || r.ExitCode == nil || *r.ExitCode != 0 {
		t.Errorf("result %+v", r)
	}
	if got := states(t, entries); got != "created starting running success" {
		t.Errorf("states %s", got)
	}
	log := text(entries)
	if !strings.Contains(log, "hello "+b.ws) || !strings.Contains(log, `{"x":1}`) {
		t.Errorf("agent.log lacks the output:\n%s", log)
	}
	if got := b.read(".scratch/investigation.md"); got != "# report\n" {
		t.Errorf("report %q", got)
	}
	if entries[0].Key != "worker#1/1" || entries[0].Run != b.spec.RunID {
		t.Errorf("first entry %+v", entries[0])
	}
	t.Log(fmt.Sprint("layers: ", r.Layers))
}

// noneLeft checks that no process of the incident lives.
func (b *bench) noneLeft() {
	b.Helper()
	for _, dir := range b.processes() {
		b.Errorf("%s still lives", dir)
	}
}

func (b *bench) processes() []string {
	b.Helper()
	var left []string
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		if env, err := os.ReadFile(path); err == nil && strings.Contains(string(env), b.spec.IncidentID) {
			left = append(left, filepath.Dir(path))
		}
	}
	return left
}
