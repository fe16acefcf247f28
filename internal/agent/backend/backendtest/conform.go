// Package backendtest has the suite that every backend of workers must pass.
package backendtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// Place is where the suite's workers run.
type Place struct {
	// Open makes the backend as a server that starts does: it has no memory of an earlier one.
	Open func() backend.Backend
	// Kill ends a worker without a word to anybody, as a crash does.
	Kill func(t *testing.T, h backend.Handle)
	// Left counts the processes that run for the agents of an incident.
	Left func(incidentID string) int
}

// patience is how long an agent may take on a busy machine.
const patience = 3 * time.Minute

// owner is whose workers the suite's are.
const owner = "somebody"

// Exercise runs the suite. newPlace makes a place that no other test uses.
func Exercise(t *testing.T, newPlace func(t *testing.T) Place) {
	for name, test := range map[string]func(*testing.T, *bench){
		"an attempt is launched once":              launchedOnce,
		"a spec that is refused is no worker":      refused,
		"what is followed is resumed at an entry":  resumed,
		"a cancel is heard before and while":       cancelled,
		"a cancel after the end changes nothing":   cancelledLate,
		"a server dies and its heir finds workers": found,
		"a worker that dies is lost, once for all": lost,
		"a live worker is destroyed":               destroyedAlive,
		"an ended worker is destroyed":             destroyedEnded,
		"a dead worker is destroyed":               destroyedDead,
		"handles that nobody knows":                unknown,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t, newPlace(t)))
		})
	}
}

// bench is a workspace, and the spec of a worker for it.
type bench struct {
	*testing.T
	Place
	backend.Backend
	ws   string
	spec backend.Spec
}

func newBench(t *testing.T, p Place) *bench {
	t.Helper()
	root := t.TempDir()
	b := &bench{T: t, Place: p, Backend: p.Open(), ws: filepath.Join(root, "incident")}
	for _, dir := range []string{"context", "output"} {
		b.must(os.MkdirAll(filepath.Join(b.ws, dir), 0o700))
	}
	b.spec = backend.Spec{
		Version: backend.SpecVersion, Owner: owner, RunID: nightcrier.NewID(), IncidentID: nightcrier.NewID(), Cluster: "prod-1", Step: "investigate", Attempt: 1, Workspace: b.ws,
		Spec: agent.Spec{Executor: "script", Shell: true, ScriptPath: filepath.Join(root, "agent.sh"), Timeout: patience, Grace: 300 * time.Millisecond},
	}
	b.script(`echo x >> "$OUTPUT_DIR/starts"; echo one; echo two >&2; echo three`)
	return b
}

// script makes the agent a shell script.
func (b *bench) script(text string) {
	b.Helper()
	b.must(os.WriteFile(b.spec.ScriptPath, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
}

// waiting is an agent that says that it is up, and does not end by itself.
const waiting = `echo x >> "$OUTPUT_DIR/starts"; echo up; while :; do sleep 1; done`

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) launch() backend.Handle {
	b.Helper()
	h, err := b.Launch(b.Context(), b.spec, backend.Secrets{})
	b.must(err)
	return h
}

// follow follows to the end.
func (b *bench) follow(h backend.Handle, from int64) (nightcrier.AgentResult, []nightcrier.JournalEntry) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	var entries []nightcrier.JournalEntry
	ended, err := b.Follow(ctx, h, from, func(e nightcrier.JournalEntry) error {
		entries = append(entries, e)
		return nil
	})
	b.must(err)
	return ended.Result, entries
}

var errEnough = errors.New("enough")

// awaitUp follows until the agent says that it is up, and detaches.
func (b *bench) awaitUp(h backend.Handle) {
	b.Helper()
	_, err := b.Follow(b.Context(), h, 0, func(e nightcrier.JournalEntry) error {
		if strings.Contains(string(e.Data), `"up"`) {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		b.Fatalf("the agent did not come up: %v", err)
	}
}

// starts counts how often the agent was started.
func (b *bench) starts() int {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(b.ws, ".scratch", "starts"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.Fatal(err)
	}
	return strings.Count(string(text), "x")
}

// owned is what List tells of a worker of an owner, false where that is nothing.
func (b *bench) owned(of string, h backend.Handle) (backend.Owned, bool) {
	b.Helper()
	all, err := b.List(b.Context(), of)
	b.must(err)
	i := slices.IndexFunc(all, func(o backend.Owned) bool { return o.Handle == h })
	if i < 0 {
		return backend.Owned{}, false
	}
	return all[i], true
}

// gone checks that nothing of the worker is left.
func (b *bench) gone(h backend.Handle) {
	b.Helper()
	if o, ok := b.owned(owner, h); ok {
		b.Errorf("it is still listed: %+v", o)
	}
	if _, err := b.Follow(b.Context(), h, 0, nil); nightcrier.CodeOf(err) != nightcrier.NotFound {
		b.Errorf("it can still be followed: %v", err)
	}
	b.must(b.Cancel(b.Context(), h, "too late"))
	b.must(b.Destroy(b.Context(), h)) // a second time
	if n := b.Left(b.spec.IncidentID); n > 0 {
		b.Errorf("%d processes are left", n)
	}
	if _, err := os.Stat(filepath.Join(b.ws, "context")); err != nil {
		b.Errorf("the workspace went as well: %v", err)
	}
}

func launchedOnce(t *testing.T, b *bench) {
	handles := make([]backend.Handle, 6)
	var wg sync.WaitGroup
	for i := range handles {
		wg.Go(func() {
			var err error
			if handles[i], err = b.Open().Launch(t.Context(), b.spec, backend.Secrets{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	r, entries := b.follow(handles[0], 0)
	again := b.launch() // it is over
	if r.State != nightcrier.StateSuccess || b.starts() != 1 || r.StartedAt.IsZero() || r.EndedAt.IsZero() {
		t.Errorf("%d starts, %+v", b.starts(), r)
	}
	if slices.ContainsFunc(handles, func(h backend.Handle) bool { return h != again }) {
		t.Errorf("one attempt has the handles %v and %v", handles, again)
	}
	if got := states(t, entries); got != "created starting running success" {
		t.Errorf("states %s", got)
	}
	b.spec.Attempt = 2
	if other := b.launch(); other == again {
		t.Error("two attempts have one handle")
	} else if r, _ := b.follow(other, 0); r.State != nightcrier.StateSuccess || b.starts() != 2 {
		t.Errorf("another attempt: %d starts, %+v", b.starts(), r)
	}
}

// states renders the transitions of a journal.
func states(t *testing.T, entries []nightcrier.JournalEntry) string {
	t.Helper()
	var words []string
	for _, e := range entries {
		if e.Type == nightcrier.EntryState {
			s, err := journal.Decode[journal.State](e)
			if err != nil {
				t.Fatal(err)
			}
			words = append(words, string(s.To))
		}
	}
	return strings.Join(words, " ")
}

func refused(t *testing.T, b *bench) {
	for name, spoil := range map[string]func(*backend.Spec){
		"another version":  func(s *backend.Spec) { s.Version++ },
		"no run":           func(s *backend.Spec) { s.RunID = "../etc" },
		"a loose sandbox":  func(s *backend.Spec) { s.Require = "maybe" },
		"a bound below 0":  func(s *backend.Spec) { s.Timeout = -1 },
		"a workspace of .": func(s *backend.Spec) { s.Workspace = "incident" },
	} {
		s := b.spec
		spoil(&s)
		if _, err := b.Launch(t.Context(), s, backend.Secrets{}); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, err := b.List(t.Context(), owner); err != nil || len(all) > 0 || b.starts() > 0 {
		t.Errorf("%d starts, %+v, %v", b.starts(), all, err)
	}
}

func resumed(t *testing.T, b *bench) {
	h := b.launch()
	_, all := b.follow(h, 0)
	for i, e := range all {
		if want := fmt.Sprintf("worker#1/%d", i+1); e.Key != want || e.Run != b.spec.RunID || e.Step != b.spec.Step || e.Attempt != 1 || e.Time.IsZero() {
			t.Errorf("entry %d is %+v", i+1, e)
		}
		if _, rest := b.follow(h, int64(i+1)); len(rest) != len(all)-i-1 {
			t.Errorf("above %d there are %d of %d", i+1, len(rest), len(all))
		}
	}
	// One entry at a time, each by a server of its own.
	b.spec.Attempt = 2
	h = b.launch()
	var last int64
	for done := false; !done; {
		b.Backend = b.Open()
		_, err := b.Follow(t.Context(), h, last, func(e nightcrier.JournalEntry) error {
			n, err := strconv.ParseInt(strings.TrimPrefix(e.Key, "worker#2/"), 10, 64)
			if err != nil || n != last+1 {
				t.Fatalf("%s comes after %d", e.Key, last)
			}
			last = n
			return errEnough
		})
		if done = err == nil; !done && !errors.Is(err, errEnough) {
			t.Fatal(err)
		}
	}
	if _, whole := b.follow(h, 0); int64(len(whole)) != last {
		t.Errorf("%d entries one by one, %d at once", last, len(whole))
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := b.Follow(stopped, h, 0, nil); nightcrier.CodeOf(err) != nightcrier.Interrupted {
		t.Errorf("a follower that is stopped: %v", err)
	}
}

func cancelled(t *testing.T, b *bench) {
	b.script(waiting)
	for attempt, up := range map[int]bool{1: false, 2: true} {
		b.spec.Attempt = attempt
		h := b.launch()
		if up {
			b.awaitUp(h)
		}
		b.must(b.Cancel(t.Context(), h, "an engineer said so"))
		b.must(b.Open().Cancel(t.Context(), h, "so did another"))
		r, entries := b.follow(h, 0)
		if r.State != nightcrier.StateCancelled || r.FailureClass != nightcrier.FailCancelled || r.FailureReason != "an engineer said so" {
			t.Errorf("up %v: %+v", up, r)
		}
		if got := states(t, entries); !strings.HasSuffix(got, " cancelled") {
			t.Errorf("up %v: states %s", up, got)
		}
	}
	if n := b.Left(b.spec.IncidentID); n > 0 {
		t.Errorf("%d processes are left", n)
	}
}

func cancelledLate(t *testing.T, b *bench) {
	h := b.launch()
	before, _ := b.follow(h, 0)
	b.must(b.Cancel(t.Context(), h, "too late"))
	if after, _ := b.follow(h, 0); after.State != nightcrier.StateSuccess || after.EndedAt != before.EndedAt {
		t.Errorf("%+v after %+v", after, before)
	}
}

func found(t *testing.T, b *bench) {
	b.script(waiting)
	text, err := json.Marshal(b.launch())
	b.must(err)
	var h backend.Handle
	b.must(json.Unmarshal(text, &h))
	b.awaitUp(h)
	b.Backend = b.Open()
	if o, ok := b.owned(owner, h); !ok || !o.Alive || o.Processes == 0 || o.RunID != b.spec.RunID || o.Attempt != 1 {
		t.Errorf("a worker at work is told of as %+v", o)
	}
	if o, ok := b.owned("somebody else", h); ok {
		t.Errorf("another owner has %+v", o)
	}
	b.must(b.Cancel(t.Context(), h, "enough"))
	if r, _ := b.follow(h, 0); r.State != nightcrier.StateCancelled {
		t.Errorf("%+v", r)
	}
	if o, ok := b.owned(owner, h); !ok || o.Alive || o.Processes > 0 || o.RunID != b.spec.RunID {
		t.Errorf("one that has ended is told of as %+v, %v", o, ok)
	}
}

func lost(t *testing.T, b *bench) {
	b.script(waiting)
	h := b.launch()
	b.awaitUp(h)
	b.Kill(t, h)
	for range 2 {
		r, entries := b.follow(h, 0)
		if r.State != nightcrier.StateFailed || r.FailureClass != nightcrier.FailLost || r.EndedAt.IsZero() {
			t.Errorf("%+v", r)
		}
		if got := states(t, entries); got != "created starting running failed" {
			t.Errorf("states %s", got)
		}
	}
	if again := b.launch(); again != h || b.starts() != 1 || b.Left(b.spec.IncidentID) > 0 {
		t.Errorf("%d starts, %d processes are left, and it is %v", b.starts(), b.Left(b.spec.IncidentID), again)
	}
}

func destroyedAlive(t *testing.T, b *bench) {
	b.script(waiting)
	h := b.launch()
	b.awaitUp(h)
	b.must(b.Open().Destroy(t.Context(), h))
	b.gone(h)
}

func destroyedEnded(t *testing.T, b *bench) {
	h := b.launch()
	b.follow(h, 0)
	b.must(b.Destroy(t.Context(), h))
	b.gone(h)
}

func destroyedDead(t *testing.T, b *bench) {
	b.script(waiting)
	h := b.launch()
	b.awaitUp(h)
	b.Kill(t, h)
	b.must(b.Destroy(t.Context(), h))
	b.gone(h)
}

func unknown(t *testing.T, b *bench) {
	h := b.launch()
	b.follow(h, 0)
	b.must(b.Destroy(t.Context(), h))
	b.gone(h) // it was one once
	for _, no := range []backend.Handle{{}, {Backend: h.Backend}, {Backend: "another", ID: h.ID}, {Backend: h.Backend, ID: "../" + h.ID}, {Backend: h.Backend, ID: h.ID + "/.."}} {
		if _, err := b.Follow(t.Context(), no, 0, nil); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("follow %v: %v", no, err)
		}
		if err := b.Cancel(t.Context(), no, "x"); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("cancel %v: %v", no, err)
		}
		if err := b.Destroy(t.Context(), no); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("destroy %v: %v", no, err)
		}
	}
}
