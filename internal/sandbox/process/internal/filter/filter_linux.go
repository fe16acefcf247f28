// Package filter installs the filter of system calls that an agent and all that it starts
// are under.
package filter

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
	unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_FANOTIFY_INIT,
}

// sharedCalls are those of System V and POSIX that share memory and messages with others
// by a number or a name: without a namespace of its own an agent would reach what the same
// user has on the machine, and what it makes stays there when it is gone, in no process's
// memory.
var sharedCalls = []uint32{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMDT, unix.SYS_SHMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
	unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK, unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_TIMEDRECEIVE, unix.SYS_MQ_NOTIFY, unix.SYS_MQ_GETSETATTR,
}

// hidingCalls make memory that no process is seen to have, where nothing but a look at
// the processes bounds it: files in memory alone, and pages that a pipe holds. The errors
// are those of kernels and files that do not have them, which programs reckon with.
var hidingCalls = []struct {
	call  uint32
	errno unix.Errno
}{
	{unix.SYS_MEMFD_CREATE, unix.ENOSYS}, {unix.SYS_MEMFD_SECRET, unix.ENOSYS},
	{unix.SYS_VMSPLICE, unix.EINVAL}, {unix.SYS_SPLICE, unix.EINVAL}, {unix.SYS_TEE, unix.EINVAL},
}

// messageCalls can carry descriptors: what is behind one that is on its way is in no
// process, neither its memory nor its file. They can name whom they send to in memory,
// too, where no filter looks.
var messageCalls = []uint32{unix.SYS_SENDMSG, unix.SYS_SENDMMSG}

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

// placeCalls tell what others do with their files, or cut them off, by name. Landlock does
// not guard the former, and the latter since Linux 6.2.
var placeCalls = []uint32{unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_TRUNCATE}

// openCalls cut off what they open for reading with O_TRUNC, which no program does; each has
// the offset of its flags. Those of openat2 lie in memory, so that it is refused where
// Landlock does not guard this.
var openCalls = []modeCall{{unix.SYS_OPENAT, offArg2}}

// oldOpenCalls is open, which newer machines do not have.
var oldOpenCalls = map[string][]modeCall{"amd64": {{2, offArg1}}}

// raisingModes are the bits with which a program has its owner's rights: on the disk
// that is the server, whoever runs it later. raisingCalls set modes, with the offset
// of the argument that they stand in; a write takes the bits off what was made with
// them.
const raisingModes = unix.S_ISUID | unix.S_ISGID

var raisingCalls = []modeCall{{unix.SYS_FCHMOD, offArg1}, {unix.SYS_FCHMODAT, offArg2}, {unix.SYS_FCHMODAT2, offArg2}}

// oldRaisingCalls is chmod, which newer machines do not have.
var oldRaisingCalls = map[string][]modeCall{"amd64": {{90, offArg1}}}

type modeCall struct{ call, mode uint32 }

// kindOfSocket masks the flags in the type of a socket.
const kindOfSocket = 0xf

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

// Reach is what a filter leaves to the agent because something else bounds it.
type Reach struct {
	Root      bool // modes and changes of files: it has a root of its own, and the mounts are read-only
	PIDs      bool // the numbers of processes: it sees none but its own
	Truncates bool // that files are cut off: Landlock guards it
	Datagrams bool // to the network: it is its own, or open to it
	Messages  bool // with descriptors
}

// Install installs the filter on this thread, for all that it starts. It
// needs no_new_privs.
func Install(r Reach) error {
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

func callFilter(arch uint32, r Reach) []unix.SockFilter {
	f := []unix.SockFilter{loadWord(offArch), jumpIf(unix.BPF_JEQ, arch, 1, 0), returnAction(unix.SECCOMP_RET_KILL_PROCESS), loadWord(offNumber)}
	f = append(f, jumpIf(unix.BPF_JGE, x32, 0, 1), returnErrno(unix.ENOSYS))
	for _, call := range r.deniedNumbers() {
		f = append(f, jumpIf(unix.BPF_JEQ, call, 0, 1), returnErrno(unix.EPERM))
	}
	for _, h := range hidingCalls {
		f = append(f, jumpIf(unix.BPF_JEQ, h.call, 0, 1), returnErrno(h.errno))
	}
	for _, c := range slices.Concat(raisingCalls, oldRaisingCalls[runtime.GOARCH]) {
		f = append(f, withoutFlags(c.call, c.mode, raisingModes, unix.EPERM)...)
	}
	if !r.PIDs {
		f = append(f, ownOnly()...)
	}
	if !r.Root {
		f = append(f, r.plainOpens()...)
	}
	f = append(f, plainClones()...)
	f = append(f, countedMemory()...)
	for _, s := range sendCalls {
		f = append(f, withoutFlags(s.call, s.flags, unix.MSG_FASTOPEN, unix.EOPNOTSUPP)...)
	}
	f = append(f, boundPairs()...)
	return append(f, r.socketFilter()...)
}

// deniedNumbers are the calls that are refused whatever their arguments.
func (r Reach) deniedNumbers() []uint32 {
	denied := slices.Concat(deniedCalls, sharedCalls)
	if !r.Root {
		denied = slices.Concat(denied, modeCalls, oldModeCalls[runtime.GOARCH], placeCalls)
	}
	if !r.Messages {
		denied = append(denied, messageCalls...)
	}
	return denied
}

// plainOpens refuses to open a file so that it is cut off without a right to write.
func (r Reach) plainOpens() (f []unix.SockFilter) {
	for _, c := range slices.Concat(openCalls, oldOpenCalls[runtime.GOARCH]) {
		f = append(f, withoutAll(c.call, c.mode, unix.O_ACCMODE|unix.O_TRUNC, unix.O_RDONLY|unix.O_TRUNC, unix.EPERM)...)
	}
	if !r.Truncates {
		f = append(f, jumpIf(unix.BPF_JEQ, unix.SYS_OPENAT2, 0, 1), returnErrno(unix.ENOSYS))
	}
	return f
}

// plainClones refuses new namespaces, and threads with descriptors of their own, which
// nobody would find who looks at those of the process. The flags of clone3 lie in memory,
// where no filter sees them; without it libraries use clone.
func plainClones() []unix.SockFilter {
	return slices.Concat(
		[]unix.SockFilter{jumpIf(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), returnErrno(unix.ENOSYS)},
		withoutFlags(unix.SYS_CLONE, offArg0, newNamespaces, unix.EPERM),
		withoutAll(unix.SYS_CLONE, offArg0, unix.CLONE_THREAD|unix.CLONE_FILES, unix.CLONE_THREAD, unix.EINVAL))
}

// countedMemory refuses memory that is not, or need not be, among the pages of a process:
// shared without a file, which is left where it is when a process lets go of its pages;
// of the huge pages that the machine keeps for others; and longer pipes. A larger buffer of
// a socket is but a wish, which is not heeded.
func countedMemory() []unix.SockFilter {
	const shared = unix.MAP_SHARED | unix.MAP_ANONYMOUS // the other kind of sharing has its bit, too
	return slices.Concat(
		withoutAll(unix.SYS_MMAP, offArg3, shared, shared, unix.EPERM),
		withoutFlags(unix.SYS_MMAP, offArg3, unix.MAP_HUGETLB, unix.ENOMEM),
		withoutAll(unix.SYS_FCNTL, offArg1, ^uint32(0), unix.F_SETPIPE_SZ, unix.EPERM),
		[]unix.SockFilter{
			jumpIf(unix.BPF_JEQ, unix.SYS_SETSOCKOPT, 0, 6), loadWord(offArg1), jumpIf(unix.BPF_JEQ, unix.SOL_SOCKET, 0, 3),
			loadWord(offArg2), jumpIf(unix.BPF_JEQ, unix.SO_SNDBUF, 0, 1), returnErrno(0), loadWord(offNumber),
		})
}

// boundPairs allows pairs of Unix sockets that can reach nothing but each other. One of
// datagrams sends to any path.
func boundPairs() []unix.SockFilter {
	return []unix.SockFilter{
		jumpIf(unix.BPF_JEQ, unix.SYS_SOCKETPAIR, 0, 8),
		loadWord(offArg0), jumpIf(unix.BPF_JEQ, unix.AF_UNIX, 1, 0), returnErrno(unix.EAFNOSUPPORT),
		loadWord(offArg1), andMask(kindOfSocket), jumpIf(unix.BPF_JEQ, unix.SOCK_STREAM, 2, 0), jumpIf(unix.BPF_JEQ, unix.SOCK_SEQPACKET, 1, 0),
		returnErrno(unix.EPROTONOSUPPORT), loadWord(offNumber),
	}
}

// socketFilter allows the sockets that an agent needs. Unix sockets are not among them:
// Landlock of this age does not guard connecting to one by path. Of netlink only routes
// may be asked for, which libraries do to list addresses: the other kinds lead to parts
// of the kernel, and on the floor to the sockets of the machine. The kinds count beside
// the protocols: some have a protocol of their own that is meant where none is said.
func (r Reach) socketFilter() []unix.SockFilter {
	f := []unix.SockFilter{jumpIf(unix.BPF_JEQ, unix.SYS_SOCKET, 1, 0), returnAction(unix.SECCOMP_RET_ALLOW), loadWord(offArg2)}
	for _, protocol := range deniedProtocols {
		f = append(f, jumpIf(unix.BPF_JEQ, protocol, 0, 1), returnErrno(unix.EPROTONOSUPPORT))
	}
	f = append(f, loadWord(offArg0), jumpIf(unix.BPF_JEQ, unix.AF_NETLINK, 0, 3))
	f = append(f, loadWord(offArg2), jumpIf(unix.BPF_JEQ, unix.NETLINK_ROUTE, 0, 1), returnAction(unix.SECCOMP_RET_ALLOW), loadWord(offArg0))
	f = append(f, jumpIf(unix.BPF_JEQ, unix.AF_INET, 2, 0), jumpIf(unix.BPF_JEQ, unix.AF_INET6, 1, 0), returnErrno(unix.EAFNOSUPPORT))
	f = append(f, loadWord(offArg1), andMask(kindOfSocket))
	for _, kind := range r.socketKinds() {
		f = append(f, jumpIf(unix.BPF_JEQ, kind, 0, 1), returnAction(unix.SECCOMP_RET_ALLOW))
	}
	return append(f, returnErrno(unix.EACCES))
}

// socketKinds are the kinds of sockets to the network. Where it is the machine's, datagrams
// pass by Landlock's rules, in most kernels.
func (r Reach) socketKinds() []uint32 {
	if r.Datagrams {
		return []uint32{unix.SOCK_STREAM, unix.SOCK_DGRAM}
	}
	return []uint32{unix.SOCK_STREAM}
}

// ownOnly refuses foreignCalls for anybody but the caller, and a change of
// priority for all of a user's processes.
func ownOnly() []unix.SockFilter {
	var f []unix.SockFilter
	for _, c := range foreignCalls {
		f = append(f, jumpIf(unix.BPF_JEQ, c.call, 0, 3), loadWord(c.pid), jumpIf(unix.BPF_JEQ, 0, 1, 0), returnErrno(unix.EPERM), loadWord(offNumber))
	}
	return append(f,
		jumpIf(unix.BPF_JEQ, unix.SYS_SETPRIORITY, 0, 3), loadWord(offArg0), jumpIf(unix.BPF_JEQ, unix.PRIO_USER, 0, 1), returnErrno(unix.EPERM), loadWord(offNumber))
}

// withoutFlags refuses a call whose argument at offset has any of the flags.
func withoutFlags(call, offset, flags uint32, errno unix.Errno) []unix.SockFilter {
	return []unix.SockFilter{
		jumpIf(unix.BPF_JEQ, call, 0, 3), loadWord(offset), jumpIf(unix.BPF_JSET, flags, 0, 1), returnErrno(errno), loadWord(offNumber),
	}
}

// withoutAll refuses a call whose argument at offset, where the mask is set, is value.
func withoutAll(call, offset, mask, value uint32, errno unix.Errno) []unix.SockFilter {
	return []unix.SockFilter{
		jumpIf(unix.BPF_JEQ, call, 0, 4), loadWord(offset), andMask(mask), jumpIf(unix.BPF_JEQ, value, 0, 1), returnErrno(errno), loadWord(offNumber),
	}
}

// andMask keeps of what was loaded the bits that are in mask.
func andMask(mask uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: mask}
}

func loadWord(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// jumpIf skips jt instructions when the comparison holds, else jf.
func jumpIf(op uint16, k uint32, jt, jf uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jt: jt, Jf: jf}
}

func returnAction(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

func returnErrno(errno unix.Errno) unix.SockFilter {
	return returnAction(unix.SECCOMP_RET_ERRNO | uint32(errno))
}
