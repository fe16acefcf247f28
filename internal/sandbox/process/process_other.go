//go:build !linux

package process

import (
	"context"
	"fmt"
	"io"
	"net"
	"syscall"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// This system has nothing that a floor could be built from, so no agent is
// started on it; all else of the program works.
var errSystem = nightcrier.Errorf(nightcrier.Refused, "agents, and the commands of tool servers, are confined on Linux alone")

// Box is never made on this system.
type Box struct{}

// New refuses.
func New(context.Context, Options) (*Box, error)                       { return nil, errSystem }
func (*Box) Listeners() []net.Listener                                 { return nil }
func (*Box) Names() net.PacketConn                                     { return nil }
func (*Box) Notes() []string                                           { return nil }
func (*Box) Layers() []string                                          { return nil }
func (*Box) PID() int                                                  { return 0 }
func (*Box) Confine(context.Context, sandbox.Policy) ([]string, error) { return nil, errSystem }
func (*Box) Exec(context.Context, sandbox.Command) error               { return errSystem }
func (*Box) Signal(syscall.Signal) error                               { return errSystem }
func (*Box) Kill()                                                     {}
func (*Box) Done() <-chan struct{}                                     { return nil }
func (*Box) Wait() sandbox.Exit                                        { return sandbox.Exit{} }
func (*Box) OutOfMemory() bool                                         { return false }
func (*Box) OutOfProcesses() bool                                      { return false }
func (*Box) Close() error                                              { return nil }

// ID names a process.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Identify returns the ID of a process, which is no more than its number here.
func Identify(pid int) (ID, error) { return ID{PID: pid}, nil }

// Alive reports whether a process of that number lives.
func (id ID) Alive() bool { return portable.Signallable(id.PID) == nil }

// Descendants counts none: no agent is started on this system.
func (ID) Descendants() int { return 0 }

// Below lists none.
func (ID) Below() []int { return nil }

// Adopt has nothing to adopt.
func Adopt() error { return nil }

// SweepBelow has nothing to end.
func SweepBelow(context.Context) error { return nil }

// Divide has nothing to divide.
func Divide() error { return nil }

// OwnerOf names none: nothing is made on this system.
func OwnerOf(string) string { return "" }

// Keeper finds nothing: no agent is started on this system.
type Keeper struct{ Owner string }

// List lists none.
func (Keeper) List(context.Context) ([]sandbox.Left, error) { return nil, nil }

// Destroy has nothing to end.
func (Keeper) Destroy(context.Context, string) error { return nil }

// Init refuses.
func Init(_ []string, log io.Writer) int {
	fmt.Fprintln(log, errSystem)
	return 1
}
