package process

import (
	"os"
	"slices"
	"strings"
)

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
