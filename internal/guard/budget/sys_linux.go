package budget

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

func fdatasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// lockByte takes the lock of one byte, or gives it back. It belongs to the open file,
// not to the process, and ends with it.
func lockByte(f *os.File, at int64, take bool) error {
	kind := int16(unix.F_UNLCK)
	if take {
		kind = unix.F_WRLCK
	}
	return os.NewSyscallError("fcntl", unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: at, Len: 1}))
}

// byteLocked reports whether any other open file has the lock of a byte.
func byteLocked(f *os.File, at int64) bool {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: at, Len: 1}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock) == nil && lock.Type != unix.F_UNLCK
}
