//go:build linux

package process

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/sandbox"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// watched is a lab whose sandboxes no control group bounds: they have no name.
func watched(t *testing.T, floor bool) *lab {
	t.Helper()
	l := newLab(t, floor)
	l.opts.MaxMemoryBytes, l.opts.MaxProcesses, l.opts.Listen = 96<<20, 48, 0
	return l
}

// A hog is killed, by itself or below the agent, which goes on: as the kernel does it.
func TestMemoryIsWatched(t *testing.T) {
	everySandbox(t, func(t *testing.T, floor bool) {
		l := watched(t, floor)
		self := testproc.Self()
		out, exit, layers := l.run(self, "attack", "memory")
		if exit.Signal != "SIGKILL" || !exit.OutOfMemory || exit.OutOfProcesses {
			t.Errorf("%+v %q", exit, out)
		}
		if !slices.Contains(layers, LayerMemoryWatch) || slices.Contains(layers, LayerMemory) || !slices.Contains(Strict(layers), LayerMemory) {
			t.Errorf("layers %v", layers)
		}
		if out, exit := l.sh("'" + self + "' attack memory; echo ended with $?; exit 3"); exit.Code != 3 || !strings.Contains(out, "ended with 137") || !exit.OutOfMemory {
			t.Errorf("%+v %q", exit, out)
		}
		// Also in a session of its own, with no parent and no environment.
		if out, exit := l.sh("(env -i setsid '" + self + "' attack memory > home/said 2>&1 &); sleep 3; cat home/said"); !exit.OutOfMemory || strings.Contains(out, "done") {
			t.Errorf("a hidden hog had it all: %q", out)
		}
	})
}

// What several processes share is there once, and what is within the limit is left alone.
func TestSharedMemoryCountsOnce(t *testing.T) {
	everySandbox(t, func(t *testing.T, floor bool) {
		l := watched(t, floor)
		l.policy.MaxFileBytes, l.opts.MaxMemoryBytes = 64<<20, 192<<20
		self := testproc.Self()
		shared := filepath.Join(l.ws, "home", "shared")
		if err := os.WriteFile(shared, make([]byte, 60<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		share := "'" + self + "' attack share '" + shared + "' &\n"
		if out, exit := l.sh(strings.Repeat(share, 5) + "wait"); strings.Count(out, "done") != 5 || exit.Code != 0 || exit.OutOfMemory {
			t.Errorf("%+v %q", exit, out)
		}
	})
}

// Without a user id of its own and without a group, a fork bomb is ended as a whole.
func TestProcessesAreWatched(t *testing.T) {
	l := watched(t, true)
	out, exit, layers := l.run("/bin/sh", "-c", "(i=0; while [ $i -lt 2000 ]; do (setsid sleep 30 &) ; i=$((i+1)); done 2>/dev/null); echo all; sleep 30")
	if exit.Signal != "SIGKILL" || !exit.OutOfProcesses || strings.Contains(out, "all") {
		t.Errorf("%+v %q", exit, out)
	}
	if !slices.Contains(layers, LayerPIDsWatch) || !slices.Contains(Strict(layers), LayerPIDs) {
		t.Errorf("layers %v", layers)
	}
	if out, exit := l.sh("for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.5 & done; wait; echo all"); exit != (sandbox.Exit{}) || out != "all" {
		t.Errorf("within the limit: %+v %q", exit, out)
	}
	l = newLab(t, false)
	l.opts.MaxProcesses = 48
	if _, _, layers := l.run("/bin/true"); slices.Contains(layers, LayerPIDsWatch) && slices.Contains(layers, LayerNproc) {
		t.Errorf("what the kernel bounds is watched as well: %v", layers)
	}
}
