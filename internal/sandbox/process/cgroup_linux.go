package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cgroup is the group that bounds the agent's memory, processes and CPUs: one
// directory in the unified hierarchy, or one in each of the older ones.
type cgroup struct {
	dirs   []string
	layers []string
	notes  []string // why there are no more
}

// hierarchy is a place where groups are made: below our own group, or beside it.
type hierarchy struct {
	parent  string
	unified bool
}

// cgroupMount is where this machine has its hierarchies.
const cgroupMount = "/sys/fs/cgroup"

// OwnLeaf is the group of the server and its workers, where those of the agents are made
// beside it: the unified hierarchy bounds no group below one that has processes itself.
// A unit of systemd names it as its DelegateSubgroup=; elsewhere Divide makes it.
const OwnLeaf = "nightcrier-self"

// findHierarchies finds where this process may make groups; what is not there, or
// not ours to write, is found out by trying.
func findHierarchies() []hierarchy {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	return hierarchiesOf(string(b), cgroupMount)
}

// hierarchiesOf reads the groups of a process as /proc/PID/cgroup has them.
func hierarchiesOf(table, mounts string) []hierarchy {
	var found []hierarchy
	for line := range strings.Lines(table) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch name, path := parts[1], parts[2]; name {
		case "":
			if filepath.Base(path) == OwnLeaf {
				path = filepath.Dir(path)
			}
			for _, mount := range []string{mounts, filepath.Join(mounts, "unified")} {
				if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err == nil {
					found = append(found, hierarchy{parent: filepath.Join(mount, path), unified: true})
				}
			}
		case "memory", "pids", "cpu", "cpu,cpuacct":
			found = append(found, hierarchy{parent: filepath.Join(mounts, name, path)})
		}
	}
	return found
}

// controllers are those that bound an agent.
var controllers = []string{"memory", "pids", "cpu"}

// Divide makes room for the groups of agents in our own one, where that is ours alone: it
// moves this process, and those below it, into OwnLeaf. A server calls it once, before it
// starts anything. Where it has to do nothing it does nothing; an error says why agents are
// not bounded by the kernel's groups here.
func Divide() error {
	var errs []error
	for _, h := range findHierarchies() {
		if h.unified {
			errs = append(errs, h.delegateControllers(controllers))
		}
	}
	return errors.Join(errs...)
}

// delegateControllers has the groups in h bounded by those of the controllers that h has.
func (h hierarchy) delegateControllers(wanted []string) error {
	missing := h.enableControllers(wanted)
	if len(missing) == 0 {
		return nil
	}
	pids := groupOf(h.parent)
	switch {
	case len(pids) == 0: // somebody else's: it is the kernel that says no
		return fmt.Errorf("control group %s: no %s for the groups in it", h.parent, strings.Join(missing, ", "))
	case strings.HasSuffix(h.parent, ".service"):
		// systemd starts the unit's next process in that very group, and could not.
		return fmt.Errorf("control group %s has processes of its own: the unit needs DelegateSubgroup=%s (systemd 254) beside Delegate=yes", h.parent, OwnLeaf)
	}
	leaf := filepath.Join(h.parent, OwnLeaf)
	if err := h.mayMove(pids); err != nil {
		return err
	}
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("divide the control group: %w", err)
	}
	err := moveAll(h.parent, leaf, h.mayMove)
	if err == nil {
		if missing = h.enableControllers(wanted); len(missing) == 0 {
			return nil
		}
		err = fmt.Errorf("no %s for the groups in it", strings.Join(missing, ", "))
	}
	err = errors.Join(err, moveAll(leaf, h.parent, func([]int) error { return nil }))
	return fmt.Errorf("divide control group %s: %w", h.parent, errors.Join(err, os.Remove(leaf)))
}

// enableControllers has the groups in h bounded by controllers, and returns those that h has and
// that refuse.
func (h hierarchy) enableControllers(wanted []string) (missing []string) {
	b, _ := os.ReadFile(filepath.Join(h.parent, "cgroup.controllers")) // none, where there is none
	for _, c := range strings.Fields(string(b)) {
		if slices.Contains(wanted, c) && writeGroupFile(h.parent, "cgroup.subtree_control", "+"+c) != nil {
			missing = append(missing, c)
		}
	}
	return missing
}

// mayMove says why processes are not ours to move: they are not this one, nor below it.
// Process 1 is a container's, and starts nothing but us.
func (h hierarchy) mayMove(pids []int) error {
	ours := map[int]bool{1: true, os.Getpid(): true}
	for _, id := range descendantsOf(os.Getpid()) {
		ours[id.PID] = true
	}
	for _, pid := range pids {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); !ours[pid] && (pid == 0 || err == nil) {
			return fmt.Errorf("control group %s is not ours alone to divide: process %d is in it", h.parent, pid)
		}
	}
	return nil
}

// mostMoves bounds how often moveAll looks for processes that were forked meanwhile.
const mostMoves = 100

// moveAll moves the processes of a group to another one.
func moveAll(from, to string, may func(pids []int) error) error {
	for range mostMoves {
		pids := groupOf(from)
		if len(pids) == 0 {
			return nil
		}
		if err := may(pids); err != nil {
			return err
		}
		for _, pid := range pids {
			if err := writeGroupFile(to, "cgroup.procs", strconv.Itoa(pid)); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
	}
	return fmt.Errorf("%s does not become empty", from)
}

// groupOf lists all processes of a group; 0 is one that this PID namespace does not see.
func groupOf(dir string) []int {
	b, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")) // none, when it is gone
	var pids []int
	for _, word := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// joinCgroup puts a process, and all that it will start, into groups of its
// own with the given limits. It does what this machine permits and tells which
// limits hold.
func joinCgroup(o Options, m mark, pid int) cgroup {
	var g cgroup
	if m.name != "" {
		g.joinAll(findHierarchies(), o, m, pid)
	}
	return g
}

func (g *cgroup) joinAll(all []hierarchy, o Options, m mark, pid int) {
	var why error
	for _, h := range all {
		if h.unified {
			if refused := h.enableControllers(controllers); len(refused) > 0 {
				g.notes = append(g.notes, fmt.Sprintf("control group %s: no %s for the groups in it", h.parent, strings.Join(refused, ", ")))
			}
		}
		if err := g.joinGroup(filepath.Join(h.parent, m.String()), o, pid); err != nil && why == nil {
			why = fmt.Errorf("no control group can be made: %w", err)
		}
	}
	if why != nil && !slices.Contains(g.layers, LayerMemory) {
		g.notes = append(g.notes, why.Error())
	}
}

// cpuPeriod is the time, in microseconds, over which CPUs are shared out.
const cpuPeriod = 100_000

func (g *cgroup) joinGroup(dir string, o Options, pid int) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	g.dirs = append(g.dirs, dir)
	memory, quota := strconv.FormatInt(o.MaxMemoryBytes, 10), strconv.Itoa(o.MaxCPUs*cpuPeriod)
	memoryOK := o.MaxMemoryBytes > 0 && (writeGroupFile(dir, "memory.max", memory) == nil || writeGroupFile(dir, "memory.limit_in_bytes", memory) == nil)
	pidsOK := o.MaxProcesses > 0 && writeGroupFile(dir, "pids.max", strconv.Itoa(o.MaxProcesses)) == nil
	cpuOK := o.MaxCPUs > 0 && (writeGroupFile(dir, "cpu.max", quota+" "+strconv.Itoa(cpuPeriod)) == nil || writeGroupFile(dir, "cpu.cfs_quota_us", quota) == nil)
	if err := writeGroupFile(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
		return err
	}
	if memoryOK {
		_ = writeGroupFile(dir, "memory.swap.max", "0") // else the limit is no limit
		g.layers = append(g.layers, LayerMemory)
	}
	if pidsOK {
		g.layers = append(g.layers, LayerPIDs)
	}
	if cpuOK {
		g.layers = append(g.layers, LayerCPU)
	}
	return nil
}

// writeGroupFile writes a group's file, which the kernel made: it never makes one.
func writeGroupFile(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// killGroups ends all of the group at once, where the kernel can.
func (g cgroup) killGroups() {
	for _, dir := range g.dirs {
		_ = writeGroupFile(dir, "cgroup.kill", "1") // the older hierarchies cannot
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

// removeGroups deletes the groups. A group is busy for a moment after its last
// process is gone.
func (g cgroup) removeGroups() error {
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

// otherMembers lists the processes of a group that are others than this one, none when it is
// gone.
func otherMembers(dir string) []int {
	return slices.DeleteFunc(groupOf(dir), func(pid int) bool { return pid <= 1 || pid == os.Getpid() })
}
