package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

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
