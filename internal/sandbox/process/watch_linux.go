package process

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// lookEvery is how often a watch looks. Where a look takes long it waits lookShare
	// times as long, but never more than lookAtLeast: a machine is also slow when it is
	// the agent that makes it so.
	lookEvery   = 100 * time.Millisecond
	lookShare   = 20
	lookAtLeast = 500 * time.Millisecond
)

// watch stands in for the limits that no control group enforces: it adds up what is used
// below an init, and kills what is above. What is taken between two looks is had, which
// makes it a weaker layer than a group.
type watch struct {
	root      int      // the init
	private   []string // directories in memory that are the sandbox's own
	memory    int64    // in bytes; 0 is no limit
	processes int      // counts threads, as the kernel's own limits do; 0 is no limit
	// dead were killed, and may take a moment to give back what they had.
	dead            map[ID]bool
	hungry, teeming atomic.Bool // something was killed for its memory, all for their number
}

// watchLimits watches what nothing else bounds in the sandbox, until nothing is left in it.
func (s *Sandbox) watchLimits() {
	w := &s.watch
	w.root, w.dead = s.PID(), map[ID]bool{}
	if slices.Contains(s.held.Layers, LayerRoot) {
		w.private = privateDirs
	}
	var layers []string
	if s.options.MaxMemoryBytes > 0 && !slices.Contains(s.held.Layers, LayerMemory) {
		w.memory, layers = s.options.MaxMemoryBytes, append(layers, LayerMemoryWatch)
	}
	if s.options.MaxProcesses > 0 && !slices.Contains(s.held.Layers, LayerPIDs) && !slices.Contains(s.held.Layers, LayerNproc) {
		w.processes, layers = s.options.MaxProcesses, append(layers, LayerPIDsWatch)
	}
	if len(layers) == 0 {
		return
	}
	if err := w.checkVisibility(); err != nil {
		s.noteErrors(fmt.Errorf("memory and processes are not watched: %w", err))
		return
	}
	s.held.Layers = append(s.held.Layers, layers...)
	go w.watchSandbox(s)
}

// checkVisibility says why a watch would see too little: /proc may hide the processes of others.
func (w *watch) checkVisibility() error {
	_, err := readStat(1)
	if err == nil {
		_, err = atMost(w.root)
	}
	return err
}

func (w *watch) watchSandbox(s *Sandbox) {
	for wait := lookEvery; ; {
		select {
		case <-s.gone:
			return
		case <-time.After(wait):
		}
		began := time.Now()
		if w.enforceLimits() {
			s.Kill()
		}
		wait = min(max(lookEvery, lookShare*time.Since(began)), lookAtLeast)
	}
}

// enforceLimits is true when all has to end.
func (w *watch) enforceLimits() bool {
	all := familiesBelow(w.root)
	threads := 0
	for _, p := range all {
		threads += p.threads
	}
	if w.processes > 0 && threads > w.processes {
		w.teeming.Store(true)
		var ids []ID
		for _, p := range all {
			ids = append(ids, p.ID)
		}
		_ = endTrees(ids) // who dies alone leaves time to others
		return true
	}
	if w.memory > 0 {
		w.relieveMemory(all)
	}
	return false
}

// share is what one process has of the memory.
type share struct {
	id    ID
	bytes int64
}

// relieveMemory kills the processes that have most, until the others are within the limit.
func (w *watch) relieveMemory(all []family) {
	files := w.fileBytes()
	if _, most := w.weighProcesses(all, atMost); most+files <= w.memory {
		return
	}
	// Pages that several of them share were counted as often, and all descriptors that
	// they may have as if they were full.
	shares, total := w.weighProcesses(all, (&scale{seen: map[string]bool{}}).weighProcess)
	slices.SortFunc(shares, func(a, b share) int { return cmp.Compare(b.bytes, a.bytes) })
	for _, s := range shares {
		if total+files <= w.memory {
			return
		}
		w.hungry.Store(true)
		if s.id.sendSignal(syscall.SIGKILL) == nil {
			w.dead[s.id] = true
			total -= s.bytes
		}
	}
}

func (w *watch) weighProcesses(all []family, measure func(pid int) (int64, error)) (shares []share, total int64) {
	for _, p := range all {
		if n, err := measure(p.PID); err == nil && !w.dead[p.ID] { // one that has ended has none
			shares, total = append(shares, share{p.ID, n}), total+n
		}
	}
	return shares, total
}

// fileBytes is the size of those in the sandbox's own directories in memory.
func (w *watch) fileBytes() int64 {
	var total int64
	for _, dir := range w.private {
		var st syscall.Statfs_t
		if syscall.Statfs(fmt.Sprintf("/proc/%d/root%s", w.root, dir), &st) == nil { // gone with the init
			total += int64(st.Blocks-st.Bfree) * st.Bsize
		}
	}
	return total
}

// What is in the buffers behind a descriptor is in no process's memory. A pipe has at most
// pipeBytes, since a longer one is refused to agents. A socket has on its way what the
// machine gives to each, usualSocket if that is not to be read, and at most half as much
// again: the last piece may be over.
const (
	pipeBytes   = 64 << 10
	usualSocket = 208 << 10
)

var socketBytes = sync.OnceValue(func() int64 {
	given, err := os.ReadFile("/proc/sys/net/core/wmem_default")
	n, parseErr := strconv.ParseInt(strings.TrimSpace(string(given)), 10, 64)
	if err != nil || parseErr != nil {
		n = usualSocket
	}
	return n * 3 / 2
})

// atMost is no less than the memory of a process, in bytes: all of the pages that it
// shares, and as much as can be behind all descriptors that it has room for. Any user may
// read this of any process.
func atMost(pid int) (int64, error) {
	f, err := footprintOf(pid)
	return f.pages + f.besides + f.room*socketBytes(), err
}

// scale weighs processes. What several of them have it counts once, with the first.
type scale struct{ seen map[string]bool }

// weighProcess returns the memory of a process, with its share of each page. Where that cannot be
// read, because the process forbids it, it has all of them.
func (s *scale) weighProcess(pid int) (int64, error) {
	f, err := footprintOf(pid)
	if err != nil {
		return 0, err
	}
	if rollup, err := readFields(f.dir + "/smaps_rollup"); err == nil && rollup["Pss"] > 0 {
		f.pages = (rollup["Pss"] + rollup["SwapPss"]) << 10
	}
	return f.pages + f.besides + s.bufferBytes(f), nil
}

// bufferBytes are those behind the descriptors of a process, as if they were full. One that
// forbids to look has as many as it has room for.
func (s *scale) bufferBytes(f footprint) (total int64) {
	entries, err := os.ReadDir(f.dir + "/fd")
	if err != nil {
		return f.room * socketBytes()
	}
	for _, e := range entries {
		name, err := os.Readlink(f.dir + "/fd/" + e.Name())
		if err != nil || s.seen[name] { // closed meanwhile
			continue
		}
		s.seen[name] = true
		switch kind, _, _ := strings.Cut(name, ":"); kind {
		case "pipe":
			total += pipeBytes
		case "socket":
			total += socketBytes()
		}
	}
	return total
}

// footprint is what /proc tells of the memory of a process (proc_pid_status(5)).
type footprint struct {
	dir string // of the thread that was asked
	// pages are its own and those that it shares, also where they were swapped out;
	// besides are those that lead to them, and huge ones, which are not among them.
	pages, besides int64
	room           int64 // for descriptors, which it may not use
}

func footprintOf(pid int) (footprint, error) {
	f, err := readFootprint(fmt.Sprintf("/proc/%d", pid))
	if err != nil || f.pages > 0 {
		return f, err
	}
	// The first thread of a process may end before the others: then it has nothing.
	threads, _ := filepath.Glob(f.dir + "/task/[0-9]*") // none of one that has ended
	for _, dir := range threads {
		if other, err := readFootprint(dir); err == nil && other.pages > 0 {
			return other, nil
		}
	}
	return f, nil
}

func readFootprint(dir string) (footprint, error) {
	s, err := readFields(dir + "/status")
	return footprint{
		dir:   dir,
		pages: (s["VmRSS"] + s["VmSwap"]) << 10, besides: (s["VmPTE"] + s["HugetlbPages"]) << 10,
		room: s["FDSize"],
	}, err
}

// readFields reads the lines of a file of /proc that are a name and a number, with or
// without kB behind it.
func readFields(file string) (map[string]int64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	found := map[string]int64{}
	for line := range bytes.Lines(b) {
		name, value, _ := strings.Cut(string(line), ":")
		if n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64); err == nil {
			found[name] = n
		}
	}
	return found, nil
}
