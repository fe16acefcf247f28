package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/guard/model"
	"nightcrier.dev/nightcrier/internal/mask"
)

// exchanges reads what is kept of the calls of the model: all lines, and of them
// those of calls that have ended.
func (b *bench) exchanges() (all, ended []exchangeLine) {
	b.Helper()
	f, err := os.Open(filepath.Join(b.ws, exchangesFile))
	b.must(err)
	defer f.Close()
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		if len(line) == 0 {
			return all, ended
		}
		b.must(err)
		var l exchangeLine
		b.must(json.Unmarshal(line, &l))
		all = append(all, l)
		if l.Event != eventSent {
			ended = append(ended, l)
		}
	}
}

// paidOnce checks that no request was answered to its end twice: each is paid for.
// It returns how many were answered.
func (b *bench) paidOnce() int {
	b.Helper()
	answered := map[string]int64{}
	_, ended := b.exchanges()
	for _, l := range ended {
		if l.Event != eventAnswered || l.Status != 200 {
			continue
		}
		key := l.Method + " " + l.Path + " " + l.Request.SHA256
		if n, twice := answered[key]; twice {
			b.Errorf("calls %d and %d are the same and both were answered", n, l.N)
		}
		answered[key] = l.N
	}
	return len(answered)
}

// The calls of a real CLI are kept in their order, whole, and out of its reach.
func TestCallsOfTheModelAreKept(t *testing.T) {
	t.Parallel()
	c := claudeCLI()
	b := c.bench(t, append([]fakemodel.Step{
		{Text: "Look.", Tools: []fakemodel.ToolCall{c.read("logs/model.jsonl"), c.read("context/incident.json")}},
		{Text: "Again.", Error: &fakemodel.Failure{Status: 500}, Times: 1, Tools: []fakemodel.ToolCall{c.write("logs/model.jsonl", "forged")}},
		{Text: strings.Repeat("a long answer ", 50), Cut: 3, Times: 1, Tools: []fakemodel.ToolCall{c.read("context/incident.json")}},
	}, c.report("# Report\n")...)...)
	b.write("context/incident.json", `{"note":"value-that-we-hold"}`)
	b.sec.MaskKey, b.sec.MaskValues = []byte("0123456789abcdef0123456789abcdef"), []string{"value-that-we-hold"}
	r, entries := b.run()
	if r.State != nightcrier.StateSuccess {
		t.Fatalf("%+v\n%s", r, text(entries))
	}
	all, ended := b.exchanges()
	var failed, cut, answered int
	last := int64(0)
	for _, l := range ended {
		switch {
		case l.Event == eventCut:
			cut++
		case l.Status == 500:
			failed++
		case l.Event == eventAnswered && l.Status == 200:
			answered++
			if !json.Valid([]byte(l.Request.Text)) || !strings.Contains(l.Response.Text, "message_stop") || l.Response.ContentType == "" || l.FirstByteMS <= 0 {
				t.Errorf("call %d is kept as %+v", l.N, l)
			}
		}
		if l.N <= last || l.Model == "" || l.Step != "investigate" || l.Attempt != 1 {
			t.Errorf("call %d after %d: %+v", l.N, last, l)
		}
		last = l.N
	}
	if len(all) != 2*len(ended) || failed != 1 || cut != 1 || answered < 4 {
		t.Errorf("%d lines, %d calls: %d failed, %d cut, %d answered", len(all), len(ended), failed, cut, answered)
	}
	info, err := os.Stat(filepath.Join(b.ws, exchangesFile))
	b.must(err)
	kept := b.read(exchangesFile)
	for _, secret := range []string{realKey, "value-that-we-hold", "forged\n"} {
		if strings.Contains(kept, secret) {
			t.Errorf("%q stands in the record", secret)
		}
	}
	if strings.Contains(kept, `\"event\":\"sent\"`) {
		t.Error("the agent has read the record of its own calls")
	}
	if info.Mode().Perm() != 0o600 || !strings.Contains(text(entries), "calls of the model, 2 of them of a request that was sent before") {
		t.Errorf("mode %s; the journal says\n%s", info.Mode(), text(entries))
	}
	if n := b.paidOnce(); n != answered {
		t.Errorf("%d of %d calls are paid for", n, answered)
	}
}

// keeper is a worker at work whose calls are kept, without an agent.
func (b *bench) keeper() (*worker, *exchanges) {
	b.Helper()
	b.must(os.MkdirAll(string(b.dir()), 0o700))
	w := &worker{dir: b.dir(), spec: &b.spec, log: slog.New(slog.DiscardHandler), now: time.Now, secret: b.sec, mask: b.sec.NewMasker(), stopped: make(chan struct{})}
	b.spec.SetDefaults()
	var err error
	w.spool, err = workdir.OpenSpool(w.dir, w.spec, w.now)
	b.must(err)
	x, err := w.openExchanges()
	b.must(err)
	return w, x
}

func done(n int64, request, response []byte) model.Exchange {
	return model.Exchange{
		N: n, Sent: 1, Done: true, Time: time.Now(), Method: "POST", Path: "/v1/messages", Status: 200,
		Request: model.Body{Bytes: int64(len(request)), SHA256: "a", Text: request}, Response: model.Body{Bytes: int64(len(response)), SHA256: "b", Text: response},
	}
}

// Beyond the bound calls are kept without their bodies, and it is said once.
func TestRecordOfCallsIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	w, x := b.keeper()
	big := bytes.Repeat([]byte("x "), 5<<20)
	for n := range int64(10) {
		x.recordExchange(done(n+1, big, []byte("\xff\xfe")))
	}
	x.close()
	b.must(w.spool.Close())
	info, err := os.Stat(filepath.Join(b.ws, exchangesFile))
	b.must(err)
	_, ended := b.exchanges()
	if len(ended) != 10 || info.Size() > maxExchanges+maxExchangeHeads || info.Size() < maxExchanges/2 {
		t.Fatalf("%d calls in %d bytes", len(ended), info.Size())
	}
	if first := ended[0]; first.Request.Dropped || string(first.Response.Base64) != "\xff\xfe" {
		t.Errorf("the first is kept as %d bytes and %q", len(first.Request.Text), first.Response.Base64)
	}
	if last := ended[9]; !last.Request.Dropped || last.Request.Text != "" || last.Request.Bytes != int64(len(big)) {
		t.Errorf("the last is kept with %d bytes", len(last.Request.Text))
	}
	spool, err := os.ReadFile(b.dir().PathOf("spool.jsonl"))
	b.must(err)
	if n := strings.Count(string(spool), "cannot be kept whole"); n != 1 {
		t.Errorf("that calls are dropped is said %d times", n)
	}
}

// What a stream spreads over its events cannot be put together from the record.
func TestRecordOfCallsHoldsNoSecretInPieces(t *testing.T) {
	b := newBench(t, "")
	b.sec.MaskKey, b.sec.MaskValues = []byte("0123456789abcdef0123456789abcdef"), []string{"value-that-we-hold"}
	_, x := b.keeper()
	var stream strings.Builder
	for _, piece := range []string{"it is value", "-that", "-we-hold."} {
		stream.WriteString(`data: { "type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + piece + "\"}}\n\n")
	}
	x.recordExchange(done(1, []byte("{}"), []byte(stream.String())))
	x.close()
	_, ended := b.exchanges()
	if kept := ended[0].Response; strings.Contains(kept.Text, "-that") || !strings.Contains(kept.Text, `"text":"it is ‹secret:`) || kept.Dropped {
		t.Errorf("%+v", kept)
	}
}

// A line that a crash cut is ended, and nothing of before is lost.
func TestRecordOfCallsGoesOnAfterACrash(t *testing.T) {
	b := newBench(t, "")
	_, x := b.keeper()
	x.recordExchange(done(1, []byte("{}"), []byte("{}")))
	_, err := x.file.WriteString(`{"n":2,"event":"se`)
	b.must(err)
	b.must(x.file.Close())
	_, x = b.keeper()
	x.recordExchange(done(1, []byte("{}"), []byte("{}")))
	x.close()
	lines := strings.Split(strings.TrimSpace(b.read(exchangesFile)), "\n")
	if len(lines) != 3 || !json.Valid([]byte(lines[0])) || json.Valid([]byte(lines[1])) || !json.Valid([]byte(lines[2])) {
		t.Errorf("the record is\n%s", strings.Join(lines, "\n"))
	}
}

// An agent of an earlier attempt without a sandbox may have put a link in its place.
func TestRecordOfCallsFollowsNoLinkOut(t *testing.T) {
	b := newBench(t, "")
	outside := filepath.Join(t.TempDir(), "outside")
	b.must(os.WriteFile(outside, []byte("x"), 0o600))
	b.must(os.Mkdir(filepath.Join(b.ws, "logs"), 0o700))
	b.must(os.Symlink(outside, filepath.Join(b.ws, exchangesFile)))
	w := &worker{spec: &b.spec, log: slog.New(slog.DiscardHandler), mask: mask.New(nil), now: time.Now}
	if x, err := w.openExchanges(); err == nil {
		x.file.Close()
		t.Error("a link out of the workspace was opened")
	}
}
