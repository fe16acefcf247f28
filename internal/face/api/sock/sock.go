// Package sock listens on and dials Unix sockets that only their owner may
// use, wherever they lie: the kernel's limit of about 108 bytes for a socket's
// path is stepped around.
package sock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"nightcrier.dev/nightcrier"
)

// maxPath is the longest path that every supported kernel takes.
const maxPath = 100

// probeTime bounds the question whether somebody answers on a socket.
const probeTime = 2 * time.Second

// Listen listens on path with mode 0600 from its first moment on. A socket that
// nobody answers on is replaced; one that somebody does is a Conflict error.
// Close removes the socket.
func Listen(path string) (net.Listener, error) {
	if err := checkFree(path); err != nil {
		return nil, err
	}
	// Bound in a private directory and moved into place: there is no moment at
	// which the socket stands under its name with other permissions.
	private, err := os.MkdirTemp(filepath.Dir(path), ".sock-")
	if err != nil {
		return nil, unusableError(path, err)
	}
	defer os.RemoveAll(private)
	bound := filepath.Join(private, "s")
	l, err := listenUnix(bound)
	if err != nil {
		return nil, unusableError(path, err)
	}
	if err := errors.Join(os.Chmod(bound, 0o600), os.Rename(bound, path)); err != nil {
		return nil, errors.Join(unusableError(path, err), l.Close())
	}
	return &listener{Listener: l, path: path}, nil
}

func checkFree(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	conn, err := Dial(ctx, path)
	if err != nil {
		return nil // absent or dead
	}
	conn.Close()
	return nightcrier.Errorf(nightcrier.Conflict, "%s answers already: another nightcrier serves this workspace_root", path)
}

func listenUnix(path string) (net.Listener, error) {
	var l *net.UnixListener
	err := withShortPath(path, func(p string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: p, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it is renamed; see listener.Close
	return l, nil
}

// Dial connects to the socket at path. The error is Unreachable when nobody
// listens there.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	var conn net.Conn
	err := withShortPath(path, func(p string) (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, "unix", p)
		return err
	})
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "connecting to %s: %w", path, err)
	}
	return conn, nil
}

// withShortPath calls use with a name of path that the kernel takes: path itself, or
// one through an open descriptor of its directory.
func withShortPath(path string, use func(string) error) error {
	if len(path) <= maxPath {
		return use(path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	viaFD := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	if _, err := os.Stat(filepath.Dir(viaFD)); err != nil {
		return fmt.Errorf("the path is %d bytes long; this system takes %d", len(path), maxPath)
	}
	return use(viaFD)
}

func unusableError(path string, err error) error {
	return nightcrier.Errorf(nightcrier.Unreachable, "listening on %s: %w", path, err)
}

// listener removes its socket when closed, unless another took its place.
type listener struct {
	net.Listener
	path string
}

// Close implements net.Listener.
func (l *listener) Close() error {
	err := l.Listener.Close()
	if checkFree(l.path) == nil {
		if rm := os.Remove(l.path); !errors.Is(rm, os.ErrNotExist) {
			err = errors.Join(err, rm)
		}
	}
	return err
}
