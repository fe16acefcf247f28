package process

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"nightcrier.dev/nightcrier/internal/sandbox"
)

// The rights that Landlock grants below a path.
const (
	readRights   = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	deviceRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	changeRights = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	ownRights = readRights | changeRights | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	// fileRights are those that a rule for a file may have; the others are a directory's.
	fileRights = deviceRights | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
)

// namePort is where name servers are asked.
const namePort = 53

// truncateVersion is the first that guards that files are cut off.
const truncateVersion = 3

// landlockVersion is that of the kernel's interface, 0 for none.
func landlockVersion() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// guardedRights is all that a version of the interface can refuse. What a rule does not
// grant of it is refused.
func guardedRights(version int) unix.LandlockRulesetAttr {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: readRights | changeRights}
	for _, later := range []struct {
		since          int
		fs, net, scope uint64
	}{
		{since: 2, fs: unix.LANDLOCK_ACCESS_FS_REFER},
		{since: truncateVersion, fs: unix.LANDLOCK_ACCESS_FS_TRUNCATE},
		{since: 4, net: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP},
		{since: 5, fs: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
		{since: 6, scope: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL},
		{since: 9, fs: unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX},
		{since: 10, net: unix.LANDLOCK_ACCESS_NET_BIND_UDP | unix.LANDLOCK_ACCESS_NET_CONNECT_SEND_UDP},
	} {
		if version >= later.since {
			attr.Handled_access_fs |= later.fs
			attr.Handled_access_net |= later.net
			attr.Scoped |= later.scope
		}
	}
	return attr
}

// applyLandlock applies as much of Landlock as the kernel has, to this thread and to what
// is forked from it. The init's other threads stay free: no agent comes from them, and
// to reach them all they would have to be found in /proc, which may show the numbers of
// another namespace.
func applyLandlock(p confinement, r reach) ([]string, error) {
	version := landlockVersion()
	if version < 1 {
		return nil, nil // the caller sees that the layer is missing
	}
	rules, err := newRuleset(guardedRights(version))
	if err != nil {
		return nil, err
	}
	defer unix.Close(rules.fd)
	p.Read = append(slices.Clone(p.Read), r.procFiles()...)
	if err := errors.Join(rules.allowPaths(p.Policy), rules.allowPorts(p)); err != nil {
		return nil, err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules.fd), 0, 0); errno != 0 {
		return nil, os.NewSyscallError("landlock_restrict_self", errno)
	}
	layers := []string{LayerLandlock}
	if rules.guarded.Handled_access_net != 0 {
		layers = append(layers, LayerNet)
	}
	if rules.guarded.Scoped != 0 {
		layers = append(layers, LayerScope)
	}
	return layers, nil
}

// procFiles are what may be read of /proc: where it shows processes of others, only what
// says nothing of any.
func (r reach) procFiles() []string {
	if r.procs {
		return []string{"/proc"}
	}
	return []string{
		"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version", "/proc/filesystems",
		"/proc/sys/kernel/osrelease", "/proc/sys/kernel/pid_max", "/proc/sys/vm/overcommit_memory",
	}
}

// ruleset is what a thread will be restricted to.
type ruleset struct {
	fd      int
	guarded unix.LandlockRulesetAttr
}

func newRuleset(attr unix.LandlockRulesetAttr) (ruleset, error) {
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return ruleset{}, os.NewSyscallError("landlock_create_ruleset", errno)
	}
	return ruleset{int(fd), attr}, nil
}

// allowPaths grants what the policy lists. What does not exist is left out, but for
// the agent's own directories.
func (r ruleset) allowPaths(p sandbox.Policy) error {
	for _, list := range []struct {
		paths  []string
		rights uint64
		must   bool
	}{
		{p.Read, readRights, false}, {p.List, unix.LANDLOCK_ACCESS_FS_READ_DIR, false},
		{p.Devices, deviceRights, false}, {p.Write, ownRights, true},
	} {
		for _, path := range list.paths {
			err := r.allowPath(path, list.rights)
			if err != nil && (list.must || !errors.Is(err, unix.ENOENT)) {
				return fmt.Errorf("allow %s: %w", path, err)
			}
		}
	}
	return nil
}

func (r ruleset) allowPath(path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	if rights &= r.guarded.Handled_access_fs; rights == 0 {
		return nil
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	return r.add(unix.LANDLOCK_RULE_PATH_BENEATH, unsafe.Pointer(&attr))
}

// rulePort is the type of portAttr's rules.
const rulePort = 2

// portAttr is struct landlock_net_port_attr.
type portAttr struct{ rights, port uint64 }

// allowPorts grants connections to the policy's ports, and ports that the kernel
// chooses to listen at. Names are asked for only where the network is the agent's own:
// elsewhere the machine's name servers would answer.
func (r ruleset) allowPorts(p confinement) error {
	ports := []portAttr{{unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_BIND_UDP, 0}}
	for _, port := range p.ConnectPorts {
		ports = append(ports, portAttr{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, uint64(port)})
	}
	if p.OwnNetwork || p.Network {
		ports = append(ports, portAttr{unix.LANDLOCK_ACCESS_NET_CONNECT_SEND_UDP, namePort})
	}
	for _, attr := range ports {
		if attr.rights &= r.guarded.Handled_access_net; attr.rights == 0 {
			continue
		}
		if err := r.add(rulePort, unsafe.Pointer(&attr)); err != nil {
			return fmt.Errorf("allow port %d: %w", attr.port, err)
		}
	}
	return nil
}

func (r ruleset) add(kind uintptr, attr unsafe.Pointer) error {
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), kind, uintptr(attr), 0, 0, 0); errno != 0 {
		return os.NewSyscallError("landlock_add_rule", errno)
	}
	return nil
}
