package detect

import (
	"regexp"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// event is what is read of an Event, of either API.
type event struct {
	Meta     meta `json:"metadata"`
	Involved struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Namespace  string `json:"namespace"`
		Name       string `json:"name"`
		UID        string `json:"uid"`
		Path       string `json:"fieldPath"`
	} `json:"involvedObject"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	First   stamp  `json:"firstTimestamp"`
	Last    stamp  `json:"lastTimestamp"`
	Time    stamp  `json:"eventTime"`
	Count   int64  `json:"count"`
	Series  *struct {
		Count int64 `json:"count"`
		Last  stamp `json:"lastObservedTime"`
	} `json:"series"`
}

// sign is how an Event's reason is read: which cause it shows, and how often and
// for how long it must be repeated.
type sign struct {
	*cause
	times int
	span  time.Duration
	// only what the message must say; nil for anything.
	only *regexp.Regexp
}

// signs are the Events that say what no object's status says, or say it sooner.
var signs = map[string]sign{
	"BackOff":    {cause: crashLoop, times: 3, span: 15 * time.Second, only: regexp.MustCompile(`restarting failed container`)},
	"Unhealthy":  {cause: probeFailing, times: 3, span: 15 * time.Second, only: regexp.MustCompile(`^Liveness probe`)},
	"Killing":    {cause: probeFailing, times: 1, only: regexp.MustCompile(`failed (liveness|startup) probe`)},
	"Evicted":    {cause: evicted, times: 1}, // the status lacks it when the container ends well
	"Preempted":  {cause: preempted, times: 1},
	"SystemOOM":  {cause: nodeEvent, times: 1},
	"OOMKilling": {cause: nodeEvent, times: 1},

	"FailedMount":            {cause: mountFailing, times: 3, span: time.Minute},
	"FailedMapVolume":        {cause: mountFailing, times: 3, span: time.Minute},
	"FailedAttachVolume":     {cause: mountFailing, times: 3, span: 3 * time.Minute}, // a volume moves after its Pod
	"FailedCreatePodSandBox": {cause: sandboxFails, times: 3, span: time.Minute},
	"NetworkNotReady":        {cause: sandboxFails, times: 5, span: 2 * time.Minute},
	"FailedPostStartHook":    {cause: startFailure, times: 2},

	"FailedCreate":          {cause: createRefused, times: 3, span: 10 * time.Second},
	"ReplicaSetCreateError": {cause: createRefused, times: 3, span: 10 * time.Second},

	"ProvisioningFailed":     {cause: claimEvent, times: 3, span: 30 * time.Second},
	"FailedBinding":          {cause: claimEvent, times: 3, span: time.Minute},
	"VolumeResizeFailed":     {cause: claimEvent, times: 3, span: time.Minute},
	"FileSystemResizeFailed": {cause: claimEvent, times: 3, span: time.Minute},

	"MissSchedule":       {cause: scheduleEvent, times: 1},
	"TooManyMissedTimes": {cause: scheduleEvent, times: 1},
	"UnknownTimeZone":    {cause: scheduleEvent, times: 1},

	"SyncLoadBalancerFailed": {cause: loadBalancer, times: 3, span: time.Minute},
	"ImageGCFailed":          {cause: nodeEvent, times: 3, span: 5 * time.Minute},
	"FreeDiskSpaceFailed":    {cause: nodeEvent, times: 3, span: 5 * time.Minute},
	"EvictionThresholdMet":   {cause: nodeEvent, times: 1},
}

var webhookURL = regexp.MustCompile(`failed calling webhook .*?https?://([a-z0-9-]+)\.([a-z0-9-]+)\.svc[:/]`)

const (
	// recent is how old an Event may be and still say something.
	recent = 10 * time.Minute
	// maxRepeats bounds how many Events are followed.
	maxRepeats = 8192
)

// repeat follows one reason of one object through the Events that tell it.
type repeat struct {
	uid         uint64 // of the Event that told it last
	told        int64  // the count in that Event
	times       int
	first, last time.Time
}

// observeEvent looks at an Event: news of an object that may be seen or not.
func (d *Detector) observeEvent(raw []byte) {
	var e event
	if !decodeObject(raw, &e) {
		d.stats.Malformed++
		return
	}
	sg, ok := signs[e.Reason]
	if !ok || sg.only != nil && !sg.only.MatchString(e.Message[:min(len(e.Message), 4*maxContext)]) {
		return
	}
	res := e.involvedResource()
	if res.Check() != nil {
		d.stats.Malformed++
		return
	}
	at := e.lastSeen()
	if at.IsZero() || d.now.Sub(at) > recent {
		return
	}
	at = d.capAtNow(at)
	container := containerName(e.involvedContainer())
	r := d.countRepeat(d.hashKey(res.Kind+"/"+e.Reason+"/"+container, res.Namespace, res.Name), &e, at)
	if r == nil || r.times < sg.times || r.last.Sub(r.first) < d.scaleByPatience(sg.span) {
		return
	}
	d.tellOf(res, finding{cause: sg.cause, container: container, since: at, happened: true}, &e, r)
}

// tellOf makes a finding of an Event that has been repeated often enough.
func (d *Detector) tellOf(res nightcrier.Resource, f finding, e *event, r *repeat) {
	owner := d.ownerOf(res)
	switch ofJob := owner.Kind == string(Job) || owner.Kind == string(CronJob); {
	case ofJob && f.cause == crashLoop: // it has a number of attempts, and its status says which
		return
	case f.cause == createRefused && strings.Contains(e.Message, "is being terminated"): // its namespace goes away
		return
	}
	if f.cause == createRefused {
		f = refusalFinding(e.Reason, e.Message, f)
	} else {
		f.context = formatSentence("%s, seen %s", withQuote(cutWord(e.Reason), e.Message), text.CountNoun(r.times, "time"))
	}
	if res.Kind == "ReplicaSet" { // its Deployment says when it works again
		res = owner
	}
	key := d.keyOf(res)
	p := d.patients[key]
	if p == nil {
		p = d.registerPatient(key, res, owner)
	}
	if p == nil || isAnotherObject(p.res.UID, res.UID) {
		return
	}
	d.noteFinding(p, f)
	d.reviewPatient(key, p, nil)
}

// countRepeat counts an Event in, nil when it says nothing new.
func (d *Detector) countRepeat(key uint64, e *event, at time.Time) *repeat {
	uid, count := d.hashKey("", e.Meta.UID, e.Meta.Name), e.seenCount()
	r := d.repeats[key]
	switch {
	case r == nil:
		d.makeRoom()
		r = &repeat{uid: uid, told: count, first: d.capAtNow(e.firstSeen()), last: at, times: int(min(count, 1000))}
		if at.Sub(r.first) > recent { // how often lately is not known
			r.first, r.times = at, 1
		}
		d.repeats[key] = r
		d.wakeAt(at.Add(recent))
		return r
	case r.uid == uid && count <= r.told:
		return nil
	case r.uid == uid:
		r.times += int(min(count-r.told, 1000))
	case at.After(r.last):
		r.times++
	default:
		return nil
	}
	r.uid, r.told, r.last = uid, count, laterOf(r.last, at)
	return r
}

// makeRoom drops any one of the Events that are followed when there are too many:
// whoever makes up Events must not keep the others from being seen.
func (d *Detector) makeRoom() {
	if len(d.repeats) < maxRepeats {
		return
	}
	for key := range d.repeats {
		delete(d.repeats, key)
		d.stats.Dropped++
		return
	}
}

// dropRepeats forgets what has not been repeated lately.
func (d *Detector) dropRepeats() {
	for key, r := range d.repeats {
		if d.now.Sub(r.last) >= recent {
			delete(d.repeats, key)
			continue
		}
		d.wakeAt(r.last.Add(recent))
	}
}

// involvedResource is the object that the Event is about.
func (e *event) involvedResource() nightcrier.Resource {
	i := e.Involved
	return nightcrier.Resource{APIVersion: i.APIVersion, Kind: i.Kind, Namespace: i.Namespace, Name: i.Name, UID: i.UID}
}

// involvedContainer is the container that the Event is about, as in spec.containers{app}.
func (e *event) involvedContainer() string {
	_, name, _ := strings.Cut(e.Involved.Path, "{")
	return strings.TrimSuffix(name, "}")
}

func (e *event) seenCount() int64 {
	if e.Series != nil {
		return max(e.Series.Count, 1)
	}
	return max(e.Count, 1)
}

// firstSeen and lastSeen are when the Event was told.
func (e *event) firstSeen() time.Time {
	for _, t := range []stamp{e.First, e.Time} {
		if !t.IsZero() {
			return t.Time
		}
	}
	return e.lastSeen()
}

func (e *event) lastSeen() time.Time {
	if e.Series != nil && !e.Series.Last.IsZero() {
		return e.Series.Last.Time
	}
	for _, t := range []stamp{e.Last, e.Time, e.First} {
		if !t.IsZero() {
			return t.Time
		}
	}
	return e.Meta.Created.Time
}
