package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/record/workspace"
)

// Our own agents wait for their models most of the time, and a process for each would cost more
// than they do. So one process takes in further attempts for as long as it has one at work. Each is
// a worker of its own in all but the process: it has its directory, lock, claim, spool and socket.

// host is a process that takes in further attempts.
type host struct {
	home     workdir.Dir // which holds the workers
	listener *net.UnixListener
	lock     *os.File
	program  string
	env      []string

	mu     sync.Mutex
	atWork int // 0 closes the door
	all    sync.WaitGroup
}

// openHost makes this process the one that takes in attempts, nil where another does.
func openHost(home workdir.Dir) *host {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	lock, ok, err := home.LockWorker()
	if err != nil || !ok {
		return nil
	}
	h := &host{home: home, lock: lock, program: workdir.IdentifyProgram(self), env: slices.Sorted(slices.Values(os.Environ())), atWork: 1}
	if h.listener, err = home.ListenSocket(); err != nil {
		lock.Close()
		return nil
	}
	h.all.Go(func() {
		for {
			conn, err := h.listener.Accept()
			if err != nil {
				return
			}
			h.all.Go(func() { h.takeGuest(conn) })
		}
	})
	return h
}

// enter counts an attempt in, unless the door is closed.
func (h *host) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.atWork == 0 {
		return false
	}
	h.atWork++
	return true
}

// leave counts one out; the last one closes the door, behind which another process may open its own.
func (h *host) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.atWork--; h.atWork == 0 {
		h.listener.Close()
		h.lock.Close()
	}
}

// close ends the host when nobody is at work in it any more.
func (h *host) close() {
	if h != nil {
		h.leave()
		h.all.Wait()
	}
}

// guestTime bounds how long a guest may take to say what it is.
const guestTime = 10 * time.Second

// takeGuest does an attempt beside the others. Whoever asks hears the same word as from a process of
// its own.
func (h *host) takeGuest(conn net.Conn) {
	defer conn.Close()
	if !h.enter() {
		return
	}
	defer h.leave()
	_ = conn.SetReadDeadline(time.Now().Add(guestTime))
	var g workdir.Guest
	if err := json.NewDecoder(io.LimitReader(conn, 2*maxSecrets)).Decode(&g); err != nil {
		return
	}
	if g.Program != h.program || !slices.Equal(g.Env, h.env) || !isChild(g.Name) {
		_, _ = io.WriteString(conn, workdir.NotTaken) // whoever hung up needs no answer
		return
	}
	dir := workdir.At(string(h.home), g.Name)
	log, err := os.OpenFile(dir.PathOf(workdir.LogFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer log.Close()
	w, err := claimDirectory(dir, bytes.NewReader(g.Secrets), slog.New(slog.NewJSONHandler(log, nil)))
	if err == nil && w != nil && !w.spec.SharesProcess() {
		w.lock.Close()
		err = nightcrier.Errorf(nightcrier.Invalid, "this attempt needs a process of its own")
	}
	_, _ = io.WriteString(conn, readyWord(err))
	conn.Close()
	if err != nil || w == nil {
		return
	}
	defer w.lock.Close()
	if err := w.runWorker(context.Background()); err != nil {
		w.log.Error("worker ends without a result", "error", err)
	}
}

// isChild reports whether a name is that of a directory right below the home.
func isChild(name string) bool {
	return filepath.IsLocal(name) && name != "." && !strings.ContainsAny(name, `/\`)
}

// readyWord is what is said to whoever launches.
func readyWord(err error) string {
	switch {
	case err == nil:
		return "ok"
	case workspace.Full(err):
		return workdir.FullWord + err.Error()
	}
	return err.Error()
}
