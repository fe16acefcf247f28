// Package churn is a scripted cluster in which a lot happens and nothing is
// wrong: rolling updates, scaling, drains, node replacements, Jobs that retry,
// probes that blink, images that come at the second attempt, and old history
// lying about. What watches it must stay silent.
//
// The same seed makes the same day.
package churn

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Verbs of a watch.
const (
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
)

// Change is one event of a watch. Object is complete, with apiVersion and kind.
type Change struct {
	At     time.Time
	Kind   string
	Verb   string
	Object json.RawMessage
}

// Config is how large the cluster is, and when its day begins.
type Config struct {
	Seed uint64
	// Pods is how many there are, more or less.
	Pods  int
	Start time.Time
}

// Cluster is the scripted cluster. It is not safe for concurrent use.
type Cluster struct {
	cfg     Config
	rand    *rand.Rand
	now     time.Time
	queue   queue
	order   int
	pending []Change

	objects map[string]map[string]object // kind → namespace/name
	nodes   []*node
	specs   map[string]json.RawMessage // by template
	version int64
	serial  int
	quiet   bool // nothing is emitted while the cluster is built
}

// object is what the cluster keeps of an object.
type object interface {
	kind() string
	key() string
	render(c *Cluster) []byte
}

// New builds a cluster that has been running for days.
func New(cfg Config) *Cluster {
	c := &Cluster{
		cfg: cfg, now: cfg.Start, rand: rand.New(rand.NewPCG(cfg.Seed, 1)),
		objects: map[string]map[string]object{}, specs: map[string]json.RawMessage{}, version: 1000, quiet: true,
	}
	c.build()
	c.quiet = false
	return c
}

// Snapshot lists the objects of a kind as they are now.
func (c *Cluster) Snapshot(kind string) []json.RawMessage {
	out := make([]json.RawMessage, 0, len(c.objects[kind]))
	for _, name := range c.names(kind) {
		out = append(out, c.objects[kind][name].render(c))
	}
	return out
}

func (c *Cluster) names(kind string) []string {
	names := make([]string, 0, len(c.objects[kind]))
	for name := range c.objects[kind] {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Count is how many objects of a kind there are now.
func (c *Cluster) Count(kind string) int { return len(c.objects[kind]) }

// Next is what happens next. The cluster never ends.
func (c *Cluster) Next() Change {
	for len(c.pending) == 0 {
		e := heap.Pop(&c.queue).(*entry)
		c.now = e.at
		e.do()
	}
	ch := c.pending[0]
	c.pending = c.pending[1:]
	return ch
}

// put shows an object that is new or has changed.
func (c *Cluster) put(o object) {
	all := c.objects[o.kind()]
	if all == nil {
		all = map[string]object{}
		c.objects[o.kind()] = all
	}
	verb := Modified
	if _, known := all[o.key()]; !known {
		verb = Added
	}
	all[o.key()] = o
	c.emit(verb, o)
}

// remove shows that an object is gone.
func (c *Cluster) remove(o object) {
	delete(c.objects[o.kind()], o.key())
	c.emit(Deleted, o)
}

func (c *Cluster) emit(verb string, o object) {
	c.version++
	if !c.quiet {
		c.pending = append(c.pending, Change{At: c.now, Kind: o.kind(), Verb: verb, Object: o.render(c)})
	}
}

// after does something later.
func (c *Cluster) after(d time.Duration, do func()) {
	c.order++
	heap.Push(&c.queue, &entry{at: c.now.Add(d), order: c.order, do: do})
}

// every does something again and again, at times that are not quite regular.
func (c *Cluster) every(d time.Duration, do func()) {
	c.after(c.between(d/2, d+d/2), func() {
		do()
		c.every(d, do)
	})
}

// between is a random duration.
func (c *Cluster) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(c.rand.Int64N(int64(hi-lo)+1))
}

// chance is true once in n times.
func (c *Cluster) chance(n int) bool { return c.rand.IntN(n) == 0 }

// ago is a time before the day began.
func (c *Cluster) ago(lo, hi time.Duration) time.Time { return c.cfg.Start.Add(-c.between(lo, hi)) }

func (c *Cluster) uid() string {
	c.serial++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", c.cfg.Seed, c.serial)
}

const (
	suffixChars = "bcdfghjklmnpqrstvwxz2456789"
	hashChars   = "bcdf456789"
)

func (c *Cluster) word(chars string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = chars[c.rand.IntN(len(chars))]
	}
	return string(b)
}

type entry struct {
	at    time.Time
	order int
	do    func()
}

type queue []*entry

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].order < q[j].order
	}
	return q[i].at.Before(q[j].at)
}

// Push and Pop are for container/heap.
func (q *queue) Push(x any) { *q = append(*q, x.(*entry)) }

// Pop takes the last entry.
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return e
}
