// Package stdio is what an agent reads its prompt from, and what it prints on.
package stdio

import (
	"errors"
	"io"
	"os"
	"syscall"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
)

// pipeSize is how much an agent may have printed, in bytes, that is not read yet.
// An agent that writes without waiting loses what does not fit when it exits.
const pipeSize = 1 << 20

// Stream is one pipe from the agent.
type Stream struct {
	// Name is stdout or stderr.
	Name string
	// Ours is the end that is read, Theirs the agent's.
	Ours, Theirs *os.File
	late         int // bytes read since the deadline passed
}

// NewStream makes the pipe of that name.
func NewStream(name string) (*Stream, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "pipe for the agent's output: %w", err)
	}
	widen(theirs)
	return &Stream{Name: name, Ours: ours, Theirs: theirs}, nil
}

// Close closes both ends.
func (s *Stream) Close() { s.Ours.Close(); s.Theirs.Close() }

// Read reads what the agent wrote. When a deadline has passed, what stands in the
// pipe is still read, but nothing is waited for.
func (s *Stream) Read(b []byte) (int, error) {
	n, err := s.Ours.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) && s.late <= pipeSize {
		n, err = s.readNow(b)
		s.late += n
	}
	return n, err
}

// readNow reads what is there. os.File itself reads nothing behind a deadline.
func (s *Stream) readNow(b []byte) (n int, err error) {
	c, err := s.Ours.SyscallConn()
	if err != nil {
		return 0, err
	}
	var readErr error
	if err := c.Control(func(fd uintptr) { n, readErr = syscall.Read(portable.Descriptor(fd), b) }); err != nil {
		return 0, err
	}
	switch {
	case errors.Is(readErr, syscall.EAGAIN):
		return 0, os.ErrDeadlineExceeded
	case readErr != nil:
		return 0, readErr
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
