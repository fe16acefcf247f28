package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// Reaper finds the sandboxes of an Owner by the marks that their processes and groups
// carry.
type Reaper struct{ Owner string }

var _ sandbox.Reaper = Reaper{}

// List returns the sandboxes of which a process or a group is left.
func (k Reaper) List(context.Context) ([]sandbox.Leftover, error) {
	found := findRemains(func(m mark) bool { return m.owner == k.Owner })
	var left []sandbox.Leftover
	for _, name := range slices.Sorted(maps.Keys(found)) {
		left = append(left, sandbox.Leftover{Name: name, Orphan: !slices.ContainsFunc(found[name].makers, ID.Alive)})
	}
	return left, nil
}

// Destroy ends the processes of the sandboxes of that name, all below them and all in
// their groups.
func (k Reaper) Destroy(ctx context.Context, name string) error {
	mine := func(m mark) bool { return m.owner == k.Owner && m.name == name }
	if err := endAll(ctx, func() remains { return findRemains(mine)[name] }); err != nil {
		return fmt.Errorf("destroy sandbox %s: %w", name, err)
	}
	_ = cgroup{dirs: findRemains(mine)[name].groups}.removeGroups() // an empty group that stays costs nothing
	return nil
}

// remains are what is left of the sandboxes of one name.
type remains struct {
	makers []ID
	roots  []ID // processes that carry the mark, or are in its groups
	groups []string
}

// findRemains finds what is left of the sandboxes whose marks are wanted, by their names. What the
// group of a process tells goes before its environment, which an agent chooses for what it
// starts: it could say there that its sandbox has a maker who lives, so that nobody ends it.
func findRemains(wanted func(mark) bool) map[string]remains {
	found, told := map[string]remains{}, map[ID]bool{}
	for _, h := range findHierarchies() {
		for dir, m := range groupsIn(h.parent) {
			ids := inGroup(dir)
			for _, id := range ids {
				told[id] = true
			}
			if wanted(m) {
				r := found[m.name]
				r.makers, r.groups, r.roots = append(r.makers, m.maker), append(r.groups, dir), append(r.roots, ids...)
				found[m.name] = r
			}
		}
	}
	for _, pid := range allProcesses() {
		id, err := Identify(pid)
		m, marked := markOf(pid)
		if err == nil && !told[id] && marked && wanted(m) && pid != os.Getpid() && id.Alive() { // still the one that was read of
			r := found[m.name]
			r.makers, r.roots = append(r.makers, m.maker), append(r.roots, id)
			found[m.name] = r
		}
	}
	return found
}

// groupsIn finds the groups of sandboxes below a group. Its path may hold what a pattern would
// not take as it is, such as the \x2d of systemd.
func groupsIn(parent string) map[string]mark {
	found := map[string]mark{}
	entries, _ := os.ReadDir(parent) // none where there are no groups
	for _, e := range entries {
		if m, ok := parseMark(e.Name()); ok && e.IsDir() {
			found[filepath.Join(parent, e.Name())] = m
		}
	}
	return found
}

// inGroup lists the living members of a group.
func inGroup(dir string) []ID {
	var ids []ID
	for _, pid := range otherMembers(dir) {
		if id, err := Identify(pid); err == nil {
			ids = append(ids, id)
		}
	}
	still := otherMembers(dir) // a number that was given away meanwhile is not among them
	return slices.DeleteFunc(ids, func(id ID) bool { return !id.Alive() || !slices.Contains(still, id.PID) })
}

// endPatience is the time between two looks at what is left.
const endPatience = 5 * time.Millisecond

// endAll kills what is left, and all below it, until nothing is.
func endAll(ctx context.Context, left func() remains) error {
	for {
		r := left()
		if len(r.roots) == 0 {
			return nil
		}
		cgroup{dirs: r.groups}.killGroups()
		err := endTrees(r.roots)
		select {
		case <-time.After(endPatience):
		case <-ctx.Done():
			return nightcrier.Errorf(nightcrier.Internal, "processes %v are not verified gone: %w", r.roots, errors.Join(err, ctx.Err()))
		}
	}
}

// mostStops bounds how often endTrees looks for processes that were forked meanwhile.
const mostStops = 100

// endTrees stops processes and all below them until there is none that runs, and then
// kills them: one that is killed while another still forks could leave an orphan that
// nothing leads to.
func endTrees(roots []ID) error {
	stopped := map[ID]bool{}
	for range mostStops {
		fresh := false
		for _, id := range livingTrees(roots) {
			if !stopped[id] {
				_ = id.sendSignal(syscall.SIGSTOP) // the kill tells why not
				stopped[id], fresh = true, true
			}
		}
		if !fresh {
			break
		}
	}
	var errs []error
	for id := range stopped {
		if err := id.sendSignal(syscall.SIGKILL); err != nil {
			errs = append(errs, fmt.Errorf("kill %d: %w", id.PID, err))
		}
	}
	return errors.Join(errs...)
}

// livingTrees lists the living among the roots and all below them; never ourselves.
func livingTrees(roots []ID) []ID {
	var pids []int
	for _, root := range roots {
		if root.Alive() {
			pids = append(pids, root.PID)
		}
	}
	all := append(descendantsOf(pids...), roots...)
	return slices.DeleteFunc(all, func(id ID) bool { return id.PID <= 1 || id.PID == os.Getpid() || !id.Alive() })
}

// sendSignal sends a signal to the process, and to no other that was given its number.
func (id ID) sendSignal(sig syscall.Signal) error {
	p, err := os.FindProcess(id.PID)
	if err != nil {
		return err
	}
	defer p.Release()
	if !id.Alive() {
		return nil
	}
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
