package process

import (
	"errors"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deniedCalls are system calls that no agent needs: they reach other processes,
// other namespaces or the kernel itself, or make sockets behind our back.
var deniedCalls = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_OPEN_TREE_ATTR, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_SETNS, unix.SYS_UNSHARE, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
}

// modeCalls change modes, owners and attributes of files, which Landlock does
// not guard: an agent with our user id could open our files to everybody, or shut
// them to us. Where the mounts cannot be made read-only they are all refused.
var modeCalls = []uint32{
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
}

// oldModeCalls are chmod, chown and lchown, which newer machines do not have.
var oldModeCalls = map[string][]uint32{"amd64": {90, 92, 94}}

// raisingModes are the bits with which a program has its owner's rights: on the disk
// that is the server, whoever runs it later. raisingCalls set modes, with the offset
// of the argument that they stand in; a write takes the bits off what was made with
// them.
const raisingModes = unix.S_ISUID | unix.S_ISGID

var raisingCalls = []modeCall{{unix.SYS_FCHMOD, offArg1}, {unix.SYS_FCHMODAT, offArg2}, {unix.SYS_FCHMODAT2, offArg2}}

// oldRaisingCalls is chmod, which newer machines do not have.
var oldRaisingCalls = map[string][]modeCall{"amd64": {{90, offArg1}}}

type modeCall struct{ call, mode uint32 }

// allowedFamilies are the sockets that an agent may make. Unix sockets are not
// among them: Landlock of this age does not guard connecting to one by path.
// A pair of them (socketpair) is another call, and harmless. Of netlink only routes
// may be asked for, which libraries do to list addresses: the other kinds lead to parts
// of the kernel, and on the floor to the sockets of the machine.
var allowedFamilies = []uint32{unix.AF_INET, unix.AF_INET6}

// deniedProtocols are TCP by other names, which would pass by Landlock's rules
// for TCP. The last is SMC.
var deniedProtocols = []uint32{unix.IPPROTO_MPTCP, unix.IPPROTO_SCTP, unix.IPPROTO_DCCP, 256}

// sendCalls are those that can connect while they send (TCP Fast Open), which
// Landlock does not see either, with the offset of their flags.
var sendCalls = []struct{ call, flags uint32 }{{unix.SYS_SENDTO, offArg3}, {unix.SYS_SENDMSG, offArg2}, {unix.SYS_SENDMMSG, offArg3}}

// foreignCalls reach other processes of the same user by the number in an
// argument, whose offset is here; 0 is the caller itself. Where the agent sees
// no others they are harmless.
var foreignCalls = []struct{ call, pid uint32 }{
	{unix.SYS_PRLIMIT64, offArg0}, {unix.SYS_SCHED_SETAFFINITY, offArg0}, {unix.SYS_SCHED_SETSCHEDULER, offArg0},
	{unix.SYS_SCHED_SETPARAM, offArg0}, {unix.SYS_SCHED_SETATTR, offArg0}, {unix.SYS_SETPRIORITY, offArg1}, {unix.SYS_IOPRIO_SET, offArg1},
	{unix.SYS_MIGRATE_PAGES, offArg0}, {unix.SYS_MOVE_PAGES, offArg0},
}

const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// Offsets in struct seccomp_data (seccomp(2)); both machines are little-endian,
// so the low word of an argument comes first.
const (
	offNumber = 0
	offArch   = 4
	offArg0   = 16
	offArg1   = 24
	offArg2   = 32
	offArg3   = 40
)

var archs = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// x32 marks calls of amd64's other ABI, whose numbers would pass by the list.
const x32 = 0x40000000

// reach is what a filter leaves to the agent because something else bounds it.
type reach struct {
	modes bool // of files: the mounts are read-only
	pids  bool // of processes: it sees none but its own
}

// filterCalls installs the filter on this thread, for all that it starts. It
// needs no_new_privs.
func filterCalls(r reach) error {
	arch, ok := archs[runtime.GOARCH]
	if !ok {
		return errors.New("no filter for this machine")
	}
	program := callFilter(arch, r)
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return errno
	}
	return nil
}

func callFilter(arch uint32, r reach) []unix.SockFilter {
	denied := slices.Clone(deniedCalls)
	if !r.modes {
		denied = append(append(denied, modeCalls...), oldModeCalls[runtime.GOARCH]...)
	}
	f := []unix.SockFilter{load(offArch), jump(unix.BPF_JEQ, arch, 1, 0), ret(unix.SECCOMP_RET_KILL_PROCESS), load(offNumber)}
	f = append(f, jump(unix.BPF_JGE, x32, 0, 1), refuse(unix.ENOSYS))
	for _, call := range denied {
		f = append(f, jump(unix.BPF_JEQ, call, 0, 1), refuse(unix.EPERM))
	}
	for _, c := range slices.Concat(raisingCalls, oldRaisingCalls[runtime.GOARCH]) {
		f = append(f, withoutFlags(c.call, c.mode, raisingModes, unix.EPERM)...)
	}
	if !r.pids {
		f = append(f, ownOnly()...)
	}
	// The flags of clone3 lie in memory, where no filter sees them; without it
	// libraries use clone.
	f = append(f, jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), refuse(unix.ENOSYS))
	f = append(f, withoutFlags(unix.SYS_CLONE, offArg0, newNamespaces, unix.EPERM)...)
	for _, s := range sendCalls {
		f = append(f, withoutFlags(s.call, s.flags, unix.MSG_FASTOPEN, unix.EOPNOTSUPP)...)
	}
	f = append(f, jump(unix.BPF_JEQ, unix.SYS_SOCKET, 1, 0), ret(unix.SECCOMP_RET_ALLOW))
	f = append(f, load(offArg2))
	for _, protocol := range deniedProtocols {
		f = append(f, jump(unix.BPF_JEQ, protocol, 0, 1), refuse(unix.EPROTONOSUPPORT))
	}
	f = append(f, load(offArg0), jump(unix.BPF_JEQ, unix.AF_NETLINK, 0, 3))
	f = append(f, load(offArg2), jump(unix.BPF_JEQ, unix.NETLINK_ROUTE, 0, 1), ret(unix.SECCOMP_RET_ALLOW), load(offArg0))
	for _, family := range allowedFamilies {
		f = append(f, jump(unix.BPF_JEQ, family, 0, 1), ret(unix.SECCOMP_RET_ALLOW))
	}
	return append(f, refuse(unix.EAFNOSUPPORT))
}

// ownOnly refuses foreignCalls for anybody but the caller, and a change of
// priority for all of a user's processes.
func ownOnly() []unix.SockFilter {
	var f []unix.SockFilter
	for _, c := range foreignCalls {
		f = append(f, jump(unix.BPF_JEQ, c.call, 0, 3), load(c.pid), jump(unix.BPF_JEQ, 0, 1, 0), refuse(unix.EPERM), load(offNumber))
	}
	return append(f,
		jump(unix.BPF_JEQ, unix.SYS_SETPRIORITY, 0, 3), load(offArg0), jump(unix.BPF_JEQ, unix.PRIO_USER, 0, 1), refuse(unix.EPERM), load(offNumber))
}

// withoutFlags refuses a call whose argument at offset has any of the flags.
func withoutFlags(call, offset, flags uint32, errno unix.Errno) []unix.SockFilter {
	return []unix.SockFilter{
		jump(unix.BPF_JEQ, call, 0, 3), load(offset), jump(unix.BPF_JSET, flags, 0, 1), refuse(errno), load(offNumber),
	}
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// jump skips jt instructions when the comparison holds, else jf.
func jump(op uint16, k uint32, jt, jf uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jt: jt, Jf: jf}
}

func ret(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

func refuse(errno unix.Errno) unix.SockFilter {
	return ret(unix.SECCOMP_RET_ERRNO | uint32(errno))
}
