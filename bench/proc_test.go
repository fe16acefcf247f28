package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// memory is what a process occupies, in bytes. Rss counts pages that it shares
// in full, Pss its part of them, Private those that are its alone.
type memory struct{ Rss, Pss, Private, Peak float64 }

func memoryOf(b *testing.B, pid int) memory {
	b.Helper()
	rollup := fields(b, pid, "smaps_rollup")
	return memory{
		Rss: rollup["Rss"], Pss: rollup["Pss"], Private: rollup["Private_Clean"] + rollup["Private_Dirty"],
		Peak: fields(b, pid, "status")["VmHWM"],
	}
}

// fields reads the "Name: 12 kB" lines of a file of a process.
func fields(b *testing.B, pid int, file string) map[string]float64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	must(b, err)
	all := map[string]float64{}
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, ":")
		if words := strings.Fields(rest); len(words) == 2 && words[1] == "kB" {
			n, err := strconv.ParseFloat(words[0], 64)
			must(b, err)
			all[name] = n * 1024
		}
	}
	return all
}

// cpuTime is what all threads of a process have used, to the nanosecond.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	must(b, err)
	var sum time.Duration
	for _, t := range threads {
		data, err := os.ReadFile(t)
		if err != nil {
			continue // the thread has ended; the runtime keeps its threads, so this is rare
		}
		on, _, _ := strings.Cut(string(data), " ")
		n, err := strconv.ParseInt(on, 10, 64)
		must(b, err)
		sum += time.Duration(n)
	}
	return sum
}

// children returns the processes whose parent is pid.
func children(b *testing.B, pid int) []int {
	b.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	must(b, err)
	var pids []int
	for _, l := range lists {
		data, _ := os.ReadFile(l) // a thread that has ended has none
		for _, f := range bytes.Fields(data) {
			n, err := strconv.Atoi(string(f))
			must(b, err)
			pids = append(pids, n)
		}
	}
	return pids
}

// until polls for something that another process does.
func until(b *testing.B, what string, holds func() bool) {
	b.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); {
		if time.Now().After(deadline) {
			b.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

const mib = 1 << 20

// reportMemory reports in MiB.
func reportMemory(b *testing.B, prefix string, m memory) {
	b.ReportMetric(m.Rss/mib, prefix+"rss-MiB")
	b.ReportMetric(m.Pss/mib, prefix+"pss-MiB")
	b.ReportMetric(m.Private/mib, prefix+"private-MiB")
}

// samples are durations of one thing done many times.
type samples []time.Duration

// at returns the q-quantile in milliseconds, q between 0 and 1.
func (s samples) at(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return float64(sorted[int(q*float64(len(sorted)-1))]) / float64(time.Millisecond)
}

func (s samples) report(b *testing.B, name string) {
	b.ReportMetric(s.at(0.5), name+"-p50-ms")
	b.ReportMetric(s.at(0.99), name+"-p99-ms")
}
