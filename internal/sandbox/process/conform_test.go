//go:build linux

package process

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"nightcrier.dev/nightcrier/internal/sandbox"
	"nightcrier.dev/nightcrier/internal/sandbox/sandboxtest"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

func TestConforms(t *testing.T) {
	everySandbox(t, func(t *testing.T, floor bool) {
		self := testproc.Self()
		owner := OwnerOf(t.TempDir())
		sandboxtest.Conform(t, sandboxtest.Backend{
			New: func(ctx context.Context, name string, stdout *os.File) (sandbox.Sandbox, []net.Listener, error) {
				s, err := New(ctx, conforming(self, floor, owner, name, stdout))
				if err != nil {
					return nil, nil, err
				}
				return s, s.Listeners, nil
			},
			Reaper: Reaper{owner}, Stranger: Reaper{OwnerOf(t.TempDir())},
			Policy: conformingPolicy,
			Attack: func(name string, args ...string) []string { return append([]string{self, "attack", name}, args...) },
			Bounds: func(layers []string) (memory, processes bool) {
				has := func(l string) bool { return slices.Contains(layers, l) }
				return has(LayerMemory) || has(LayerMemoryWatch), has(LayerPIDs) || has(LayerNproc) || has(LayerPIDsWatch)
			},
			Elsewhere: func(name, ws, script string) *exec.Cmd {
				return exec.Command(self, "maker", strconv.FormatBool(floor), owner, name, ws, script)
			},
			Sure: !floor || len(joined(t, owner)) > 0,
		})
	})
}

// joined lists the groups that a sandbox of this machine has.
func joined(t *testing.T, owner string) []string {
	s, err := New(t.Context(), Options{Name: "probe", Owner: owner, NoNamespaces: true, Init: newLab(t, true).opts.Init})
	if err != nil {
		t.Fatal(err)
	}
	s.Kill()
	s.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s.cgroup.dirs
}

func conforming(self string, floor bool, owner, name string, stdout *os.File) Options {
	return Options{
		Init:         []string{self, InitCommand},
		NoNamespaces: floor, Owner: owner, Name: name, Stdout: stdout, Listen: sandboxtest.Listeners,
		MaxMemoryBytes: sandboxtest.MaxMemoryBytes, MaxProcesses: sandboxtest.MaxProcesses, MaxCPUs: 1,
	}
}

func conformingPolicy(ws string) sandbox.Policy {
	self := testproc.Self()
	return sandbox.Policy{
		Read: append(SystemFiles(), self, filepath.Join(ws, "context")), List: []string{ws}, Write: []string{filepath.Join(ws, "home")},
		Devices: Devices(), MaxFileBytes: sandboxtest.MaxFileBytes, MaxOpenFiles: sandboxtest.MaxOpenFiles,
	}
}

// maker makes a sandbox as the suite's Elsewhere asks, and stays.
func maker(floor, owner, name, ws, script string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := New(ctx, conforming(self, floor == "true", owner, name, os.Stdout))
	if err != nil {
		return err
	}
	c := sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: ws}
	err = s.Start(ctx, conformingPolicy(ws), c, func(sandbox.Held) error {
		_, err := fmt.Println(s.PID())
		return err
	})
	if err != nil {
		return err
	}
	select {} // until it is killed
}
