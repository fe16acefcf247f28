package sandbox

import (
	"context"
	"net"
	"syscall"
)

// Box is one agent's sandbox. A backend makes it with its listeners open and
// nothing started; then come Confine and Exec, once each, Wait, and Close. It must
// be waited for, or killed and waited for. When the process that made it dies,
// what is in it dies as well.
type Box interface {
	// Listeners returns the listeners that the agent reaches on 127.0.0.1, as many as
	// were asked for. They are the caller's to close.
	Listeners() []net.Listener
	// Names returns the socket at which the agent asks for names, nil when the
	// backend has none; it is the caller's to serve and to close.
	Names() net.PacketConn
	// Layers names what holds so far; Notes tell why something does not that could.
	Layers() []string
	Notes() []string
	// Confine gives up rights and returns all layers that hold now.
	Confine(ctx context.Context, p Policy) ([]string, error)
	// Exec starts the agent. An error means that the program could not be started.
	Exec(ctx context.Context, c Command) error
	// Signal sends sig to the agent and what it started in its group.
	Signal(sig syscall.Signal) error
	// Kill ends all that is in the box, at once; Done is closed when nothing is left in
	// it, however the agent ended.
	Kill()
	Done() <-chan struct{}
	// Wait returns, after Done, how the agent ended.
	Wait() Exit
	// OutOfMemory reports, after Wait and before Close, whether something in the box
	// was killed because it went over the memory limit.
	OutOfMemory() bool
	// OutOfProcesses reports, after Wait, whether all in the box was ended because it
	// went over the limit of processes. A limit that refuses new ones ends nothing.
	OutOfProcesses() bool
	// PID is a process of this machine above all that is in the box, 0 for none.
	PID() int
	// Close removes what the Box made outside of itself; a second time it does nothing.
	Close() error
}

// Keeper finds the boxes of one owner, also those whose maker is dead, and ends them.
// It needs no record of them: a box carries its owner's name and its own, so that what
// is left can be told from what others have on the same machine.
type Keeper interface {
	// List returns the boxes of which something is left on the machine, by name.
	List(ctx context.Context) ([]Left, error)
	// Destroy ends all that is in the boxes of that name and removes what was made for
	// them, whether their maker lives or not. None of that name is no error; an error
	// means that something is not verified gone.
	Destroy(ctx context.Context, name string) error
}

// Left is a box of which something is left.
type Left struct {
	Name string
	// Orphan says that the process which made it is dead.
	Orphan bool
}

// Bind shows the directory From at the place of To, inside.
type Bind struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Policy is what the agent may touch. Paths that do not exist are left out. With
// a mount namespace of its own the agent has a root in which nothing else exists.
type Policy struct {
	// Binds need a mount namespace; without one they do not happen.
	Binds []Bind `json:"binds"`
	// Read lists files, and directories with all below them.
	Read []string `json:"read"`
	// List lists directories whose entries may be listed, all the way down, but
	// not read.
	List []string `json:"list"`
	// Write lists directories that are the agent's own.
	Write []string `json:"write"`
	// Devices lists device files to read and write.
	Devices []string `json:"devices"`
	// ConnectPorts lists the TCP ports that may be connected to. Network opens the
	// machine's network beside that: datagrams, which names are asked with.
	ConnectPorts []int `json:"connectPorts"`
	Network      bool  `json:"network"`
	// MaxFileBytes bounds each file that is written; 0 is no limit.
	MaxFileBytes int64 `json:"maxFileBytes"`
	// MaxOpenFiles bounds open descriptors of a process; 0 is no limit.
	MaxOpenFiles int `json:"maxOpenFiles"`
	// Unconfined leaves the confinement out: a choice that is said aloud.
	Unconfined bool `json:"unconfined"`
}

// Command is the agent's program.
type Command struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
}

// Exit is how the agent ended.
type Exit struct {
	// Code is the exit code, 128+n for signal n.
	Code int `json:"code"`
	// Signal is the name of the signal that ended it, e.g. "SIGKILL"; else "".
	Signal string `json:"signal,omitempty"`
}
