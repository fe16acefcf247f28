//go:build !linux

package process

import (
	"context"
	"fmt"
	"io"
	"net"
	"syscall"

	"nightcrier.dev/nightcrier"
)

// This system has nothing that a floor could be built from, so no agent is
// started on it; all else of the program works.
var errSystem = nightcrier.Errorf(nightcrier.Refused, "agents in processes of this machine need Linux")

// Box is never made on this system.
type Box struct{}

// New refuses.
func New(context.Context, Options) (*Box, error)               { return nil, errSystem }
func (*Box) Listeners() []net.Listener                         { return nil }
func (*Box) Layers() []string                                  { return nil }
func (*Box) PID() int                                          { return 0 }
func (*Box) Confine(context.Context, Policy) ([]string, error) { return nil, errSystem }
func (*Box) Exec(context.Context, Command) error               { return errSystem }
func (*Box) Signal(syscall.Signal) error                       { return errSystem }
func (*Box) Kill()                                             {}
func (*Box) Done() <-chan struct{}                             { return nil }
func (*Box) Wait() Exit                                        { return Exit{} }
func (*Box) Cgroups() []string                                 { return nil }
func (*Box) OutOfMemory() bool                                 { return false }
func (*Box) Close() error                                      { return nil }

// ID names a process.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Identify returns the ID of a process, which is no more than its number here.
func Identify(pid int) (ID, error) { return ID{PID: pid}, nil }

// Alive reports whether a process of that number lives.
func (id ID) Alive() bool { return syscall.Kill(id.PID, 0) == nil }

// Descendants counts none: no agent is started on this system.
func (ID) Descendants() int { return 0 }

// Below lists none.
func (ID) Below() []int { return nil }

// Sweep has nothing to end: no agent is started on this system.
func Sweep(context.Context, []ID, ...string) error { return nil }

// Adopt has nothing to adopt.
func Adopt() error { return nil }

// SweepBelow has nothing to end.
func SweepBelow(context.Context) error { return nil }

// CgroupsNamed has none to list.
func CgroupsNamed(string) []string { return nil }

// EndCgroups has nothing to end.
func EndCgroups(context.Context, []string) error { return nil }

// Init refuses.
func Init(_ []string, log io.Writer) int {
	fmt.Fprintln(log, errSystem)
	return 1
}
