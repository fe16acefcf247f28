package sandbox

import (
	"context"
	"syscall"
)

// Sandbox is one process tree, confined on this machine. A backend opens it with nothing
// of the caller's started; then come Start, once, Wait, and Close. It must be waited for,
// or killed and waited for. When the process that opened it dies, what is in it dies as
// well.
type Sandbox interface {
	// Start gives up rights and starts the command, if accept is content with what holds
	// then. An error of accept is returned as it is; after any error the sandbox has
	// started nothing, and is to be killed.
	Start(ctx context.Context, p Policy, c Command, accept func(Held) error) error
	// Signal sends sig to the command and what it started in its group.
	Signal(sig syscall.Signal) error
	// Kill ends all that is in the sandbox, at once; Done is closed when nothing is left in
	// it, however the command ended.
	Kill()
	Done() <-chan struct{}
	// Wait returns, after Done and before Close, how the command ended.
	Wait() Exit
	// Close removes what was made outside of the sandbox; a second time it does nothing.
	Close() error
}

// Held is what confines.
type Held struct {
	// Layers are named by the backend; Notes tell why one does not hold that could.
	Layers, Notes []string
}

// Reaper finds the sandboxes of one owner, also those whose maker is dead, and ends them.
// It needs no record of them: a sandbox carries its owner's name and its own, so that what
// is left can be told from what others have on the same machine.
type Reaper interface {
	// List returns the sandboxes of which something is left on the machine, by name.
	List(ctx context.Context) ([]Leftover, error)
	// Destroy ends all that is in the sandboxes of that name and removes what was made for
	// them, whether their maker lives or not. None of that name is no error; an error
	// means that something is not verified gone.
	Destroy(ctx context.Context, name string) error
}

// Leftover is a sandbox of which something is left.
type Leftover struct {
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

// Exit is how a command ended.
type Exit struct {
	// Code is the exit code, 128+n for signal n.
	Code int `json:"code"`
	// Signal is the name of the signal that ended it, e.g. "SIGKILL"; else "".
	Signal string `json:"signal,omitempty"`
	// OutOfMemory says that something in the sandbox was killed because it went over the
	// memory limit; OutOfProcesses, that all was ended because it went over the limit of
	// processes. A limit that refuses new ones ends nothing.
	OutOfMemory    bool `json:"outOfMemory,omitempty"`
	OutOfProcesses bool `json:"outOfProcesses,omitempty"`
}
