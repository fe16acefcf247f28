//go:build unix

package portable

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// NoFollow opens no link, and does not wait for the other end of a pipe.
const NoFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// HasModes says that owner and mode of a file tell who may use it.
const HasModes = true

// HasLinks says that everybody can make symbolic links.
const HasLinks = true

// Descriptor is an open file as the kernel names it.
type Descriptor = int

// TryLock takes the lock of a file, or returns ErrLocked. The kernel gives it back when
// the file is closed, or the process ends.
func TryLock(f *os.File) error { return tryFlock(f, unix.LOCK_EX) }

// TryShareLock is TryLock for those who only look: any number of them hold the lock together,
// while nobody has it alone.
func TryShareLock(f *os.File) error { return tryFlock(f, unix.LOCK_SH) }

func tryFlock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrLocked
		}
		return os.NewSyscallError("flock", err)
	}
}

// Unlock gives a lock back.
func Unlock(f *os.File) error {
	return os.NewSyscallError("flock", unix.Flock(int(f.Fd()), unix.LOCK_UN))
}

// InodeOf is what the file system knows of a file, if it tells.
func InodeOf(info fs.FileInfo) (Inode, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Inode{}, false
	}
	return Inode{
		Device: uint64(st.Dev), Number: st.Ino, Links: uint64(st.Nlink), Bytes: st.Blocks * 512, Owner: int(st.Uid), Group: int(st.Gid),
	}, true
}

// SpaceOf is what the file system of dir has. Some have no number of names to tell.
func SpaceOf(dir string) (Space, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return Space{}, os.NewSyscallError("statfs", err)
	}
	size := uint64(st.Bsize)
	return Space{Free: st.Bavail * size, All: st.Blocks * size, FreeNames: st.Ffree, AllNames: st.Files}, nil
}

// SyncDir makes what was made or renamed in a directory durable. Not every file system
// can: those that cannot have nothing to sync.
func SyncDir(d *os.File) error {
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// OwnGroup has a command, and all that it starts, be a group that ends with its context.
func OwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return KillGroup(cmd) }
}

// KillGroup ends what is left of a command's group.
func KillGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// Detach has a command outlive this process, its terminal and its group.
func Detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// Signallable says why a process cannot be sent a signal: most often, it is not there.
func Signallable(pid int) error { return os.NewSyscallError("kill", syscall.Kill(pid, 0)) }
