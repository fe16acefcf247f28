// Package process confines an agent on this machine, with what the kernel
// grants to a process of ours: namespaces where they are permitted, and below
// them a floor of Landlock, dropped capabilities and limits.
//
// A Sandbox is one confined agent. Its order of calls is fixed:
//
//	New    starts a small init, the same binary again, in its own namespaces,
//	       and opens the listeners that the agent will find on 127.0.0.1
//	Start  builds the agent's root, gives up rights, and starts the agent below
//	       the init, if the caller is content with the layers that hold then
//	Wait   returns how the agent ended, when its whole tree is gone
//	Close  removes what was made on the machine
//
// The init forwards signals and reaps; the agent is never process 1. When the
// process that made the Sandbox dies, the init and all below it die as well. What is left
// where that did not happen is found and ended by a Reaper.
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
	LayerProc     = "proc"         // a /proc of its own, which shows its processes alone
	LayerRoot     = "root"         // a root of its own: what is not bound into it does not exist
	LayerUID      = "uid"          // a user id that neither the server nor another agent has
	LayerNetNS    = "netns"        // network namespace: loopback only
	LayerIPCNS    = "ipcns"        // IPC and UTS namespaces
	LayerNoPrivs  = "no_new_privs" // no program can raise rights
	LayerCaps     = "caps"         // no capabilities, also as root
	LayerModes    = "modes"        // modes and owners of files that are not its own are out of reach
	LayerSeccomp  = "seccomp"      // no Unix sockets, no kernel interfaces beyond an agent's need
	LayerLandlock = "landlock"     // files outside the list cannot be opened
	LayerNet      = "landlock-net" // TCP connections to the guard's ports only
	LayerScope    = "landlock-scope"
	LayerRlimits  = "rlimits"      // size and number of open files, no core
	LayerNproc    = "rlimit-nproc" // processes, counted by the agent's own user
	LayerMemory   = "cgroup-memory"
	LayerPIDs     = "cgroup-pids"
	LayerCPU      = "cgroup-cpu"
	// Where no control group bounds memory or processes, they are counted several times a
	// second, and what is above the limit is killed.
	LayerMemoryWatch = "memory-watch"
	LayerPIDsWatch   = "pids-watch"
)

// Strict returns the layers that a strict sandbox lacks with those that hold. The
// agent's user must be cut off from ours: with an id of its own, or by a user
// namespace where we are not root and have no id to give. Memory and processes must be
// bounded by the kernel: a watch comes too late for what is taken at once, and does not
// see what the kernel itself needs for an agent.
func Strict(held []string) []string {
	missing := missingLayers(held, LayerEnv, LayerPIDNS, LayerMountNS, LayerNetNS, LayerProc, LayerRoot, LayerNoPrivs, LayerCaps, LayerModes, LayerSeccomp, LayerLandlock, LayerRlimits)
	if !slices.Contains(held, LayerUID) && !slices.Contains(held, LayerUserNS) {
		missing = append(missing, LayerUID)
	}
	for _, anyOf := range [][]string{
		{LayerMemory},
		{LayerPIDs, LayerNproc},
		{LayerNet, LayerNetNS},   // else TCP is open to everything, the metadata address included
		{LayerScope, LayerPIDNS}, // else an agent with our user id can signal all that we have
	} {
		if !slices.ContainsFunc(anyOf, func(l string) bool { return slices.Contains(held, l) }) {
			missing = append(missing, anyOf[0])
		}
	}
	return missing
}

// Floor returns the layers that even a best-effort sandbox lacks: without them no agent is
// started. What else is missing is told, see Strict.
func Floor(held []string) []string {
	return missingLayers(held, LayerEnv, LayerNoPrivs, LayerCaps, LayerSeccomp, LayerLandlock, LayerRlimits)
}

func missingLayers(held []string, wanted ...string) []string {
	var missing []string
	for _, l := range wanted {
		if !slices.Contains(held, l) {
			missing = append(missing, l)
		}
	}
	return missing
}

// Options say what New isolates.
type Options struct {
	// Init is the program and first arguments that end in a call of Init; empty
	// means this binary with InitCommand.
	Init []string
	// Stdin, Stdout and Stderr become the agent's; nil is /dev/null.
	Stdin, Stdout, Stderr *os.File
	// Listen is how many listeners on 127.0.0.1 the agent shall be able to reach.
	Listen int
	// Names asks for a socket on 127.0.0.1:53, where the agent's name server is; see
	// Sandbox.Names.
	Names bool
	// UIDBase is the first of UIDRange user ids, of which each agent gets one of its
	// own when we are root; 0 is DefaultUIDBase.
	UIDBase int
	// NoNamespaces leaves the floor alone: for tests and for the sandbox that a
	// container already is.
	NoNamespaces bool
	// MaxMemoryBytes, MaxProcesses and MaxCPUs are enforced by cgroups where those
	// are writable, MaxProcesses also where the agent has a user of its own. Elsewhere
	// memory and processes are watched, and CPUs have no limit; nor have they with 0.
	MaxMemoryBytes int64
	MaxProcesses   int
	MaxCPUs        int
	// Name and Owner are what a Reaper finds the Sandbox by; see OwnerOf. Both consist of
	// letters, digits, - and _. A Sandbox without a name has no limits by cgroups and
	// cannot be found.
	Name, Owner string
}

// Each agent of a root server has one of the UIDRange user ids from DefaultUIDBase,
// where neither distributions nor systemd put any.
const (
	DefaultUIDBase = 0x70000000
	UIDRange       = 1 << 16
)
