// Package detect finds faults in what a Kubernetes API shows.
//
// A Detector is fed the objects of one cluster, as a list and a watch bring
// them, and returns edges: a fault has begun, it is over. It does no I/O, starts
// no goroutine and reads no clock but the one it is given, and what it keeps of
// an object that works is a few bytes.
//
// Three steps make an edge. A reader (one for each kind) turns an object into
// findings: what is wrong with it now, or happened to it lately. The ward keeps
// those that last or may come back, as symptoms of their object, and has
// patience with each (causes.go). A group gathers the symptoms of one owner and
// class: it tells the first of each fault type, and the end of all.
package detect

import (
	"cmp"
	"hash/maphash"
	"slices"
	"time"

	"nightcrier.dev/nightcrier"
)

// Config is what a Detector needs to know.
type Config struct {
	// Now is the clock; nil is that of the machine.
	Now func() time.Time
	// Class classes a fault; faults of one owner and class are over together. Nil
	// makes each fault type a class of its own.
	Class func(faultType, ownerKind string) nightcrier.Class
	// OwnerByName guesses the owner of an object that an Event names and that has
	// not been seen. Nil takes the object itself.
	OwnerByName func(nightcrier.Resource) nightcrier.Resource
	// Mask takes secrets out of what is told; nil leaves it as it is.
	Mask func(string) string
	// Patience multiplies all waiting times; 0 means 1. Tests that wait for a real
	// cluster want less.
	Patience float64
}

// Detector watches one cluster. It is not safe for concurrent use.
type Detector struct {
	cfg   Config
	now   time.Time // of the present call
	seed  maphash.Seed
	kinds map[place]*census
	names owners
	ward
	repeats map[uint64]*repeat
	next    time.Time
	edges   []Fault
	stats   Stats
}

// New makes a detector that has seen nothing.
func New(cfg Config) *Detector {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Patience <= 0 {
		cfg.Patience = 1
	}
	if cfg.Class == nil {
		cfg.Class = func(faultType, _ string) nightcrier.Class { return nightcrier.Class(faultType) }
	}
	if cfg.OwnerByName == nil {
		cfg.OwnerByName = func(r nightcrier.Resource) nightcrier.Resource { return r }
	}
	d := &Detector{cfg: cfg, seed: maphash.MakeSeed(), kinds: map[place]*census{}, ward: newWard(), repeats: map[uint64]*repeat{}}
	for _, w := range watched {
		d.kinds[place{w.Kind, ""}] = &census{marks: map[uint64]mark{}}
	}
	return d
}

// readers turn objects into views. Events are no objects of their own.
var readers = map[Kind]func(*Detector, []byte) (view, bool){
	Namespace: readNamespace, Node: readNode, CronJob: readCronJob, Job: readJob, Deployment: readDeployment,
	StatefulSet: readStatefulSet, DaemonSet: readDaemonSet, Claim: readClaim, Autoscaler: readAutoscaler,
	APIService: readAPIService, Pod: readPod,
}

// Begin says that all objects of a kind follow, because they have not been seen
// yet or because there was a gap. A second Begin starts over. Until End nothing
// is concluded from the silence of objects that have not been seen again.
//
// With a namespace it is about those in it alone, here and in End and Blind. A
// kind is begun either for all namespaces, "", or one by one.
func (d *Detector) Begin(kind Kind, namespace string) {
	if c := d.ensureCensus(kind, namespace); c != nil {
		c.round++
		c.listing = true
	}
}

// Observe looks at one object, from a list or a watch. What is no object of the
// kind is counted and ignored.
func (d *Detector) Observe(kind Kind, object []byte) []Fault {
	d.beginTurn()
	switch read := readers[kind]; {
	case kind == Event:
		d.observeEvent(object)
	case read == nil:
		d.stats.Malformed++
	default:
		v, ok := read(d, object)
		if !ok || v.res.Check() != nil {
			d.stats.Malformed++
			break
		}
		d.admitObject(kind, d.censusOf(kind, v.res.Namespace), v)
	}
	return d.sortedEdges()
}

// End says that the list is complete: objects that were not in it are gone.
func (d *Detector) End(kind Kind, namespace string) []Fault {
	d.beginTurn()
	c := d.ensureCensus(kind, namespace)
	if c == nil || !c.listing {
		return nil
	}
	c.listing, c.known = false, true
	if kind != Event {
		for key, m := range c.marks {
			if m.round != c.round {
				d.forgetObject(c, key)
			}
		}
	}
	d.reviewAll()
	return d.sortedEdges()
}

// Blind says that a kind cannot be followed now, or can again: what changes is
// not seen, so that nothing becomes a fault for its silence and none is over.
func (d *Detector) Blind(kind Kind, namespace string, blind bool) {
	c := d.ensureCensus(kind, namespace)
	switch {
	case c == nil || c.blind == blind:
	case blind:
		c.blind = true
	default:
		d.beginTurn()
		c.blind, c.sighted = false, d.now.Add(d.scaleByPatience(catchUp))
		d.wakeAt(c.sighted)
	}
}

// seesObject reports whether the silence of such an object means something.
func (d *Detector) seesObject(r nightcrier.Resource) bool {
	c := d.censusOf(Kind(r.Kind), r.Namespace)
	return c == nil || !c.listing && !c.blind && !d.now.Before(c.sighted)
}

// Expect says that a fault was told before there was this detector. It is not
// told again, and its end is told if it does not show. Begin comes first for all
// kinds, so that what has not been listed yet does not count as gone.
func (d *Detector) Expect(f Fault) {
	d.beginTurn()
	g := d.groupOf(f.Owner, d.cfg.Class(f.Type, f.Owner.Kind))
	if len(g.told) == 0 {
		g.began, g.quiet = f.OccurredAt, d.now
	}
	f.Cleared = false
	g.told = append(g.told, f)
	d.wakeAt(d.now.Add(d.stablePeriod(g)))
}

// Delete says that an object is gone.
func (d *Detector) Delete(kind Kind, object []byte) []Fault {
	d.beginTurn()
	var h header
	if readers[kind] == nil || !decodeObject(object, &h) {
		return nil
	}
	d.forgetObject(d.censusOf(kind, h.Meta.Namespace), d.hashKey(string(kind), h.Meta.Namespace, h.Meta.Name))
	return d.sortedEdges()
}

// API says whether the cluster's API answers that it is ready, and its own words
// where it does not.
func (d *Detector) API(ready bool, message string) []Fault {
	d.beginTurn()
	res := nightcrier.Resource{APIVersion: "v1", Kind: "APIServer", Name: "kube-apiserver"}
	v := view{res: res, owner: res, healthy: ready}
	if !ready {
		v.findings = []finding{{cause: apiUnready, context: formatSentence("%s", withQuote("The API server says that it is not ready", message))}}
	}
	d.examineObject(d.hashKey(res.Kind, "", res.Name), v)
	return d.sortedEdges()
}

// Tick lets time pass: what has lasted long enough is a fault, what has been
// well long enough is over.
func (d *Detector) Tick() []Fault {
	d.beginTurn()
	d.next = time.Time{}
	d.reviewAll()
	d.dropRepeats()
	return d.sortedEdges()
}

// Next is when Tick is due, zero for never.
func (d *Detector) Next() time.Time { return d.next }

// Stats is what a detector holds and has done.
type Stats struct {
	// Objects that are known, and about how many bytes everything takes.
	Objects, Bytes int
	// Active faults, by owner and class; Pending signs that have not lasted yet.
	Active, Pending int
	// Flaps counts faults that came back before they were over.
	Flaps int64
	// Malformed counts what was no readable object, Dropped what there was no room
	// for.
	Malformed, Dropped int64
}

// Stats counts.
func (d *Detector) Stats() Stats {
	s := d.stats
	for _, c := range d.kinds {
		s.Objects += len(c.marks)
	}
	for _, p := range d.patients {
		for i := range p.symptoms {
			if p.symptoms[i].group == nil {
				s.Pending++
			}
		}
	}
	for _, g := range d.groups {
		if len(g.told) > 0 {
			s.Active++
		}
	}
	s.Bytes = s.Objects*markBytes + len(d.names.list)*ownerBytes +
		len(d.patients)*patientBytes + len(d.groups)*groupBytes + len(d.repeats)*repeatBytes
	return s
}

// About how many bytes one entry takes, with its part of the table.
const (
	markBytes    = 28
	ownerBytes   = 160
	patientBytes = 900
	groupBytes   = 800
	repeatBytes  = 96
)

func (d *Detector) beginTurn() { d.now = d.cfg.Now(); d.edges = nil }

// sortedEdges returns the edges in an order that does not depend on tables.
func (d *Detector) sortedEdges() []Fault {
	slices.SortStableFunc(d.edges, func(a, b Fault) int {
		return cmp.Or(a.OccurredAt.Compare(b.OccurredAt), cmp.Compare(a.Resource.String(), b.Resource.String()), cmp.Compare(a.Type, b.Type))
	})
	return d.edges
}

// scaleByPatience is a duration in the configured patience.
func (d *Detector) scaleByPatience(t time.Duration) time.Duration {
	return time.Duration(float64(t) * d.cfg.Patience)
}

// wakeAt asks for a Tick at t, or within the second after it: what is due at about
// the same time is done at once.
func (d *Detector) wakeAt(t time.Time) {
	if whole := t.Truncate(time.Second); !t.Equal(whole) {
		t = whole.Add(time.Second)
	}
	if !t.IsZero() && (d.next.IsZero() || t.Before(d.next)) {
		d.next = t
	}
}

// capAtNow is t, or now if an object dates itself into the future.
func (d *Detector) capAtNow(t time.Time) time.Time {
	if t.After(d.now) {
		return d.now
	}
	return t
}

// hashKey is an object's in all tables. The seed makes it one's own: nobody can
// choose names that collide.
func (d *Detector) hashKey(kind, namespace, name string) uint64 {
	var h maphash.Hash
	h.SetSeed(d.seed)
	h.WriteString(kind)
	h.WriteByte('/')
	h.WriteString(namespace)
	h.WriteByte('/')
	h.WriteString(name)
	return h.Sum64()
}

func (d *Detector) keyOf(r nightcrier.Resource) uint64 { return d.hashKey(r.Kind, r.Namespace, r.Name) }
