package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/ingest/observe"
	"nightcrier.dev/nightcrier/internal/test/apitest"
	"nightcrier.dev/nightcrier/internal/test/churn"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// counted is a detector that knows how far it was told, in versions of each kind.
// While it is held back it takes no notice of the time: what happened by then is
// still on its way.
type counted struct {
	*detect.Detector
	ticks atomic.Int64
	held  atomic.Bool

	mu   sync.Mutex
	told map[detect.Kind]int
}

func (c *counted) Observe(k detect.Kind, o []byte) []detect.Fault {
	defer c.heard(k, o)
	return c.Detector.Observe(k, o)
}

func (c *counted) Delete(k detect.Kind, o []byte) []detect.Fault {
	defer c.heard(k, o)
	return c.Detector.Delete(k, o)
}

func (c *counted) heard(k detect.Kind, o []byte) {
	var meta struct {
		Metadata struct {
			ResourceVersion int `json:"resourceVersion,string"`
		}
	}
	_ = json.Unmarshal(o, &meta) // what it cannot read is never heard, and waited for
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told[k] = max(c.told[k], meta.Metadata.ResourceVersion)
}

// knows reports whether it was told all that happened up to these versions.
func (c *counted) knows(sent map[detect.Kind]int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for kind, version := range sent {
		if c.told[kind] < version {
			return false
		}
	}
	return true
}

func (c *counted) Tick() []detect.Fault {
	if c.held.Load() {
		return nil
	}
	defer c.ticks.Add(1)
	return c.Detector.Tick()
}

// day is a scripted cluster behind an API server, and who watches it.
type day struct {
	*testing.T
	churn *churn.Cluster
	api   *apitest.Server
	clock atomic.Int64
	det   *counted
	o     *observe.Observer
	sent  map[detect.Kind]int // the version of the newest change
	count int                 // of changes
	late  *churn.Change
}

func (d *day) now() time.Time { return time.Unix(0, d.clock.Load()) }

func newDay(t *testing.T, pods int) *day {
	begin := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	d := &day{T: t, churn: churn.New(churn.Config{Seed: 11, Pods: pods, Start: begin}), api: apitest.New(t), sent: map[detect.Kind]int{}}
	d.clock.Store(begin.UnixNano())
	d.det = &counted{Detector: detect.New(detect.Config{Now: d.now}), told: map[detect.Kind]int{}}
	for _, k := range detect.Kinds() {
		for _, object := range d.churn.Snapshot(string(k.Kind)) {
			d.put(string(k.Kind), object, false)
		}
	}
	d.o = observe.New(observe.Config{
		API: d.api.Client(t), Detector: d.det, Logger: slog.New(slog.DiscardHandler),
		Timings: observe.Timings{Tick: time.Millisecond, Probe: time.Hour},
		Sink: func(_ context.Context, f detect.Fault) error {
			t.Errorf("%s: %s of %s: %s", d.now().Sub(begin), f.Type, f.Resource, f.Context)
			return nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.o.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	<-d.o.Synced()
	return d
}

func (d *day) put(kind string, object []byte, gone bool) {
	if kind == string(detect.Event) && !bytes.Contains(object, []byte(`"type":"Warning"`)) {
		return // a server would not send it
	}
	var o struct {
		Metadata struct{ Namespace, Name string }
	}
	if err := json.Unmarshal(object, &o); err != nil {
		d.Fatal(err)
	}
	res, ok := kinds.Named(kind)
	if !ok {
		d.Fatalf("kind %s", kind)
	}
	version := 0
	if gone {
		version = d.api.Remove(res.Plural, o.Metadata.Namespace, o.Metadata.Name)
	} else {
		version = d.api.Put(res.Plural, o.Metadata.Namespace, o.Metadata.Name, object)
	}
	d.sent[detect.Kind(kind)] = max(d.sent[detect.Kind(kind)], version)
	d.count++
}

// drop breaks every watch, and returns when each has been taken up again: a change
// that is put into a gap might be listed, and never be told by itself.
func (d *day) drop() {
	d.api.Drop()
	for kind := range d.sent {
		res := kinds.MustNamed(string(kind))
		d.sent[kind] = max(d.sent[kind], d.api.Touch(res.Plural))
	}
	d.until(func() bool { return d.det.knows(d.sent) })
}

// step lets some time pass, and returns when all that happened in it was seen and
// the detector was told the time.
func (d *day) step(by time.Duration) {
	to := d.now().Add(by)
	d.det.held.Store(true)
	d.clock.Store(to.UnixNano())
	for {
		if d.late == nil {
			next := d.churn.Next()
			d.late = &next
		}
		if d.late.At.After(to) {
			break
		}
		d.put(d.late.Kind, d.late.Object, d.late.Verb == churn.Deleted)
		d.late = nil
	}
	d.until(func() bool { return d.det.knows(d.sent) })
	ticks := d.det.ticks.Load()
	d.det.held.Store(false)
	d.until(func() bool { return d.det.ticks.Load() > ticks })
}

func (d *day) until(done func() bool) {
	for deadline := time.Now().Add(3 * time.Minute); !done(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			d.Fatalf("the watch has stopped: %+v", d.o.Status())
		}
	}
}

// measure returns what is on the heap, with the scripted cluster and its server, and the
// goroutines: the least of some looks, since others are at work meanwhile.
func measure() (heap uint64, goroutines int) {
	heap, goroutines = math.MaxUint64, math.MaxInt
	for range 5 {
		var m runtime.MemStats
		runtime.GC() // twice: what a pool holds goes with the second
		runtime.GC()
		runtime.ReadMemStats(&m)
		heap, goroutines = min(heap, m.HeapAlloc), min(goroutines, runtime.NumGoroutine())
		time.Sleep(20 * time.Millisecond)
	}
	return heap, goroutines
}

// A day of 5,000 Pods in which nothing is wrong, as a watch sees it: no fault,
// and in the evening no more memory and no more goroutines than in the morning.
// Watches break now and then. With the race detector it is some hours of
// 1,000 as well, in which the heap is not what it would be.
func TestADayOfChurn(t *testing.T) {
	hours, pods, small := 24, 5000, testing.Short() || testproc.Raced()
	if small {
		hours, pods = 5, 1000
	}
	if testproc.Raced() && !testing.Short() {
		testproc.Rerun(t)
	}
	d := newDay(t, pods)
	var morning, evening uint64
	var few, many int
	for hour := range hours {
		for range 120 {
			d.step(30 * time.Second)
		}
		switch {
		case t.Failed():
			t.FailNow()
		case hour == hours/3: // the server has filled its memory of changes by then
			morning, few = measure()
		case hour%6 == 3:
			d.drop()
		}
	}
	evening, many = measure()
	t.Logf("%d changes, heap %d MiB, then %d MiB, goroutines %d, then %d, %+v", d.count, morning>>20, evening>>20, few, many, d.o.Status().Detector)
	if !small && evening > morning+morning/4 || many > few+20 {
		t.Errorf("a day costs %d of %d bytes, %d of %d goroutines", evening-morning, morning, many-few, few)
	}
	d.until(func() bool { return len(d.o.Status().Problems) == 0 }) // a watch that broke late is made again
	if st := d.o.Status(); st.Detector.Active > 0 || d.count < pods {
		t.Errorf("status %+v after %d changes", st, d.count)
	}
}
