package worker

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

func TestHowScriptsEnd(t *testing.T) {
	for _, c := range []struct {
		name   string
		script string
		change func(*backend.Spec)
		state  nightcrier.State
		class  nightcrier.FailureClass
		code   int
		signal string
		reason string
		states string
	}{
		{name: "silent success", script: "exit 0", state: "success", states: "created starting success"},
		{name: "code", script: "echo oops >&2; exit 3", state: "failed", class: "agent_error", code: 3, reason: "code 3: oops", states: "created starting running failed"},
		{name: "signal", script: "kill -SEGV $$", state: "failed", class: "crash", code: 139, signal: "SIGSEGV", reason: "killed by SIGSEGV"},
		{name: "code of a signal", script: "exit 143", state: "failed", class: "crash", code: 143},
		{name: "timeout, obedient", script: "trap 'exit 0' INT; echo up; while :; do sleep 0.05; done",
			change: func(s *backend.Spec) { s.Timeout = 200 * time.Millisecond; s.Grace = 20 * time.Second },
			state:  "timeout", class: "timeout", code: 0, states: "created starting running timeout"},
		{name: "timeout, deaf", script: "trap '' INT TERM HUP; echo up; while :; do sleep 0.05; done",
			change: func(s *backend.Spec) { s.Timeout = 200 * time.Millisecond },
			state:  "timeout", class: "timeout", code: 137, signal: "SIGKILL"},
		{name: "children that survive", script: "for i in 1 2 3; do env -i setsid sh -c 'trap \"\" INT TERM; sleep 1000 & sleep 1000' & done; echo up; exit 5",
			state: "failed", class: "agent_error", code: 5},
		{name: "deaf children at a timeout", script: "setsid sh -c 'trap \"\" INT TERM; sleep 1000; sleep 1000' & trap '' INT; echo up; wait; sleep 1000",
			change: func(s *backend.Spec) { s.Timeout = 200 * time.Millisecond },
			state:  "timeout", class: "timeout", code: 137, signal: "SIGKILL"},
		{name: "stdout closed early", script: "echo up; exec >&- 2>&-; sleep 0.3; exit 4", state: "failed", class: "agent_error", code: 4},
		{name: "disk", script: "echo up; for i in $(seq 20); do head -c 1000000 /dev/full > tmp/$i; done; sleep 100",
			change: func(s *backend.Spec) { s.MaxWorkspaceBytes = 5 << 20 },
			state:  "failed", class: "disk", signal: "SIGINT", reason: "bytes"},
		{name: "far too much output", script: "yes",
			change: func(s *backend.Spec) { s.MaxOutputBytes = 100_000 },
			state:  "failed", class: "agent_error", signal: "SIGINT", reason: "printed more than"},
		{name: "no such script", change: func(s *backend.Spec) { s.ScriptPath = "/nonexistent/agent.sh" },
			state: "failed", class: "start_error", reason: "/nonexistent/agent.sh", states: "created starting failed"},
		{name: "no interpreter", change: func(s *backend.Spec) { overwrite(s.ScriptPath, "#!/no/such/interpreter\n") },
			state: "failed", class: "start_error", reason: "exec"},
		{name: "no program", change: func(s *backend.Spec) { overwrite(s.ScriptPath, "\x7fELF\x00garbage") },
			state: "failed", class: "start_error", reason: "exec"},
		{name: "a text", change: func(s *backend.Spec) { overwrite(s.ScriptPath, "install me first\n") },
			state: "failed", class: "start_error", reason: "neither a program nor a script"},
		{name: "unknown executor", change: func(s *backend.Spec) { s.Executor = "skynet" }, state: "failed", class: "start_error", reason: "skynet"},
		{name: "no workspace", change: func(s *backend.Spec) { s.Workspace += "-gone" }, state: "failed", class: "start_error", reason: "workspace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.script)
			if c.change != nil {
				c.change(&b.spec)
			}
			r, entries := b.run()
			for c.state == nightcrier.StateTimeout && !isUp(t, entries) && b.spec.Timeout < latestTimeout {
				b = b.later(c.script)
				r, entries = b.run()
			}
			if c.state == nightcrier.StateTimeout {
				c.reason = b.spec.Timeout.String()
			}
			if r.State != c.state || r.FailureClass != c.class || r.Signal != c.signal || !strings.Contains(r.FailureReason, c.reason) {
				t.Errorf("result %+v\n%s", r, clip(text(entries)))
			}
			if c.class != "start_error" && (r.ExitCode == nil || c.code != 0 && *r.ExitCode != c.code) {
				t.Errorf("exit code %v, want %d", r.ExitCode, c.code)
			}
			if got := states(t, entries); c.states != "" && got != c.states || !strings.HasSuffix(got, string(c.state)) {
				t.Errorf("states %s, want %s", got, c.states)
			}
			b.noneLeft()
		})
	}
}

// latestTimeout is the longest that a script gets until it has said up.
const latestTimeout = 30 * time.Second

// isUp says that a script was ready when its deadline came: on a busy machine it may not
// have begun by then, and shows nothing.
func isUp(t *testing.T, entries []nightcrier.JournalEntry) bool {
	t.Helper()
	for _, e := range entries {
		if e.Type == nightcrier.EntryLog {
			l, err := journal.Decode[journal.Log](e)
			if err != nil {
				t.Fatal(err)
			}
			if l.Stream == "stdout" && slices.Contains(strings.Split(l.Text, "\n"), "up") {
				return true
			}
		}
	}
	return false
}

// later is a new bench for the same, with more time until its deadline.
func (b *bench) later(script string) *bench {
	b.Helper()
	again := newBench(b.TB, script)
	again.spec.Timeout, again.spec.Grace = 2*b.spec.Timeout, b.spec.Grace
	return again
}

func overwrite(path, text string) {
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		panic(err)
	}
}

func clip(s string) string { return s[:min(len(s), 3000)] }

func TestEnvironmentIsBuilt(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-of-the-server")
	t.Setenv("DATABASE_URL", "postgres://user:pw@host/db")
	b := newBench(t, "env | sort; cat /proc/$PPID/environ; cat /etc/shadow; cat /proc/1/environ; ls -la /proc/self/fd")
	_, entries := b.run()
	out := text(entries)
	if !strings.Contains(out, "in "+b.ws+", with the variables ") {
		t.Errorf("what was started is not said:\n%s", out)
	}
	for _, bad := range []string{"sk-of-the-server", "postgres://", "root:"} {
		if strings.Contains(out, bad) {
			t.Errorf("the agent saw %q:\n%s", bad, out)
		}
	}
	for _, want := range []string{
		"INCIDENT_ID=" + b.spec.IncidentID, "INCIDENT_WORKSPACE=" + b.ws, "KUBERNETES_CLUSTER=prod-1", "KUBERNETES_NAMESPACE=shop",
		"CLAUDE_READ_ONLY_MODE=true", "HOME=" + b.ws + "/home", "TMPDIR=" + b.ws + "/tmp", "WORKSPACE_DIR=" + b.ws,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("environment lacks %s:\n%s", want, out)
		}
	}
}

func TestModelKeyStaysOutside(t *testing.T) {
	b := newBench(t, `env; cat /proc/*/environ 2>/dev/null | tr '\0' '\n'; grep -r api03 . 2>/dev/null
case $ANTHROPIC_API_KEY in sk-ant-run-*) echo has a run token;; esac`)
	b.sec.ModelAPIKey = realKey
	_, entries := b.run()
	out := text(entries)
	if strings.Contains(out, realKey) {
		t.Errorf("the agent saw the key:\n%s", out)
	}
	if !strings.Contains(out, "has a run token") || !strings.Contains(out, "ANTHROPIC_BASE_URL=http://127.0.0.1:") {
		t.Errorf("the agent has no run token:\n%s", out)
	}
	b.noKeyLeft(t)
}

func TestWorkspaceIsGuarded(t *testing.T) {
	b := newBench(t, `
echo own > home/a && echo own > tmp/a && echo own > "$OUTPUT_DIR/a" && echo ok-own
echo bad > context/incident.json || echo ok-context
echo bad > incident.json || echo ok-top
ln -s /etc/shadow output/link; cat output/link || echo ok-link
echo bad > ../other || echo ok-outside
ls -a .. | grep workers || echo ok-list
kubectl get pods 2>&1 | head -1 || true; cat "$KUBECONFIG"`)
	b.write("output/audit.jsonl", "ours\n")
	_, entries := b.run()
	out := text(entries)
	for _, want := range []string{"ok-own", "ok-context", "ok-top", "ok-link", "ok-outside", "ok-list", "clusters: []"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %s:\n%s", want, out)
		}
	}
	if b.read("output/audit.jsonl") != "ours\n" || b.read("context/incident.json") != `{"x":1}` {
		t.Error("the agent changed what is ours")
	}
	if _, err := os.Lstat(filepath.Join(b.ws, "output", "a")); !os.IsNotExist(err) {
		t.Errorf("the agent wrote into the real output: %v", err)
	}
}

func TestOutputLimits(t *testing.T) {
	b := newBench(t, `head -c 3000000 /dev/full | tr '\0' x; echo; head -c 300000 /dev/urandom; echo; echo the end; printf 'no newline'`)
	b.spec.MaxOutputBytes = 4 << 20
	r, entries := b.run()
	if r.State != nightcrier.StateSuccess || r.Truncated || !strings.HasSuffix(r.FinalMessage, "the end\nno newline") {
		t.Errorf("result %s truncated %v final %q", r.State, r.Truncated, r.FinalMessage[max(0, len(r.FinalMessage)-40):])
	}
	long := 0
	for _, e := range entries {
		if len(e.Data) > 7*64<<10 {
			t.Errorf("an entry has %d bytes", len(e.Data))
		}
		if l, err := journal.Decode[journal.Log](e); err == nil && l.Truncated {
			long++
		}
	}
	if long == 0 {
		t.Error("the long line is not marked as cut")
	}

	b = newBench(t, `seq 10000; echo the end`)
	b.spec.MaxOutputBytes = 100_000
	r, entries = b.run()
	if r.State != nightcrier.StateSuccess || !r.Truncated || !strings.HasSuffix(r.FinalMessage, "the end") {
		t.Errorf("result %+v", r)
	}
	if n := strings.Count(text(entries), "over its limit"); n != 1 {
		t.Errorf("the cut is told %d times", n)
	}
}

// A program that prints many lines makes few entries, and loses none.
func TestLinesAreGathered(t *testing.T) {
	b := newBench(t, `seq 20000; echo alone; sleep 0.2; echo late; echo complaint >&2`)
	b.spec.MaxOutputBytes = 64 << 20
	_, entries := b.run()
	if len(entries) > 2000 {
		t.Errorf("%d entries", len(entries))
	}
	var lines []string
	for _, e := range entries {
		if l, err := journal.Decode[journal.Log](e); err == nil && l.Stream == "stdout" {
			lines = append(lines, strings.Split(l.Text, "\n")...)
		}
	}
	if len(lines) != 20002 || lines[0] != "1" || lines[19999] != "20000" || lines[20000] != "alone" || lines[20001] != "late" {
		t.Errorf("%d lines", len(lines))
	}
	if out := text(entries); !strings.Contains(out, "stderr complaint\n") {
		t.Error("stderr is lost")
	}
}

func TestOutOfMemory(t *testing.T) {
	b := newBench(t, `echo up; x=$(head -c 200000000 /dev/full | tr '\0' x); echo ${#x}`)
	b.spec.MaxMemoryBytes = 32 << 20
	r, entries := b.run()
	if !slices.Contains(r.Layers, process.LayerMemory) && !slices.Contains(r.Layers, process.LayerMemoryWatch) {
		t.Fatalf("memory is bounded by none of %v", r.Layers)
	}
	if r.State != nightcrier.StateFailed || !strings.Contains(r.FailureReason, "over the memory limit") {
		t.Errorf("result %+v\n%s", r, clip(text(entries)))
	}
}

// Where nothing refuses a process too many, all of them are ended, and a person is told why.
func TestOutOfProcesses(t *testing.T) {
	if !onTheFloor() {
		t.Skip("elsewhere the kernel refuses them")
	}
	b := newBench(t, `echo up; (i=0; while [ $i -lt 2000 ]; do (setsid sleep 30 &); i=$((i+1)); done 2>/dev/null); sleep 30; echo all`)
	b.spec.MaxProcesses, b.spec.Timeout = 48, 20*time.Second
	r, entries := b.run()
	if !slices.Contains(r.Layers, process.LayerPIDsWatch) {
		t.Skipf("SKIPPED ALOUD: the kernel bounds processes here; layers %v", r.Layers)
	}
	if r.State != nightcrier.StateFailed || r.FailureClass != nightcrier.FailCrash || !strings.Contains(r.FailureReason, "(over the limit of 48 processes)") {
		t.Errorf("result %+v\n%s", r, clip(text(entries)))
	}
}

// Who may have less is told what bounds it.
func TestLimitsAreWatched(t *testing.T) {
	r, entries := newBench(t, "echo greetings").run()
	if !slices.Contains(r.Layers, process.LayerMemoryWatch) || !slices.Contains(r.Layers, process.LayerPIDsWatch) {
		if onTheFloor() {
			t.Errorf("layers %v", r.Layers)
		}
		t.Skip("the kernel bounds agents here")
	}
	if !slices.Equal(r.Missing, process.Strict(r.Layers)) || !slices.Contains(r.Missing, process.LayerMemory) {
		t.Errorf("missing %v of %v", r.Missing, r.Layers)
	}
	for _, e := range entries {
		if s, err := journal.Decode[journal.State](e); e.Type == nightcrier.EntryState && err == nil && len(s.Layers) > 0 && !slices.Equal(s.Missing, r.Missing) {
			t.Errorf("the journal says that %v are missing", s.Missing)
		}
	}
}

func TestRequire(t *testing.T) {
	for _, require := range []string{agent.RequireStrict, agent.RequireBestEffort, agent.RequireNone} {
		b := newBench(t, "echo greetings")
		b.spec.Require = require
		r, entries := b.run()
		if onTheFloor() && require == agent.RequireStrict {
			if r.FailureClass != nightcrier.FailStart || !strings.Contains(r.FailureReason, "does not grant pidns, mountns, netns") || strings.Contains(text(entries), "greetings") {
				t.Errorf("%s without namespaces: %+v\n%s", require, r, text(entries))
			}
			continue
		}
		if require == agent.RequireStrict && slices.Contains(r.Missing, process.LayerMemory) {
			if r.FailureClass != nightcrier.FailStart || !strings.Contains(r.FailureReason, "does not grant "+process.LayerMemory) {
				t.Errorf("%s without a control group: %+v", require, r)
			}
			continue
		}
		if r.State != nightcrier.StateSuccess {
			t.Errorf("%s: %+v\n%s", require, r, text(entries))
		}
		if said := strings.Contains(text(entries), "without confinement"); said != (require == agent.RequireNone) {
			t.Errorf("%s: said without confinement: %v", require, said)
		}
		if said := strings.Contains(text(entries), "sandbox without pidns"); said != (onTheFloor() && require == agent.RequireBestEffort) {
			t.Errorf("%s: told that layers are missing: %v", require, said)
		}
	}
	b := newBench(t, "echo greetings")
	b.spec.Require = "maybe"
	if err := b.launchWith(os.Args[0], "worker"); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("require maybe: %v", err)
	}
}

const floorVariable = "NIGHTCRIER_TEST_FLOOR"

// onTheFloor reports whether this process cannot make namespaces.
func onTheFloor() bool { return os.Getenv(floorVariable) != "" }

// The same where no namespace can be had: no capability, and no user namespace.
func TestOnTheFloor(t *testing.T) {
	floored(t, "true", "WorkerIsKilled", "HowScriptsEnd|Require|WorkspaceIsGuarded|EnvironmentIsBuilt|ModelKeyStaysOutside|WorkerIsKilled|Cancel")
}

// And where no control group can be had either: there memory and processes are watched.
func TestOnTheFloorWithoutGroups(t *testing.T) {
	floored(t, "mount -t tmpfs none /sys/fs/cgroup", "OutOfProcesses", "OutOfMemory|OutOfProcesses|LimitsAreWatched")
}

// floored runs tests of this binary where no namespace can be had, after a command.
func floored(t *testing.T, prepare, one, tests string) {
	t.Helper()
	if onTheFloor() {
		t.Skip("this is the floor")
	}
	for _, tool := range []string{"unshare", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED ALOUD: no %s here to take namespaces away with", tool)
		}
	}
	script := prepare + ` && echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all "$@"`
	cmd := exec.CommandContext(t.Context(), "unshare", "-U", "-r", "-m", "sh", "-c", script, "sh", testproc.Self(),
		"-test.v", "-test.run", "^Test("+tests+")$")
	cmd.Env = append(os.Environ(), floorVariable+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(string(out), "unshare") {
		t.Skipf("SKIPPED ALOUD: no user namespaces here, so the other tests ran on the floor already: %s", out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: Test"+one) {
		t.Errorf("%v\n%s", err, out)
	}
}

// What a server started by nohup, or in the background of a shell, ignores must
// not make an agent deaf.
func TestIgnoredSignalsAreNotInherited(t *testing.T) {
	b := newBench(t, "grep SigIgn /proc/self/status")
	b.spec.Timeout = 20 * time.Second
	_, entries := b.run()
	out := text(entries)
	_, mask, found := strings.Cut(out, "SigIgn:\t")
	ignored, err := strconv.ParseUint(mask[:min(16, len(mask))], 16, 64)
	// Signal 32 and above are the C library's own business.
	if !found || err != nil || ignored&(1<<31-1) != 0 {
		t.Errorf("signals are ignored from the start: %v\n%s", err, out)
	}
}

func TestCancel(t *testing.T) {
	b := newBench(t, "trap 'echo bye; exit 0' INT; echo trap is set; while :; do sleep 0.05; done")
	b.spec.Grace = 20 * time.Second
	b.launch()
	b.until("trap is set")
	b.cancel("not needed")
	b.cancel("the second one does not count")
	r, entries := b.follow()
	if r.State != nightcrier.StateCancelled || r.FailureReason != "not needed" || r.FailureClass != nightcrier.FailCancelled {
		t.Errorf("result %+v", r)
	}
	if !strings.Contains(text(entries), "bye") {
		t.Errorf("the agent was not asked first:\n%s", text(entries))
	}
	if got, want := states(t, entries), "created starting running cancelled"; got != want {
		t.Errorf("states %s, want %s", got, want)
	}
	b.cancel("after the end") // no error
	if alive, err := b.dir().IsAlive(); alive || err != nil {
		t.Errorf("alive %v, %v", alive, err)
	}
}

// Whoever does not heed a cancellation is killed when the grace is over. The exit code
// tells of the signal, the state of its cause.
func TestCancelOfADeafAgent(t *testing.T) {
	b := newBench(t, "trap '' INT TERM HUP; echo up; while :; do sleep 0.05; done")
	b.spec.Grace = 100 * time.Millisecond
	b.launch()
	b.until(`"up"`)
	b.cancel("not needed")
	r, entries := b.follow()
	if r.State != nightcrier.StateCancelled || r.Signal != "SIGKILL" || r.ExitCode == nil || *r.ExitCode != 137 {
		t.Errorf("result %+v\n%s", r, text(entries))
	}
	if !strings.Contains(text(entries), "did not end within 100ms of SIGINT") {
		t.Errorf("the journal does not say why:\n%s", text(entries))
	}
	b.noneLeft()
}

// No run is without a deadline: a spec that names none gets the usual one, and one that
// cannot be kept is refused.
func TestEveryRunHasADeadline(t *testing.T) {
	b := newBench(t, "exit 0")
	spec := b.spec
	spec.Timeout = 0
	spec.SetDefaults()
	if err := spec.CheckSpec(); err != nil || spec.Timeout != agent.DefaultTimeout {
		t.Errorf("deadline %s, %v", spec.Timeout, err)
	}
	spec.Timeout = -time.Second
	spec.SetDefaults()
	if err := spec.CheckSpec(); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("a deadline in the past: %v", err)
	}
}

// until follows until the journal holds a text, and detaches.
func (b *bench) until(want string) (last int64) {
	b.Helper()
	_, err := b.workers.Follow(b.Context(), b.handle(), 0, func(e nightcrier.JournalEntry) error {
		last, _ = workdir.EntryNumber(e.Key)
		if strings.Contains(string(e.Data), want) {
			return errFound
		}
		return nil
	})
	if err != errFound {
		b.Fatalf("the journal ended without %q: %v", want, err)
	}
	return last
}

var errFound = fmt.Errorf("found")

func TestSignalsDoNotEndAWorker(t *testing.T) {
	b := newBench(t, "echo up; while [ ! -e \"$OUTPUT_DIR/go\" ]; do sleep 0.02; done; echo done")
	b.launch()
	b.until(`"up"`)
	var p workdir.PIDs
	b.must(b.dir().ReadFile(workdir.PIDFile, &p))
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		b.must(syscall.Kill(p.Worker.PID, sig))
	}
	b.write(".scratch/go", "")
	if r, _ := b.follow(); r.State != nightcrier.StateSuccess {
		t.Errorf("result %+v", r)
	}
}
