package process

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cgroup is the group that bounds the agent's memory, processes and CPUs: one
// directory in the unified hierarchy, or one in each of the older ones.
type cgroup struct {
	dirs   []string
	layers []string
}

// hierarchy is a place where groups are made, below our own group.
type hierarchy struct {
	parent  string
	unified bool
	name    string // the controller's, in an older hierarchy
}

// hierarchies finds where this process may make groups; what is not there, or
// not ours to write, is found out by trying.
func hierarchies() []hierarchy {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	var found []hierarchy
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch name := parts[1]; name {
		case "":
			for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
				if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err == nil {
					found = append(found, hierarchy{parent: filepath.Join(mount, parts[2]), unified: true})
				}
			}
		case "memory", "pids", "cpu", "cpu,cpuacct":
			found = append(found, hierarchy{parent: filepath.Join("/sys/fs/cgroup", name, parts[2]), name: name})
		}
	}
	return found
}

// joinCgroup puts a process, and all that it will start, into groups of its
// own with the given limits. It does what this machine permits and tells which
// limits hold.
func joinCgroup(o Options, m mark, pid int) cgroup {
	var g cgroup
	if m.name == "" {
		return g
	}
	for _, h := range hierarchies() {
		if h.unified {
			// Refused where our own group has processes of its own.
			_ = set(h.parent, "cgroup.subtree_control", "+memory +pids")
			_ = set(h.parent, "cgroup.subtree_control", "+cpu") // it is not always ours
		}
		g.join(filepath.Join(h.parent, m.String()), o, pid)
	}
	return g
}

// cpuPeriod is the time, in microseconds, over which CPUs are shared out.
const cpuPeriod = 100_000

func (g *cgroup) join(dir string, o Options, pid int) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return
	}
	g.dirs = append(g.dirs, dir)
	memory, quota := strconv.FormatInt(o.MaxMemoryBytes, 10), strconv.Itoa(o.MaxCPUs*cpuPeriod)
	memoryOK := o.MaxMemoryBytes > 0 && (set(dir, "memory.max", memory) == nil || set(dir, "memory.limit_in_bytes", memory) == nil)
	pidsOK := o.MaxProcesses > 0 && set(dir, "pids.max", strconv.Itoa(o.MaxProcesses)) == nil
	cpuOK := o.MaxCPUs > 0 && (set(dir, "cpu.max", quota+" "+strconv.Itoa(cpuPeriod)) == nil || set(dir, "cpu.cfs_quota_us", quota) == nil)
	if set(dir, "cgroup.procs", strconv.Itoa(pid)) != nil {
		return
	}
	if memoryOK {
		_ = set(dir, "memory.swap.max", "0") // else the limit is no limit
		g.layers = append(g.layers, LayerMemory)
	}
	if pidsOK {
		g.layers = append(g.layers, LayerPIDs)
	}
	if cpuOK {
		g.layers = append(g.layers, LayerCPU)
	}
}

// set writes a group's file, which the kernel made: it never makes one.
func set(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// kill ends all of the group at once, where the kernel can.
func (g cgroup) kill() {
	for _, dir := range g.dirs {
		_ = set(dir, "cgroup.kill", "1") // the older hierarchies cannot
	}
}

// oomKilled reports whether the kernel killed a process of the group for want
// of memory.
func (g cgroup) oomKilled() bool {
	for _, dir := range g.dirs {
		for _, file := range []string{"memory.events", "memory.oom_control"} {
			b, _ := os.ReadFile(filepath.Join(dir, file)) // each hierarchy has one of them
			for line := range strings.Lines(string(b)) {
				if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok && n != "0" {
					return true
				}
			}
		}
	}
	return false
}

// remove deletes the groups. A group is busy for a moment after its last
// process is gone.
func (g cgroup) remove() error {
	var errs []error
	for _, dir := range g.dirs {
		err := os.Remove(dir)
		for i := 0; i < 400 && err != nil && !errors.Is(err, os.ErrNotExist); i++ {
			time.Sleep(5 * time.Millisecond)
			err = os.Remove(dir)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// members lists the processes of a group, none when it is gone.
func members(dir string) []int {
	b, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	var pids []int
	for _, word := range strings.Fields(string(b)) {
		// 0 stands for a process that this PID namespace does not see.
		if pid, err := strconv.Atoi(word); err == nil && pid > 1 && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}
