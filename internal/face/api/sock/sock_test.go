package sock

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

func listening(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return l
}

func TestListenAnywhere(t *testing.T) {
	for name, dir := range map[string]string{"short": t.TempDir(), "long": filepath.Join(t.TempDir(), strings.Repeat("d", 120))} {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "nightcrier.sock")
			l := listening(t, path)
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Fatalf("mode %v, %v", info.Mode(), err)
			}
			c, err := Dial(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			if _, err := Listen(path); nightcrier.CodeOf(err) != nightcrier.Conflict {
				t.Errorf("a second listener: %v", err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestDeadSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	if _, err := Dial(t.Context(), path); nightcrier.CodeOf(err) != nightcrier.Unreachable {
		t.Errorf("dialing a dead socket: %v", err)
	}
	listening(t, path)
}

func TestNoDirectory(t *testing.T) {
	_, err := Listen(filepath.Join(t.TempDir(), "absent", "s"))
	if nightcrier.CodeOf(err) != nightcrier.Unreachable {
		t.Error(err)
	}
	if _, err := Dial(context.Background(), filepath.Join(t.TempDir(), strings.Repeat("x/", 90), "s")); err == nil {
		t.Error("dialing nowhere succeeded")
	}
}
