package process

import (
	"fmt"
	"os"
	"slices"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// namePort is where name servers are asked.
const namePort = 53

// truncateVersion is the first that guards that files are cut off.
const truncateVersion = 3

// referVersion is the first in which files can be moved between directories.
const referVersion = 2

// guarded is all that a version of the interface can refuse.
var guarded = []landlock.Config{
	{}, landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5, landlock.V6, landlock.V7, landlock.V8, landlock.V9, landlock.V10, landlock.V11,
}

// landlockVersion is that of the kernel's interface, 0 for none. The library trusts some
// kernels with less than they say, and has a new version later than they do.
func landlockVersion() int {
	said, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	for v := min(said, len(guarded)-1); v > 0; v-- {
		if fd, _, err := guarded[v].NewRulesetFD(); err == nil {
			unix.Close(fd)
			return v
		}
	}
	return 0
}

// applyLandlock applies as much of Landlock as the kernel has, to this thread and to what
// is forked from it. The init's other threads stay free: no agent comes from them, and
// none of them is in the agent's domain.
func applyLandlock(p confinement, s surroundings) ([]string, error) {
	if s.landlock < 1 {
		return nil, nil // the caller sees that the layer is missing
	}
	config := guarded[s.landlock]
	p.Read = slices.Concat(p.Read, s.procFiles())
	fd, flags, err := config.NewRulesetFD(slices.Concat(pathRules(p, s.landlock), portRules(p, config))...)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := ll.LandlockRestrictSelf(fd, flags); err != nil {
		return nil, fmt.Errorf("landlock_restrict_self: %w", err)
	}
	layers := []string{LayerLandlock}
	if config.HandledAccessNet != 0 {
		layers = append(layers, LayerNet)
	}
	if config.Scoped != 0 {
		layers = append(layers, LayerScope)
	}
	return layers, nil
}

// procFiles are what may be read of /proc: where it shows processes of others, only what
// says nothing of any.
func (s surroundings) procFiles() []string {
	if s.ownProc {
		return []string{"/proc"}
	}
	return []string{
		"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version", "/proc/filesystems",
		"/proc/sys/kernel/osrelease", "/proc/sys/kernel/pid_max", "/proc/sys/vm/overcommit_memory",
	}
}

// pathRules grant what the policy lists. What does not exist is left out, but for the
// agent's own directories.
func pathRules(p confinement, version int) []landlock.Rule {
	own := landlock.RWDirs(p.Write...)
	if version >= referVersion {
		own = own.WithRefer()
	}
	rules := []landlock.Rule{
		own, landlock.RWFiles(p.Devices...).IgnoreIfMissing(),
		landlock.PathAccess(ll.AccessFSReadDir, p.List...).IgnoreIfMissing(),
	}
	for _, path := range p.Read { // the kernel refuses rights of directories to files
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			rules = append(rules, landlock.ROFiles(path).IgnoreIfMissing())
		} else {
			rules = append(rules, landlock.RODirs(path).IgnoreIfMissing())
		}
	}
	return rules
}

// portRules grant connections to the policy's ports, and ports that the kernel chooses to
// listen at. Names are asked for only where the network is the agent's own: elsewhere the
// machine's name servers would answer.
func portRules(p confinement, c landlock.Config) (rules []landlock.Rule) {
	if c.HandledAccessNet&ll.AccessNetConnectTCP != 0 {
		rules = append(rules, landlock.BindTCP(0))
		for _, port := range p.ConnectPorts {
			rules = append(rules, landlock.ConnectTCP(uint16(port)))
		}
	}
	if c.HandledAccessNet&ll.AccessNetConnectSendUDP != 0 {
		rules = append(rules, landlock.BindUDP(0))
		if p.OwnNetwork || p.Network {
			rules = append(rules, landlock.ConnectSendUDP(namePort))
		}
	}
	return rules
}
