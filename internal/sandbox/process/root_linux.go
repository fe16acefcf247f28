package process

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// hostName is the machine's name as the agent sees it.
const hostName = "agent"

// ownMounts makes the mounts of this namespace private and shows in /proc the
// processes of this PID namespace. It returns /proc as a tree of its own, and
// whether it is a fresh one: some containers refuse that.
func ownMounts() (proc int, fresh bool, err error) {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return -1, false, fmt.Errorf("make mounts private: %w", err)
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	fresh = unix.Mount("proc", "/proc", "proc", flags, "hidepid=2") == nil
	proc, err = unix.OpenTree(unix.AT_FDCWD, "/proc", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err == nil {
		err = unix.MountSetattr(proc, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC})
	}
	if err != nil {
		return -1, false, fmt.Errorf("take /proc: %w", err)
	}
	return proc, fresh, nil
}

// stage is where the new root stands while it is built: a directory that every
// machine has, and of which nothing more is needed by then.
const stage = "/proc"

// maxLinks is how many symbolic links one path may lead through, as in the kernel.
const maxLinks = 40

// The sizes of what is the agent's own in memory. Its cgroup counts them too.
const (
	rootOptions = "mode=0755,size=1m,nr_inodes=16k"
	tmpOptions  = "mode=1777,size=64m,nr_inodes=16k"
	shmOptions  = "mode=1777,size=16m,nr_inodes=1k"
)

// maxReplaced is how often a file may be replaced while it is bound.
const maxReplaced = 50

// Private directories, in memory, that every new root has.
var privateDirs = []string{"/tmp", "/dev/shm"}

// use is what the agent may do with a bind.
type use int

const (
	system use = iota // read: the machine's files, with the owners that they have
	read              // read: owners mapped where the file system can
	own               // read and write
	device
)

// root is the agent's file system: binds of what it may see and nothing else.
// All binds are taken from the machine's tree before any of it is covered.
type root struct {
	mapping int // of owners: a user namespace's descriptor, -1 for none
	binds   map[string]bind
	links   map[string]string
	unowned error // why a directory of the agent's own keeps its owner
}

type bind struct {
	from string
	tree int // a detached mount
	dir  bool
	use  use
}

// newRoot collects the binds that a policy names. proc is the tree of /proc.
func newRoot(p sandbox.Policy, proc, mapping int) (*root, error) {
	r := &root{mapping: mapping, binds: map[string]bind{"/proc": {tree: proc, dir: true, use: system}}, links: map[string]string{}}
	if err := r.collectBinds(p); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *root) collectBinds(p sandbox.Policy) error {
	for _, b := range p.Binds {
		if err := r.addBind(b.From, b.To, own); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		use   use
		paths []string
	}{{own, p.Write}, {device, p.Devices}, {system, SystemFiles()}, {read, p.Read}} {
		for _, path := range list.paths {
			if err := r.showPath(path, list.use); err != nil {
				return err
			}
		}
	}
	return nil
}

// showPath binds a path at its own place, and with it the links that lead there.
// What does not exist is left out, but for the agent's own directories.
func (r *root) showPath(path string, u use) error {
	real, err := r.followLinks(path)
	if errors.Is(err, fs.ErrNotExist) && u != own {
		return nil
	}
	if err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "show %s in the sandbox: %w", path, err)
	}
	if r.isShown(real, u) {
		return nil
	}
	return r.addBind(real, real, u)
}

// isShown reports whether a path is there already by a bind above it.
func (r *root) isShown(path string, u use) bool {
	if isMadeFile(path) {
		return true
	}
	for dir := path; ; dir = filepath.Dir(dir) {
		if b, ok := r.binds[dir]; ok && (dir == path || b.use == u || u == system) {
			return true
		}
		if dir == "/" {
			return false
		}
	}
}

// addBind opens a tree of mounts with the rights that its use has.
func (r *root) addBind(from, to string, u use) error {
	b, err := r.openBind(from, u)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "show %s in the sandbox: %w", from, err)
	}
	r.binds[to] = b
	return nil
}

func (r *root) openBind(from string, u use) (bind, error) {
	info, err := os.Lstat(from)
	if err != nil {
		return bind{}, err
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return bind{}, err
	}
	if err := r.restrictTree(tree, u); err != nil {
		unix.Close(tree)
		return bind{}, err
	}
	return bind{from: from, tree: tree, dir: info.IsDir(), use: u}, nil
}

func (r *root) restrictTree(tree int, u use) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_RDONLY}
	switch u {
	case own:
		attr.Attr_set &^= unix.MOUNT_ATTR_RDONLY
	case device:
		attr.Attr_set = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
	}
	if r.mapping >= 0 && (u == own || u == read) {
		mapped := attr
		mapped.Attr_set |= unix.MOUNT_ATTR_IDMAP
		mapped.Userns_fd = uint64(r.mapping)
		err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &mapped)
		if err == nil {
			return nil
		}
		if u == own { // then the agent could not use it with a user id of its own
			r.unowned = err
		}
	}
	return unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
}

// followLinks resolves the links of a path, each of which the new root will have too.
func (r *root) followLinks(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s is not absolute", path)
	}
	real, rest := "/", strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, name)
		info, err := os.Lstat(next)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		if links++; links > maxLinks {
			return "", unix.ELOOP
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		r.links[next] = target
		if filepath.IsAbs(target) {
			real = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return real, nil
}

// close lets go of the trees; those that were put into the new root stay there.
func (r *root) close() {
	for _, b := range r.binds {
		unix.Close(b.tree)
	}
}

// enterNewRoot builds the root and makes it this process's. After an error the process
// has no use any more.
func (r *root) enterNewRoot(user int) error {
	mask := unix.Umask(0o022) // the directories between are for everybody
	defer unix.Umask(mask)
	if err := mountTmpfs(stage, rootOptions); err != nil {
		return fmt.Errorf("new root: %w", err)
	}
	for _, step := range []func() error{r.makePrivate, r.putBinds, r.putLinks, r.closeLedges, hideKernel, func() error { return writeSystem(user) }} {
		if err := step(); err != nil {
			return fmt.Errorf("new root: %w", err)
		}
	}
	return pivotRoot()
}

func mountTmpfs(dir, options string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount a tmpfs at %s: %w", dir, err)
	}
	return nil
}

func (r *root) makePrivate() error {
	for _, m := range slices.Concat([][2]string{{"/tmp", tmpOptions}, {"/dev/shm", shmOptions}}, r.ledgeMounts()) {
		if err := os.MkdirAll(stage+m[0], 0o755); err != nil {
			return err
		}
		if err := mountTmpfs(stage+m[0], m[1]); err != nil {
			return err
		}
	}
	return nil
}

// ledgeMounts are the directories in /tmp that lead to binds below it, each with the
// options of its mount: they are not the agent's to write to, as /tmp is.
func (r *root) ledgeMounts() (all [][2]string) {
	for _, path := range slices.Sorted(maps.Keys(r.binds)) {
		below, ok := strings.CutPrefix(path, "/tmp/")
		name, _, deeper := strings.Cut(below, "/")
		if m := [2]string{"/tmp/" + name, rootOptions}; ok && deeper && !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}

func (r *root) closeLedges() error {
	for _, m := range r.ledgeMounts() {
		if err := unix.MountSetattr(unix.AT_FDCWD, stage+m[0], 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return err
		}
	}
	return nil
}

// putBinds puts each tree at its place, those above first.
func (r *root) putBinds() error {
	for _, path := range slices.Sorted(maps.Keys(r.binds)) {
		b := r.binds[path]
		if err := makePlace(stage+path, b.dir); err != nil {
			return fmt.Errorf("place of %s: %w", path, err)
		}
		if err := r.putBind(path, b); err != nil {
			return fmt.Errorf("bind %s: %w", path, err)
		}
	}
	return nil
}

// putBind moves a tree to its place. A file that was replaced by another of its name
// since its tree was opened cannot be moved any more: then it is the other's turn.
func (r *root) putBind(path string, b bind) error {
	for try := 0; ; try++ {
		err := unix.MoveMount(b.tree, "", unix.AT_FDCWD, stage+path, unix.MOVE_MOUNT_F_EMPTY_PATH)
		if !errors.Is(err, unix.ENOENT) || b.dir || b.from == "" || try == maxReplaced {
			return err
		}
		newer, err := r.openBind(b.from, b.use)
		if err != nil {
			return err
		}
		unix.Close(b.tree)
		b, r.binds[path] = newer, newer
	}
}

func makePlace(path string, dir bool) error {
	if dir {
		return os.MkdirAll(path, 0o755)
	}
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o644)
}

func (r *root) putLinks() error {
	r.links["/dev/fd"], r.links["/dev/stdin"] = "/proc/self/fd", "/proc/self/fd/0"
	r.links["/dev/stdout"], r.links["/dev/stderr"] = "/proc/self/fd/1", "/proc/self/fd/2"
	r.links["/dev/zero"] = "full" // see Devices
	for _, path := range slices.Sorted(maps.Keys(r.links)) {
		if _, err := os.Lstat(stage + path); err == nil || isMadeFile(path) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(stage+path), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(r.links[path], stage+path); err != nil {
			return err
		}
	}
	return nil
}

// hideKernel covers what /proc tells of the machine and no program needs.
func hideKernel() error {
	for _, name := range []string{"sys", "bus", "fs", "irq", "acpi", "scsi", "driver", "tty", "sysvipc", "asound"} {
		if info, err := os.Stat(stage + "/proc/" + name); err != nil || !info.IsDir() {
			continue
		}
		if err := unix.Mount("tmpfs", stage+"/proc/"+name, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0,size=4k"); err != nil {
			return fmt.Errorf("hide /proc/%s: %w", name, err)
		}
	}
	for _, name := range []string{"kcore", "keys", "key-users", "kallsyms", "kmsg", "sysrq-trigger", "timer_list", "modules", "config.gz", "cmdline", "swaps", "diskstats", "partitions"} {
		path := stage + "/proc/" + name
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if err := unix.Mount(stage+"/dev/null", path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("hide /proc/%s: %w", name, err)
		}
	}
	return nil
}

// The files of /etc that are made for the agent: the machine's would name its
// users and its hosts.
func systemFiles(user int) map[string]string {
	id := strconv.Itoa(user)
	return map[string]string{
		"/etc/passwd":        "agent:x:" + id + ":" + id + ":agent:/:/bin/sh\n",
		"/etc/group":         "agent:x:" + id + ":\n",
		"/etc/hosts":         "127.0.0.1 localhost " + hostName + "\n",
		"/etc/resolv.conf":   "nameserver 127.0.0.1\noptions timeout:1 attempts:1 single-request\n",
		"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
	}
}

// isMadeFile reports whether a path is that of a file that is made for the agent.
func isMadeFile(path string) bool {
	_, made := systemFiles(0)[path]
	return made
}

func writeSystem(user int) error {
	for path, text := range systemFiles(user) {
		if err := makePlace(stage+path, false); err != nil {
			return err
		}
		if err := os.WriteFile(stage+path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pivotRoot makes the stage the root of this process, read-only, and lets the old one
// go: no path leads to it any more.
func pivotRoot() error {
	if err := unix.Chdir(stage); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let the old root go: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}
