package selftest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/target"
	"nightcrier.dev/nightcrier/internal/check/selftest/probe"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
)

// The limits of the suite: small, so that it takes seconds and an attack that succeeds
// harms nobody.
const (
	fewProcesses = 48
	littleMemory = 96 << 20
	littleDisk   = 8 << 20
	littleOutput = 1 << 20
	shortTime    = 8 * time.Second
	shortGrace   = time.Second
)

// glut is a program that takes all that it gets. Each is bounded by itself as well, far
// above its limit.
type glut struct {
	name, script string
	// cli runs the script in the place of claude: what it prints are its events.
	cli bool
	// time ends it, shortTime if 0.
	time time.Duration
	// judge says what stopped it, "" when nothing was seen to.
	judge func(*spree) string
}

// scriptText is the glut's script, whose processes bear a mark. It says that it has begun on
// both streams: of one that floods the other, nothing may be kept.
func (g glut) scriptText(mark string) string {
	return "#!/bin/sh\nexport SELFTEST_MARK=" + mark + "\necho begun\necho begun >&2\n" + g.script + "\n"
}

// spree is what a glut did.
type spree struct {
	Trail
	// peak is the largest number of its processes at a time, left is how many there
	// are when it is over.
	peak, left int64
	// said is what it printed.
	said string
	// disk is what its files take up, spool what its journal does, and largest its
	// longest file, in bytes.
	disk, spool, largest int64
}

// inHoards are gluts that take memory where no process is seen to have it.
func inHoards(binary string) (all []glut) {
	for _, h := range [][2]string{
		{"files", "memory in files that nobody maps"}, {"shared", "shared memory that nobody maps any more"},
		{"sockets", "memory in sockets"}, {"tables", "memory in page tables"},
	} {
		all = append(all, glut{name: h[1], script: quoteWord(binary) + " " + probe.Command + " hoard " + h[0] + ` 256; echo "ended with $?"; exit 3`, time: 4 * shortTime, judge: func(s *spree) string {
			switch {
			case strings.Contains(s.said, "has 256 MiB"):
			case strings.Contains(s.said, "refused: "):
				return "it is refused"
			case strings.Contains(s.Result.FailureReason, "memory limit") || strings.Contains(s.said, "ended with 137"):
				return "ended at its limit"
			}
			return ""
		}})
	}
	return all
}

func allGluts(binary string) []glut {
	return append(inHoards(binary), []glut{
		{name: "processes without end", script: `mkfifo "$TMPDIR/p"; (i=0; while [ $i -lt 400 ]; do sleep 30 & i=$((i+1)); done; sleep 3) && exit; exec 9<>"$TMPDIR/p"; read x <&9`, judge: func(s *spree) string {
			if s.peak > fewProcesses/2 && s.peak <= fewProcesses {
				return fmt.Sprintf("%d processes at most, of 400", s.peak)
			}
			if strings.Contains(s.Result.FailureReason, " processes)") { // where they are watched
				return "ended as a whole at its limit"
			}
			return ""
		}},
		{name: "memory without end", script: quoteWord(binary) + " " + probe.Command + ` hog 256; echo "ended with $?"; exit 3`, time: 4 * shortTime, judge: func(s *spree) string {
			if !strings.Contains(s.said, "has 256 MiB") && (strings.Contains(s.Result.FailureReason, "memory limit") || strings.Contains(s.said, "ended with 137")) {
				return "ended at its limit"
			}
			return ""
		}},
		{name: "one large file", script: `head -c 100000000 /dev/full > "$TMPDIR/large"; echo "ended with $?"; exit 3`, judge: func(s *spree) string {
			return s.whyWithinLimit("a file that may be no longer")
		}},
		{name: "a file with a hole", script: `truncate -s 10G "$TMPDIR/hole"; echo "ended with $?"; exit 3`, judge: func(s *spree) string {
			return s.whyWithinLimit("a file that may be no longer")
		}},
		{name: "many small files", script: `cd "$TMPDIR"; head -c 60000 /dev/full > x; i=0; while [ $i -lt 400 ]; do cp x $i; i=$((i+1)); done; sleep 60`, judge: func(s *spree) string {
			if s.Result.FailureClass == nightcrier.FailDisk {
				return s.whyWithinLimit(s.Result.FailureReason)
			}
			return ""
		}},
		{name: "files without a name", script: `cd "$TMPDIR"; for n in 3 4 5 6 7 8 9; do eval "exec $n>f; rm f; head -c 4000000 /dev/full >&$n"; done; sleep 60`, judge: func(s *spree) string {
			if s.Result.FailureClass == nightcrier.FailDisk {
				return s.whyWithinLimit(s.Result.FailureReason)
			}
			return ""
		}},
		{name: "output without end", script: `yes "$(head -c 4000 /dev/full | tr '\0' x)" | head -c 20000000`, judge: (*spree).whyOutputKept},
		{name: "errors without end", script: `yes "$(head -c 4000 /dev/full | tr '\0' x)" | head -c 20000000 >&2`, judge: (*spree).whyOutputKept},
		{name: "empty lines without end", script: `yes '' | head -c 50000000`, judge: (*spree).whyOutputKept},
		{name: "tool calls without end", cli: true, script: `yes '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"x","name":"Bash","input":{"command":"kubectl get pods"}}]}}' | head -c 50000000`, judge: (*spree).whyOutputKept},
		{name: "sleep without end", script: `trap "" INT TERM HUP; i=0; while [ $i -lt 8 ]; do sleep 1; i=$((i+1)); done`, time: 2 * time.Second, judge: func(s *spree) string {
			if s.Result.State == nightcrier.StateTimeout {
				return s.Result.FailureReason
			}
			return ""
		}},
		{name: "a process that is left behind", script: `setsid sh -c 'trap "" INT TERM HUP; (sleep 30; sleep 30) &' < /dev/null > /dev/null 2>&1; sleep 0.5`, judge: whyGone},
		{name: "a process without its environment", script: `m="$SELFTEST_MARK"; env -i setsid sh -c ": $m; trap '' INT TERM HUP; /bin/sleep 30; : $m" < /dev/null > /dev/null 2>&1 & sleep 0.5`, judge: whyGone},
	}...)
}

// whyWithinLimit says why when the files stayed within their limit.
func (s *spree) whyWithinLimit(why string) string {
	if s.disk <= 2*littleDisk && s.largest <= littleDisk { // it is measured once a second
		return fmt.Sprintf("%s; %d bytes are left of it", why, s.disk)
	}
	return ""
}

// whyOutputKept says that what was printed is kept within its limit.
func (s *spree) whyOutputKept() string {
	if s.Result.Truncated && s.spool <= 8*littleOutput {
		return fmt.Sprintf("cut off; %d bytes are kept", s.spool)
	}
	return ""
}

// whyGone says that there was a process besides the first, and that there is none.
func whyGone(s *spree) string {
	if s.peak > 1 {
		return "its processes ended with it"
	}
	return ""
}

// glutsAtOnce is how many run beside each other: most of them wait.
const glutsAtOnce = 3

// resourceSuite has programs take all that they can get.
func resourceSuite(ctx context.Context, b *Bench) ([]Result, error) {
	all := allGluts(b.WorkerCommand[0])
	b.Progress(fmt.Sprintf("resources: %d programs without an end", len(all)))
	results := make([]Result, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(glutsAtOnce)
	for i, g := range all {
		group.Go(func() (err error) {
			results[i], err = b.runGlut(ctx, g)
			return err
		})
	}
	return results, group.Wait()
}

// runGlut runs a program that takes all that it gets.
func (b *Bench) runGlut(ctx context.Context, g glut) (Result, error) {
	res := Attack{Suite: "resources", Name: g.name, By: byShell, Expected: []Layer{Sandbox}}.newResult()
	s := &spree{}
	mark := "mark-" + newMark()
	var seen atomic.Int64
	end := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { watchProcesses(mark, &seen, end) })
	var err error
	s.Trail, err = b.runWorker(ctx, func(spec *backend.Spec, secrets *backend.Secrets, _ *target.Door) error {
		dir := filepath.Dir(spec.Workspace)
		spec.MaxProcesses, spec.MaxMemoryBytes, spec.MaxWorkspaceBytes, spec.MaxOutputBytes = fewProcesses, littleMemory, littleDisk, littleOutput
		spec.Timeout, spec.Grace = max(g.time, shortTime), shortGrace
		if g.time > 0 {
			spec.Timeout = g.time
		}
		spec.ExtraEnv, spec.ReadPaths = map[string]string{"SELFTEST_MARK": mark}, []string{b.WorkerCommand[0]}
		spec.Executor, spec.ScriptPath = "script", filepath.Join(dir, "glut.sh")
		if g.cli {
			spec.Executor, spec.Command, spec.ScriptPath = "claude-code", spec.ScriptPath, ""
			secrets.ModelAPIKey = "selftest-" + newMark()
		}
		if b.loosen != nil {
			b.loosen(spec)
		}
		return target.WriteFile(filepath.Join(dir, "glut.sh"), g.scriptText(mark), 0o700)
	})
	close(end)
	watching.Wait()
	if err != nil {
		return res, err
	}
	s.peak, s.left = seen.Load(), int64(len(processesOf(mark)))
	if err := s.measureLeft(); err != nil {
		return res, err
	}
	why := g.judge(s)
	switch {
	case !strings.Contains(s.said, "begun"):
		res.Outcome, res.Detail = NotExercised, text.CutLine(s.Result.FailureReason, maxDetail)
	case s.left > 0:
		res.Outcome, res.Detail = Succeeded, fmt.Sprintf("%d of its processes outlived it", s.left)
	case why != "":
		res.StoppedBy, res.Detail = append(res.StoppedBy, Sandbox), text.CutLine(why, maxDetail)
	default:
		res.Outcome = Succeeded
		res.Detail = fmt.Sprintf("it ended %s %s, with %d processes, %d bytes of files, %d of its journal: %s", s.Result.State, s.Result.FailureClass, s.peak, s.disk, s.spool, text.CutLine(s.said, maxDetail))
	}
	return res.concludeResult(false), nil
}

// measureLeft adds up what was left.
func (s *spree) measureLeft() error {
	for _, e := range s.Entries {
		s.spool += int64(len(e.Data))
		if e.Type == nightcrier.EntryLog {
			l, err := journal.Decode[journal.Log](e)
			if err != nil {
				return err
			}
			if s.said += l.Text + "\n"; len(s.said) > 64<<10 {
				s.said = s.said[:64<<10]
			}
		}
	}
	return filepath.WalkDir(s.Workspace, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			s.largest = max(s.largest, info.Size())
			s.disk += info.Size()
		}
		return err
	})
}

// watchEvery is how often processes are counted.
const watchEvery = 100 * time.Millisecond

// watchProcesses keeps the largest number of processes that bear a mark.
func watchProcesses(mark string, peak *atomic.Int64, end <-chan struct{}) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-end:
			return
		case <-tick.C:
			peak.Store(max(peak.Load(), int64(len(processesOf(mark)))))
		}
	}
}

// processesOf lists the processes that bear a mark in their environment or arguments.
func processesOf(mark string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*") // none on a system without
	for _, dir := range all {
		has := func(name string) bool {
			text, err := os.ReadFile(filepath.Join(dir, name))
			return err == nil && bytes.Contains(text, []byte(mark))
		}
		if has("environ") || has("cmdline") {
			found = append(found, dir)
		}
	}
	slices.Sort(found)
	return found
}
