package process

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/sandbox"
)

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

// Probe returns what holds on this machine for an agent that works in dir. It confines an
// init that starts nothing. As a server does, it makes room for groups first.
func Probe(ctx context.Context, dir string) (sandbox.Held, error) {
	divided := Divide()
	s, err := New(ctx, Options{Name: "probe", Owner: OwnerOf(dir), MaxMemoryBytes: 1 << 30, MaxProcesses: 64, MaxCPUs: 1})
	if err != nil {
		return sandbox.Held{}, err
	}
	var held sandbox.Held
	err = s.Start(ctx, sandbox.Policy{Read: SystemFiles(), Write: []string{dir}, Devices: Devices()}, sandbox.Command{}, func(h sandbox.Held) error {
		held = h
		return errProbed
	})
	if errors.Is(err, errProbed) {
		err = nil
	}
	s.Kill()
	s.Wait()
	if divided != nil && !slices.Contains(held.Layers, LayerMemory) {
		held.Notes = append(held.Notes, divided.Error())
	}
	return held, errors.Join(err, s.Close())
}

// errProbed keeps a probe from starting anything.
var errProbed = errors.New("it is known what holds")

// The settings of the kernel that keep an ordinary user from making namespaces,
// with the value that does and the command that ends it.
var switches = []struct{ file, off, remedy string }{
	{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile with `userns,` for this program"},
	{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
	{"/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000"},
}

// Remedy says what to do about layers that a strict sandbox lacks; "" when none is.
func Remedy(missing []string) string {
	switch {
	case len(missing) == 0:
		return ""
	case slices.Contains(missing, LayerLandlock):
		return "the kernel needs Landlock: Linux 5.13 or newer, with landlock among lsm="
	case slices.Contains(missing, LayerSeccomp):
		return "the kernel needs seccomp filters (CONFIG_SECCOMP_FILTER); a container needs a seccomp profile that permits seccomp"
	case slices.Contains(missing, LayerCaps):
		return "start it as an ordinary user without inheritable capabilities, or as root with CAP_SETPCAP"
	case slices.Contains(missing, LayerPIDNS):
		return namespaceRemedy()
	case slices.Contains(missing, LayerProc):
		return "something covers parts of /proc, as containers do, and the kernel then refuses a fresh one: start the container with unmasked paths"
	case slices.Contains(missing, LayerUID):
		return "put workspace_root on ext4, xfs, btrfs or tmpfs (Linux 5.12; tmpfs 6.3), or run as an ordinary user"
	case slices.Contains(missing, LayerMemory), slices.Contains(missing, LayerPIDs):
		return "the kernel bounds neither without a control group of the agent's own: delegate one (deploy/nightcrier.service; systemd-run --user --scope -p Delegate=yes for an ordinary user), or run as root"
	}
	return "run as root, or allow user namespaces"
}

func namespaceRemedy() string {
	for _, s := range switches {
		if b, err := os.ReadFile(s.file); err == nil && strings.TrimSpace(string(b)) == s.off {
			return s.remedy
		}
	}
	return "allow user namespaces to this user; a container needs a seccomp profile that permits clone with CLONE_NEWUSER, mount and pivot_root"
}
