package worker

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
)

// stranger stands in for a worker of another version, which spools by itself and
// answers requests in its own way, until it is told to end.
type stranger struct {
	*bench
	lock     *os.File
	listener net.Listener
}

func (b *bench) stranger(answer func(request map[string]any, reply func(line string))) *stranger {
	b.Helper()
	b.must(os.MkdirAll(string(b.dir()), 0o700))
	d := b.dir()
	b.must(d.WriteFile(workdir.SpecFile, b.spec))
	_, err := d.ClaimStart()
	b.must(err)
	s := &stranger{bench: b}
	if s.lock, _, err = d.LockWorker(); err != nil || s.lock == nil {
		b.Fatal("lock: ", err)
	}
	s.listener, err = d.ListenSocket()
	b.must(err)
	b.Cleanup(func() { s.lock.Close(); s.listener.Close() })
	go func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			var request map[string]any
			line, _ := bufio.NewReader(conn).ReadBytes('\n')
			_ = json.Unmarshal(line, &request)
			answer(request, func(line string) { _, _ = fmt.Fprintln(conn, line) })
			conn.Close()
		}
	}()
	return s
}

// entry is a line of its spool.
func entry(n int, text string) string {
	return fmt.Sprintf(`{"v":7,"key":"worker#1/%d","type":"log","time":"2026-01-02T03:04:05Z","attempt":1,"mood":"fine","data":{"stream":"stdout","text":%q,"colour":"red"}}`, n, text)
}

func (s *stranger) spool(lines ...string) {
	s.Helper()
	s.must(os.WriteFile(s.dir().PathOf("spool.jsonl"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

// end writes the result and lets go of the lock.
func (s *stranger) end(result string) {
	s.must(os.WriteFile(s.dir().PathOf("exit.json"), []byte(result), 0o600))
	s.must(s.lock.Close())
}

const foreignResult = `{"state":"success","exitCode":0,"karma":{"x":1},"sessionId":"s-1"}`

// A server that was upgraded attaches to a worker that does not stream to it: it
// reads on from disk, to the end. Its cancel is not taken for heard.
func TestAWorkerThatRefusesToStreamIsReadFromDisk(t *testing.T) {
	b := newBench(t, "")
	asked := make(chan struct{}, 100)
	s := b.stranger(func(_ map[string]any, reply func(string)) {
		reply(`{"v":0,"type":"error","text":"this worker speaks version 0"}`)
		asked <- struct{}{}
	})
	s.spool(entry(1, "first"), entry(2, "second"))
	if err := b.workers.Cancel(t.Context(), b.handle(), "enough"); err == nil || !strings.Contains(err.Error(), "version 0") {
		t.Errorf("cancel: %v", err)
	}
	<-asked
	go func() {
		<-asked // the follower was refused once
		s.spool(entry(1, "first"), entry(2, "second"), entry(3, "third"))
		s.end(foreignResult)
	}()
	r, entries := b.follow()
	if got := text(entries); r.State != nightcrier.StateSuccess || r.SessionID != "s-1" || len(entries) != 3 || !strings.Contains(got, "third") {
		t.Errorf("%+v after %d entries: %s", r, len(entries), got)
	}
}

// A server that is older than the worker, because its binary was replaced while it
// ran, passes over what it does not know.
func TestANewerWorkerIsFollowed(t *testing.T) {
	b := newBench(t, "")
	var s *stranger
	ready := make(chan struct{})
	s = b.stranger(func(request map[string]any, reply func(string)) {
		<-ready
		if request["op"] != "attach" || request["v"] != 1.0 {
			t.Errorf("it was asked %v", request)
		}
		reply(`{"v":9,"type":"weather","sky":"blue"}`)
		for n, word := range []string{"first", "second"} {
			reply(`{"v":9,"type":"entry","priority":3,"entry":` + entry(n+1, word) + `}`)
		}
		s.end(foreignResult)
	})
	s.spool(entry(1, "first"), entry(2, "second"))
	close(ready)
	r, entries := b.follow()
	if r.State != nightcrier.StateSuccess || len(entries) != 2 || !strings.Contains(text(entries), "second") {
		t.Errorf("%+v after %d entries: %s", r, len(entries), text(entries))
	}
}

// A worker takes no spec that it may not understand.
func TestVersionsOfASpec(t *testing.T) {
	for version, ok := range map[int]bool{-1: false, backend.SpecVersion - 1: false, backend.SpecVersion: true, backend.SpecVersion + 1: false} {
		b := newBench(t, "")
		b.spec.Version = version
		b.spec.SetDefaults()
		if err := b.spec.CheckSpec(); (err == nil) != ok {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// A worker whose server stays away ends its agent at the deadline, by itself, and
// leaves the result for whoever comes.
func TestAWorkerAloneEndsAtItsDeadline(t *testing.T) {
	const script = "trap '' INT; echo up; while :; do sleep 1; done"
	b := newBench(t, script)
	b.spec.Timeout, b.spec.Grace = 300*time.Millisecond, 100*time.Millisecond
	for ; ; b = b.later(script) {
		b.launch()
		// Nobody follows: that it has ended is seen by its lock alone.
		for alive := true; alive; {
			var err error
			alive, err = b.dir().IsAlive()
			b.must(err)
			time.Sleep(10 * time.Millisecond)
		}
		b.noneLeft()
		if _, err := os.Stat(b.dir().PathOf("exit.json")); err != nil {
			t.Errorf("no result: %v", err)
		}
		r, entries := b.follow()
		up := isUp(t, entries)
		if r.State != nightcrier.StateTimeout || !up && b.spec.Timeout >= latestTimeout {
			t.Errorf("%+v\n%s", r, text(entries))
		}
		if up || t.Failed() {
			return
		}
	}
}
