package probe

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"time"
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
	to, err := resolveInet4(addr)
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
	to, err := resolveInet4(addr)
	if err != nil {
		return err
	}
	return unix.Sendto(fd, []byte(mark), unix.MSG_FASTOPEN, to)
}

func resolveInet4(addr string) (*unix.SockaddrInet4, error) {
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
		"shmget":            {unix.SYS_SHMGET, unix.IPC_PRIVATE, 0, 0}, // of no size, of no queue, of no set: nothing is made
		"msgsnd":            {unix.SYS_MSGSND, ^uintptr(0), at, 1},
		"semop":             {unix.SYS_SEMOP, ^uintptr(0), at, 1},
		"mq_open":           {unix.SYS_MQ_OPEN, 0, 0, 0},
		"fanotify_init":     {unix.SYS_FANOTIFY_INIT, unix.FAN_CLASS_NOTIF | unix.FAN_REPORT_FID, 0},
		"process_madvise":   {unix.SYS_PROCESS_MADVISE, ^uintptr(0), at, 0},
		"sendmsg":           {unix.SYS_SENDMSG, ^uintptr(0), at, 0},
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

// byOneOfAPair sends to a path by one end of a pair of sockets, whose other end it is not.
func byOneOfAPair(path, mark string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer func() { unix.Close(pair[0]); unix.Close(pair[1]) }()
	return unix.Sendto(pair[0], []byte(mark), 0, &unix.SockaddrUnix{Name: path})
}

// watchDir asks to be told what others do in a directory.
func watchDir(dir, _ string) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MODIFY)
	return err
}

// readShared looks for a mark in memory that is shared by its number.
func readShared(id, mark string) error {
	n, err := strconv.Atoi(id)
	if err != nil {
		return err
	}
	memory, err := unix.SysvShmAttach(n, 0, unix.SHM_RDONLY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.SysvShmDetach(memory) }()
	if !bytes.Contains(memory, []byte(mark)) {
		return errors.New("it is another memory that has the number here")
	}
	return nil
}

// hoards take a MiB each time where no process is seen to have it.
var hoards = map[string]func() error{
	"files":   hoardFile,
	"shared":  hoardShared,
	"sockets": hoardSockets,
	"tables":  hoardTables,
}

// hoard takes memory in one of these ways, until it is refused.
func hoard(way, mebibytes string) error {
	n, err := strconv.Atoi(mebibytes)
	take, known := hoards[way]
	if err != nil || !known {
		return errors.Join(err, errors.New("no such way: "+way))
	}
	for range n {
		if err := take(); err != nil {
			return err
		}
		time.Sleep(4 * time.Millisecond) // where memory is watched a limit takes a moment
	}
	fmt.Printf("has %d MiB\n", n)
	return nil
}

func hoardFile() error {
	fd, err := unix.MemfdCreate("hoard", 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, bytes.Repeat([]byte{1}, 1<<20))
	return err
}

// hoardShared has the kernel take the pages from the process, whose memory they stay.
func hoardShared() error {
	memory, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	return unix.Madvise(memory, unix.MADV_DONTNEED)
}

func hoardSockets() error {
	for had := 0; had < 1<<20; {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		for err == nil {
			var n int
			n, err = unix.Write(pair[0], make([]byte, 32<<10))
			had += max(n, 0)
		}
	}
	return nil
}

// hoardTables reads of memory that was never written to, whose pages are all the same: what
// it needs are the tables that lead to them.
func hoardTables() error {
	const reach = 2 << 20 // of one table
	memory, err := unix.Mmap(-1, 0, 256*reach, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE) // or it is one table for many
	var sum byte
	for i := 0; i < len(memory); i += reach {
		sum += memory[i]
	}
	runtime.KeepAlive(&sum)
	return nil
}
