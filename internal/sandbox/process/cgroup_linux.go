package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"nightcrier.dev/nightcrier"
)

// cgroup is the group that bounds the agent's memory and processes: one
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
		case "memory", "pids":
			found = append(found, hierarchy{parent: filepath.Join("/sys/fs/cgroup", name, parts[2]), name: name})
		}
	}
	return found
}

// joinCgroup puts a process, and all that it will start, into groups of its
// own with the given limits. It does what this machine permits and tells which
// limits hold.
func joinCgroup(name string, pid int, memory int64, processes int) cgroup {
	var g cgroup
	if name == "" {
		return g
	}
	for _, h := range hierarchies() {
		if h.unified {
			// Refused where our own group has processes of its own.
			_ = set(h.parent, "cgroup.subtree_control", "+memory +pids")
		}
		g.join(h, name, pid, memory, processes)
	}
	return g
}

func (g *cgroup) join(h hierarchy, name string, pid int, memory int64, processes int) {
	dir := filepath.Join(h.parent, name)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return
	}
	g.dirs = append(g.dirs, dir)
	memoryOK := memory > 0 && (set(dir, "memory.max", strconv.FormatInt(memory, 10)) == nil ||
		set(dir, "memory.limit_in_bytes", strconv.FormatInt(memory, 10)) == nil)
	pidsOK := processes > 0 && set(dir, "pids.max", strconv.Itoa(processes)) == nil
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

// CgroupsNamed lists the groups that a Box of that name makes, for EndCgroups
// when it died before anybody wrote them down.
func CgroupsNamed(name string) []string {
	var dirs []string
	for _, h := range hierarchies() {
		dirs = append(dirs, filepath.Join(h.parent, name))
	}
	return dirs
}

// EndCgroups kills all that is left in the groups of a Box whose process died
// before it could, and removes them. An error means that a process is left.
func EndCgroups(ctx context.Context, dirs []string) error {
	for _, dir := range dirs {
		_ = set(dir, "cgroup.kill", "1") // the older hierarchies cannot
		for pids := members(dir); len(pids) > 0; pids = members(dir) {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return nightcrier.Errorf(nightcrier.Internal, "processes %v of %s are not verified gone: %w", pids, dir, ctx.Err())
			}
		}
	}
	_ = cgroup{dirs: dirs}.remove() // an empty group that stays costs nothing
	return nil
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
