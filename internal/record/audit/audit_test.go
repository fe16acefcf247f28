package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

var at = time.Date(2026, 11, 20, 8, 30, 0, 123_456_000, time.UTC)

func entry(t testing.TB, attempt int, i journal.Item) nightcrier.JournalEntry {
	t.Helper()
	data, err := i.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return nightcrier.JournalEntry{Run: "r", Time: at, Attempt: attempt, Type: i.Type, Data: data}
}

// read is one request with its outcome.
func read(id int64, name, evidence string) (before, after journal.Request) {
	before = journal.Request{ID: id, Time: at.Add(time.Duration(id) * time.Second), Verb: "get", Version: "v1", Resource: "pods", Namespace: "shop", Name: name, Decision: journal.Allow}
	after = before
	after.Time = after.Time.Add(time.Millisecond)
	after.Done, after.Status, after.Bytes, after.SHA256, after.Evidence = true, 200, 42, strings.Repeat("ab", 32), evidence
	return before, after
}

// written renders requests of attempt 1.
func written(t testing.TB, requests ...journal.Request) (string, Summary) {
	t.Helper()
	var l Log
	for _, r := range requests {
		if err := l.Add(entry(t, 1, journal.OfRequest(r))); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	s, err := l.Write(&b)
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), s
}

// five is an audit of five requests, one of them refused.
func five(t testing.TB) (string, Summary) {
	var all []journal.Request
	for id := int64(1); id <= 4; id++ {
		before, after := read(id, fmt.Sprint("cart-", id), fmt.Sprint("E", id))
		all = append(all, before, after)
	}
	all = append(all, journal.Request{ID: 5, Time: at, Verb: "delete", Version: "v1", Resource: "pods", Namespace: "shop", Name: "<cart>", Decision: journal.Deny, Reason: "reads only"})
	return written(t, all...)
}

func TestOneLineARequest(t *testing.T) {
	file, s := five(t)
	if s.Requests != 5 || s.Denied != 1 || s.Kept != 4 || s.Head == "" {
		t.Errorf("summary %+v", s)
	}
	lines := strings.Split(strings.TrimSpace(file), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines:\n%s", len(lines), file)
	}
	want := `{"seq":1,"time":"2026-11-20T08:30:01.123456Z","evidence":"E1","verb":"get","group":"","version":"v1","resource":"pods","subresource":"",` +
		`"namespace":"shop","name":"cart-1","query":"","decision":"allow","reason":"","status":200,"bytes":42,"masked":0,"sha256":"` + strings.Repeat("ab", 32) + `","prev":"","hash":"`
	if !strings.HasPrefix(lines[0], want) {
		t.Errorf("first line\n%s\nwant\n%s", lines[0], want)
	}
	if !strings.Contains(lines[4], `"name":"<cart>"`) || !strings.Contains(lines[4], s.Head) {
		t.Errorf("last line %s", lines[4])
	}
	if again, _ := five(t); again != file {
		t.Error("the same journal rendered twice is not the same file")
	}
}

func TestOutcomesFindTheirRequests(t *testing.T) {
	a1, a2 := read(1, "a", "E1")
	b1, b2 := read(2, "b", "E2")
	other, _ := read(1, "later", "")
	var l Log
	for _, e := range []nightcrier.JournalEntry{
		entry(t, 1, journal.OfRequest(a1)), entry(t, 1, journal.OfRequest(b1)), // at the same time
		entry(t, 1, journal.OfRequest(b2)), entry(t, 1, journal.OfRequest(a2)),
		entry(t, 2, journal.OfRequest(other)), // the second attempt died
		entry(t, 1, journal.OfEvidence(journal.Evidence{ID: "E9", Source: "an event"})),
		entry(t, 1, journal.OfDenial(journal.Denial{Tool: "Bash"})),
		entry(t, 1, journal.OfLog(journal.Log{Text: "x"})),
	} {
		if err := l.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := l.Write(&b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		var r Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		got = append(got, r.Name+" "+r.Evidence+" "+r.Reason)
	}
	if want := []string{"a E1 ", "b E2 ", "later  " + noOutcome}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// reseal makes a chain of its own: what somebody can do who knows how it is made.
func reseal(t *testing.T, lines []string, change func(i int, r *Record)) string {
	var out strings.Builder
	prev := ""
	for i, line := range lines {
		var r Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		change(i, &r)
		r.Prev = prev
		r.Hash, _ = r.computeHash()
		prev = r.Hash
		b, _ := r.encodeLine()
		out.Write(append(b, '\n'))
	}
	return out.String()
}

func TestVerify(t *testing.T) {
	file, s := five(t)
	lines := strings.Split(strings.TrimSpace(file), "\n")
	join := func(l ...string) string { return strings.Join(l, "\n") + "\n" }
	for _, c := range []struct {
		name, file, head, want string
	}{
		{"whole", file, s.Head, ""},
		{"whole, head unknown", file, "", ""},
		{"nothing was asked", "", "", ""},
		{"name changed", strings.Replace(file, "cart-2", "cart-9", 1), s.Head, "line 2: request 2 was changed"},
		{"decision changed", strings.Replace(file, `"deny"`, `"allow"`, 1), "", "line 5: request 5 was changed"},
		{"a key added", strings.Replace(file, `"seq":3,`, `"seq":3,"note":"x",`, 1), "", "line 3: request 3 was changed"},
		{"a key twice", strings.Replace(file, `"seq":3,`, `"seq":3,"name":"x",`, 1), "", "line 3: request 3 was changed"},
		{"a blank", strings.Replace(file, `{"seq":4`, `{ "seq":4`, 1), "", "line 4: request 4 was changed"},
		{"escaped otherwise", strings.Replace(file, `<cart>`, `\u003ccart>`, 1), "", "line 5: request 5 was changed"},
		{"carriage return", strings.Replace(file, "\n", "\r\n", 1), "", "line 1: request 1 was changed"},
		{"first missing", join(lines[1:]...), s.Head, "line 1: request 1 is missing"},
		{"two missing", join(lines[0], lines[3], lines[4]), s.Head, "line 2: requests 2 to 3 are missing"},
		{"last cut", join(lines[:4]...), s.Head, "lines were cut off or added"},
		{"all cut", "", s.Head, "the file is empty"},
		{"cut in a line", file[:len(file)-9], s.Head, "line 5: it is not whole"},
		{"newline cut", file[:len(file)-1], s.Head, "line 5: it is not whole"},
		{"swapped", join(lines[0], lines[2], lines[1], lines[3], lines[4]), "", "line 2: request 2 is missing"},
		{"twice", join(lines[0], lines[0], lines[1]), "", "line 2: request 1 stands here after request 1"},
		{"no JSON", join(lines[0], "x", lines[2]), "", "line 2: it is no line of an audit"},
		{"an empty line", join(lines[0], "", lines[1]), "", "line 2: it is no line of an audit"},
		{"a long line", join(lines[0], strings.Repeat("x", maxLine+1)), "", "line 2: it is longer"},
		{"resealed", reseal(t, lines, func(i int, r *Record) {
			if i == 4 {
				r.Decision = "allow"
			}
		}), s.Head, "should end with " + s.Head},
		{"added", file + join(strings.Split(strings.TrimSpace(reseal(t, append(slices.Clone(lines), lines[0]), func(i int, r *Record) { r.Seq = int64(i + 1) })), "\n")[5]), s.Head, "cut off or added"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, problems, err := Verify(strings.NewReader(c.file), c.head)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case c.want == "" && len(problems) > 0:
				t.Errorf("problems %v", problems)
			case c.want != "" && (len(problems) == 0 || !strings.Contains(fmt.Sprint(problems), c.want)):
				t.Errorf("problems %v, want %q", problems, c.want)
			}
		})
	}
}

// Every byte that is lost or changed is noticed.
func TestVerifyEveryByte(t *testing.T) {
	if testproc.Raced() {
		testproc.Rerun(t) // one goroutine has nothing to race with
		return
	}
	file, s := five(t)
	for i := range file {
		for name, damaged := range map[string]string{
			"lost": file[:i] + file[i+1:], "changed": file[:i] + string(file[i]^1) + file[i+1:], "cut": file[:i],
		} {
			if _, problems, err := Verify(strings.NewReader(damaged), s.Head); err == nil && len(problems) == 0 {
				t.Fatalf("byte %d %s: not noticed", i, name)
			}
		}
	}
}

func FuzzVerify(f *testing.F) {
	file, s := five(f)
	f.Add(file, s.Head)
	f.Add(file[:99], "")
	f.Add("{}\n[]\n\x00\n", "x")
	f.Fuzz(func(t *testing.T, text, head string) {
		got, problems, err := Verify(strings.NewReader(text), head)
		if err == nil && len(problems) == 0 && head != "" && got.Head != head {
			t.Errorf("%q passed with the head %q", text, head)
		}
	})
}

func TestChain(t *testing.T) {
	entries := make([]nightcrier.JournalEntry, 4)
	prev := ""
	for i := range entries {
		e := entry(t, 1, journal.OfLog(journal.Log{Text: fmt.Sprint(i)}))
		e.Seq, e.Prev = int64(i+1), prev
		e.Hash = e.ChainHash(prev)
		entries[i], prev = e, e.Hash
	}
	for name, c := range map[string]struct {
		damage func([]nightcrier.JournalEntry) []nightcrier.JournalEntry
		want   string
	}{
		"whole": {func(l []nightcrier.JournalEntry) []nightcrier.JournalEntry { return l }, ""},
		"changed": {func(l []nightcrier.JournalEntry) []nightcrier.JournalEntry {
			l[1].Data = json.RawMessage(`{"text":"other"}`)
			return l
		}, "entry 2 was changed"},
		"missing": {func(l []nightcrier.JournalEntry) []nightcrier.JournalEntry { return slices.Delete(l, 1, 2) }, "entry 3 stands after entry 1"},
		"resealed": {func(l []nightcrier.JournalEntry) []nightcrier.JournalEntry {
			l[1].Type = "denial"
			l[1].Hash = l[1].ChainHash(l[1].Prev)
			return l
		}, "entry 3 does not follow"},
	} {
		t.Run(name, func(t *testing.T) {
			var chain Chain
			for _, e := range c.damage(slices.Clone(entries)) {
				chain.Add(e)
			}
			got := fmt.Sprint(chain.Problems())
			if c.want == "" && len(chain.Problems()) > 0 || !strings.Contains(got, c.want) {
				t.Errorf("problems %s, want %q", got, c.want)
			}
		})
	}
}
