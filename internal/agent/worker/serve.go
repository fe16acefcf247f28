package worker

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/retry"
)

// server answers the server of nightcrier.
type server struct {
	dir    workdir.Dir
	spool  *workdir.Spool
	cancel func(cause string)
	state  func() nightcrier.State
	log    *slog.Logger

	listener *net.UnixListener
	conns    sync.WaitGroup // of who accepts, and of every follower
	finished chan struct{}  // closed when the result is on disk
}

func (s *server) listenSocket() (err error) {
	if s.listener, err = s.dir.ListenSocket(); err != nil {
		return err
	}
	s.conns.Go(func() { s.acceptFollowers(s.listener) }) // counted, so that a follower who comes while we close is waited for
	return nil
}

func (s *server) acceptFollowers(l net.Listener) {
	acceptAll(l, s.log, &s.conns, func(conn net.Conn) {
		defer conn.Close()
		if err := s.serveConn(conn); err != nil {
			s.log.Debug("a follower went away", "error", err)
		}
	})
}

// socketPause spaces out the attempts at a socket that fails: where there are too many
// open files, say, the next one fails at once as well, and would go on to.
var socketPause = retry.Backoff{Min: 5 * time.Millisecond, Max: time.Second}

// acceptAll serves whoever comes, until the listener is closed.
func acceptAll(l net.Listener, log *slog.Logger, all *sync.WaitGroup, serve func(net.Conn)) {
	for failures := 0; ; {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			log.Warn("worker's socket", "error", err)
			failures++
			time.Sleep(socketPause.Wait(failures))
			continue
		}
		failures = 0
		all.Go(func() { serve(conn) })
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
	var r workdir.Request
	line, err := bufio.NewReaderSize(conn, 16<<10).ReadSlice('\n')
	if err != nil {
		return err
	}
	enc := json.NewEncoder(conn)
	if err := json.Unmarshal(line, &r); err != nil || r.V < 1 || r.V > workdir.ProtocolVersion {
		return enc.Encode(workdir.Answer{V: workdir.ProtocolVersion, Type: "error", Text: fmt.Sprintf("this worker speaks its protocol up to version %d", workdir.ProtocolVersion)})
	}
	switch r.Op {
	case "attach":
		return s.streamEntries(enc, r.From)
	case "cancel":
		s.cancel(r.Cause)
		return enc.Encode(workdir.Answer{V: workdir.ProtocolVersion, Type: "ok"})
	case "status":
		return enc.Encode(workdir.Answer{V: workdir.ProtocolVersion, Type: "status", State: s.state()})
	}
	return enc.Encode(workdir.Answer{V: workdir.ProtocolVersion, Type: "error", Text: "unknown request"})
}

// streamEntries streams the entries above from, as they come, and then the result. It
// reads the spool from disk: a slow follower costs no memory and gets no gap.
func (s *server) streamEntries(enc *json.Encoder, from int64) error {
	f, err := os.Open(s.dir.PathOf(workdir.SpoolFile))
	if err != nil {
		return err
	}
	defer f.Close()
	var offset int64
	for {
		written, closed, changed := s.spool.CurrentProgress()
		if offset < written {
			offset, err = workdir.ReadSpool(f, offset, func(e nightcrier.JournalEntry) error {
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
	r, _, err := s.dir.ReadResult()
	if err != nil {
		return err
	}
	return enc.Encode(workdir.Answer{V: workdir.ProtocolVersion, Type: "result", Result: &r})
}

func sendAbove(enc *json.Encoder, e nightcrier.JournalEntry, from int64) error {
	n, err := workdir.EntryNumber(e.Key)
	if err != nil || n <= from {
		return err
	}
	return enc.Encode(workdir.Answer{V: workdir.ProtocolVersion, Type: "entry", Entry: &e})
}
