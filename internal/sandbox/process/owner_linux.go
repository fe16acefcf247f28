package process

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"nightcrier.dev/nightcrier"
)

// owner is a user id that one Sandbox has for itself: its agent can neither signal
// nor read what belongs to the server or to another agent.
type owner struct {
	id   int
	lock net.PacketConn
}

// takeOwner takes an id of the range that no other Sandbox on this machine has. The
// lock is an abstract socket: it ends with the process that holds it, however
// that ends, and leaves nothing on a disk.
func takeOwner(base int, name string) (owner, error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	start := int(h.Sum32() % UIDRange)
	for i := range UIDRange {
		id := base + (start+i)%UIDRange
		lock, err := net.ListenPacket("unixgram", fmt.Sprintf("@nightcrier-uid-%d", id))
		if err == nil {
			return owner{id, lock}, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return owner{}, nightcrier.Errorf(nightcrier.Internal, "lock user id %d: %w", id, err)
		}
	}
	return owner{}, nightcrier.Errorf(nightcrier.Exhausted, "all %d user ids from %d are taken", UIDRange, base)
}

func (o owner) releaseLock() {
	if o.lock != nil {
		o.lock.Close()
	}
}

// newUserNamespace returns a user namespace in which the server's files are the owner's:
// a mount with this mapping shows them as its own, and on the disk what it makes
// is the server's. The namespace needs a process to be made with; that one is
// stopped before its first instruction and killed.
func (o owner) newUserNamespace() (*os.File, error) {
	runtime.LockOSThread() // only this thread may trace it
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess("/proc/self/exe", []string{InitCommand}, &os.ProcAttr{Env: []string{}, Sys: &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, Ptrace: true, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: o.id, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: o.id, Size: 1}},
	}})
	if err != nil {
		return nil, fmt.Errorf("map owners: %w", err)
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/ns/user", p.Pid), os.O_RDONLY|unix.O_CLOEXEC, 0)
	_ = p.Kill()
	_, waitErr := p.Wait()
	if err = errors.Join(err, waitErr); err != nil {
		return nil, fmt.Errorf("map owners: %w", err)
	}
	return f, nil
}
