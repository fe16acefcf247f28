package process

import (
	"fmt"

	"golang.org/x/sys/unix"

	"nightcrier.dev/nightcrier/internal/sandbox/process/internal/filter"
)

// surroundings are what a thread is confined in.
type surroundings struct {
	filter.Reach
	ownProc  bool // /proc shows the processes of its namespace alone
	landlock int  // the version that the kernel has, 0 for none
}

// confineThread gives up rights for this thread and all that is forked from it; it must
// be the one that the agent is forked from. It returns the layers that hold.
func confineThread(p confinement, s surroundings) ([]string, error) {
	if err := setRlimits(p); err != nil {
		return nil, err
	}
	layers := []string{LayerRlimits}
	if p.Counted && p.MaxProcesses > 0 {
		if err := lowerLimit(unix.RLIMIT_NPROC, uint64(p.MaxProcesses)); err != nil {
			return nil, fmt.Errorf("limit nproc: %w", err)
		}
		layers = append(layers, LayerNproc)
	}
	if p.Unconfined {
		return layers, nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("no_new_privs: %w", err)
	}
	layers = append(layers, LayerNoPrivs)
	held, err := applyLandlock(p, s)
	if err != nil {
		return nil, fmt.Errorf("landlock: %w", err)
	}
	layers = append(layers, held...)
	if dropCapabilities() == nil {
		layers = append(layers, LayerCaps)
	}
	filtered := filter.Install(s.Reach) == nil
	if filtered {
		layers = append(layers, LayerSeccomp)
	}
	if filtered || s.Root {
		layers = append(layers, LayerModes)
	}
	return layers, nil
}

// setRlimits sets what bounds a process; a memory limit is no use here, because
// the runtimes of agents reserve far more address space than they touch.
func setRlimits(p confinement) error {
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
		if err := lowerLimit(l.resource, l.max); err != nil {
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

// lowerLimit sets both limits to max, or leaves them when they are lower already.
func lowerLimit(resource int, max uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return err
	}
	max = min(max, now.Max)
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: max, Max: max})
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
