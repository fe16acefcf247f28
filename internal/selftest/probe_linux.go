package selftest

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openSocket makes a socket that is no connection: what goes out by it, no rule for
// connections sees.
func openSocket(kind, _ string) error {
	kinds := map[string][3]int{
		"raw":    {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
		"packet": {unix.AF_PACKET, unix.SOCK_RAW, 0},
		"vsock":  {unix.AF_VSOCK, unix.SOCK_STREAM, 0},
		"alg":    {unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
	}
	k, known := kinds[kind]
	if !known {
		return errors.New("no such socket: " + kind)
	}
	fd, err := unix.Socket(k[0], k[1], k[2])
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// multipath connects over TCP by another name.
func multipath(addr, _ string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	to, err := inet(addr)
	if err != nil {
		return err
	}
	return unix.Connect(fd, to)
}

// fastOpen connects without a call of connect.
func fastOpen(addr, mark string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	to, err := inet(addr)
	if err != nil {
		return err
	}
	return unix.Sendto(fd, []byte(mark), unix.MSG_FASTOPEN, to)
}

func inet(addr string) (*unix.SockaddrInet4, error) {
	a, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return nil, err
	}
	to := &unix.SockaddrInet4{Port: a.Port}
	copy(to.Addr[:], a.IP.To4())
	return to, nil
}

// callKernel makes a system call that no agent needs. One that the kernel finds fault
// with has come as far as the kernel.
func callKernel(name, arg string) error {
	pid, _ := strconv.Atoi(arg) // 0 where it takes none
	room := make([]byte, 4096)
	at := uintptr(unsafe.Pointer(&room[0]))
	root := []byte("/\x00")
	path := uintptr(unsafe.Pointer(&root[0]))
	calls := map[string][4]uintptr{
		"io_uring_setup":    {unix.SYS_IO_URING_SETUP, 1, at},
		"bpf":               {unix.SYS_BPF, 0, at, 0},
		"perf_event_open":   {unix.SYS_PERF_EVENT_OPEN, at, 0, 0},
		"userfaultfd":       {unix.SYS_USERFAULTFD, unix.O_CLOEXEC},
		"keyctl":            {unix.SYS_KEYCTL, 0, ^uintptr(2), 0}, // the id of the session's keyring
		"unshare":           {unix.SYS_UNSHARE, unix.CLONE_NEWUSER},
		"mount":             {unix.SYS_MOUNT, 0, 0, 0},
		"chroot":            {unix.SYS_CHROOT, path},
		"ptrace":            {unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0},
		"process_vm_readv":  {unix.SYS_PROCESS_VM_READV, uintptr(pid), 0, 0},
		"open_by_handle_at": {unix.SYS_OPEN_BY_HANDLE_AT, 0, at, 0},
	}
	c, known := calls[name]
	if !known {
		return errors.New("no such call: " + name)
	}
	runtime.LockOSThread() // a tracer, and a changed root, are a thread's
	_, _, errno := unix.Syscall6(c[0], c[1], c[2], c[3], 0, 0, 0)
	runtime.KeepAlive(room)
	runtime.KeepAlive(root)
	switch errno {
	case 0, unix.EINVAL, unix.EFAULT, unix.E2BIG, unix.EBADF, unix.ESTALE:
		return nil
	}
	return fmt.Errorf("%s: %w", name, errno)
}
