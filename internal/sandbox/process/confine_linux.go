package process

import (
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// confine gives up rights for this process and all that it starts; it must run
// on the thread that forks the agent. It returns the layers that hold.
func confine(p Policy, r reach) ([]string, error) {
	if err := setRlimits(p); err != nil {
		return nil, err
	}
	layers := []string{LayerRlimits}
	if p.Unconfined {
		return layers, nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("no_new_privs: %w", err)
	}
	layers = append(layers, LayerNoPrivs)
	held, err := restrict(p)
	if err != nil {
		return nil, fmt.Errorf("landlock: %w", err)
	}
	layers = append(layers, held...)
	if dropCapabilities() == nil {
		layers = append(layers, LayerCaps)
	}
	filtered := filterCalls(r) == nil
	if filtered {
		layers = append(layers, LayerSeccomp)
	}
	if filtered || r.modes {
		layers = append(layers, LayerModes)
	}
	return layers, nil
}

// setRlimits sets what bounds a process; a memory limit is no use here, because
// the runtimes of agents reserve far more address space than they touch.
func setRlimits(p Policy) error {
	limits := []struct {
		name     string
		resource int
		max      uint64
	}{
		{"core", unix.RLIMIT_CORE, 0},
		{"fsize", unix.RLIMIT_FSIZE, unlimitedIfZero(uint64(p.MaxFileBytes))},
		{"nofile", unix.RLIMIT_NOFILE, unlimitedIfZero(uint64(p.MaxOpenFiles))},
	}
	for _, l := range limits {
		if err := lower(l.resource, l.max); err != nil {
			return fmt.Errorf("limit %s: %w", l.name, err)
		}
	}
	return nil
}

func unlimitedIfZero(n uint64) uint64 {
	if n == 0 {
		return unix.RLIM_INFINITY
	}
	return n
}

// lower sets both limits to max, or leaves them when they are lower already.
func lower(resource int, max uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return err
	}
	max = min(max, now.Max)
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: max, Max: max})
}

// restrict applies as much of Landlock as the kernel has.
func restrict(p Policy) ([]string, error) {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil || abi < 1 {
		return nil, nil // the caller sees that the layer is missing
	}
	if err := landlock.V11.BestEffort().Restrict(rules(p, abi)...); err != nil {
		return nil, err
	}
	layers := []string{LayerLandlock}
	if abi >= 4 {
		layers = append(layers, LayerNet)
	}
	if abi >= 6 {
		layers = append(layers, LayerScope)
	}
	return layers, nil
}

func rules(p Policy, abi int) []landlock.Rule {
	dirs, files := split(p.Read)
	own := landlock.RWDirs(p.Write...)
	if abi >= 2 {
		own = own.WithRefer()
	}
	rules := []landlock.Rule{
		landlock.RODirs(dirs...).IgnoreIfMissing(),
		landlock.ROFiles(files...).IgnoreIfMissing(),
		landlock.RWFiles(p.Devices...).IgnoreIfMissing(),
		landlock.PathAccess(ll.AccessFSReadDir, p.List...).IgnoreIfMissing(),
		own,
		landlock.BindTCP(0),
	}
	for _, port := range p.ConnectPorts {
		rules = append(rules, landlock.ConnectTCP(uint16(port)))
	}
	return rules
}

// split tells directories from files: Landlock refuses a directory's rights on
// a file. Links are followed, as the rules will.
func split(paths []string) (dirs, files []string) {
	for _, p := range paths {
		info, err := os.Stat(p)
		switch {
		case err != nil:
		case info.IsDir():
			dirs = append(dirs, p)
		default:
			files = append(files, p)
		}
	}
	return dirs, files
}

// dropCapabilities empties this thread's bounding and ambient sets, so that the
// next exec leaves none, also to root. The thread itself keeps its own until
// then: it must still fork. An ordinary user may not empty the bounding set and
// need not: no_new_privs keeps it from ever gaining what is in there.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EPERM {
			return noCapabilities()
		}
		if err != nil && err != unix.EINVAL {
			return err // EINVAL: an older kernel without that capability
		}
	}
	return nil
}

// noCapabilities returns an error when this thread has any.
func noCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	for _, d := range data {
		if d.Permitted|d.Inheritable != 0 {
			return unix.EPERM
		}
	}
	return nil
}
