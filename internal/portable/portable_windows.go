package portable

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// NoFollow is nothing here: to make a link needs a privilege, and no agent runs.
const NoFollow = 0

// HasModes says that owner and mode of a file tell who may use it: not here.
const HasModes = false

// HasLinks says that everybody can make symbolic links: here it takes a privilege.
const HasLinks = false

// Descriptor is an open file as the kernel names it.
type Descriptor = syscall.Handle

// whole is a range of bytes behind all that a file has: locked, it can still be read.
func whole() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

// TryLock takes the lock of a file, or returns ErrLocked. The kernel gives it back when
// the file is closed, or the process ends.
func TryLock(f *os.File) error { return tryLockFile(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// TryShareLock is TryLock for those who only look: any number of them hold the lock together,
// while nobody has it alone.
func TryShareLock(f *os.File) error { return tryLockFile(f, 0) }

func tryLockFile(f *os.File, how uint32) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), how|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, whole())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return os.NewSyscallError("LockFileEx", err)
}

// Unlock gives a lock back.
func Unlock(f *os.File) error {
	return os.NewSyscallError("UnlockFileEx", windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, whole()))
}

// InodeOf knows nothing here.
func InodeOf(fs.FileInfo) (Inode, bool) { return Inode{}, false }

// SpaceOf is what the volume of dir has. It takes as many files as there is room for.
func SpaceOf(dir string) (s Space, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err == nil {
		err = windows.GetDiskFreeSpaceEx(name, &s.Free, &s.All, nil)
	}
	return s, os.NewSyscallError("GetDiskFreeSpaceEx", err)
}

// SyncDir has nothing to do: a directory cannot be synced here.
func SyncDir(*os.File) error { return nil }

// OwnGroup has a command end with its context. What it started itself may stay.
func OwnGroup(cmd *exec.Cmd) { cmd.Cancel = func() error { return KillGroup(cmd) } }

// KillGroup ends a command.
func KillGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// Detach does nothing: no command outlives us here.
func Detach(*exec.Cmd) {}

// Signallable says why a process cannot be ended: most often, it is not there.
func Signallable(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Release()
}
