package detect

import (
	"time"

	"nightcrier.dev/nightcrier"
)

// place is where the objects of a census are: of a kind, in a namespace where
// they are looked at one by one.
type place struct {
	kind      Kind
	namespace string
}

// ensureCensus is the census of a place, made when it is not there; nil for what is no
// kind.
func (d *Detector) ensureCensus(kind Kind, namespace string) *census {
	c := d.kinds[place{kind, namespace}]
	if c == nil && d.kinds[place{kind, ""}] != nil {
		c = &census{marks: map[uint64]mark{}}
		d.kinds[place{kind, namespace}] = c
	}
	return c
}

// censusOf is where an object of a namespace counts; nil for what is no kind.
func (d *Detector) censusOf(kind Kind, namespace string) *census {
	if c := d.kinds[place{kind, namespace}]; c != nil {
		return c
	}
	return d.kinds[place{kind, ""}]
}

// census is what is kept of all objects of a place.
type census struct {
	marks   map[uint64]mark
	round   uint8 // of the list that is running or was last
	listing bool
	known   bool // it has been listed
	// blind: it cannot be followed. It counts as seen again only at sighted, when
	// what was missed has come.
	blind   bool
	sighted time.Time
}

// mark is what is kept of one object, working or not.
type mark struct {
	owner    uint32 // in the table of owners, 0 for the object itself
	restarts uint16
	round    uint8 // in which it was seen last
	flags    uint8
}

// The flags of a mark.
const (
	notReady uint8 = 1 << iota // a node that runs no Pods
)

// admitObject takes an object in.
func (d *Detector) admitObject(kind Kind, c *census, v view) {
	key := d.keyOf(v.res)
	old, known := c.marks[key]
	m := mark{round: c.round, restarts: uint16(min(max(v.restarts, 0), 1<<16-1))}
	if v.notReady {
		m.flags = notReady
	}
	m.owner = d.adoptOwner(old.owner, v)
	if !known {
		d.unearthOwner(key)
	}
	if kind == Node {
		d.countNode(old, m)
	}
	c.marks[key] = m
	if o := d.names.ownerAt(m.owner); o != nil {
		v.owner = *o
	}
	d.examineObject(key, v)
}

// adoptOwner returns the place of the object's owner in the table, in exchange for
// the one that it had.
func (d *Detector) adoptOwner(old uint32, v view) uint32 {
	if v.owner == v.res {
		d.names.dropObject(old)
		return 0
	}
	key := d.keyOf(v.owner)
	if old != 0 && d.names.list[old].key == key {
		return old
	}
	d.names.dropObject(old)
	return d.names.addObject(key, v.owner)
}

// forgetObject drops an object that is gone, and what it had.
func (d *Detector) forgetObject(c *census, key uint64) {
	m, known := c.marks[key]
	if !known {
		return
	}
	delete(c.marks, key)
	delete(d.success, key)
	if c == d.kinds[place{Node, ""}] {
		d.countNode(m, mark{})
	}
	d.names.dropObject(m.owner)
	d.dischargePatient(key)
	d.buryOwner(key)
}

func (d *Detector) countNode(old, now mark) {
	d.nodesDown += int(now.flags&notReady) - int(old.flags&notReady)
}

// ownerOf finds who is to be mended for an object that an Event names: as the
// object itself told, else by its name.
func (d *Detector) ownerOf(res nightcrier.Resource) nightcrier.Resource {
	if c := d.censusOf(Kind(res.Kind), res.Namespace); c != nil {
		if m, known := c.marks[d.keyOf(res)]; known {
			if o := d.names.ownerAt(m.owner); o != nil {
				return *o
			}
			return res
		}
	}
	return d.cfg.OwnerByName(res)
}

// owners is a table of the owners of objects: thousands of Pods share a few.
type owners struct {
	list  []namedOwner // the first stands for none
	free  []uint32
	index map[uint64]uint32
}

type namedOwner struct {
	key  uint64
	res  nightcrier.Resource
	used int
}

// addObject counts one more object of an owner.
func (o *owners) addObject(key uint64, res nightcrier.Resource) uint32 {
	if o.index == nil {
		o.index, o.list = map[uint64]uint32{}, make([]namedOwner, 1)
	}
	if i, ok := o.index[key]; ok {
		o.list[i].used++
		return i
	}
	i := uint32(len(o.list))
	if n := len(o.free); n > 0 {
		i, o.free = o.free[n-1], o.free[:n-1]
	} else {
		o.list = append(o.list, namedOwner{})
	}
	o.list[i] = namedOwner{key: key, res: cloneResource(res), used: 1}
	o.index[key] = i
	return i
}

// dropObject counts one object less.
func (o *owners) dropObject(i uint32) {
	if i == 0 {
		return
	}
	n := &o.list[i]
	if n.used--; n.used == 0 {
		delete(o.index, n.key)
		*n = namedOwner{}
		o.free = append(o.free, i)
	}
}

// ownerAt is nil for the object itself.
func (o *owners) ownerAt(i uint32) *nightcrier.Resource {
	if i == 0 {
		return nil
	}
	return &o.list[i].res
}
