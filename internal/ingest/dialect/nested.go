package dialect

import (
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/text"
)

// k8sEvent is a Kubernetes event as the servers pass it on.
type k8sEvent struct {
	Namespace      string               `json:"namespace"`
	Type           string               `json:"type"`
	Reason         string               `json:"reason"`
	Message        string               `json:"message"`
	InvolvedObject *nightcrier.Resource `json:"involvedObject"`
	Timestamp      lenientTime          `json:"timestamp"`
	LastTimestamp  lenientTime          `json:"lastTimestamp"`
	FirstTimestamp lenientTime          `json:"firstTimestamp"`
}

// fillNested reads the shapes that carry a Kubernetes event. With them the
// fault type and the severity come from the event's reason: the level of the
// notification is the same for all.
func (p *payload) fillNested(ev *nightcrier.Event, logger string) error {
	ev.Dialect = Events
	if p.Logs != nil || logger == "kubernetes/faults" {
		ev.Dialect = LegacyFaults
	}
	res, err := p.Event.involvedResource()
	if err != nil {
		return err
	}
	ev.Resource = res
	if tokenOrEmpty(p.Event.Reason) == "" {
		return nightcrier.Errorf(nightcrier.Invalid, "field event.reason %q is not a word of letters, digits and ._/- of at most %d bytes", text.CutLine(text.MarkHidden(p.Event.Reason), 64), maxToken)
	}
	ev.Context = text.CutWords(text.MarkHidden(p.Event.Message), maxContext)
	ev.Logs = cleanLogs(p.Logs)
	ev.Container = containerOf(ev.Context, ev.Logs)
	ev.OccurredAt = p.Event.occurredAt()
	p.Event.judgeEvent(ev)
	p.setFaultID(ev)
	return nil
}

// judgeEvent sets fault type, severity and, for an event that is no fault, the reason.
func (e *k8sEvent) judgeEvent(ev *nightcrier.Event) {
	f := classifyReason(e.Reason, e.Message)
	ev.FaultType, ev.Severity = f.faultType, f.severity
	if f.benign || strings.EqualFold(e.Type, "Normal") && !f.evenNormal {
		ev.FaultType, ev.Severity = e.Reason, nightcrier.Info
		ev.Reason = nightcrier.NotAFault
		ev.Detail = "Kubernetes event of type " + text.CutLine(text.MarkHidden(e.Type), 64) + " with reason " + e.Reason
	}
}

func (e *k8sEvent) involvedResource() (nightcrier.Resource, error) {
	if e.InvolvedObject == nil {
		return nightcrier.Resource{}, nightcrier.Errorf(nightcrier.Invalid, "field event.involvedObject is missing")
	}
	res := *e.InvolvedObject
	// Events about a cluster-wide object lie in a namespace that is not its own.
	if kind, _ := kinds.Named(res.Kind); res.Namespace == "" && !kind.ClusterWide {
		res.Namespace = e.Namespace
	}
	return res, res.Check()
}

func (e *k8sEvent) occurredAt() (t time.Time) {
	for _, at := range []lenientTime{e.Timestamp, e.LastTimestamp, e.FirstTimestamp} {
		if !at.IsZero() {
			return at.Time
		}
	}
	return t
}
