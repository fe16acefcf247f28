package stdio

import (
	"os"

	"golang.org/x/sys/unix"
)

// widen gives a pipe room for pipeSize. Where a user's pipes hold too much already,
// the size they have must do.
func widen(pipe *os.File) {
	if c, err := pipe.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
	}
}
