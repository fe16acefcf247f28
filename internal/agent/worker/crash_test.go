package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	backendprocess "nightcrier.dev/nightcrier/internal/agent/backend/process"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/sandbox"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

// counting is a script that leaves a mark each time it is started.
const counting = `echo x >> "$OUTPUT_DIR/starts"; echo up; sleep 0.2; echo done`

func (b *bench) starts() int {
	b.Helper()
	data, err := os.ReadFile(filepath.Join(b.ws, ".scratch", "starts"))
	if err != nil && !os.IsNotExist(err) {
		b.Fatal(err)
	}
	return strings.Count(string(data), "x")
}

// serverMain is the body of a re-run test binary that launches a worker.
func serverMain(file string) int {
	var job struct {
		Dir  string
		Spec backend.Spec
		Sec  backend.Secrets
	}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &job)
	}
	if err == nil {
		_, err = backendprocess.Backend{Dir: job.Dir, Command: []string{os.Args[0], "worker"}}.Launch(context.Background(), job.Spec, job.Sec)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	select {} // until it is killed
}

// launchElsewhere launches from another process, which is killed as soon as
// until says so.
func (b *bench) launchElsewhere(until func() bool) {
	b.Helper()
	job := filepath.Join(b.TempDir(), "job.json")
	data, err := json.Marshal(map[string]any{"Dir": b.workers.Dir, "Spec": b.spec, "Sec": b.sec})
	b.must(err)
	b.must(os.WriteFile(job, data, 0o600))
	cmd := exec.Command(os.Args[0], "server", job)
	cmd.Stderr = os.Stderr
	b.must(cmd.Start())
	b.await(until)
	b.must(cmd.Process.Kill())
	_ = cmd.Wait() // killed
}

func (b *bench) await(what func() bool) {
	b.Helper()
	deadline := time.Now().Add(patience)
	for !what() {
		time.Sleep(200 * time.Microsecond) // whom it waits for wants the core as well
		if time.Now().After(deadline) {
			b.Fatalf("it did not come to that within %s", patience)
		}
	}
}

func (b *bench) has(name string) func() bool {
	return func() bool {
		ok, _ := b.dir().HasFile(name)
		return ok
	}
}

// A server that is killed at any point of a launch, and one that launches again
// after it, start the agent once.
func TestServerIsKilledWhileLaunching(t *testing.T) {
	for _, point := range []string{"", "spec.json", "worker.log", "lock", "pid", "spool.jsonl", "sock", "claim", "exit.json"} {
		t.Run("at "+point, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, counting)
			b.launchElsewhere(b.has(point))
			b.launch()
			r, entries := b.follow()
			b.launch() // it is over: nothing happens
			if r.State != nightcrier.StateSuccess || states(t, entries) != "created starting running success" {
				t.Errorf("result %+v\n%s", r, text(entries))
			}
			if n := b.starts(); n != 1 {
				t.Errorf("the agent was started %d times", n)
			}
		})
	}
}

// Two servers that launch at once start the agent once.
func TestLaunchTwiceAtOnce(t *testing.T) {
	b := newBench(t, counting)
	b.workers.Command = []string{os.Args[0], "worker"}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := b.workers.Launch(t.Context(), b.spec, b.sec); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if r, _ := b.follow(); r.State != nightcrier.StateSuccess || b.starts() != 1 {
		t.Errorf("%d starts, result %+v", b.starts(), r)
	}
}

// A worker that did not get its secrets whole claims nothing.
func TestSecretsAreHandedOverWholeOrNotAtAll(t *testing.T) {
	for _, handed := range []string{"", "{", `{"modelApiKey":"sk-`} {
		b := newBench(t, counting)
		b.must(os.MkdirAll(string(b.dir()), 0o700))
		spec := b.spec
		spec.SetDefaults()
		b.must(b.dir().WriteFile(workdir.SpecFile, spec))
		cmd := exec.Command(os.Args[0], "worker", string(b.dir()))
		cmd.Stdin = strings.NewReader(handed)
		if err := cmd.Run(); err == nil {
			t.Errorf("a worker with the secrets %q ended well", handed)
		}
		if b.has("claim")() || b.starts() != 0 {
			t.Errorf("a worker with the secrets %q did something", handed)
		}
		if _, err := b.workers.Follow(t.Context(), b.handle(), 0, nil); nightcrier.CodeOf(err) != nightcrier.NotFound {
			t.Errorf("follow: %v", err)
		}
		if r, _ := b.run(); r.State != nightcrier.StateSuccess || b.starts() != 1 {
			t.Errorf("launched again: %d starts, %+v", b.starts(), r)
		}
	}
}

// killWorker kills the worker without ceremony.
func (b *bench) killWorker() {
	b.Helper()
	var p workdir.PIDs
	b.must(b.dir().ReadFile(workdir.PIDFile, &p))
	if err := syscall.Kill(p.Worker.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		b.Fatal(err)
	}
}

// stubbornBench runs an agent whose children outlive it, also without the marks
// in their environment; mark finds them by their arguments.
func stubbornBench(t *testing.T) (b *bench, mark string) {
	t.Helper()
	mark = fmt.Sprintf("%d.%d", 1000+time.Now().UnixNano()%1_000_000_000, os.Getpid())
	return newBench(t, strings.ReplaceAll(`echo x >> "$OUTPUT_DIR/starts"
env -i PATH="$PATH" setsid sh -c 'trap "" INT TERM HUP; sleep MARK & sleep MARK' &
setsid sh -c 'trap "" INT TERM HUP; sleep MARK; sleep MARK' &
trap "" INT TERM; echo up; sleep MARK; sleep MARK`, "MARK", mark)), mark
}

func (b *bench) noneLike(mark string) {
	b.Helper()
	b.noneLeft()
	if out, _ := exec.Command("pgrep", "-fa", "sleep "+mark).Output(); len(out) > 0 {
		b.Errorf("still there: %s", out)
	}
}

func TestWorkerIsKilled(t *testing.T) {
	for _, require := range []string{agent.RequireBestEffort, agent.RequireNone} {
		for _, point := range []string{"claim", "running"} {
			t.Run(require+" at "+point, func(t *testing.T) {
				t.Parallel()
				b, mark := stubbornBench(t)
				b.spec.Require = require
				b.launch()
				if point == "running" {
					b.until(`"up"`)
				}
				b.killWorker()
				r, entries := b.follow()
				if r.State != nightcrier.StateFailed || r.FailureClass != nightcrier.FailLost {
					t.Errorf("result %+v\n%s", r, text(entries))
				}
				b.noneLike(mark)
				if got := states(t, entries); !strings.HasSuffix(got, " failed") || strings.Count(got, "failed") != 1 {
					t.Errorf("states %s", got)
				}
				b.launch()
				again, more := b.follow()
				if again.FailureClass != nightcrier.FailLost || len(more) != len(entries) {
					t.Errorf("the second time: %+v, %d entries after %d", again, len(more), len(entries))
				}
				if n := b.starts(); n > 1 {
					t.Errorf("the agent was started %d times", n)
				}
			})
		}
	}
}

// A follower that attached before the worker died gets the end as well.
func TestWorkerIsKilledWhileFollowed(t *testing.T) {
	b, mark := stubbornBench(t)
	b.launch()
	killed := false
	ended, err := b.workers.Follow(t.Context(), b.handle(), 0, func(e nightcrier.JournalEntry) error {
		if !killed && strings.Contains(string(e.Data), `"up"`) {
			killed = true
			b.killWorker()
		}
		return nil
	})
	if r := ended.Result; err != nil || r.FailureClass != nightcrier.FailLost {
		t.Errorf("%+v, %v", r, err)
	}
	b.noneLike(mark)
}

// init is the process of this machine above the agent.
func (b *bench) init() int {
	b.Helper()
	var p workdir.PIDs
	b.must(b.dir().ReadFile(workdir.PIDFile, &p))
	for _, pid := range p.Worker.Below() {
		if cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(cmdline), process.InitCommand) {
			return pid
		}
	}
	b.Fatal("no init")
	return 0
}

// sandboxes are those of this bench of which something is left.
func (b *bench) sandboxes() []sandbox.Leftover {
	b.Helper()
	left, err := process.Reaper{Owner: b.dir().OwnerName()}.List(b.Context())
	b.must(err)
	return left
}

// What has no parent any more, and on machines with cgroups no mark either, is found
// by whoever follows, and without a follower by the next server.
func TestWorkerAndInitAreKilled(t *testing.T) {
	for _, followed := range []bool{true, false} {
		b, mark := stubbornBench(t)
		b.spec.Require = agent.RequireNone
		b.launch()
		b.until(`"up"`)
		if left := b.sandboxes(); len(left) != 1 || left[0].Orphan || left[0].Name != b.spec.WorkerName() {
			t.Errorf("the sandboxes are %+v", left)
		}
		if all, err := b.workers.List(t.Context(), ""); err != nil || len(all) != 1 || !all[0].Alive || all[0].Processes == 0 {
			t.Fatalf("of a worker that lives: %+v, %v", all, err)
		}
		init := b.init()
		if !b.grouped(init) {
			b.cancel("no groups")
			b.follow()
			t.Skip("SKIPPED ALOUD: no writable cgroups here, so nothing finds such orphans")
		}
		b.stopWorker() // it must not notice
		b.must(syscall.Kill(init, syscall.SIGKILL))
		b.killWorker()
		b.await(func() bool { alive, err := b.dir().IsAlive(); return !alive && err == nil })
		if followed {
			if r, _ := b.follow(); r.FailureClass != nightcrier.FailLost {
				t.Errorf("result %+v", r)
			}
		} else {
			b.must(os.RemoveAll(string(b.dir()))) // nobody knows it any more
			all, err := b.workers.List(t.Context(), "somebody")
			if err != nil || len(all) != 1 || all[0].Handle != b.handle() || all[0].Alive || all[0].Processes != 1 {
				t.Fatalf("of a dead worker: %+v, %v", all, err)
			}
			b.must(b.workers.Destroy(t.Context(), all[0].Handle))
		}
		b.noneLike(mark)
		if left := b.sandboxes(); len(left) > 0 {
			t.Errorf("%+v is left", left)
		}
	}
}

// grouped reports whether a process is in a group of its own.
func (b *bench) grouped(pid int) bool {
	b.Helper()
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	b.must(err)
	return strings.Contains(string(groups), b.spec.WorkerName())
}

func (b *bench) stopWorker() {
	b.Helper()
	var p workdir.PIDs
	b.must(b.dir().ReadFile(workdir.PIDFile, &p))
	b.must(syscall.Kill(p.Worker.PID, syscall.SIGSTOP))
}

// A crash in the middle of a line leaves a spool that can be read and added to.
func TestTornSpool(t *testing.T) {
	b, mark := stubbornBench(t)
	b.launch()
	last := b.until(`"up"`)
	b.killWorker()
	b.await(func() bool { alive, err := b.dir().IsAlive(); return !alive && err == nil })
	f, err := os.OpenFile(b.dir().PathOf("spool.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	b.must(err)
	_, err = f.WriteString(`{"run":"half a li`)
	b.must(errors.Join(err, f.Close()))
	_, entries := b.follow()
	b.noneLike(mark)
	n, err := workdir.EntryNumber(entries[len(entries)-1].Key)
	if err != nil || n < last+1 || n != int64(len(entries)) {
		t.Errorf("the last of %d entries has number %d (%v), after %d", len(entries), n, err, last)
	}
}

func TestFollowResumes(t *testing.T) {
	b := newBench(t, "for i in 1 2 3 4 5 6 7 8 9; do echo line $i; sleep 0.02; done")
	b.launch()
	var got []string
	var last int64
	for {
		// Each follower takes three entries and goes away.
		left := 3
		_, err := b.workers.Follow(t.Context(), b.handle(), last, func(e nightcrier.JournalEntry) error {
			if left--; left < 0 {
				return errFound
			}
			n, err := workdir.EntryNumber(e.Key)
			if n != last+1 {
				t.Errorf("entry %d after %d", n, last)
			}
			last, got = n, append(got, e.Key)
			return err
		})
		if err == nil {
			break
		}
		if err != errFound {
			t.Fatal(err)
		}
	}
	_, entries := b.follow()
	if len(got) != len(entries) {
		t.Errorf("%d entries in pieces, %d at once", len(got), len(entries))
	}
}

func TestFollowDetaches(t *testing.T) {
	b := newBench(t, "echo up; sleep 0.5; echo done")
	b.launch()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := b.workers.Follow(ctx, b.handle(), 0, func(e nightcrier.JournalEntry) error {
		if strings.Contains(string(e.Data), `"up"`) {
			cancel()
		}
		return nil
	})
	if nightcrier.CodeOf(err) != nightcrier.Interrupted {
		t.Errorf("detached with %v", err)
	}
	if alive, err := b.dir().IsAlive(); !alive || err != nil {
		t.Errorf("the worker did not go on: %v, %v", alive, err)
	}
	if r, _ := b.follow(); r.State != nightcrier.StateSuccess {
		t.Errorf("result %+v", r)
	}
}

// The address of a Unix socket holds 108 bytes; a workspace's path may be longer.
func TestLongPath(t *testing.T) {
	b := newBench(t, "echo up; sleep 1000")
	b.workers.Dir = filepath.Join(b.workers.Dir, strings.Repeat("d", 120), strings.Repeat("e", 120))
	b.launch()
	b.until(`"up"`)
	b.cancel("enough")
	if r, _ := b.follow(); r.State != nightcrier.StateCancelled {
		t.Errorf("result %+v", r)
	}
}

func TestProtocolRefusesNonsense(t *testing.T) {
	b := newBench(t, "echo up; sleep 1000")
	b.launch()
	for line, want := range map[string]string{
		"\n":                                "up to version 1",
		"{}\n":                              "up to version 1",
		`{"v":2,"op":"attach"}` + "\n":      "up to version 1",
		`{"v":1,"op":"dance"}` + "\n":       "unknown request",
		strings.Repeat("x", 100_000) + "\n": "", // longer than any request: it hangs up
	} {
		conn, err := b.dir().DialWorker(t.Context())
		b.must(err)
		_, _ = conn.Write([]byte(line)) // it may hang up early
		b.must(conn.SetReadDeadline(time.Now().Add(10 * time.Second)))
		var a workdir.Answer
		switch err := json.NewDecoder(conn).Decode(&a); {
		case want == "" && (err == nil || errors.Is(err, os.ErrDeadlineExceeded)):
			t.Errorf("%.40q was answered by %+v, %v", line, a, err)
		case want != "" && (err != nil || a.Type != "error" || !strings.Contains(a.Text, want)):
			t.Errorf("%.40q was answered by %+v, %v, want an error that says %q", line, a, err, want)
		}
		conn.Close()
	}
	b.cancel("enough")
	b.follow()
}
