package stdio

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"nightcrier.dev/nightcrier"
)

// SealText is a file in memory that holds text and that nobody can change: its reader
// has no descriptor of a mount of this machine, where it could change a file's mode.
func SealText(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("prompt", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "memory for the agent's prompt: %w", err)
	}
	f := os.NewFile(uintptr(fd), "prompt")
	_, err = f.Write(text)
	if err == nil {
		_, err = f.Seek(0, 0)
	}
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "memory for the agent's prompt: %w", errors.Join(err, f.Close()))
	}
	return f, nil
}
