package replay

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
)

func asIs(b []byte) []byte { return b }

// tapeOf records some questions and returns the tape.
func tapeOf(t testing.TB, mask func([]byte) []byte, ask func(*Recorder)) []byte {
	t.Helper()
	var packed []byte
	r, err := NewRecorder("run", Prepare, "v1", mask, Whole(func(b []byte) error { packed = bytes.Clone(b); return nil }))
	if err != nil {
		t.Fatal(err)
	}
	ask(r)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return packed
}

// keep puts a body on tape.
func keep(t testing.TB, r *Recorder, name, body string) {
	t.Helper()
	var into []byte
	if err := r.Take(name, &into, func() error { into = []byte(body); return nil }); err != nil {
		t.Fatal(err)
	}
}

var errAsked = errors.New("it was asked")

func TestATapeAnswersAsThen(t *testing.T) {
	gone := nightcrier.Errorf(nightcrier.NotFound, "pods \"x\" not found")
	packed := tapeOf(t, asIs, func(r *Recorder) {
		keep(t, r, "log", "first <&>\n")
		keep(t, r, "log", "second \xff")
		var n int
		_ = r.Take("count", &n, func() error { n = 7; return nil })
		_ = r.Take("pod", &n, func() error { return gone })
	})
	p, err := Read(packed, Prepare)
	if err != nil {
		t.Fatal(err)
	}
	asked := func() error { return errAsked }
	for _, want := range []string{"first <&>\n", "second \xff"} {
		var got []byte
		if err := p.Take("log", &got, asked); err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	var n int
	if err := p.Take("count", &n, asked); err != nil || n != 7 {
		t.Errorf("%d, %v", n, err)
	}
	if err := p.Take("pod", &n, asked); nightcrier.CodeOf(err) != nightcrier.NotFound || err.Error() != gone.Error() {
		t.Errorf("an error came back as %v", err)
	}
	var got []byte
	if err := p.Take("log", &got, asked); err != nil || string(got) != "second \xff" {
		t.Errorf("asked once more than then: %q, %v", got, err)
	}
	if err := p.Take("lag", &got, asked); !errors.Is(err, errAsked) {
		t.Errorf("not asked then: %v", err)
	}
}

func TestATapeHoldsNoSecret(t *testing.T) {
	mask := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("hunter2"), []byte("***")) }
	packed := tapeOf(t, mask, func(r *Recorder) {
		keep(t, r, "log", "password hunter2")
		keep(t, r, "raw", "\xff hunter2")
		var v map[string]string
		_ = r.Take("doc", &v, func() error { v = map[string]string{"a": "hunter2"}; return nil })
		_ = r.Take("error", &v, func() error { return errors.New("hunter2 is wrong") })
	})
	in, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var plain bytes.Buffer
	if _, err := plain.ReadFrom(in); err != nil || bytes.Contains(plain.Bytes(), []byte("hunter2")) || bytes.Count(plain.Bytes(), []byte("\n")) != 5 {
		t.Errorf("%v:\n%s", err, plain.Bytes())
	}
}

func TestDamagedTapes(t *testing.T) {
	whole := tapeOf(t, asIs, func(r *Recorder) { keep(t, r, "log", strings.Repeat("x y z ", 500)) })
	pack := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return b.Bytes()
	}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 0x40
	for name, tt := range map[string]struct {
		packed []byte
		step   string
	}{
		"empty": {nil, Prepare}, "no gzip": {[]byte("hello"), Prepare}, "cut": {whole[:len(whole)-9], Prepare}, "flipped": {flipped, Prepare},
		"of another step": {whole, Test}, "nothing in it": {pack(""), Prepare},
		"another format": {pack(`{"format":"nightcrier.record/9","step":"prepare"}` + "\n"), Prepare},
		"no JSON":        {pack(`{"format":"nightcrier.record/2","step":"prepare"}` + "\nx\n"), Prepare},
		"no end of line": {pack(`{"format":"nightcrier.record/2","step":"prepare"}`), Prepare},
	} {
		if _, err := Read(tt.packed, tt.step); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), File(tt.step)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"format":"nightcrier.record/2","step":"prepare"}` + "\n" + `{"ask":"a","text":"b"}` + "\n")
	f.Add(`{"format":"nightcrier.record/2","step":"prepare"}` + "\n" + `{"ask":"a","error":{"code":"x"}}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		p, err := Read(b.Bytes(), Prepare)
		if err != nil {
			return
		}
		var body []byte
		var doc map[string]any
		_ = p.Take("a", &body, func() error { return nil })
		_ = p.Take("a", &doc, func() error { return nil })
		_ = p.Peek("a", &doc)
	})
}

// newWorkspace writes files of a workspace and opens it.
func newWorkspace(t testing.TB, files map[string]string) (string, *Record, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Open(dir)
	if err == nil {
		t.Cleanup(func() { _ = r.Close() })
	}
	return dir, r, err
}

// A record that somebody wrote leads nowhere, and says what is wrong with it.
func TestHostileRecords(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, r, err := newWorkspace(t, map[string]string{
		indexFile: `{"id":"E1","kind":"log","source":"x","sha256":"../../../../etc/passwd"}` + "\n",
		auditFile: `{"seq":1}` + "\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Doubts) != 2 || len(r.items) != 0 {
		t.Errorf("doubts %v, items %v", r.Doubts, r.items)
	}
	for _, link := range []string{"output/report.json", "record"} {
		if err := os.Symlink(secret, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if raw, err := r.File(ReportFile); err == nil {
		t.Errorf("a link was followed: %q", raw)
	}
	if _, err := r.Tape(Prepare); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("tapes behind a link: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "nowhere")); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("no workspace: %v", err)
	}
	if err := r.SeedEvidence(t.TempDir(), 3); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("more evidence than there is: %v", err)
	}
}

// What was kept is held against its digest, and that against the audit's, when a record is
// opened: whoever plays it knows before anything is said of it.
func TestChangedEvidenceIsNoticed(t *testing.T) {
	sum := text.DigestOf([]byte("what was read"))
	item := func(sum string) string {
		return `{"id":"E1","kind":"log","source":"x","sha256":"` + sum + `","bytes":13}` + "\n"
	}
	call := func(request, response string) string {
		return `{"event":"answered","path":"/v1/messages","status":200,"time":"2026-01-02T03:04:05Z","request":{"sha256":"` + text.DigestOf([]byte("q")) + `","text":"` + request +
			`"},"response":{"sha256":"` + text.DigestOf([]byte("a")) + `","text":"` + response + `"}}` + "\n"
	}
	chain := audited(t, journal.Request{Verb: "get", Version: "v1", Resource: "pods", Decision: journal.Allow, Done: true, Status: 200, Bytes: 13, Evidence: "E1", SHA256: sum})
	blob := evidenceDir + "/" + sum + ".blob"
	for name, tt := range map[string]struct {
		files map[string]string
		doubt string
	}{
		"as it was":           {map[string]string{indexFile: item(sum), blob: "what was read", auditFile: chain, modelFile: call("q", "a")}, ""},
		"a changed blob":      {map[string]string{indexFile: item(sum), blob: "what was reaD", auditFile: chain}, "evidence E1 is gone"},
		"no blob":             {map[string]string{indexFile: item(sum), auditFile: chain}, "evidence E1 is gone"},
		"another blob, whole": {map[string]string{indexFile: item(text.DigestOf([]byte("x"))), evidenceDir + "/" + text.DigestOf([]byte("x")) + ".blob": "x", auditFile: chain}, "not what output/audit.jsonl says"},
		"a request":           {map[string]string{modelFile: call("Q", "a")}, "logs/model.jsonl: line 1"},
		"an answer":           {map[string]string{modelFile: call("q", "a") + call("q", "A")}, "logs/model.jsonl: line 2"},
		"a masked answer":     {map[string]string{modelFile: call("q", mask.New([]byte("k"), "hunter2-of-them").String("hunter2-of-them"))}, ""},
	} {
		_, r, err := newWorkspace(t, tt.files)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if said := strings.Join(r.Doubts, "; "); (tt.doubt == "") != (said == "") || !strings.Contains(said, tt.doubt) {
			t.Errorf("%s: doubts %q", name, said)
		}
	}
}

// What was answered many times is kept once, and nothing is kept that no run keeps: a small record
// fills no memory.
func TestRecordsAreNoLargerThanWhatIsInThem(t *testing.T) {
	body := `{"kind":"PodList","items":[],"x":"` + strings.Repeat("x", 1<<20) + `"}`
	sum := text.DigestOf([]byte(body))
	var asked []journal.Request
	for range 500 {
		asked = append(asked, journal.Request{Verb: "list", Version: "v1", Resource: "pods", Decision: journal.Allow, Done: true, Status: 200, Bytes: 1, Evidence: "E1", SHA256: sum})
	}
	large := strings.Repeat("y", evidence.MaxBytes+1)
	index := ""
	for i, of := range []string{body, large} {
		index += fmt.Sprintf(`{"id":"E%d","kind":"list","source":"x","sha256":"%s","bytes":1}`+"\n", i+1, text.DigestOf([]byte(of)))
	}
	files := map[string]string{indexFile: index, auditFile: audited(t, asked...)}
	for _, of := range []string{body, large} {
		files[evidenceDir+"/"+text.DigestOf([]byte(of))+".blob"] = of
	}
	_, r, err := newWorkspace(t, files)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Doubts) != 1 || !strings.Contains(r.Doubts[0], "evidence E2") {
		t.Errorf("doubts %q", r.Doubts)
	}
	var all []recorded
	for _, list := range r.Cluster().answers {
		all = append(all, list...)
	}
	if len(all) != len(asked) {
		t.Fatalf("%d answers", len(all))
	}
	for _, a := range all {
		if unsafe.SliceData(a.body) != unsafe.SliceData(all[0].body) {
			t.Fatal("an answer is kept twice")
		}
	}
}

// A directory is listed where no link leads to it.
func TestDirectoriesBehindLinksAreNotListed(t *testing.T) {
	dir, r, err := newWorkspace(t, map[string]string{".claude/skills/one/SKILL.md": "x", "other/skills/two/SKILL.md": "x"})
	if err != nil {
		t.Fatal(err)
	}
	if at, found, err := r.List(".claude", "skills"); err != nil || len(found) != 1 || at != filepath.Join(dir, ".claude", "skills") {
		t.Fatal(at, found, err)
	}
	for _, link := range []string{".claude", ".claude/skills"} {
		for _, to := range []string{"/etc", filepath.Join(dir, "other"), "other"} {
			at := filepath.Join(dir, link)
			if err := errors.Join(os.RemoveAll(filepath.Join(dir, ".claude")), os.MkdirAll(filepath.Dir(at), 0o700), os.Symlink(to, at)); err != nil {
				t.Fatal(err)
			}
			if _, found, err := r.List(".claude", "skills"); err == nil {
				t.Errorf("%s leads to %s: %v", link, to, found)
			}
		}
	}
}

// audited is an audit of some requests.
func audited(t *testing.T, all ...journal.Request) string {
	t.Helper()
	var log audit.Log
	for i, q := range all {
		item := journal.OfRequest(q)
		raw, err := json.Marshal(item.Data)
		if err != nil {
			t.Fatal(err)
		}
		if err := log.Add(nightcrier.JournalEntry{Seq: int64(i + 1), Type: item.Type, Data: raw}); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if _, err := log.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The workspace is elsewhere, and what the model said of it is too: also where a
// stream spreads the path over its events.
func TestPathsInAnswersAreMoved(t *testing.T) {
	const from, to = "/srv/incidents/incident-1", "/tmp/x"
	for name, tt := range map[string]struct{ answer, want string }{
		"plain":  {`{"path":"/srv/incidents/incident-1/output"}`, `{"path":"/tmp/x/output"}`},
		"none":   {"data: {\"a\":\"b\"}\n\n", "data: {\"a\":\"b\"}\n\n"},
		"done":   {"data: [DONE]\n\n", "data: [DONE]\n\n"},
		"spread": {"event: d\ndata: {\"index\":0,\"t\":\"a /srv/inci\"}\n\ndata: {\"index\":1,\"t\":\"/srv/other\"}\n\ndata: {\"index\":0,\"t\":\"dents/incident-1\"}\n\ndata: {\"index\":0,\"t\":\"/b\"}\n\n", "event: d\ndata: {\"index\":0,\"t\":\"a /tmp/x/b\"}\n\ndata: {\"index\":1,\"t\":\"/srv/other\"}\n\ndata: {\"index\":0,\"t\":\"\"}\n\ndata: {\"index\":0,\"t\":\"\"}\n\n"},
	} {
		if got := string(movePath([]byte(tt.answer), from, to)); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}

func FuzzMoved(f *testing.F) {
	f.Add("data: {\"index\":0,\"t\":\"a /srv/inci\"}\n\ndata: {\"index\":0,\"t\":\"dents\"}\n\n", "/srv/incidents", "/t")
	f.Fuzz(func(_ *testing.T, answer, from, to string) { movePath([]byte(answer), from, to) })
}

// A model that is asked something else gives the answer that fits best, and says
// where the question parts from that of then.
func TestAModelSaysWhatItIsAskedDifferently(t *testing.T) {
	line := func(turns, request, answer string) string {
		return `{"event":"answered","path":"/v1/messages","status":200,"time":"2026-01-02T03:04:05Z","request":{"text":"{\"messages\":[` + turns + `],\"x\":\"` + request + `\"}"},"response":{"contentType":"text/plain","text":"` + answer + `"}}` + "\n"
	}
	_, r, err := newWorkspace(t, map[string]string{modelFile: line("1", "one", "A") + line("1,2", "on 2026-01-02 in /then", "B") + "broken\n" + `{"event":"sent"}` + "\n" + line("1,2,3", "three", "C")})
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Model("/then", "/now", "2027-01-01")
	if err != nil || len(r.Doubts) != 1 {
		t.Fatal(err, r.Doubts)
	}
	ask := func(body string) (int, string) {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	if code, got := ask(`{"messages":[1,2],"x":"on 2027-01-01 in /now"}`); code != 200 || got != "B" || m.Differs() != nil {
		t.Errorf("%d %s, %v", code, got, m.Differs())
	}
	if code, got := ask(`{"messages":[1],"x":"other"}`); code != 200 || got != "A" {
		t.Errorf("%d %s", code, got)
	}
	if d := m.Differs(); d == nil || d.Then != `"one"` || d.Now != `"other"` {
		t.Errorf("%+v", d)
	}
	ask(`{"messages":[9]}`)
	if code, _ := ask(`{"messages":[9]}`); code != http.StatusBadRequest {
		t.Errorf("beyond the record: %d", code)
	}
	if missed, left := m.Missed(); len(missed) != 1 || len(left) != 0 {
		t.Errorf("missed %v, left %v", missed, left)
	}
}

func TestDifferencesAreNamed(t *testing.T) {
	got := Documents("r", []byte(`{"a":{"b":[1,2]},"c":"x"}`), []byte(`{"c":"x","a":{"b":[1,3,4]}}`))
	want := []Difference{{"r a.b[1]", "2", "3"}, {"r a.b[2]", "", "4"}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if got := Documents("r", []byte(`{"a":1}`), []byte("{ \"a\": 1 }")); len(got) > 0 {
		t.Errorf("another spelling: %+v", got)
	}
}

func TestWhatIsAnotherEachTimeIsNoDifference(t *testing.T) {
	const then = "at /ws/then, 127.0.0.1:4711, 0198f1c2-5f0e-7c3a-9a52-0d4be1c1a001, 2026-11-20. Process Group PGID: 23\nBackground PIDs: 23, 24\nWall time: 0.5 seconds"
	const now = "at /ws/now, 127.0.0.1:815, 0198f1c2-5f0e-7c3a-9a52-0d4be1c1a002, 2026-11-23. Process Group PGID: 8\nBackground PIDs: 9\nWall time: 12 seconds"
	if a, b := normalText(then, "/ws/then", "2026-11-20"), normalText(now, "/ws/now", "2026-11-23"); a != b {
		t.Errorf("%q\n%q", a, b)
	}
	if a, b := normalText("exit code 1", "", ""), normalText("exit code 2", "", ""); a == b {
		t.Errorf("what differs is lost: %q", a)
	}
}
