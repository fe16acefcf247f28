//go:build linux

package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// unifiedGroup makes a group of the machine's unified hierarchy, with controllers that
// can be given on to groups below it.
func unifiedGroup(t *testing.T) (group string, have []string) {
	t.Helper()
	mount := cgroupMount
	if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err != nil {
		mount = filepath.Join(cgroupMount, "unified")
	}
	for _, c := range strings.Fields(contentOf(filepath.Join(mount, "cgroup.controllers"))) {
		enabled := strings.Fields(contentOf(filepath.Join(mount, "cgroup.subtree_control")))
		if !slices.Contains(enabled, c) {
			if writeGroupFile(mount, "cgroup.subtree_control", "+"+c) != nil {
				continue
			}
			t.Cleanup(func() { _ = writeGroupFile(mount, "cgroup.subtree_control", "-"+c) })
		}
		have = append(have, c)
	}
	group = filepath.Join(mount, fmt.Sprintf("nightcrier-test-%d.scope", os.Getpid()))
	if err := os.Mkdir(group, 0o755); len(have) == 0 || err != nil {
		t.Skipf("SKIPPED ALOUD: no unified hierarchy that is ours, or none with a controller: %v, %v", have, err)
	}
	t.Cleanup(func() {
		for _, dir := range []string{filepath.Join(group, OwnLeaf), group} {
			if err := (cgroup{dirs: []string{dir}}).removeGroups(); err != nil {
				t.Error(err)
			}
		}
	})
	return group, have
}

func contentOf(file string) string {
	b, _ := os.ReadFile(file)
	return strings.TrimSpace(string(b))
}

// divider is a server in a group of its own: it tells how it divides the group, and where
// a sandbox that it makes then is. It ends with its standard input.
func divider(group, wanted string) error {
	if err := writeGroupFile(group, "cgroup.procs", strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	child := exec.Command("/bin/sleep", "1000") // a worker
	if err := child.Start(); err != nil {
		return err
	}
	defer child.Wait() //nolint:errcheck // it is killed
	defer child.Process.Kill()
	h := hierarchy{parent: group, unified: true}
	fmt.Println("refused", len(h.enableControllers(strings.Split(wanted, ","))))
	for range 2 { // a second time it does nothing
		if err := h.delegateControllers(strings.Split(wanted, ",")); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s, err := New(context.Background(), Options{Name: "made", Owner: "divider", Init: []string{self, InitCommand}, MaxMemoryBytes: 1 << 30, MaxProcesses: 50})
	if err != nil {
		return err
	}
	defer func() { s.Kill(); s.Wait(); _ = s.Close() }()
	fmt.Println("parent", contentOf(filepath.Join(group, "cgroup.procs")))
	for _, dir := range s.cgroup.dirs {
		if filepath.Dir(dir) == group && slices.Contains(otherMembers(dir), s.PID()) {
			fmt.Println("made", dir, strings.Join(s.Held().Layers, ","))
		}
	}
	fmt.Println("leaf", len(groupOf(filepath.Join(group, OwnLeaf))))
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return nil
}

// The kernel bounds no group below one with processes: a server in the group of its unit
// moves out of the way, and agents have limits.
func TestGroupIsDivided(t *testing.T) {
	group, have := unifiedGroup(t)
	out, err := divided(t, group, have)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		fmt.Sprintf("refused %d\n", len(have)), "parent \n", "made " + group + "/nightcrier.divider.made.", "leaf 2\n", // itself and its worker
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	for controller, layer := range map[string]string{"memory": LayerMemory, "pids": LayerPIDs} {
		if slices.Contains(have, controller) && !strings.Contains(out, layer) {
			t.Errorf("no %s:\n%s", layer, out)
		}
	}
	t.Logf("controllers %v\n%s", have, out)
}

func divided(t *testing.T, group string, have []string) (string, error) {
	t.Helper()
	self := testproc.Self()
	cmd := exec.CommandContext(t.Context(), self, "divider", group, strings.Join(have, ","))
	cmd.Stdin = strings.NewReader("\n")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Another's process is not moved, and a unit of systemd is told what it needs: what
// systemd starts next in the unit's own group could not be started there.
func TestGroupOfOthersIsNotDivided(t *testing.T) {
	group, have := unifiedGroup(t)
	stranger := exec.Command("/bin/sleep", "1000")
	if err := errors.Join(stranger.Start(), writeGroupFile(group, "cgroup.procs", strconv.Itoa(stranger.Process.Pid))); err != nil {
		t.Fatal(err)
	}
	defer stranger.Wait() //nolint:errcheck // it is killed
	defer stranger.Process.Kill()
	if out, err := divided(t, group, have); err == nil || !strings.Contains(out, fmt.Sprintf("process %d is in it", stranger.Process.Pid)) {
		t.Errorf("%v: %s", err, out)
	}
	if got := groupOf(group); !slices.Contains(got, stranger.Process.Pid) {
		t.Errorf("the stranger was moved: %v", got)
	}
	service := strings.TrimSuffix(group, ".scope") + ".service"
	if err := os.Mkdir(service, 0o755); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cgroup{dirs: []string{service}}.removeGroups() }()
	if out, err := divided(t, service, have); err == nil || !strings.Contains(out, "DelegateSubgroup="+OwnLeaf) {
		t.Errorf("%v: %s", err, out)
	}
}

// What the kernel makes of a unit with Delegate= and DelegateSubgroup=, with the files that
// groups have where memory and pids are of the unified hierarchy.
func TestGroupsBesideOurLeaf(t *testing.T) {
	mounts := t.TempDir()
	unit := filepath.Join(mounts, "system.slice", "nightcrier.service")
	m := mark{owner: "a", name: "b", maker: ID{1, 1}}
	group := filepath.Join(unit, m.String())
	for _, dir := range []string{filepath.Join(unit, OwnLeaf), group} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{filepath.Join(mounts, "cgroup.controllers"), filepath.Join(unit, "cgroup.subtree_control")} {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(unit, "cgroup.controllers"), []byte("cpuset cpu io memory hugetlb pids\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"memory.max", "memory.swap.max", "pids.max", "cpu.max", "cgroup.procs"} {
		if err := os.WriteFile(filepath.Join(group, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all := hierarchiesOf("0::/system.slice/nightcrier.service/"+OwnLeaf+"\n", mounts)
	if len(all) != 1 || all[0].parent != unit {
		t.Fatalf("groups are made in %+v", all)
	}
	var g cgroup
	g.joinAll(all, Options{MaxMemoryBytes: 1 << 20, MaxProcesses: 7, MaxCPUs: 2}, m, 4711)
	if want := []string{LayerMemory, LayerPIDs, LayerCPU}; !slices.Equal(g.layers, want) || len(g.notes) > 0 {
		t.Errorf("layers %v, notes %v", g.layers, g.notes)
	}
	for file, want := range map[string]string{"memory.max": "1048576", "memory.swap.max": "0", "pids.max": "7", "cpu.max": "200000 100000", "cgroup.procs": "4711"} {
		if got := contentOf(filepath.Join(group, file)); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	// A group whose name is another's is where it always was.
	if all := hierarchiesOf("0::/system.slice\n4:memory:/x/"+OwnLeaf+"\n", mounts); len(all) != 2 || all[0].parent != filepath.Join(mounts, "system.slice") || all[1].parent != filepath.Join(mounts, "memory/x", OwnLeaf) {
		t.Errorf("%+v", all)
	}
}

// The unit that we ship names the leaf that the program looks for.
func TestUnitNamesTheLeaf(t *testing.T) {
	if unit := contentOf("../../../deploy/nightcrier.service"); !strings.Contains(unit, "\nDelegate=yes\nDelegateSubgroup="+OwnLeaf+"\n") {
		t.Error("deploy/nightcrier.service has no DelegateSubgroup=" + OwnLeaf)
	}
}
