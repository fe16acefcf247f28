package detect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// groupKey is one fault as a person sees it: whose it is, and of which class.
type groupKey struct {
	owner uint64
	class nightcrier.Class
}

// group gathers the symptoms of one owner and class.
type group struct {
	owner  nightcrier.Resource
	class  nightcrier.Class
	active int // symptoms
	// told are the faults that were told since it was well last, one a type.
	told []Fault
	// began is when the first of them was, quiet since when there is no symptom,
	// zero while there is.
	began, quiet time.Time
	// returns counts how often it came back, objects how many have shown it.
	returns, objects int
	// over is when its end was told last, dead until when its owner counts as
	// deleted.
	over, dead time.Time
}

// raiseFault makes a fault of a symptom, and tells it if nobody was told yet.
func (d *Detector) raiseFault(p *patient, s *symptom) {
	owner := p.owner
	if !s.owner.IsZero() {
		owner = s.owner
	}
	g := d.groupFor(owner, s.faultType)
	if s.happened && !s.since.After(g.over) {
		s.until = d.now // it was part of what is over
		d.wakeAt(s.until)
		return
	}
	if g.active == 0 && g.objects > 0 {
		g.returns++
		d.stats.Flaps++
	}
	if len(g.told) == 0 {
		g.began, g.objects = s.since, 0
	}
	g.active++
	if !p.isIn(g) {
		g.objects++
	}
	g.quiet = time.Time{}
	s.group = g
	d.appendEdge(g, Fault{
		Type: s.faultType, Severity: s.severity, Resource: p.res, Owner: g.owner,
		Container: s.container, Context: s.context, OccurredAt: s.since,
	})
	s.context = ""
}

// raiseSeverity tells of a symptom that has become more severe.
func (d *Detector) raiseSeverity(s *symptom, f finding, severity nightcrier.Severity) {
	s.severity, s.cause = severity, f.cause
	i := slices.IndexFunc(s.group.told, func(t Fault) bool { return t.Type == s.faultType })
	if i < 0 {
		return
	}
	told := s.group.told[i]
	told.Severity, told.Context, told.OccurredAt = severity, f.context, f.since
	d.appendEdge(s.group, told)
}

// appendEdge sends an edge, unless its type was told of the group already.
func (d *Detector) appendEdge(g *group, f Fault) {
	if d.now.Before(g.dead) {
		return
	}
	for i, t := range g.told {
		switch {
		case t.Type == f.Type && f.Severity > t.Severity:
			g.told[i] = f
			d.edges = append(d.edges, f)
			return
		case t.Type == f.Type || slices.Contains(implied[f.Type], t.Type):
			return
		}
	}
	g.told = append(g.told, f)
	d.edges = append(d.edges, f)
}

// releaseSymptom takes a symptom out of its group.
func (d *Detector) releaseSymptom(s *symptom) {
	g := s.group
	if g == nil {
		return
	}
	s.group = nil
	if g.active--; g.active == 0 {
		g.quiet = d.now
		d.wakeAt(g.quiet.Add(d.stablePeriod(g)))
	}
}

// stablePeriod is how long a group must have been quiet until its fault is over.
func (d *Detector) stablePeriod(g *group) time.Duration {
	return d.scaleByPatience(min(stable<<min(g.returns, 8), maxStable))
}

// prolongFault keeps a fault from being over while it seems to go on as another one.
func (d *Detector) prolongFault(p *patient, s *symptom) {
	before := continued[s.faultType]
	if before == nil {
		return
	}
	g := d.groups[groupKey{d.keyOf(p.owner), d.cfg.Class(s.faultType, p.owner.Kind)}]
	if g != nil && g.active == 0 && slices.ContainsFunc(g.told, func(t Fault) bool { return slices.Contains(before, t.Type) }) {
		g.quiet = d.now
	}
}

// groupFor returns the group that a fault of the owner belongs to: that of what it
// follows from, of another class, while that is not over; else that of its class.
func (d *Detector) groupFor(owner nightcrier.Resource, faultType string) *group {
	for _, why := range implied[faultType] {
		g := d.groups[groupKey{d.keyOf(owner), d.cfg.Class(why, owner.Kind)}]
		if g != nil && slices.ContainsFunc(g.told, func(t Fault) bool { return t.Type == why }) {
			return g
		}
	}
	return d.groupOf(owner, d.cfg.Class(faultType, owner.Kind))
}

// groupOf returns the group of an owner and a class.
func (d *Detector) groupOf(owner nightcrier.Resource, class nightcrier.Class) *group {
	key := groupKey{d.keyOf(owner), class}
	g := d.groups[key]
	if g == nil {
		g = &group{owner: cloneResource(owner), class: class}
		d.groups[key] = g
		d.byOwner[key.owner] = append(d.byOwner[key.owner], g)
	}
	return g
}

// closeGroup tells the end of a group that has been quiet for long enough, and
// forgets it in the end.
func (d *Detector) closeGroup(key groupKey, g *group) {
	if g.active > 0 {
		return
	}
	if len(g.told) > 0 && !d.seesAll(g) {
		g.quiet = d.now
	}
	if due := g.quiet.Add(d.stablePeriod(g)); len(g.told) > 0 && due.After(d.now) {
		d.wakeAt(due)
		return
	}
	if len(g.told) > 0 {
		d.clearFaults(g, g.quiet, "there has been no sign of it for "+durationInWords(d.now.Sub(g.quiet)))
	}
	if gone := laterOf(g.over.Add(d.scaleByPatience(remembered)), g.dead); gone.After(d.now) && len(d.groups) <= maxGroups {
		d.wakeAt(gone)
		return
	}
	d.dropGroup(key, g)
}

// seesAll reports whether everything that showed a fault can be seen. Events
// count once they have been listed: many a credential may not.
func (d *Detector) seesAll(g *group) bool {
	said := nightcrier.Resource{Kind: string(Event), Namespace: g.owner.Namespace}
	return d.seesObject(g.owner) && (!d.censusOf(Event, said.Namespace).known || d.seesObject(said)) && !slices.ContainsFunc(g.told, func(f Fault) bool { return !d.seesObject(f.Resource) })
}

func (d *Detector) dropGroup(key groupKey, g *group) {
	delete(d.groups, key)
	rest := slices.DeleteFunc(d.byOwner[key.owner], func(o *group) bool { return o == g })
	if d.byOwner[key.owner] = rest; len(rest) == 0 {
		delete(d.byOwner, key.owner)
	}
}

// clearFaults tells that the faults of a group are over.
func (d *Detector) clearFaults(g *group, at time.Time, why string) {
	f := slices.MaxFunc(g.told, func(a, b Fault) int { return int(a.Severity) - int(b.Severity) })
	var types []string
	for _, t := range g.told {
		types = append(types, t.Type)
	}
	f.Cleared, f.OccurredAt = true, at
	f.Context = text.CutLine(fmt.Sprintf("%s of %s is over: %s. It lasted %s, was seen in %s and came back %s.",
		strings.Join(types, ", "), g.owner, why, durationInWords(at.Sub(g.began)), text.CountNoun(g.objects, "object"), text.CountNoun(g.returns, "time")), maxContext)
	d.edges = append(d.edges, f)
	g.told, g.over, g.quiet = nil, d.now, time.Time{}
}

// buryOwner ends the faults of an owner that was deleted.
func (d *Detector) buryOwner(owner uint64) {
	for _, g := range d.byOwner[owner] {
		if len(g.told) > 0 {
			d.clearFaults(g, d.now, g.owner.Kind+" "+g.owner.Name+" was deleted")
		}
		g.dead = d.now.Add(d.scaleByPatience(buried))
		d.wakeAt(g.dead)
	}
}

// unearthOwner is for an owner that is there again.
func (d *Detector) unearthOwner(owner uint64) {
	for _, g := range d.byOwner[owner] {
		g.dead = time.Time{}
	}
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
