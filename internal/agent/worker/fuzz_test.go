package worker

import (
	"bufio"
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
		if err := sp.AppendItem(journal.OfLog(journal.Log{Text: "said"})); err != nil {
			f.Fatal(err)
		}
	}
	if err := sp.Close(); err != nil {
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
