// Package process confines an agent on this machine, with what the kernel
// grants to a process of ours: namespaces where they are permitted, and below
// them a floor of Landlock, dropped capabilities and limits.
//
// A Box is one confined agent. Its order of calls is fixed:
//
//	New      starts a small init, the same binary again, in its own namespaces
//	Confine  gives up rights; returns the layers that hold
//	Exec     starts the agent below the init
//	Wait     returns how the agent ended, when its whole tree is gone
//	Close    removes what was made on the machine
//
// The init forwards signals and reaps; the agent is never process 1. When the
// process that made the Box dies, the init and all below it die as well.
package process

import (
	"os"
	"slices"
)

// InitCommand is the first argument with which the binary must call Init.
const InitCommand = "sandbox-init"

// The layers of a sandbox, as they are told in reports.
const (
	LayerEnv      = "env"          // environment and descriptors built from nothing
	LayerUserNS   = "userns"       // user namespace: root inside is nobody outside
	LayerPIDNS    = "pidns"        // PID namespace: nothing survives, nothing else is seen
	LayerMountNS  = "mountns"      // mount namespace: output/ is a scratch directory
	LayerNetNS    = "netns"        // network namespace: loopback only
	LayerIPCNS    = "ipcns"        // IPC and UTS namespaces
	LayerNoPrivs  = "no_new_privs" // no program can raise rights
	LayerCaps     = "caps"         // no capabilities, also as root
	LayerModes    = "modes"        // modes and owners of files that are not its own are out of reach
	LayerSeccomp  = "seccomp"      // no Unix sockets, no kernel interfaces beyond an agent's need
	LayerLandlock = "landlock"     // files outside the list cannot be opened
	LayerNet      = "landlock-net" // TCP connections to the guard's ports only
	LayerScope    = "landlock-scope"
	LayerRlimits  = "rlimits"
	LayerMemory   = "cgroup-memory"
	LayerPIDs     = "cgroup-pids"
)

// Strict lists the layers without which a strict sandbox does not start.
func Strict() []string {
	return []string{LayerEnv, LayerPIDNS, LayerMountNS, LayerNetNS, LayerNoPrivs, LayerCaps, LayerModes, LayerSeccomp, LayerLandlock, LayerRlimits}
}

// Floor lists the layers that also a best-effort sandbox must have.
func Floor() []string { return []string{LayerEnv, LayerNoPrivs, LayerLandlock, LayerRlimits} }

// Missing returns the wanted layers that are not among the held ones.
func Missing(wanted, held []string) []string {
	var missing []string
	for _, l := range wanted {
		if !slices.Contains(held, l) {
			missing = append(missing, l)
		}
	}
	return missing
}

// Bind shows the directory From at the place of To, inside.
type Bind struct{ From, To string }

// Options say what New isolates.
type Options struct {
	// Init is the program and first arguments that end in a call of Init; empty
	// means this binary with InitCommand.
	Init []string
	// Stdin, Stdout and Stderr become the agent's; nil is /dev/null.
	Stdin, Stdout, Stderr *os.File
	// Binds need a mount namespace; without one they do not happen.
	Binds []Bind
	// Writable lists the directories that stay writable where there is a mount
	// namespace; all else becomes read-only. Landlock guards what files hold, but
	// not their modes, and the agent has our user id.
	Writable []string
	// Listen is how many listeners on 127.0.0.1 the agent shall be able to reach.
	Listen int
	// NoNamespaces leaves the floor alone: for tests and for the sandbox that a
	// container already is.
	NoNamespaces bool
	// MaxMemoryBytes and MaxProcesses are enforced by cgroups where those are
	// writable; 0 is no limit.
	MaxMemoryBytes int64
	MaxProcesses   int
	// Name names the cgroup; unique on the machine.
	Name string
}

// Policy is what the agent may touch. Paths that do not exist are left out.
type Policy struct {
	// Read lists files, and directories with all below them.
	Read []string `json:"read"`
	// List lists directories whose entries may be listed, all the way down, but
	// not read.
	List []string `json:"list"`
	// Write lists directories that are the agent's own.
	Write []string `json:"write"`
	// Devices lists device files to read and write.
	Devices []string `json:"devices"`
	// ConnectPorts lists the TCP ports that may be connected to.
	ConnectPorts []int `json:"connectPorts"`
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
