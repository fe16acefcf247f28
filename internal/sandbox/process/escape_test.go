//go:build linux

package process

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// What there is of the machine inside a root of its own.
func TestNothingElseExists(t *testing.T) {
	l := newLab(t, false)
	other := filepath.Join(l.root, "other", "home")
	if err := os.MkdirAll(other, 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"out": "/etc/shadow", "up": "../../../secret", "proc": fmt.Sprintf("/proc/%d/root/etc/shadow", os.Getpid()), "dir": l.root} {
		if err := os.Symlink(to, filepath.Join(l.ws, "context", link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ script, want string }{
		{"ls -A /home /root /var /run /sys /mnt /srv /boot /opt 2>/dev/null", ""},
		{"ls " + l.root, "ws"},
		{"ls " + other + " || echo gone", "gone"},
		{"cat /etc/shadow /etc/machine-id /etc/hostname || echo gone", "gone"},
		{"ls -d /usr/local /usr/src || echo gone", "gone"},
		{"cat context/out || echo gone", "gone"},
		{"cat context/up || echo gone", "gone"},
		{"cat context/proc || echo gone", "gone"},
		{"ls context/dir/", "ws"},
		{"ls -A /proc/sys; cat /proc/kcore /proc/keys /proc/kallsyms /proc/cmdline", ""},
		{"set -- /proc/[0-9]*; echo $#", "1"}, // the shell: not even the init
		{"cat /proc/1/environ /proc/1/cmdline || echo shut", "shut"},
		{"ls -A /dev", ""},
		{"hostname", hostName},
		{"cut -d: -f1 /etc/passwd /etc/group | sort -u", "agent"},
		{"mknod home/null c 1 3 || echo refused", "refused"},
		{"touch /x /etc/x /usr/x /dev/x /proc/self/x || echo refused", "refused"},
		{"echo x > /tmp/a && echo x > /dev/shm/a && cat /tmp/a /dev/shm/a", "x x"},
		{"mkdir home/d && chmod 777 home/d && mv home/d .scratch/d 2>/dev/null; ls .scratch", "d"},
	} {
		out, _ := l.sh("{ " + c.script + "; } 2>/dev/null")
		if got := strings.Join(strings.Fields(out), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.script, got, c.want)
		}
	}
	if out, _ := l.sh("echo out > /dev/stdout; echo err > /dev/stderr"); out != "out\nerr" {
		t.Errorf("its own output by name: %q", out)
	}
}

// The sockets of the machine have no address inside: not by path, not by abstract
// name, not over any interface.
func TestSocketsOfTheHost(t *testing.T) {
	everySandbox(t, func(t *testing.T, floor bool) {
		l := newLab(t, floor)
		self := testproc.Self()
		abstract := fmt.Sprintf("@nightcrier-test-%d", os.Getpid())
		for _, name := range []string{abstract, filepath.Join(l.ws, "context", "docker.sock")} {
			sock, err := net.Listen("unix", name)
			if err != nil {
				t.Fatal(err)
			}
			defer sock.Close()
			if out, _, _ := l.run(self, "attack", "dial", "unix", name); out == "done" {
				t.Errorf("reached %s", name)
			}
		}
		for _, address := range []string{"169.254.169.254:80", "10.0.0.1:443"} {
			if out, _, _ := l.run(self, "attack", "dial", "tcp", address); out == "done" {
				t.Errorf("reached %s", address)
			}
		}
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer udp.Close()
		for _, address := range []string{"169.254.169.254:53", "10.0.0.1:53"} { // no route leads there
			if out, _, _ := l.run(self, "attack", "datagram", address); out == "done" {
				t.Errorf("sent to %s", address)
			}
		}
		l.run(self, "attack", "datagram", udp.LocalAddr().String()) // its own loopback takes it
		conn, err := udp.(*net.UDPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var came int
		err = conn.Read(func(fd uintptr) bool {
			came, _, _ = syscall.Recvfrom(int(fd), make([]byte, 10), syscall.MSG_DONTWAIT)
			return true // what was sent on loopback is there
		})
		if err != nil || came > 0 {
			t.Errorf("%d bytes came out, %v", came, err)
		}
	})
}

// The agent is nobody that the machine knows, and what it leaves is the server's.
func TestOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED ALOUD: only root can give user ids away")
	}
	l := newLab(t, false)
	l.opts.MaxMemoryBytes, l.opts.MaxProcesses = 1<<30, 512
	out, exit, layers := l.run("/bin/sh", "-c", "id -u; id -g; id -G; umask 077; touch home/x; mkdir home/y; stat -c %u home/x")
	if missing := Strict(layers); !slices.Equal(missing, []string{LayerMemory}) { // which a sandbox without a name has not
		t.Fatalf("lacks %v", missing)
	}
	ids := strings.Fields(out)
	if exit.Code != 0 || len(ids) != 4 || ids[0] != ids[1] || ids[0] != ids[2] || ids[0] != ids[3] {
		t.Fatalf("%+v %q", exit, out)
	}
	id, err := strconv.Atoi(ids[0])
	if err != nil || id < DefaultUIDBase || id >= DefaultUIDBase+UIDRange {
		t.Errorf("user id %s", ids[0])
	}
	for _, name := range []string{"x", "y"} {
		if uid := ownerOf(t, filepath.Join(l.ws, "home", name)); uid != 0 {
			t.Errorf("%s belongs to %d", name, uid)
		}
	}
	// Two at once have two, also by the same name, and an id is free again at the end.
	name := fmt.Sprintf("test-%d", os.Getpid())
	first, err := takeOwner(DefaultUIDBase, name)
	if err != nil {
		t.Fatal(err)
	}
	second, err := takeOwner(DefaultUIDBase, name)
	if err != nil || second.id == first.id {
		t.Fatalf("%v, %d twice", err, first.id)
	}
	second.releaseLock()
	first.releaseLock()
	if again, err := takeOwner(DefaultUIDBase, name); err != nil || again.id != first.id {
		t.Errorf("%v, %d", err, again.id)
	} else {
		again.releaseLock()
	}
}

// What the agent leaves is the server's, so no program of it may run with the rights
// of its owner: whoever finds it on the disk would have the server's.
func TestNothingRunsAsTheServer(t *testing.T) {
	everySandbox(t, func(t *testing.T, floor bool) {
		l := newLab(t, floor)
		l.sh("cp /bin/sh home/sh; for m in 4755 2755 u+s g+s; do chmod $m home/sh; done; mkdir -m 2777 home/d; chmod g+s home/d; chmod 6755 .scratch; umask 0; install -m 4755 /bin/sh home/again")
		if _, err := os.Stat(filepath.Join(l.ws, "home", "sh")); err != nil {
			t.Error("the attack did not happen")
		}
		err := filepath.WalkDir(l.ws, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if info, err := d.Info(); err != nil || info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
				t.Errorf("%s is %v %v", path, info.Mode(), err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if floor {
			return // there no mode can be changed at all
		}
		if out, exit := l.sh("chmod 755 home/sh && chmod 700 home && home/sh -c 'echo ran'"); exit.Code != 0 || out != "ran" {
			t.Errorf("ordinary modes: %+v %s", exit, out)
		}
	})
}

// Without any cgroup: the limit of the agent's own user stops the bomb.
func TestForkBombWithoutCgroups(t *testing.T) {
	l := newLab(t, false)
	l.opts.MaxProcesses = 30
	out, _, layers := l.run("/bin/sh", "-c", "for i in $(seq 60); do sleep 3 & done 2>&1; echo spawned")
	if os.Geteuid() == 0 && !strings.Contains(strings.Join(layers, " "), LayerNproc) {
		t.Errorf("layers %v", layers)
	}
	if strings.Contains(out, "spawned") && !strings.Contains(out, "fork") {
		t.Errorf("60 processes fit into 30: %s", out)
	}
}

func ownerOf(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

// A file that is replaced by another of its name while it is bound, as a server
// does that writes its state anew, is shown as it was or as it is.
func TestFilesThatAreReplacedMeanwhile(t *testing.T) {
	l := newLab(t, false)
	shown := filepath.Join(l.ws, "incident.json")
	replace := func() error {
		if err := os.WriteFile(shown+".new", []byte("whole"), 0o644); err != nil {
			return err
		}
		return os.Rename(shown+".new", shown)
	}
	if err := replace(); err != nil {
		t.Fatal(err)
	}
	l.policy.Read = append(l.policy.Read, shown)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		for ctx.Err() == nil {
			if err := replace(); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	for range 5 {
		if out, _ := l.sh("cat incident.json"); out != "whole" {
			t.Errorf("it says %q", out)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
