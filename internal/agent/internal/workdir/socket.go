package workdir

import (
	"context"
	"net"
	"os"

	"nightcrier.dev/nightcrier"
)

// ProtocolVersion is that of the newest operation that a worker knows. A request
// carries the version of its operation, so that what has not changed works between
// any two versions; whoever reads an answer passes over what it does not know.
const ProtocolVersion = 1

// The protocol is newline-delimited JSON. The client sends one request; the
// worker answers and closes.
type (
	// Request is what a follower asks.
	Request struct {
		V     int    `json:"v"`
		Op    string `json:"op"` // attach, cancel or status
		From  int64  `json:"from,omitempty"`
		Cause string `json:"cause,omitempty"`
	}
	// Answer is one line of what the worker says.
	Answer struct {
		V      int                      `json:"v"`
		Type   string                   `json:"type"` // entry, result, ok, status or error
		Entry  *nightcrier.JournalEntry `json:"entry,omitempty"`
		Result *nightcrier.AgentResult  `json:"result,omitempty"`
		State  nightcrier.State         `json:"state,omitempty"`
		Text   string                   `json:"text,omitempty"`
	}
)

// maxSocketPath is what a Unix socket's address holds (unix(7)), less a byte.
const maxSocketPath = 107

// atSocket calls fn with a path of dir's socket that is short enough.
func atSocket[T any](d Dir, fn func(path string) (T, error)) (T, error) {
	path := d.PathOf(socketFile)
	if len(path) <= maxSocketPath {
		return fn(path)
	}
	dir, err := os.Open(string(d))
	if err != nil {
		var zero T
		return zero, err
	}
	defer dir.Close()
	return fn(shortPath(dir) + "/" + socketFile)
}

// DialWorker connects to the worker.
func (d Dir) DialWorker(ctx context.Context) (net.Conn, error) {
	return atSocket(d, func(path string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", path)
	})
}

// ListenSocket makes the socket anew: one that is there is of a worker that died, as the caller
// holds the lock.
func (d Dir) ListenSocket() (*net.UnixListener, error) {
	_ = os.Remove(d.PathOf(socketFile))
	l, err := atSocket(d, func(path string) (*net.UnixListener, error) {
		return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	})
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "worker's socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // its name may be one that only we could resolve
	if err := os.Chmod(d.PathOf(socketFile), 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
