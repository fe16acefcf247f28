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

import "os"

// InitCommand is the first argument with which the binary must call Init.
const InitCommand = "sandbox-init"

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

// SystemFiles lists what programs need to run at all: the system's programs
// and libraries, and the few files of /etc that libraries read. It holds no
// secret: neither /etc itself is in it nor /usr/local, where a machine has what its owner
// put there. What may be read of /proc is the sandbox's to say.
func SystemFiles() []string {
	return []string{
		"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/share",
		"/bin", "/sbin", "/lib", "/lib32", "/lib64",
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
		"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies",
		"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts", "/etc/resolv.conf", "/etc/host.conf", "/etc/gai.conf",
		"/etc/services", "/etc/protocols", "/etc/localtime", "/etc/timezone", "/etc/os-release", "/etc/mime.types",
	}
}

// Devices lists the devices that runtimes open. /dev/zero is not among them: mapped, it is
// memory that stays when the process lets go of it. /dev/full has zeros too.
func Devices() []string {
	return []string{"/dev/null", "/dev/full", "/dev/urandom", "/dev/random", "/dev/tty"}
}
