package detect

import (
	"slices"
	"time"

	"nightcrier.dev/nightcrier"
)

// Bounds of what is kept of objects that do not work.
const (
	maxPatients = 50_000
	maxSymptoms = 16     // of one object
	maxGroups   = 20_000 // above it, what is over is not remembered
)

// fresh is how old what has happened may be however little patience there is:
// the cluster's times are whole seconds, and its clock is another one.
const fresh = 30 * time.Second

// ward holds the objects that show something, and the groups of their symptoms.
type ward struct {
	patients map[uint64]*patient
	groups   map[groupKey]*group
	byOwner  map[uint64][]*group
	// nodesDown counts the nodes that run no Pods.
	nodesDown int
	// success is when a Job of a CronJob succeeded last, in seconds of Unix.
	success map[uint64]int64
}

func newWard() ward {
	return ward{patients: map[uint64]*patient{}, groups: map[groupKey]*group{}, byOwner: map[uint64][]*group{}, success: map[uint64]int64{}}
}

// patient is an object that shows something.
type patient struct {
	res, owner nightcrier.Resource
	symptoms   []symptom
}

// symptom is a finding that lasts, or may come back.
type symptom struct {
	finding
	faultType string
	severity  nightcrier.Severity
	// due is when it becomes a fault, until when it is over if it is not seen
	// again; zero while it is seen.
	due, until time.Time
	// group has it since it is a fault.
	group *group
	seen  bool
}

// examineObject compares what an object shows now with what it showed before.
func (d *Detector) examineObject(key uint64, v view) {
	p := d.patients[key]
	if p == nil && len(v.findings) == 0 {
		return
	}
	if p != nil && isAnotherObject(p.res.UID, v.res.UID) {
		d.dischargePatient(key)
		p = nil
	}
	if p == nil {
		if p = d.registerPatient(key, v.res, v.owner); p == nil {
			return
		}
	}
	for i := range p.symptoms {
		p.symptoms[i].seen = false
	}
	for _, f := range v.findings {
		d.noteFinding(p, f)
	}
	d.reviewPatient(key, p, func(s *symptom) { d.noteUnseen(s, v) })
}

// isAnotherObject reports whether two objects of one name are not the same.
func isAnotherObject(uid, other string) bool { return uid != "" && other != "" && uid != other }

// registerPatient makes a patient, nil when there is no room.
func (d *Detector) registerPatient(key uint64, res, owner nightcrier.Resource) *patient {
	if len(d.patients) >= maxPatients {
		d.stats.Dropped++
		return nil
	}
	p := &patient{res: cloneResource(res), owner: cloneResource(owner)}
	d.patients[key] = p
	return p
}

// noteFinding takes a finding in: a new symptom, or one that is seen again.
func (d *Detector) noteFinding(p *patient, f finding) {
	if f.since.IsZero() || !f.ahead && f.since.After(d.now) {
		f.since = d.now
	}
	if f.happened && d.now.Sub(f.since) > max(d.scaleByPatience(f.hold), min(f.hold, fresh)) {
		return // history
	}
	f.context = d.maskContext(f.context)
	faultType, severity := f.faultMeaning()
	s := p.findSymptom(faultType, f.container)
	if s == nil {
		if len(p.symptoms) >= maxSymptoms {
			d.stats.Dropped++
			return
		}
		p.symptoms = append(p.symptoms, symptom{finding: f, faultType: faultType, severity: severity, due: d.dueOf(f)})
		s = &p.symptoms[len(p.symptoms)-1]
		s.until = s.endTime(d, f)
	} else {
		s.noteAgain(d, f, severity)
	}
	s.seen = true
}

// dueOf is when a finding becomes a fault if it lasts.
func (d *Detector) dueOf(f finding) time.Time {
	return f.since.Add(d.scaleByPatience(f.grace + f.slack))
}

func (p *patient) findSymptom(faultType, container string) *symptom {
	for i := range p.symptoms {
		if s := &p.symptoms[i]; s.faultType == faultType && s.container == container {
			return s
		}
	}
	return nil
}

func (p *patient) isIn(g *group) bool {
	return slices.ContainsFunc(p.symptoms, func(s symptom) bool { return s.group == g })
}

// noteAgain notes the symptom seen once more, perhaps with another cause.
func (s *symptom) noteAgain(d *Detector, f finding, severity nightcrier.Severity) {
	if s.group != nil && f.ahead && d.dueOf(f).After(d.now) { // what was late has come
		d.releaseSymptom(s)
		s.due = d.dueOf(f)
	}
	switch {
	case s.group != nil && severity > s.severity:
		d.raiseSeverity(s, f, severity)
	case s.group == nil && f.progress != s.progress:
		f.since = d.now // it goes forward: the patience starts anew
		fallthrough
	case s.group == nil:
		due := d.dueOf(f)
		if f.progress == s.progress && f.cause == s.cause && !f.ahead && due.After(s.due) {
			due = s.due
		}
		s.finding, s.severity, s.due = f, severity, due
	}
	if end := s.endTime(d, f); end.IsZero() || !s.until.IsZero() && end.After(s.until) {
		s.until = end
	}
}

// endTime is when the symptom is over by what was found.
func (s *symptom) endTime(d *Detector, f finding) time.Time {
	if !f.happened {
		return time.Time{}
	}
	hold := d.scaleByPatience(f.hold)
	if end := f.since.Add(hold); end.After(d.now) {
		return end
	}
	return d.now.Add(hold)
}

// noteUnseen decides what becomes of a symptom that its object does not show any more.
func (d *Detector) noteUnseen(s *symptom, v view) {
	switch {
	case s.seen:
	case v.leaving, s.group == nil && !s.happened, v.healthy && s.heals:
		s.until = d.now
	case s.until.IsZero():
		s.until = d.now.Add(d.scaleByPatience(s.hold))
	}
}

// reviewPatient lets what is due become a fault and drops what is over.
func (d *Detector) reviewPatient(key uint64, p *patient, first func(*symptom)) {
	kept := p.symptoms[:0]
	for i := range p.symptoms {
		s := p.symptoms[i]
		if first != nil {
			first(&s)
		}
		if !s.until.IsZero() && !s.until.After(d.now) {
			d.releaseSymptom(&s)
			continue
		}
		if s.group == nil && !s.due.After(d.now) {
			d.raiseFault(p, &s)
		}
		if s.group == nil {
			d.prolongFault(p, &s)
			d.wakeAt(s.due)
		}
		d.wakeAt(s.until)
		kept = append(kept, s)
	}
	clear(p.symptoms[len(kept):])
	if p.symptoms = kept; len(kept) == 0 {
		delete(d.patients, key)
	}
}

// dischargePatient drops an object with all that it shows.
func (d *Detector) dischargePatient(key uint64) {
	p := d.patients[key]
	if p == nil {
		return
	}
	for i := range p.symptoms {
		d.releaseSymptom(&p.symptoms[i])
	}
	delete(d.patients, key)
}

// reviewAll reviews all groups, and the patients that can be seen.
func (d *Detector) reviewAll() {
	for key, p := range d.patients {
		if d.seesObject(p.res) {
			d.reviewPatient(key, p, nil)
		}
	}
	for key, g := range d.groups {
		d.closeGroup(key, g)
	}
}
