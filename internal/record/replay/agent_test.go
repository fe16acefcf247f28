package replay

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

// agentTape is a tape of an attempt, as a workspace has it.
func agentTape(t *testing.T, attempt int, ask func(*Recorder)) string {
	t.Helper()
	var packed []byte
	r, err := NewRecorder("run", Agent(attempt), "", asIs, Whole(func(b []byte) error { packed = bytes.Clone(b); return nil }))
	if err != nil {
		t.Fatal(err)
	}
	ask(r)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return string(packed)
}

// What others answered is given again in its order, the last one from then on; what nobody
// asked is refused, and both are found by comparing the two tapes.
func TestAnAgentIsAnsweredAsThen(t *testing.T) {
	dir, then, err := newWorkspace(t, map[string]string{
		File(Agent(2)): agentTape(t, 2, func(r *Recorder) {
			keep(t, r, "owner cart", "first")
			keep(t, r, "owner cart", "second")
			keep(t, r, "owner shop", "left")
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := AgentTape(dir, 1) // which has none
	if err != nil {
		t.Fatal(err)
	}
	nowDir, _, err := newWorkspace(t, map[string]string{File(Agent(1)): agentTape(t, 1, func(r *Recorder) {
		take := r.Again(p)
		for _, want := range []string{"first", "second", "second"} {
			var got []byte
			if err := take("owner cart", &got, func() error { return errAsked }); err != nil || string(got) != want {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		}
		var got []byte
		err := take("owner bank", &got, func() error { return errAsked })
		if nightcrier.CodeOf(err) != nightcrier.Refused || !strings.Contains(err.Error(), "not recorded") {
			t.Errorf("%q, %v", got, err)
		}
	})})
	if err != nil {
		t.Fatal(err)
	}
	now, err := Open(nowDir)
	if err != nil {
		t.Fatal(err)
	}
	defer now.Close()
	added, dropped, _ := Questions(then, now)
	if !slices.Equal(added, []string{"owner bank"}) || !slices.Equal(dropped, []string{"owner shop"}) || !slices.Equal(now.Unanswered(), added) {
		t.Errorf("added %q, dropped %q, unanswered %q", added, dropped, now.Unanswered())
	}
	if has, err := then.HasAnswers(); !has || err != nil {
		t.Error(has, err)
	}
}

// A workspace without tapes of agents, as a run without agents leaves it, has no answers; one
// whose tape was damaged says so.
func TestWorkspacesWithoutAnswers(t *testing.T) {
	dir, r, err := newWorkspace(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if has, err := r.HasAnswers(); has || err != nil {
		t.Error(has, err)
	}
	if _, err := AgentTape(dir, 1); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Error(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "record"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, File(Agent(1))), []byte("no tape"), 0o600); err != nil {
		t.Fatal(err)
	}
	if has, err := r.HasAnswers(); !has || nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Error(has, err)
	}
	if _, err := AgentTape(dir, 1); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Error(err)
	}
}

// Long questions that begin alike are told apart.
func TestLongQuestionsAreToldApart(t *testing.T) {
	long := strings.Repeat("x", 3*maxName)
	p, err := Read(tapeOf(t, asIs, func(r *Recorder) {
		keep(t, r, long+"1", "one")
		keep(t, r, long+"2", "two")
	}), Prepare)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"2", "1"} {
		var got []byte
		if err := p.Take(long+name, &got, func() error { return errAsked }); err != nil || string(got) != map[string]string{"1": "one", "2": "two"}[name] {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	var got []byte
	if err := p.Take(long+"3", &got, func() error { return errAsked }); !errors.Is(err, errAsked) {
		t.Errorf("%q, %v", got, err)
	}
}

// What an agent can have kept is bounded, also as errors, and what was kept stays a tape.
func TestATapeIsBounded(t *testing.T) {
	p, err := Read(tapeOf(t, asIs, func(r *Recorder) {
		r.room = 1 << 20
		big := nightcrier.Errorf(nightcrier.Invalid, "%s", strings.Repeat("x", r.room/2))
		for range 3 {
			_ = r.Take("big", new([]byte), func() error { return big })
		}
		for range maxEntries + 1 {
			_ = r.Take("many", new([]byte), func() error { return nil })
		}
	}), Prepare)
	if err != nil {
		t.Fatal(err)
	}
	if big, many := p.entries["big"], p.entries["many"]; len(big) != 3 || big[0].Error == nil || big[1].Error != nil || !big[2].Dropped || len(many) != maxEntries-3 {
		t.Errorf("%d big, %d many", len(big), len(many))
	}
}

// A tape that was made to be much larger than it looks is not unpacked without a bound, nor is
// one whose documents lie deep in each other.
func TestTapesThatAreBombs(t *testing.T) {
	pack := func(write func(*gzip.Writer)) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(`{"format":"nightcrier.record/2","step":"prepare"}` + "\n"))
		write(w)
		_ = w.Close()
		return b.Bytes()
	}
	for name, packed := range map[string][]byte{
		"a line without an end": pack(func(w *gzip.Writer) {
			_, _ = w.Write([]byte(strings.Repeat(" ", 2<<20) + "{}\n"))
		}),
		"lines without an end": pack(func(w *gzip.Writer) {
			for range maxEntries + 1 {
				_, _ = w.Write([]byte("{}\n"))
			}
		}),
		"depth": pack(func(w *gzip.Writer) {
			_, _ = w.Write([]byte(`{"ask":"a","value":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}\n"))
		}),
	} {
		if _, err := unpackPlayer(packed, 1<<20); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}
