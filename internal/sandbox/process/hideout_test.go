//go:build linux

package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"nightcrier.dev/nightcrier/internal/test/testproc"
)

const (
	hideLimit = 64 << 20
	hidden    = 192 << 20 // what each attack is after
	mostOpen  = 8192
)

// hideouts take memory where no process is seen to have it. Each returns how much it
// hides, and why it could hide no more.
var hideouts = map[string]func() (int, error){
	"a file in memory":                 func() (int, error) { return hideInFile(unix.MemfdCreate("x", 0)) },
	"a file in memory, huge":           func() (int, error) { return hideInFile(unix.MemfdCreate("x", unix.MFD_HUGETLB)) },
	"a file in memory, mapped":         func() (int, error) { return mapAndLetGo(unix.MemfdCreate("x", 0)) },
	"a secret file in memory":          func() (int, error) { return mapAndLetGo(unix.MemfdSecret(0)) },
	"a file in memory on its way":      hideOnTheWay,
	"sockets on their way":             hideSocketsOnTheWay,
	"System V shared memory":           hideInSharedMemory,
	"shared memory without a file":     func() (int, error) { return mapAndLetGo(-1, nil) },
	"shared memory of /dev/zero":       func() (int, error) { return mapAndLetGo(unix.Open("/dev/zero", unix.O_RDWR, 0)) },
	"read-only memory of /dev/zero":    func() (int, error) { return mapAndLetGo(unix.Open("/dev/zero", unix.O_RDONLY, 0)) },
	"files of its own /tmp":            hideInTmp,
	"page tables":                      hideInPageTables,
	"pipes":                            hideInPipes,
	"sockets":                          hideInSockets,
	"a process without a first thread": hideWithoutAFirstThread,
	"a process that shows nothing":     hideUndumpable,
	"pages in pipes":                   hideSpliced,
	"message queues":                   hideInMessages,
	"POSIX message queues":             hideInPosixMessages,
}

// hide takes memory and holds it, until somebody ends it.
func hide(name string) string {
	_ = os.Chdir("home") // where it may write
	n, err := hideouts[name]()
	said := fmt.Sprintf("hides %d", n)
	if err != nil {
		said += ": " + err.Error()
	}
	if n < hideLimit/2 {
		return said
	}
	fmt.Println(said)
	time.Sleep(20 * time.Second)
	return "nobody ended it"
}

// hideInFile writes to a file in memory.
func hideInFile(fd int, err error) (int, error) {
	for n := 0; ; n += 1 << 20 {
		if err != nil || n >= hidden {
			return n, err
		}
		_, err = unix.Write(fd, make([]byte, 1<<20))
	}
}

// mapAndLetGo touches shared memory, and has the kernel take the pages from the process.
func mapAndLetGo(fd int, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	flags, prot := unix.MAP_SHARED, unix.PROT_READ|unix.PROT_WRITE
	if fd < 0 {
		flags |= unix.MAP_ANONYMOUS
	} else if mode, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); mode&unix.O_ACCMODE == unix.O_RDONLY {
		prot = unix.PROT_READ
	}
	long := fd >= 0 && unix.Ftruncate(fd, hidden) == nil // a device has no length: each part is its beginning
	var sum byte
	const part = 8 << 20
	for n := 0; n < hidden; n += part {
		at := int64(0)
		if long {
			at = int64(n)
		}
		b, err := unix.Mmap(fd, at, part, prot, flags)
		if err != nil {
			return n, err
		}
		for i := 0; i < part; i += 4096 {
			if sum += b[i]; prot&unix.PROT_WRITE != 0 {
				b[i] = 1
			}
		}
		if err := unix.Madvise(b, unix.MADV_DONTNEED); err != nil {
			return n, err
		}
	}
	runtime.KeepAlive(&sum) // it was read
	return hidden, nil
}

func hideOnTheWay() (int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, err
	}
	for n := 0; n < hidden; n += 1 << 20 {
		f, err := os.CreateTemp(".", "x") // where there is no file in memory, one without a name
		if err == nil {
			err = errors.Join(os.Remove(f.Name()), second(f.Write(make([]byte, 1<<20))), unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(int(f.Fd())), nil, 0), f.Close())
		}
		if err != nil {
			return n, err
		}
	}
	return hidden, nil
}

func second[T any](_ T, err error) error { return err }

func hideSocketsOnTheWay() (int, error) {
	way, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, err
	}
	for n := 0; n < hidden; {
		pair, filled, err := fullPair()
		if err == nil {
			err = errors.Join(unix.Sendmsg(way[0], []byte("x"), unix.UnixRights(pair[0], pair[1]), nil, 0), unix.Close(pair[0]), unix.Close(pair[1]))
		}
		if err != nil {
			return n, err
		}
		n += filled
	}
	return hidden, nil
}

// fullPair is a pair of sockets with as much on its way as goes in.
func fullPair() (pair [2]int, filled int, err error) {
	if pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0); err != nil {
		return pair, 0, err
	}
	for _, fd := range pair {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<30) // as far as the machine lets it
		for {
			n, err := unix.Write(fd, make([]byte, 32<<10))
			if err != nil {
				break
			}
			filled += n
		}
	}
	return pair, filled, nil
}

func hideInSockets() (int, error) {
	for n := 0; n < hidden; {
		_, filled, err := fullPair()
		if err != nil {
			return n, err
		}
		n += filled
	}
	return hidden, nil
}

func hideInSharedMemory() (int, error) {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, hidden, unix.IPC_CREAT|0o600)
	if err != nil {
		return 0, err
	}
	b, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return 0, err
	}
	for i := 0; i < hidden; i += 4096 {
		b[i] = 1
	}
	return hidden, unix.SysvShmDetach(b)
}

func hideInTmp() (int, error) {
	total := 0
	var last error
	for _, dir := range privateDirs {
		for i, n := 0, 1; n > 0; i++ {
			f, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
			if err != nil {
				last = err
				break
			}
			n, last = f.Write(make([]byte, 1<<20))
			total += n
			f.Close()
		}
	}
	return total, last
}

// hideInPageTables reads of memory that it never writes to: the kernel shows it the same
// page of zeros everywhere, and needs a table for each part of it.
func hideInPageTables() (int, error) {
	const part = 2 << 20
	b, err := unix.Mmap(-1, 0, hidden/4096*part, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return 0, err
	}
	_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE)
	var sum byte
	for i := 0; i < len(b); i += part {
		sum += b[i]
	}
	runtime.KeepAlive(&sum) // it was read
	return hidden, nil
}

func hideInPipes() (int, error) {
	var pipe [2]int
	for n := 0; n < hidden; {
		if err := unix.Pipe2(pipe[:], unix.O_NONBLOCK); err != nil {
			return n, err
		}
		if pipe[1] > mostOpen-100 { // the runtime needs some
			return n, unix.EMFILE
		}
		_, _ = unix.FcntlInt(uintptr(pipe[1]), unix.F_SETPIPE_SZ, 1<<20) // as far as it goes
		for {
			written, err := unix.Write(pipe[1], make([]byte, 4096))
			if err != nil {
				break
			}
			n += written
		}
	}
	return hidden, nil
}

// hideWithoutAFirstThread ends the first thread of this process, which is then what others
// see of it.
func hideWithoutAFirstThread() (int, error) {
	b, err := unix.Mmap(-1, 0, hidden, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0, err
	}
	go func() {
		runtime.LockOSThread()
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		fmt.Printf("hides %d\n", len(b))
		time.Sleep(20 * time.Second)
		fmt.Println("nobody ended it", b[0])
		os.Exit(0)
	}()
	if unix.Gettid() == os.Getpid() {
		_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
	}
	select {}
}

// hideUndumpable lets nobody look at what it has open.
func hideUndumpable() (int, error) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return 0, err
	}
	return hideInSockets()
}

func hideSpliced() (int, error) {
	var pipe [2]int
	for n := 0; n < hidden; n += 64 << 10 {
		if err := unix.Pipe(pipe[:]); err != nil {
			return n, err
		}
		page := bytes.Repeat([]byte("x"), 64<<10)
		if _, err := unix.Vmsplice(pipe[1], []unix.Iovec{{Base: &page[0], Len: uint64(len(page))}}, unix.SPLICE_F_NONBLOCK); err != nil {
			return n, err
		}
	}
	return hidden, nil
}

func hideInMessages() (int, error) {
	message := make([]byte, 8+8<<10)
	message[0] = 1
	for n := 0; n < hidden; {
		id, _, errno := unix.Syscall(unix.SYS_MSGGET, unix.IPC_PRIVATE, unix.IPC_CREAT|0o600, 0)
		for ; errno == 0; n += len(message) {
			_, _, errno = unix.Syscall6(unix.SYS_MSGSND, id, uintptr(unsafe.Pointer(&message[0])), uintptr(len(message)-8), unix.IPC_NOWAIT, 0, 0)
		}
		if errno != unix.EAGAIN {
			return n, errno
		}
	}
	return hidden, nil
}

func hideInPosixMessages() (int, error) {
	name := []byte("hidden\x00")
	_, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&name[0])), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return hidden, nil // as long as the user's limit lasts
}

// What an agent has is bounded wherever it puts it: in a control group, and where it is
// watched alone.
func TestNoMemoryIsHidden(t *testing.T) {
	for name, grouped := range map[string]bool{"watched": false, "in a group": true} {
		t.Run(name, func(t *testing.T) {
			everySandbox(t, func(t *testing.T, floor bool) {
				for attack := range hideouts {
					t.Run(attack, func(t *testing.T) { nothingIsHidden(t, attack, floor, grouped) })
				}
			})
		})
	}
}

func nothingIsHidden(t *testing.T, attack string, floor, grouped bool) {
	l := watched(t, floor)
	l.opts.MaxMemoryBytes, l.policy.MaxFileBytes, l.policy.MaxOpenFiles = hideLimit, 2*hidden, mostOpen
	if grouped {
		l.opts.Name, l.opts.Owner = fmt.Sprintf("hide-%d", syscall.Getpid()), OwnerOf(l.root)
	}
	self := testproc.Self()
	out, exit, layers := l.run(self, "attack", "hide", attack)
	if grouped && !slices.Contains(layers, LayerMemory) {
		t.Skip("SKIPPED ALOUD: no control group here bounds memory")
	}
	_, after, _ := strings.Cut(out, "hides ")
	number, _, _ := strings.Cut(strings.ReplaceAll(after, ":", "\n"), "\n")
	n, err := strconv.Atoi(number)
	ended := exit.Signal == "SIGKILL" && exit.OutOfMemory
	if strings.Contains(out, "nobody ended it") || !ended && (err != nil || n > hideLimit) {
		t.Errorf("%q, exit %+v", out, exit)
	}
}
