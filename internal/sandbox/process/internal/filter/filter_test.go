//go:build linux

package filter

import (
	"cmp"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// judge does what the kernel does with a filter, for a call with these arguments.
func judge(t *testing.T, program []unix.SockFilter, call uint32, args [6]uint32) (errno unix.Errno, allowed bool) {
	t.Helper()
	data := map[uint32]uint32{offNumber: call, offArch: archs[runtime.GOARCH]}
	for i, a := range args {
		data[offArg0+uint32(i)*8] = a
	}
	var acc uint32
	for at := 0; at < len(program); at++ {
		in := program[at]
		skip := func(yes bool) {
			if yes {
				at += int(in.Jt)
			} else {
				at += int(in.Jf)
			}
		}
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = data[in.K]
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= in.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			skip(acc == in.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			skip(acc >= in.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			skip(acc&in.K != 0)
		case unix.BPF_RET | unix.BPF_K:
			return unix.Errno(in.K & 0xffff), in.K == unix.SECCOMP_RET_ALLOW
		default:
			t.Fatalf("instruction %d is %+v", at, in)
		}
	}
	t.Fatal("the filter has no end")
	return 0, false
}

// What is refused by an argument is refused by no more than that, on the floor and where
// something else bounds it.
func TestFilter(t *testing.T) {
	const (
		private = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
		thread  = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_SYSVSEM
		flags   = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	)
	type args = [6]uint32
	floor, best, open := Reach{}, Reach{Root: true, PIDs: true, Datagrams: true}, Reach{Truncates: true, Datagrams: true, Messages: true}
	for _, c := range []struct {
		name string
		call uint32
		args args
		// what each filter answers, 0 for leave
		floor, best, open unix.Errno
	}{
		{"read", unix.SYS_READ, args{}, 0, 0, 0},
		{"memory of its own", unix.SYS_MMAP, args{3: private}, 0, 0, 0},
		{"a shared file", unix.SYS_MMAP, args{3: unix.MAP_SHARED}, 0, 0, 0},
		{"shared memory", unix.SYS_MMAP, args{3: unix.MAP_SHARED | unix.MAP_ANONYMOUS}, unix.EPERM, unix.EPERM, unix.EPERM},
		{"shared memory, the other kind", unix.SYS_MMAP, args{3: unix.MAP_SHARED_VALIDATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE}, unix.EPERM, unix.EPERM, unix.EPERM},
		{"huge pages", unix.SYS_MMAP, args{3: private | unix.MAP_HUGETLB}, unix.ENOMEM, unix.ENOMEM, unix.ENOMEM},
		{"memfd_create", unix.SYS_MEMFD_CREATE, args{}, unix.ENOSYS, unix.ENOSYS, unix.ENOSYS},
		{"shmget", unix.SYS_SHMGET, args{}, unix.EPERM, unix.EPERM, unix.EPERM},
		{"a longer pipe", unix.SYS_FCNTL, args{1: unix.F_SETPIPE_SZ}, unix.EPERM, unix.EPERM, unix.EPERM},
		{"the length of a pipe", unix.SYS_FCNTL, args{1: unix.F_GETPIPE_SZ}, 0, 0, 0},
		{"an option of a socket", unix.SYS_SETSOCKOPT, args{1: unix.SOL_SOCKET, 2: unix.SO_KEEPALIVE}, 0, 0, 0},
		{"an option of TCP", unix.SYS_SETSOCKOPT, args{1: unix.IPPROTO_TCP, 2: unix.SO_SNDBUF}, 0, 0, 0},
		{"a process", unix.SYS_CLONE, args{0: uint32(unix.SIGCHLD)}, 0, 0, 0},
		{"a thread", unix.SYS_CLONE, args{0: thread | unix.CLONE_FILES}, 0, 0, 0},
		{"a thread with descriptors of its own", unix.SYS_CLONE, args{0: thread}, unix.EINVAL, unix.EINVAL, unix.EINVAL},
		{"a namespace", unix.SYS_CLONE, args{0: unix.CLONE_NEWNET}, unix.EPERM, unix.EPERM, unix.EPERM},
		{"sendmsg", unix.SYS_SENDMSG, args{}, unix.EPERM, unix.EPERM, 0},
		{"sendmsg that connects", unix.SYS_SENDMSG, args{2: unix.MSG_FASTOPEN}, unix.EPERM, unix.EPERM, unix.EOPNOTSUPP},
		{"sendto", unix.SYS_SENDTO, args{4: 1}, 0, 0, 0},
		{"sendto that connects", unix.SYS_SENDTO, args{3: unix.MSG_FASTOPEN | unix.MSG_DONTWAIT}, unix.EOPNOTSUPP, unix.EOPNOTSUPP, unix.EOPNOTSUPP},
		{"a pair of streams", unix.SYS_SOCKETPAIR, args{unix.AF_UNIX, unix.SOCK_STREAM | flags}, 0, 0, 0},
		{"a pair of packets", unix.SYS_SOCKETPAIR, args{unix.AF_UNIX, unix.SOCK_SEQPACKET | flags}, 0, 0, 0},
		{"a pair of datagrams", unix.SYS_SOCKETPAIR, args{unix.AF_UNIX, unix.SOCK_DGRAM | flags}, unix.EPROTONOSUPPORT, unix.EPROTONOSUPPORT, unix.EPROTONOSUPPORT},
		{"a pair of datagrams, raw", unix.SYS_SOCKETPAIR, args{unix.AF_UNIX, unix.SOCK_RAW}, unix.EPROTONOSUPPORT, unix.EPROTONOSUPPORT, unix.EPROTONOSUPPORT},
		{"a pair of another family", unix.SYS_SOCKETPAIR, args{unix.AF_TIPC, unix.SOCK_STREAM}, unix.EAFNOSUPPORT, unix.EAFNOSUPPORT, unix.EAFNOSUPPORT},
		{"TCP", unix.SYS_SOCKET, args{unix.AF_INET6, unix.SOCK_STREAM | flags}, 0, 0, 0},
		{"UDP", unix.SYS_SOCKET, args{unix.AF_INET, unix.SOCK_DGRAM | flags}, unix.EACCES, 0, 0},
		{"UDP, IPv6", unix.SYS_SOCKET, args{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, unix.EACCES, 0, 0},
		{"ping", unix.SYS_SOCKET, args{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, unix.EACCES, 0, 0},
		{"packets, which are SCTP", unix.SYS_SOCKET, args{unix.AF_INET, unix.SOCK_SEQPACKET}, unix.EACCES, unix.EACCES, unix.EACCES},
		{"raw", unix.SYS_SOCKET, args{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, unix.EACCES, unix.EACCES, unix.EACCES},
		{"DCCP by its kind", unix.SYS_SOCKET, args{unix.AF_INET, 6}, unix.EACCES, unix.EACCES, unix.EACCES},
		{"MPTCP", unix.SYS_SOCKET, args{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, unix.EPROTONOSUPPORT, unix.EPROTONOSUPPORT, unix.EPROTONOSUPPORT},
		{"a Unix socket", unix.SYS_SOCKET, args{unix.AF_UNIX, unix.SOCK_STREAM}, unix.EAFNOSUPPORT, unix.EAFNOSUPPORT, unix.EAFNOSUPPORT},
		{"routes", unix.SYS_SOCKET, args{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, 0, 0, 0},
		{"sockets of others", unix.SYS_SOCKET, args{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG}, unix.EAFNOSUPPORT, unix.EAFNOSUPPORT, unix.EAFNOSUPPORT},
		{"fchmod", unix.SYS_FCHMOD, args{1: 0o644}, unix.EPERM, 0, unix.EPERM},
		{"fchmod that raises", unix.SYS_FCHMOD, args{1: 0o4755}, unix.EPERM, unix.EPERM, unix.EPERM},
		{"a cut", unix.SYS_TRUNCATE, args{}, unix.EPERM, 0, unix.EPERM},
		{"a cut by reading", unix.SYS_OPENAT, args{2: unix.O_RDONLY | unix.O_TRUNC | unix.O_CLOEXEC}, unix.EPERM, 0, unix.EPERM},
		{"a new file", unix.SYS_OPENAT, args{2: unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC}, 0, 0, 0},
		{"a file", unix.SYS_OPENAT, args{2: unix.O_RDONLY}, 0, 0, 0},
		{"a file by its other call", unix.SYS_OPENAT2, args{}, unix.ENOSYS, 0, 0},
		{"changes of files", unix.SYS_INOTIFY_ADD_WATCH, args{}, unix.EPERM, 0, unix.EPERM},
		{"its own limits", unix.SYS_PRLIMIT64, args{}, 0, 0, 0},
		{"limits of another", unix.SYS_PRLIMIT64, args{0: 4711}, unix.EPERM, 0, unix.EPERM},
		{"priority of all", unix.SYS_SETPRIORITY, args{unix.PRIO_USER}, unix.EPERM, 0, unix.EPERM},
	} {
		for name, f := range map[string]struct {
			Reach
			want unix.Errno
		}{"floor": {floor, c.floor}, "best": {best, c.best}, "open": {open, c.open}} {
			errno, allowed := judge(t, callFilter(archs[runtime.GOARCH], f.Reach), c.call, c.args)
			if errno != f.want || allowed != (f.want == 0) {
				t.Errorf("%s, %s: allowed %v, %v, want %v", c.name, name, allowed, cmp.Or(error(errno), nil), f.want)
			}
		}
	}
}

// A larger buffer is not heeded, and no error: programs ask for one that they can do without.
func TestBuffersAreNotHeeded(t *testing.T) {
	errno, allowed := judge(t, callFilter(archs[runtime.GOARCH], Reach{}), unix.SYS_SETSOCKOPT, [6]uint32{1: unix.SOL_SOCKET, 2: unix.SO_SNDBUF})
	if errno != 0 || allowed {
		t.Errorf("%v, allowed %v", errno, allowed)
	}
}
