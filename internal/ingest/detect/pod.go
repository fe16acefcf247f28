package detect

import (
	"math"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
)

// maxContainers bounds how many containers of each sort of a Pod are looked at.
const maxContainers = 64

// pod is what is read of a Pod.
type pod struct {
	Meta   meta `json:"metadata"`
	Status struct {
		Phase      string      `json:"phase"`
		Reason     string      `json:"reason"`
		Message    string      `json:"message"`
		Start      stamp       `json:"startTime"`
		Conditions conditions  `json:"conditions"`
		Main       []container `json:"containerStatuses"`
		Init       []container `json:"initContainerStatuses"`
		Ephemeral  []container `json:"ephemeralContainerStatuses"`
	} `json:"status"`

	// What the readers of its parts need to know.
	now, start time.Time
	listed     bool // it was not seen as it changed
	ofJob      bool
}

type container struct {
	Name     string `json:"name"`
	Ready    bool   `json:"ready"`
	Started  *bool  `json:"started"`
	Restarts int64  `json:"restartCount"`
	State    state  `json:"state"`
	Last     state  `json:"lastState"`
}

type state struct {
	Waiting *struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"waiting"`
	Running *struct {
		Since stamp `json:"startedAt"`
	} `json:"running"`
	Ended *ending `json:"terminated"`
}

type ending struct {
	Code    int64  `json:"exitCode"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Began   stamp  `json:"startedAt"`
	At      stamp  `json:"finishedAt"`
}

func readPod(d *Detector, raw []byte) (view, bool) {
	var p pod
	if !decodeObject(raw, &p) {
		return view{}, false
	}
	res := p.Meta.asResource(Pod)
	all := d.censusOf(Pod, res.Namespace)
	p.now, p.listed, p.ofJob = d.now, all.listing, p.Meta.controllingOwner().Kind == "Job"
	if p.start = p.Status.Start.Time; p.start.IsZero() {
		p.start = p.Meta.Created.Time
	}
	v := view{res: res, owner: d.controllerOf(&p.Meta, res)}
	for _, c := range p.Status.Main[:min(len(p.Status.Main), maxContainers)] {
		v.restarts += min(max(c.Restarts, 0), math.MaxInt16)
	}
	v.leaving = !p.Meta.Deleted.IsZero() || p.Status.Phase == "Succeeded"
	v.healthy = p.isWorking()
	v.findings = p.listFindings(v.leaving)
	if m, known := all.marks[d.keyOf(res)]; known {
		v.findings = p.restartedOften(v.findings, v.restarts-int64(m.restarts))
	}
	return v, true
}

// controllerOf is who is to be mended when an object has a fault: its controller,
// the Deployment instead of a ReplicaSet, the CronJob instead of a Job. A static
// Pod names its node: the Pod is the thing.
func (d *Detector) controllerOf(m *meta, self nightcrier.Resource) nightcrier.Resource {
	o := m.controllingOwner()
	res := nightcrier.Resource{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: m.Namespace, Name: o.Name}
	if o.Kind == "Node" || res.Check() != nil {
		return self
	}
	switch hash := "-" + m.Labels.Hash; {
	case o.Kind == "ReplicaSet" && len(hash) > 1 && len(o.Name) > len(hash) && o.Name[len(o.Name)-len(hash):] == hash:
		res.Kind, res.Name = string(Deployment), o.Name[:len(o.Name)-len(hash)]
	case o.Kind == "Job":
		res = d.ownerOf(res)
		res.UID = ""
	}
	return res
}

// isWorking reports whether every container is ready.
func (p *pod) isWorking() bool {
	if p.Status.Phase != "Running" || len(p.Status.Main) == 0 {
		return false
	}
	for i := range p.Status.Main {
		if !p.Status.Main[i].Ready {
			return false
		}
	}
	return true
}

func (p *pod) listFindings(leaving bool) []finding {
	out := p.ofScheduler(nil)
	if leaving {
		return out
	}
	out = p.ofKubelet(out)
	for _, c := range p.Status.Init[:min(len(p.Status.Init), maxContainers)] {
		out = p.ofContainer(out, &c, "init container ")
	}
	for _, c := range p.Status.Main[:min(len(p.Status.Main), maxContainers)] {
		out = p.ofContainer(out, &c, "container ")
		out = p.ofProbes(out, &c)
	}
	for _, c := range p.Status.Ephemeral[:min(len(p.Status.Ephemeral), maxContainers)] {
		out = p.ofContainer(out, &c, "ephemeral container ")
	}
	return out
}

// undatedSince is when a state began that the Pod does not date: when it was seen first,
// or the Pod's start if it was not seen as it changed.
func (p *pod) undatedSince() time.Time {
	if p.listed {
		return p.start
	}
	return p.now
}

func (p *pod) ofScheduler(out []finding) []finding {
	if c := p.Status.Conditions.findCondition("PodScheduled"); c.hasStatus("False") && c.Reason == "Unschedulable" && p.Meta.Deleted.IsZero() {
		out = append(out, finding{cause: unschedulable, since: c.Since.Time, context: formatSentence("%s", withQuote("No node takes the Pod", c.Message))})
	}
	if c := p.Status.Conditions.findCondition("DisruptionTarget"); c.hasStatus("True") && c.Reason == "PreemptionByScheduler" {
		out = append(out, finding{cause: preempted, since: c.Since.Time, happened: true,
			context: formatSentence("%s", withQuote("The Pod had to make room for one of higher priority", c.Message))})
	}
	return out
}

// ofKubelet reads what the kubelet says of a Pod that it has given up.
func (p *pod) ofKubelet(out []finding) []finding {
	if p.Status.Phase != "Failed" {
		return out
	}
	at := p.failureTime()
	switch p.Status.Reason {
	case "Evicted":
		return append(out, finding{cause: evicted, since: at, happened: true, context: formatSentence("%s", withQuote("The kubelet evicted the Pod", p.Status.Message))})
	case "UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage", "SysctlForbidden", "AppArmor":
		return append(out, finding{cause: notAdmitted, since: at, happened: true,
			context: formatSentence("%s", withQuote("The kubelet would not run the Pod, reason: "+p.Status.Reason, p.Status.Message))})
	}
	return out
}

// failureTime is when a Pod that has failed did so.
func (p *pod) failureTime() time.Time {
	at := p.Status.Conditions.findCondition("DisruptionTarget").Since.Time
	for i := range p.Status.Main {
		if e := p.Status.Main[i].State.Ended; e != nil {
			at = laterOf(at, e.At.Time)
		}
	}
	if at.IsZero() {
		at = p.undatedSince()
	}
	return p.capAtNow(at)
}

func (p *pod) ofContainer(out []finding, c *container, what string) []finding {
	what += containerName(c.Name)
	if w := c.State.Waiting; w != nil {
		out = p.ofWaiting(out, c, what, w.Reason, w.Message)
	}
	for _, e := range []*ending{c.State.Ended, c.Last.Ended} {
		if e != nil && !p.sentAway() {
			out = p.ofEnding(out, c, what, e)
		}
	}
	return out
}

// sentAway: the Pod as a whole had to go, so that its containers ended.
func (p *pod) sentAway() bool {
	return p.Status.Phase == "Failed" && p.Status.Reason != "" || p.Status.Conditions.findCondition("DisruptionTarget").hasStatus("True")
}

// ofWaiting reads why a container does not run.
func (p *pod) ofWaiting(out []finding, c *container, what, reason, message string) []finding {
	f := finding{container: containerName(c.Name), since: p.undatedSince()}
	faultType, _, known := dialect.Meaning(reason)
	switch {
	case reason == "CrashLoopBackOff":
		return append(out, p.crashLoop(c, what))
	case reason == "ErrImageNeverPull", reason == "InvalidImageName":
		f.cause = imageNever
	case known && faultType == nightcrier.FaultImagePull:
		f.cause = imagePull
	case reason == "CreateContainerConfigError":
		f.cause = configError
	case known && faultType == nightcrier.FaultStart, reason == "PreStartHookError", reason == "PostStartHookError":
		f.cause = startFailure
	case reason == "ContainerCreating":
		f.cause, f.since, reason = neverCreated, p.start, "ContainerCreating for "+durationInWords(p.now.Sub(p.start))
	default:
		return out
	}
	f.context = formatSentence("%s", withQuote(upperFirst(what)+" does not start, reason: "+cutWord(reason), message))
	return append(out, f)
}

// crashLoop is a container that the kubelet starts again and again.
func (p *pod) crashLoop(c *container, what string) finding {
	f := finding{cause: crashLoop, container: containerName(c.Name), since: p.undatedSince(), context: formatSentence("%s is in CrashLoopBackOff, restart count: %d", upperFirst(what), max(c.Restarts, 0))}
	if e := c.Last.Ended; e != nil {
		f.context = formatSentence("%s is in CrashLoopBackOff, restart count: %d, last %s", upperFirst(what), max(c.Restarts, 0), e)
		if !e.At.IsZero() {
			f.since = e.At.Time
		}
	}
	// A Job has a number of attempts of its own.
	if c.Restarts < 2 || p.ofJob && c.Restarts < 3 {
		f.cause, f.since = secondCrash, p.now
	}
	return f
}

// ofEnding reads how a container ended lately.
func (p *pod) ofEnding(out []finding, c *container, what string, e *ending) []finding {
	f := finding{container: containerName(c.Name), since: p.capAtNow(e.At.Time), happened: true}
	if f.since.IsZero() {
		f.since = p.undatedSince()
	}
	switch {
	case e.Reason == "OOMKilled":
		f.cause = oomKilled
		f.context = formatSentence("%s was killed for using too much memory, restart count: %d, %s", upperFirst(what), max(c.Restarts, 0), e)
	case e.Code != 0 && !p.isExcused(c, e):
		f.cause = crash
		f.context = formatSentence("%s crashed, restart count: %d, %s", upperFirst(what), max(c.Restarts, 0), e)
	default:
		return out
	}
	return append(out, f)
}

// isExcused reports whether an end is none of our business: an attempt of a Job, the first
// crash soon after the first start, a container that is started by hand, and one that
// the kubelet lost sight of.
func (p *pod) isExcused(c *container, e *ending) bool {
	crashes := c.Restarts
	if c.State.Ended == e {
		crashes++
	}
	began := e.Began.Time
	if began.IsZero() {
		began = p.start
	}
	young := crashes <= 1 && e.At.Sub(began) < startup && p.Status.Phase != "Failed"
	return p.ofJob || young || p.startedByHand(c) || e.Reason == "ContainerStatusUnknown" || e.Reason == "Unknown"
}

func (p *pod) startedByHand(c *container) bool {
	for i := range p.Status.Ephemeral {
		if p.Status.Ephemeral[i].Name == c.Name {
			return true
		}
	}
	return false
}

// restartedOften finds crash loops of which nothing was seen but the number of
// restarts between two looks.
func (p *pod) restartedOften(out []finding, more int64) []finding {
	if more < 3 || p.ofJob {
		return out
	}
	for i := range p.Status.Main {
		c := &p.Status.Main[i]
		if e := c.Last.Ended; e != nil && e.Code != 0 && c.Restarts >= 3 {
			return append(out, finding{cause: crashLoop, container: containerName(c.Name), since: p.capAtNow(e.At.Time), happened: true,
				context: formatSentence("Container %s has restarted %d times since the last look, restart count: %d, last %s", containerName(c.Name), more, c.Restarts, e)})
		}
	}
	return out
}

// ofProbes reads whether a container that runs is not ready.
func (p *pod) ofProbes(out []finding, c *container) []finding {
	if c.State.Running == nil || c.Ready || p.Status.Phase != "Running" {
		return out
	}
	since := laterOf(c.State.Running.Since.Time, p.Status.Conditions.findCondition("ContainersReady").Since.Time)
	f := finding{cause: notBecomingReady, container: containerName(c.Name), since: since}
	what := "its readiness probe fails"
	if c.Started != nil && !*c.Started {
		f.cause, what = notStarting, "its startup probe fails"
	}
	f.context = formatSentence("Container %s runs but is not ready: %s, restart count: %d", f.container, what, max(c.Restarts, 0))
	return append(out, f)
}

func (p *pod) capAtNow(t time.Time) time.Time {
	if t.After(p.now) {
		return p.now
	}
	return t
}
