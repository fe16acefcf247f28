package process

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/portable"
	"nightcrier.dev/nightcrier/internal/sandbox"
	"nightcrier.dev/nightcrier/internal/sandbox/sandboxtest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func hasResult(d workdir.Dir) bool {
	ok, _ := d.HasFile(workdir.ResultFile)
	return ok
}

// A run is lost when all of its sandboxes are destroyed, and not before.
func TestLost(t *testing.T) {
	spec := backend.Spec{Version: backend.SpecVersion, RunID: nightcrier.NewID(), Attempt: 1}
	d := workdir.At(t.TempDir(), spec.WorkerName())
	must(t, os.Mkdir(string(d), 0o700))
	must(t, d.WriteFile(workdir.SpecFile, spec))
	name := spec.WorkerName()
	m := &sandboxtest.Machine{Fail: errors.New("it does not die")}
	ours := []*sandboxtest.Fake{m.Put(name, &sandboxtest.Fake{Orphan: true}), m.Put(name+"-docs", &sandboxtest.Fake{Orphan: true})}
	others := []*sandboxtest.Fake{m.Put(name+"0", &sandboxtest.Fake{}), m.Put("x", &sandboxtest.Fake{Orphan: true})}
	if _, err := reapWorker(t.Context(), d, name, "it died", m); err == nil || hasResult(d) {
		t.Fatalf("it is lost while its agent lives: %v", err)
	}
	m.Fail = nil
	if r, err := reapWorker(t.Context(), d, name, "it died", m); err != nil || r.FailureClass != nightcrier.FailLost || !hasResult(d) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, f := range ours {
		if got := strings.Join(f.Calls(), ", "); got != "kill, close" {
			t.Errorf("called %s", got)
		}
	}
	for _, f := range others {
		if len(f.Calls()) > 0 {
			t.Errorf("called %v on another's", f.Calls())
		}
	}
}

// Whatever stands in the directory of a dead worker, whoever follows it is told of an end, the same
// each time, and of no other worker's: a run that nobody can end keeps its cluster.
func TestDamagedDirectoriesEnd(t *testing.T) {
	run, other := nightcrier.NewID(), nightcrier.NewID()
	entry := func(n string) string {
		return `{"key":"worker#1/` + n + `","type":"state","data":{"to":"created"}}` + "\n"
	}
	good := map[string]string{
		"claim": "", workdir.SpecFile: `{"version":1,"runId":"` + run + `","attempt":1}`,
		workdir.SpoolFile: entry("1"), workdir.ResultFile: `{"state":"success"}`,
	}
	for name, tt := range map[string]struct {
		file, text string
		state      nightcrier.State
		entries    int // that are told
	}{
		"nothing":                    {"", "", nightcrier.StateSuccess, 1},
		"no result":                  {workdir.ResultFile, "-", nightcrier.StateFailed, 2},
		"a torn result":              {workdir.ResultFile, `{"state":"succ`, nightcrier.StateFailed, 2},
		"an empty result":            {workdir.ResultFile, "", nightcrier.StateFailed, 2},
		"a result of no end":         {workdir.ResultFile, `{}`, nightcrier.StateFailed, 2},
		"a result that goes on":      {workdir.ResultFile, `{"state":"running"}`, nightcrier.StateFailed, 2},
		"a result that is a list":    {workdir.ResultFile, `[]`, nightcrier.StateFailed, 2},
		"a spec of another version":  {workdir.SpecFile, `{"version":9,"runId":7,"attempt":"one"}`, nightcrier.StateSuccess, 1},
		"a spool of zeros":           {workdir.SpoolFile, entry("1") + strings.Repeat("\x00", 512) + "\n" + entry("2"), nightcrier.StateSuccess, 2},
		"a spool with another's key": {workdir.SpoolFile, entry("1") + `{"key":"run/1"}` + "\n" + entry("2"), nightcrier.StateSuccess, 2},
		"a spool without numbers":    {workdir.SpoolFile, entry("x"), nightcrier.StateSuccess, 1},
		"a spool that is torn":       {workdir.SpoolFile, entry("1") + `{"key":"wor`, nightcrier.StateSuccess, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, spec := range []string{good[workdir.SpecFile], "{", `{"runId":"` + other + `","attempt":1}`, "-"} {
				b := Backend{Dir: t.TempDir()}
				h := handleOf(run + "-1")
				d, err := b.dirOf(h)
				must(t, err)
				must(t, os.Mkdir(string(d), 0o700))
				files := maps.Clone(good)
				files[workdir.SpecFile] = spec
				if tt.file != "" {
					files[tt.file] = tt.text
				}
				for file, text := range files {
					if text != "-" {
						must(t, os.WriteFile(d.PathOf(file), []byte(text), 0o600))
					}
				}
				for range 2 {
					told := 0
					ended, err := b.Follow(t.Context(), h, 0, func(e nightcrier.JournalEntry) error {
						if e.Run == other {
							t.Errorf("an entry of run %s", e.Run)
						}
						told++
						return nil
					})
					if err != nil || ended.Result.State != tt.state || told != tt.entries {
						t.Errorf("with the spec %.30q: %+v after %d entries, %v", spec, ended.Result, told, err)
					}
				}
				must(t, b.Destroy(t.Context(), h))
			}
		})
	}
}

// A spec that says it is of another worker has nobody else's sandboxes ended.
func TestASpecEndsNobodyElse(t *testing.T) {
	name, other := nightcrier.NewID()+"-1", nightcrier.NewID()
	d := workdir.At(t.TempDir(), name)
	must(t, os.Mkdir(string(d), 0o700))
	must(t, d.WriteFile(workdir.SpecFile, backend.Spec{Version: backend.SpecVersion, RunID: other, Attempt: 1}))
	m := &sandboxtest.Machine{}
	ours, theirs := m.Put(name, &sandboxtest.Fake{Orphan: true}), m.Put(other+"-1", &sandboxtest.Fake{Orphan: true})
	if _, err := reapWorker(t.Context(), d, name, "it died", m); err != nil || len(ours.Calls()) == 0 || len(theirs.Calls()) > 0 {
		t.Errorf("ours %v, theirs %v, %v", ours.Calls(), theirs.Calls(), err)
	}
}

// Names of workers are taken for no more than they are: they come from directories, marks of
// sandboxes, and checkpoints.
func TestNamesOfWorkers(t *testing.T) {
	run := nightcrier.NewID()
	for name, want := range map[string]int{run + "-1": 1, run + "-0": 0, run + "-12": 12} {
		if id, n, ok := parseName(name); !ok || id != run || n != want {
			t.Errorf("%s is attempt %d of %s, %v", name, n, id, ok)
		}
	}
	for _, name := range []string{"", "-", run, run + "-", run + "-x", run + "-01", run + "--1", run + "-+1", "../" + run + "-1", run + "-1-docs", "x-1"} {
		if _, _, ok := parseName(name); ok {
			t.Errorf("%q is taken for a worker", name)
		}
	}
}

// What is left of a worker without a directory is told of once, whatever sandboxes there are, and
// only when the worker is dead.
func TestStrays(t *testing.T) {
	gone, known, alive := nightcrier.NewID()+"-1", nightcrier.NewID()+"-1", nightcrier.NewID()+"-2"
	left := []sandbox.Leftover{{Name: gone, Orphan: true}, {Name: gone + "-docs", Orphan: true}, {Name: known, Orphan: true}, {Name: alive}, {Name: "x-1", Orphan: true}}
	all := strays(left, map[string]bool{known: true})
	if len(all) != 1 || all[0].Handle != handleOf(gone) || all[0].Processes != 2 || all[0].Alive || all[0].Attempt != 1 {
		t.Errorf("%+v", all)
	}
}

// A process that ends while it is asked to take an attempt in has not taken it.
func TestWhoHangsUpTakesNobodyIn(t *testing.T) {
	b := Backend{Dir: t.TempDir(), Command: []string{os.Args[0]}}
	l, err := workdir.Dir(b.Dir).ListenSocket()
	must(t, err)
	defer l.Close()
	for name, read := range map[string]int{"unread": 1, "read": 1 << 20} {
		ended := make(chan error, 1)
		go func() {
			conn, err := l.Accept()
			if err == nil {
				_, err = conn.Read(make([]byte, read))
				err = errors.Join(err, conn.Close())
			}
			ended <- err
		}()
		taken, err := b.joinProcess(t.Context(), nightcrier.NewID()+"-1", backend.Secrets{})
		if taken || err != nil {
			t.Errorf("%s: taken %v, %v", name, taken, err)
		}
		must(t, <-ended)
	}
}

// One directory that cannot be read hides no other worker, and who looks at one is not taken for
// it.
func TestListIsOfAll(t *testing.T) {
	b := Backend{Dir: t.TempDir()}
	names := map[string]string{"whole": `{"owner":"us"}`, "damaged": `{"owner":`, "another's": `{"owner":"them"}`, "half made": ""}
	handles := map[backend.Handle]string{}
	for what, spec := range names {
		name := nightcrier.NewID() + "-1"
		d := workdir.At(b.Dir, name)
		must(t, os.Mkdir(string(d), 0o700))
		if spec != "" {
			must(t, os.WriteFile(d.PathOf(workdir.SpecFile), []byte(spec), 0o600))
		}
		handles[handleOf(name)] = what
	}
	list, err := b.List(t.Context(), "us")
	must(t, err)
	var seen []string
	for _, o := range list {
		seen = append(seen, handles[o.Handle])
		d, err := b.dirOf(o.Handle)
		must(t, err)
		lock, free, err := d.LockWorker()
		if must(t, err); !free {
			t.Fatalf("%s is locked", handles[o.Handle])
		}
		if alive, err := d.IsAlive(); err != nil || !alive {
			t.Errorf("%s, whose worker lives: %v, %v", handles[o.Handle], alive, err)
		}
		lock.Close()
		look, err := os.Open(d.PathOf("lock"))
		must(t, err)
		must(t, portable.TryShareLock(look))
		if alive, err := d.IsAlive(); err != nil || alive {
			t.Errorf("%s, at which another looks: %v, %v", handles[o.Handle], alive, err)
		}
		look.Close()
	}
	if slices.Sort(seen); !slices.Equal(seen, []string{"damaged", "whole"}) {
		t.Errorf("seen: %q", seen)
	}
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
