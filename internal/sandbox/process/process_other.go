//go:build !linux

package process

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// This system has nothing that a floor could be built from, so no agent is
// started on it; all else of the program works.
var errSystem = nightcrier.Errorf(nightcrier.Refused, "agents, and the commands of tool servers, are confined on Linux alone")

// Sandbox is never made on this system.
type Sandbox struct {
	Listeners []net.Listener
	Names     net.PacketConn
}

// New refuses.
func New(context.Context, Options) (*Sandbox, error) { return nil, errSystem }

// Start refuses.
func (*Sandbox) Start(context.Context, sandbox.Policy, sandbox.Command, func(sandbox.Held) error) error {
	return errSystem
}
func (*Sandbox) Held() sandbox.Held          { return sandbox.Held{} }
func (*Sandbox) PID() int                    { return 0 }
func (*Sandbox) Signal(syscall.Signal) error { return errSystem }
func (*Sandbox) Kill()                       {}
func (*Sandbox) Done() <-chan struct{}       { return nil }
func (*Sandbox) Wait() sandbox.Exit          { return sandbox.Exit{} }
func (*Sandbox) Close() error                { return nil }

// ID names a process.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Identify returns the ID of a process, which is no more than its number here.
func Identify(pid int) (ID, error) { return ID{PID: pid}, nil }

// Alive reports whether a process of that number lives.
func (id ID) Alive() bool { return portable.Signallable(id.PID) == nil }

// Kill kills the process of that number.
func (id ID) Kill() error {
	p, err := os.FindProcess(id.PID)
	if err != nil {
		return err
	}
	return p.Kill()
}

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

// Reaper finds nothing: no agent is started on this system.
type Reaper struct{ Owner string }

// List lists none.
func (Reaper) List(context.Context) ([]sandbox.Leftover, error) { return nil, nil }

// Destroy has nothing to end.
func (Reaper) Destroy(context.Context, string) error { return nil }

// Init refuses.
func Init(_ []string, log io.Writer) int {
	fmt.Fprintln(log, errSystem)
	return 1
}
