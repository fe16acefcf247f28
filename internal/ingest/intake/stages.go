package intake

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
)

// receipt writes down when, from where and for which cluster the event came.
type receipt struct{ now func() time.Time }

// Judge ends none.
func (r receipt) Judge(_ context.Context, d nightcrier.Delivery, ev *nightcrier.Event) nightcrier.Reason {
	*ev = nightcrier.Event{ID: cmp.Or(d.EventID, nightcrier.NewID()), Source: d.Source, Cluster: d.Cluster, ReceivedAt: d.ReceivedAt, IncidentID: d.IncidentID}
	if ev.ReceivedAt.IsZero() {
		ev.ReceivedAt = r.now()
	}
	return ""
}

// parse reads the payload, whatever dialect it is of.
type parse struct{}

// Judge ends what cannot be read, which is kept as it came, and what its sender
// does not mean as a fault. The configured name of the cluster counts, not what
// the payload says.
func (parse) Judge(_ context.Context, d nightcrier.Delivery, ev *nightcrier.Event) nightcrier.Reason {
	if d.Reason != "" {
		ev.Raw, ev.Dialect, ev.Detail = d.Raw, d.Dialect, d.Detail
		return d.Reason
	}
	payload := d.Raw
	if len(d.Reading) > 0 {
		payload = d.Reading
	}
	read, err := dialect.Parse(payload)
	if len(d.Reading) > 0 && err == nil {
		read.Raw = d.Raw
	}
	read.Dialect = cmp.Or(d.Dialect, read.Dialect)
	read.ID, read.Source, read.ReceivedAt, read.IncidentID = ev.ID, ev.Source, ev.ReceivedAt, ev.IncidentID
	if ev.Cluster != "" {
		read.Cluster = ev.Cluster
	}
	*ev = read
	switch {
	case err != nil:
		ev.Raw, ev.Detail = d.Raw, err.Error()
		if nightcrier.CodeOf(err) == nightcrier.Exhausted {
			return nightcrier.Oversized
		}
		return nightcrier.Malformed
	case ev.Reason == "" && ev.Cluster == "":
		ev.Detail = "neither the source nor the payload names a cluster"
		return nightcrier.Malformed
	}
	return ev.Reason
}

// legalNames ends what no cluster can have: names end in paths and prompts.
type legalNames struct{}

// Judge checks the resource, whatever the dialect has checked.
func (legalNames) Judge(_ context.Context, _ nightcrier.Delivery, ev *nightcrier.Event) nightcrier.Reason {
	if err := ev.Resource.Check(); err != nil {
		ev.Detail = err.Error()
		return nightcrier.Malformed
	}
	return ""
}

// scope ends what concerns a namespace that is not looked at.
type scope struct{ of func(cluster string) []string }

// Judge compares with the configured namespaces. What is in none of any, such as a
// Node or an alert about nothing that the cluster knows, goes on.
func (s scope) Judge(_ context.Context, _ nightcrier.Delivery, ev *nightcrier.Event) nightcrier.Reason {
	if ev.Resource.In(s.of(ev.Cluster)) {
		return ""
	}
	ev.Detail = fmt.Sprintf("%s is in none of the namespaces of clusters[].namespaces", ev.Resource)
	return nightcrier.OutsideNamespaces
}

// threshold ends what is not severe enough.
type threshold struct{ lowest nightcrier.Severity }

// Judge compares with the configured severity. The end of a fault is taken in
// whatever its sender makes of it.
func (t threshold) Judge(_ context.Context, _ nightcrier.Delivery, ev *nightcrier.Event) nightcrier.Reason {
	if ev.Severity >= t.lowest || ev.Cleared {
		return ""
	}
	ev.Detail = fmt.Sprintf("severity %s is below severity_threshold %s", ev.Severity, t.lowest)
	return nightcrier.BelowThreshold
}

// fingerprint finds out whose fault the event is, so that what several events
// say of one fault becomes one incident.
type fingerprint struct{ owners *owners }

// Judge completes the event and ends none.
func (f *fingerprint) Judge(ctx context.Context, _ nightcrier.Delivery, ev *nightcrier.Event) nightcrier.Reason {
	if ev.Owner.IsZero() {
		ev.Owner = f.owners.resolveOwner(ctx, ev.Cluster, ev.Resource)
	}
	ev.Class = ClassOf(ev.FaultType, ev.Owner.Kind)
	ev.Fingerprint = Fingerprint(ev.Cluster, ev.Owner, ev.Class)
	return ""
}

// Fingerprint names a fault: cluster, owner and class. What changes between two
// reports of one fault (uid, container, fault type) is not in it.
func Fingerprint(cluster string, owner nightcrier.Resource, class nightcrier.Class) string {
	namespace := owner.Namespace
	namespace = cmp.Or(namespace, "-")
	return strings.Join([]string{cluster, namespace, owner.Kind, owner.Name, string(class)}, "/")
}
