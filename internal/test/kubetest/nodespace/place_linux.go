package nodespace

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// place is what a space has of the machine: mounts, network, cgroup, directory.
type place struct {
	dir    string
	cgroup string
}

// prepare makes the place, as the first process of fresh namespaces.
func (p *place) prepare() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, step := range []func() error{p.ownDirectories, p.ownTunables, p.network, p.makeCgroup} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// ownDirectories covers the directories that the programs of a node write to
// whatever they are told: their sockets and locks, and what they remember.
func (p *place) ownDirectories() error {
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	for _, target := range []string{"/var/lib", "/var/log"} {
		base := filepath.Join(p.dir, "over", filepath.Base(target))
		upper, work := filepath.Join(base, "upper"), filepath.Join(base, "work")
		if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
			return err
		}
		data := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", target, upper, work)
		if err := syscall.Mount("overlay", target, "overlay", 0, data); err != nil {
			return fmt.Errorf("cover %s: %w", target, err)
		}
	}
	return nil
}

// tunables are what a kubelet sets for the whole machine when it finds other
// values; here it finds what it wants.
var tunables = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0",
	"kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

func (p *place) ownTunables() error {
	for name, value := range tunables {
		file := filepath.Join(p.dir, "sysctl", filepath.Base(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		err := syscall.Mount(file, filepath.Join("/proc/sys", name), "", syscall.MS_BIND, "")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cover sysctl %s: %w", name, err)
		}
	}
	return nil
}

// network has the loopback device and the node's address on it. There is no way
// out: what a Pod asks of another machine is unreachable at once.
func (p *place) network() error {
	for _, args := range [][]string{{"link", "set", "lo", "up"}, {"addr", "add", Address + "/32", "dev", "lo"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// hierarchies are the mounted cgroup hierarchies: one with version 2, one for each
// controller with version 1.
func hierarchies() ([]string, error) {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return []string{root}, nil
	}
	all, err := filepath.Glob(filepath.Join(root, "*", "cgroup.procs"))
	if len(all) == 0 {
		return nil, errors.Join(fmt.Errorf("no cgroups in %s", root), err)
	}
	for i, f := range all {
		all[i] = filepath.Dir(f)
	}
	return all, nil
}

func (p *place) makeCgroup() error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		dir := filepath.Join(h, p.cgroup)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make a cgroup: %w", err)
		}
		if err := errors.Join(inheritCPUs(h, dir), delegate(h), delegate(dir)); err != nil {
			return fmt.Errorf("make a cgroup: %w", err)
		}
	}
	return nil
}

// inheritCPUs gives a version 1 cpuset what it must have before it can be used.
func inheritCPUs(parent, child string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // another controller, or version 2
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(child, name), value, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// delegate lets the children of a version 2 cgroup use its controllers.
func delegate(dir string) error {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // version 1
	}
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(have)) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0o644); err != nil {
			return fmt.Errorf("controller %s: %w", c, err)
		}
	}
	return nil
}

// remove takes everything back once no process of the space is left but this.
func (p *place) remove() error {
	all, err := hierarchies()
	for _, h := range all {
		err = errors.Join(err, removeTree(filepath.Join(h, p.cgroup)))
	}
	return errors.Join(err, p.unmount(), os.RemoveAll(p.dir))
}

// removeTree removes a cgroup and those below it; the files in it are no files.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, removeTree(filepath.Join(dir, e.Name())))
		}
	}
	if e := syscall.Rmdir(dir); e != nil {
		err = errors.Join(err, fmt.Errorf("remove cgroup %s: %w", dir, e))
	}
	return err
}

// unmount takes down what is mounted below the directory, or stands on it, so
// that removing the directory removes its own files only.
func (p *place) unmount() error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	var mounts []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 4 && strings.HasPrefix(fields[4], p.dir+"/") {
			mounts = append(mounts, fields[4])
		}
	}
	slices.Reverse(mounts) // the last one on top
	err = nil
	for _, m := range append(mounts, "/var/log", "/var/lib") {
		if e := syscall.Unmount(m, syscall.MNT_DETACH); e != nil {
			err = errors.Join(err, fmt.Errorf("unmount %s: %w", m, e))
		}
	}
	return err
}

// Sweep removes the cgroups whose name begins with prefix and whose space is
// gone, with its directory of the same name, without its init to do it.
func Sweep(prefix string) {
	all, _ := hierarchies()
	for _, h := range all {
		left, _ := filepath.Glob(filepath.Join(h, prefix+"*"))
		for _, dir := range left {
			if _, err := os.Stat(filepath.Join(os.TempDir(), filepath.Base(dir))); errors.Is(err, fs.ErrNotExist) {
				_ = removeTree(dir) // one that is still used refuses
			}
		}
	}
}
