package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// FuzzRequests: whatever comes to a worker's socket has answers of its protocol alone, and
// nothing but a request to cancel cancels.
func FuzzRequests(f *testing.F) {
	dir := workdir.Dir(f.TempDir())
	sp, err := workdir.OpenSpool(dir, &backend.Spec{RunID: "run", Step: "await", Attempt: 1}, time.Now)
	if err != nil {
		f.Fatal(err)
	}
	for range 3 {
		if err := sp.appendItem(journal.OfLog(journal.Log{Text: "said"})); err != nil {
			f.Fatal(err)
		}
	}
	if err := sp.close(); err != nil {
		f.Fatal(err)
	}
	if err := dir.WriteFile(workdir.ResultFile, nightcrier.AgentResult{FinalMessage: "done"}); err != nil {
		f.Fatal(err)
	}
	finished := make(chan struct{})
	close(finished)
	for _, s := range []string{
		`{"v":1,"op":"attach"}` + "\n", `{"v":1,"op":"attach","from":2}` + "\n", `{"v":1,"op":"attach","from":-9223372036854775808}` + "\n",
		`{"v":1,"op":"cancel","cause":"enough"}` + "\n", `{"v":1,"op":"status"}` + "\n", `{"v":2,"op":"attach"}` + "\n", "{}\n", "\n", "half a line",
		`{"v":1,"op":"cancel"}` + "\n" + `{"v":1,"op":"cancel"}` + "\n", strings.Repeat("x", 20_000) + "\n", `{"V":1,"OP":"status"}` + "\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, said string) {
		var causes []string
		s := &server{dir: dir, spool: sp, finished: finished, log: slog.New(slog.DiscardHandler),
			cancel: func(cause string) { causes = append(causes, cause) }, state: func() nightcrier.State { return "investigating" }}
		ours, theirs := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer ours.Close()
			_ = s.serveConn(ours) // of one who went away
		}()
		go func() {
			_, _ = io.WriteString(theirs, said) // it may hang up early
			if !strings.Contains(said, "\n") {
				theirs.Close()
			}
		}()
		var types []string
		var last int64
		for in := bufio.NewScanner(theirs); in.Scan(); {
			var a workdir.Answer
			if err := json.Unmarshal(in.Bytes(), &a); err != nil || a.V != workdir.ProtocolVersion {
				t.Fatalf("%q was answered by %q", said, in.Bytes())
			}
			if types = append(types, a.Type); a.Type == "entry" {
				n, err := workdir.EntryNumber(a.Entry.Key)
				if err != nil || n <= last {
					t.Fatalf("%q: entry %q after %d, %v", said, a.Entry.Key, last, err)
				}
				last = n
			}
		}
		<-done
		theirs.Close()
		for _, kind := range types {
			if !slices.Contains([]string{"entry", "result", "ok", "status", "error"}, kind) {
				t.Errorf("%q was answered by a %q", said, kind)
			}
		}
		line, _, _ := strings.Cut(said, "\n")
		var r workdir.Request
		cancels := json.Unmarshal([]byte(line), &r) == nil && r.Op == "cancel" && r.V == 1
		if len(causes) > 1 || len(causes) == 1 && (!cancels || len(causes[0]) > len(line)) || len(types) > 4 {
			t.Errorf("%q cancels by %q, and is answered by %v", said, causes, types)
		}
	})
}

// FuzzFollow: whatever answers in the place of a worker, its entries are given on in order
// and once, and it brings nobody down.
func FuzzFollow(f *testing.F) {
	for _, s := range []string{
		`{"v":1,"type":"entry","entry":{"key":"worker#1/1","type":"log","data":{}}}` + "\n" + `{"v":1,"type":"result","result":{}}` + "\n",
		`{"v":1,"type":"entry"}` + "\n", `{"v":1,"type":"entry","entry":{"key":"worker#1/9223372036854775808"}}`, `{"type":"entry","entry":{"key":"other"}}`,
		`{"type":"entry","entry":{"key":"worker#1/7"}}{"type":"entry","entry":{"key":"worker#1/7"}}{"type":"entry","entry":{"key":"worker#1/2"}}`,
		`{"v":9,"type":"error","text":"no"}`, `{"v":9,"type":"news"}`, `[[[`, ``,
	} {
		f.Add(s, int64(0))
		f.Add(s, int64(5))
	}
	dir := workdir.Dir(f.TempDir())
	gone, cancel := context.WithCancel(context.Background())
	cancel() // or one that refuses is asked again after a second
	f.Fuzz(func(t *testing.T, said string, from int64) {
		last := from
		w := follower{dir: dir, from: from, fn: func(e nightcrier.JournalEntry) error {
			n, err := workdir.EntryNumber(e.Key)
			if err != nil || n <= last {
				t.Errorf("%q: entry %q after %d", said, e.Key, last)
			}
			last = n
			return nil
		}}
		err := w.readAnswers(gone, strings.NewReader(said))
		if w.from != last {
			t.Errorf("%q: it goes on from %d after %d, %v", said, w.from, last, err)
		}
	})
}
