package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nightcrier.dev/nightcrier"
)

// ID names a process for good: a number is used again, a number with its start
// time is not.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in ticks since boot
}

// Identify returns the ID of a living process.
func Identify(pid int) (ID, error) {
	stat, err := readStat(pid)
	if err != nil {
		return ID{}, err
	}
	return ID{PID: pid, Start: stat.start}, nil
}

// Alive reports whether the process lives; a zombie does not.
func (id ID) Alive() bool {
	stat, err := readStat(id.PID)
	return err == nil && stat.start == id.Start && stat.state != "Z" && stat.state != "X"
}

// Descendants counts the processes below a process, 0 when it is gone.
func (id ID) Descendants() int { return len(id.Below()) }

// Below lists the processes below a process, none when it is gone.
func (id ID) Below() []int {
	if !id.Alive() {
		return nil
	}
	return descendants(id.PID)
}

// Sweep kills the given processes, all below them, and every process whose
// environment holds one of the marks ("NAME=value"), and returns when none is
// left. An error means that they could not be verified gone.
func Sweep(ctx context.Context, ids []ID, marks ...string) error {
	const pause = 20 * time.Millisecond
	for {
		left := survivors(ids, marks)
		if len(left) == 0 {
			return nil
		}
		var errs []error
		for _, pid := range left {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				errs = append(errs, fmt.Errorf("kill %d: %w", pid, err))
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nightcrier.Errorf(nightcrier.Internal, "processes %v are not verified gone: %w", left, errors.Join(append(errs, ctx.Err())...))
		}
	}
}

// Adopt makes this process the parent of all that is below it and loses its own:
// what an agent leaves behind can then always be found by SweepBelow.
func Adopt() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// SweepBelow kills and reaps everything below this process, and returns when
// nothing is. It must have called Adopt, and must await no child of its own
// meanwhile. An error means that they could not be verified gone.
func SweepBelow(ctx context.Context) error {
	for {
		below := descendants(os.Getpid())
		if len(below) == 0 {
			return nil
		}
		for _, pid := range below {
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone already is as good
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
		select {
		case <-time.After(time.Millisecond): // an agent that forks on and on is to be outrun
		case <-ctx.Done():
			return nightcrier.Errorf(nightcrier.Internal, "%d processes of the agent are not verified gone: %w", len(below), ctx.Err())
		}
	}
}

// survivors lists the living processes that Sweep is to end; never ourselves.
func survivors(ids []ID, marks []string) []int {
	var left []int
	for _, id := range ids {
		if !id.Alive() {
			continue
		}
		below := descendants(id.PID)
		if left = append(left, below...); len(below) == 0 {
			left = append(left, id.PID) // the last, so that no orphan gets away
		}
	}
	for _, pid := range allProcesses() {
		if marked(pid, marks) && !isZombie(pid) {
			left = append(left, pid)
		}
	}
	slices.Sort(left)
	left = slices.Compact(left)
	return slices.DeleteFunc(left, func(pid int) bool { return pid == os.Getpid() || pid <= 1 })
}

// marked reports whether the environment that a process was started with holds
// one of the marks.
func marked(pid int, marks []string) bool {
	if len(marks) == 0 {
		return false
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if slices.Contains(marks, string(entry)) {
			return true
		}
	}
	return false
}

func isZombie(pid int) bool {
	stat, err := readStat(pid)
	return err != nil || stat.state == "Z" || stat.state == "X"
}

func allProcesses() []int {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(filepath.Base(e)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// children lists the direct children of a process.
func children(parent int) []int {
	var found []int
	for _, pid := range allProcesses() {
		if stat, err := readStat(pid); err == nil && stat.parent == parent {
			found = append(found, pid)
		}
	}
	return found
}

// descendants lists all below a process, the deepest last.
func descendants(root int) []int {
	parents := map[int][]int{}
	for _, pid := range allProcesses() {
		if stat, err := readStat(pid); err == nil {
			parents[stat.parent] = append(parents[stat.parent], pid)
		}
	}
	var found []int
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		below := parents[queue[0]]
		found, queue = append(found, below...), append(queue, below...)
	}
	return found
}

type procStat struct {
	state  string
	parent int
	start  uint64
}

// readStat reads /proc/PID/stat (proc_pid_stat(5)). The name in it is in
// parentheses and may itself hold any character, so fields count from the last.
func readStat(pid int) (procStat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, err
	}
	_, rest, ok := strings.Cut(string(b[max(0, bytes.LastIndexByte(b, ')')):]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return procStat{}, fmt.Errorf("/proc/%d/stat is unreadable", pid)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return procStat{}, err
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	return procStat{state: fields[0], parent: parent, start: start}, err
}
