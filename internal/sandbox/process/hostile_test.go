//go:build linux

package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The agent has the server's user id, and so may change the modes of all that
// the server owns: its store, its workspaces, as root the whole machine.
func TestModesAreGuarded(t *testing.T) {
	everySandbox(t, func(t *testing.T, floor bool) {
		l := newLab(t, floor)
		readable, output := filepath.Join(l.ws, "context", "a"), filepath.Join(l.ws, "output")
		for _, name := range []string{l.secret, l.root, l.ws, readable, filepath.Join(output, "audit.jsonl"), output} {
			before, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			out, _ := l.sh("chmod 0777 '" + name + "'; chmod 0 '" + name + "'; exec 9<'" + name + "' && chmod 0777 /proc/self/fd/9")
			after, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			shown := name == output && !floor // it is the scratch directory that was changed
			if after.Mode() != before.Mode() && !shown {
				t.Errorf("%s became %s, was %s\n%s", name, after.Mode(), before.Mode(), out)
			}
		}
		l = newLab(t, floor)
		if out, exit := l.sh("umask 077; touch home/x .scratch/y && cp home/x home/z && mv home/z .scratch/z && rm home/x"); exit.Code != 0 {
			t.Errorf("ordinary work fails: %s", out)
		}
	})
}

// An agent that kills the init and leaves children in sessions of their own and
// without its environment must not leave them behind.
func TestInitCannotBeKilled(t *testing.T) {
	everySandbox(t, func(t *testing.T, floor bool) {
		l := newLab(t, floor)
		mark := "27182" + strconv.Itoa(os.Getpid())
		out, exit := l.sh("env -i setsid sh -c 'sleep " + mark + " & sleep " + mark + "' & sleep 0.2; kill -9 $PPID; echo $?; sleep 0.2; exit 4")
		if exit.Code != 4 {
			t.Errorf("exit %+v: %s", exit, out)
		}
		left, _ := exec.Command("pgrep", "-f", "^sleep "+mark).Output()
		for _, word := range strings.Fields(string(left)) {
			t.Errorf("still there: %s", word)
			if pid, err := strconv.Atoi(word); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
}

// The init of every test runs where it is weakest: called on the first thread.
func init() {
	if slices.Contains(os.Args, InitCommand) {
		runtime.LockOSThread()
	}
}
