package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/retry"
)

// protocolVersion is that of the newest operation that a worker knows. A request
// carries the version of its operation, so that what has not changed works between
// any two versions; whoever reads an answer passes over what it does not know.
const protocolVersion = 1

// The protocol is newline-delimited JSON. The client sends one request; the
// worker answers and closes.
type (
	protocolRequest struct {
		V     int    `json:"v"`
		Op    string `json:"op"` // attach, cancel or status
		From  int64  `json:"from,omitempty"`
		Cause string `json:"cause,omitempty"`
	}
	protocolAnswer struct {
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
func atSocket[T any](d directory, fn func(path string) (T, error)) (T, error) {
	path := d.pathOf("sock")
	if len(path) <= maxSocketPath {
		return fn(path)
	}
	dir, err := os.Open(string(d))
	if err != nil {
		var zero T
		return zero, err
	}
	defer dir.Close()
	return fn(shortPath(dir) + "/sock")
}

// server answers the server of nightcrier.
type server struct {
	dir    directory
	spool  *spool
	cancel func(cause string)
	state  func() nightcrier.State
	log    *slog.Logger

	listener *net.UnixListener
	conns    sync.WaitGroup // of who accepts, and of every follower
	finished chan struct{}  // closed when the result is on disk
}

func (s *server) listenSocket() error {
	_ = os.Remove(s.dir.pathOf("sock")) // of a worker that died; the lock says that we are alone
	l, err := atSocket(s.dir, func(path string) (*net.UnixListener, error) {
		return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	})
	if err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "worker's socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // its name may be one that only we could resolve
	if err := os.Chmod(s.dir.pathOf("sock"), 0o600); err != nil {
		l.Close()
		return err
	}
	s.listener = l
	s.conns.Go(func() { s.acceptFollowers(l) }) // counted, so that a follower who comes while we close is waited for
	return nil
}

// socketPause spaces out the attempts at a socket that fails: where there are too many
// open files, say, the next one fails at once as well, and would go on to.
var socketPause = retry.Backoff{Min: 5 * time.Millisecond, Max: time.Second}

func (s *server) acceptFollowers(l net.Listener) {
	for failures := 0; ; {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.log.Warn("worker's socket", "error", err)
			failures++
			time.Sleep(socketPause.Wait(failures))
			continue
		}
		failures = 0
		s.conns.Go(func() {
			defer conn.Close()
			if err := s.serveConn(conn); err != nil {
				s.log.Debug("a follower went away", "error", err)
			}
		})
	}
}

// lingering is how long a follower may take to read the rest; what it misses is
// on disk.
const lingering = 5 * time.Second

// close ends the server, after followers had the time to read on.
func (s *server) close() {
	s.listener.Close()
	done := make(chan struct{})
	go func() { s.conns.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(lingering):
	}
}

func (s *server) serveConn(conn net.Conn) error {
	var r protocolRequest
	line, err := bufio.NewReaderSize(conn, 16<<10).ReadSlice('\n')
	if err != nil {
		return err
	}
	enc := json.NewEncoder(conn)
	if err := json.Unmarshal(line, &r); err != nil || r.V < 1 || r.V > protocolVersion {
		return enc.Encode(protocolAnswer{V: protocolVersion, Type: "error", Text: fmt.Sprintf("this worker speaks its protocol up to version %d", protocolVersion)})
	}
	switch r.Op {
	case "attach":
		return s.streamEntries(enc, r.From)
	case "cancel":
		s.cancel(r.Cause)
		return enc.Encode(protocolAnswer{V: protocolVersion, Type: "ok"})
	case "status":
		return enc.Encode(protocolAnswer{V: protocolVersion, Type: "status", State: s.state()})
	}
	return enc.Encode(protocolAnswer{V: protocolVersion, Type: "error", Text: "unknown request"})
}

// streamEntries streams the entries above from, as they come, and then the result. It
// reads the spool from disk: a slow follower costs no memory and gets no gap.
func (s *server) streamEntries(enc *json.Encoder, from int64) error {
	f, err := os.Open(s.dir.pathOf("spool.jsonl"))
	if err != nil {
		return err
	}
	defer f.Close()
	var offset int64
	for {
		written, closed, changed := s.spool.currentProgress()
		if offset < written {
			offset, err = readSpool(f, offset, func(e nightcrier.JournalEntry) error {
				return sendAbove(enc, e, from)
			})
			if err != nil {
				return err
			}
			continue
		}
		if closed {
			break
		}
		<-changed
	}
	<-s.finished
	r, _, err := s.dir.readResult()
	if err != nil {
		return err
	}
	return enc.Encode(protocolAnswer{V: protocolVersion, Type: "result", Result: &r})
}

func sendAbove(enc *json.Encoder, e nightcrier.JournalEntry, from int64) error {
	n, err := entryNumber(e.Key)
	if err != nil || n <= from {
		return err
	}
	return enc.Encode(protocolAnswer{V: protocolVersion, Type: "entry", Entry: &e})
}

// dialWorker connects to dir's worker.
func dialWorker(ctx context.Context, d directory) (net.Conn, error) {
	return atSocket(d, func(path string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", path)
	})
}
