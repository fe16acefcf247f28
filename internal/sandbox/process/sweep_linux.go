package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
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

// Alive reports whether the process lives. A zombie does not, unless only its first
// thread has ended, and others go on.
func (id ID) Alive() bool {
	stat, err := readStat(id.PID)
	return err == nil && stat.start == id.Start && (stat.threads > 1 || stat.state != "Z" && stat.state != "X")
}

// Kill kills the process, if it is still the one.
func (id ID) Kill() error { return id.sendSignal(unix.SIGKILL) }

// Descendants counts the processes below a process, 0 when it is gone.
func (id ID) Descendants() int { return len(id.Below()) }

// Below lists the processes below a process, none when it is gone.
func (id ID) Below() []int {
	if !id.Alive() {
		return nil
	}
	var below []int
	for _, b := range descendantsOf(id.PID) {
		below = append(below, b.PID)
	}
	return below
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
		below := descendantsOf(os.Getpid())
		if len(below) == 0 {
			return nil
		}
		for _, id := range below {
			_ = id.sendSignal(syscall.SIGKILL) // gone already is as good
			_, _ = syscall.Wait4(id.PID, nil, syscall.WNOHANG, nil)
		}
		select {
		case <-time.After(time.Millisecond): // an agent that forks on and on is to be outrun
		case <-ctx.Done():
			return nightcrier.Errorf(nightcrier.Internal, "%d processes of the agent are not verified gone: %w", len(below), ctx.Err())
		}
	}
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

// childrenOf lists the direct children of a process.
func childrenOf(parent int) []int {
	var found []int
	for _, pid := range allProcesses() {
		if stat, err := readStat(pid); err == nil && stat.parent == parent {
			found = append(found, pid)
		}
	}
	return found
}

// descendantsOf lists all below some processes, the deepest last.
func descendantsOf(roots ...int) []ID {
	var ids []ID
	for _, p := range familiesBelow(roots...) {
		ids = append(ids, p.ID)
	}
	return ids
}

// family is a process below another one.
type family struct {
	ID
	threads int
}

// familiesBelow is descendantsOf with what it came to know.
func familiesBelow(roots ...int) []family {
	parents := map[int][]family{}
	for _, pid := range allProcesses() {
		if stat, err := readStat(pid); err == nil {
			parents[stat.parent] = append(parents[stat.parent], family{ID{pid, stat.start}, stat.threads})
		}
	}
	var found []family
	seen := map[int]bool{}
	for queue := roots; len(queue) > 0; queue = queue[1:] {
		if seen[queue[0]] {
			continue
		}
		seen[queue[0]] = true
		for _, p := range parents[queue[0]] {
			found, queue = append(found, p), append(queue, p.PID)
		}
	}
	return found
}

type procStat struct {
	state   string
	parent  int
	threads int
	start   uint64
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
	threads, err := strconv.Atoi(fields[17])
	if err != nil {
		return procStat{}, err
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	return procStat{state: fields[0], parent: parent, threads: threads, start: start}, err
}
