//go:build linux

package process

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"nightcrier.dev/nightcrier/internal/sandbox"
)

// What an agent starts may say of itself whatever it likes. Where there are groups these are
// believed: a sandbox whose maker is dead has no other, and none has what is another's.
func TestForgedMarks(t *testing.T) {
	me, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	owner := OwnerOf(t.TempDir())
	dead := mark{owner, "run-1", ID{me.PID, me.Start + 1}}
	var g cgroup
	for _, h := range findHierarchies() {
		if dir := filepath.Join(h.parent, dead.String()); os.Mkdir(dir, 0o700) == nil {
			g.dirs = append(g.dirs, dir)
		}
	}
	t.Cleanup(func() {
		if err := g.removeGroups(); err != nil {
			t.Error(err)
		}
	})
	agent := exec.Command("sleep", "600")
	agent.Env = mark{owner, "run-1", me}.envVariables()
	stranger := exec.Command("sleep", "600")
	stranger.Env = mark{owner, "run-2", me}.envVariables()
	for _, cmd := range []*exec.Cmd{agent, stranger} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // gone already is as good
			_ = cmd.Wait()
		})
		joined := slices.ContainsFunc(g.dirs, func(dir string) bool {
			return writeGroupFile(dir, "cgroup.procs", strconv.Itoa(cmd.Process.Pid)) == nil
		})
		if !joined {
			t.Skip("SKIPPED: groups of processes cannot be made here")
		}
	}
	k := Reaper{Owner: owner}
	if left, err := k.List(t.Context()); err != nil || !slices.Equal(left, []sandbox.Leftover{{Name: "run-1", Orphan: true}}) {
		t.Errorf("%+v, %v", left, err)
	}
	id, err := Identify(stranger.Process.Pid)
	if err := errors.Join(err, k.Destroy(t.Context(), "run-2")); err != nil || !id.Alive() {
		t.Errorf("what is run-1's was destroyed as run-2: %v", err)
	}
	if err := k.Destroy(t.Context(), "run-1"); err != nil {
		t.Error(err)
	}
	for _, cmd := range []*exec.Cmd{agent, stranger} {
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("%v: %v", cmd.Env, err)
		}
	}
}

// The path of our own group may hold what means something in a pattern.
func TestGroupsAreFoundByName(t *testing.T) {
	parent := filepath.Join(t.TempDir(), `nightcrier@prod\x2deu[1].service`)
	for _, name := range []string{"nightcrier.a.run-1.7-8", "nightcrier.a", "other"} {
		if err := os.MkdirAll(filepath.Join(parent, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	found := groupsIn(parent)
	if m := found[filepath.Join(parent, "nightcrier.a.run-1.7-8")]; len(found) != 1 || m != (mark{"a", "run-1", ID{7, 8}}) {
		t.Errorf("%+v", found)
	}
}
