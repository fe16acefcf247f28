package kubetool

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
)

// Bounds of reading events: the API lists them by name, not by time, so the
// newest are found by reading all of them, up to these.
const (
	eventPage  = 500
	eventPages = 10
)

var eventsTool = Tool{
	Name: "kubernetes_events", Title: "Kubernetes: Events",
	About: "Kubernetes events, the last seen first: of a namespace, of one object, of one type or reason.",
	Params: Params{anyNamespace,
		{Name: "kind", Type: String, About: "Kind of the object that the events are about"},
		{Name: "name", Type: String, About: "Name of the object that the events are about"},
		{Name: "type", Type: String, Enum: []string{"Normal", "Warning"}, About: "Only events of this type"},
		{Name: "reason", Type: String, About: "Only events whose reason starts so, such as Failed"},
		{Name: "limit", Type: Integer, Min: 1, Max: 500, Default: 50, About: "The most events to return"}},
	Output: SchemaOf[Seen](nil), run: showEvents,
}

func showEvents(ctx context.Context, r *reading, a Args) error {
	f := EventFilter{Namespace: a.String("namespace"), Name: a.String("name"), Type: a.String("type"), Reason: a.String("reason")}
	if word := a.String("kind"); word != "" {
		k, err := r.kindOf(ctx, word, "")
		if err != nil {
			return err
		}
		f.Kind = k.Name
	}
	list, more, err := r.listEvents(ctx, f, a.Int("limit"))
	if err != nil {
		return err
	}
	r.writeTextf("events: %d", len(list))
	if more > 0 {
		r.writeTextf(", and %d that were seen longer ago", more)
	}
	r.writeTextf("\n")
	if len(list) > 0 {
		r.writeTextf("%s", r.eventTable(list, true))
	}
	r.rest = "narrow it with namespace, kind, name, type, reason or limit"
	data := SeenOf(list)
	data.Events, data.Truncated = firstFitting(data.Events, r.set.cfg.MaxText)
	data.More = more
	r.data = &data
	return nil
}

// SeenOf is what programs are told of events.
func SeenOf(list []corev1.Event) Seen {
	all := []SeenEvent{}
	for i := range list {
		e := &list[i]
		o := e.InvolvedObject
		seen := SeenEvent{
			Times: int(eventCount(e)), Type: e.Type, Reason: e.Reason, Message: e.Message,
			Object: nightcrier.Resource{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name},
		}
		if at := lastSeen(e); !at.IsZero() {
			seen.LastSeen = at.UTC().Format(time.RFC3339)
		}
		all = append(all, seen)
	}
	return Seen{Events: all}
}

// EventFilter selects events; empty fields select all.
type EventFilter struct {
	Namespace, Kind, Name, Type string
	// Reason is how the reason starts.
	Reason string
}

// asQuery checks the filter and makes a query of what the API can select.
func (f EventFilter) asQuery() (query, error) {
	check := nightcrier.Resource{Kind: cmp.Or(f.Kind, "x"), Namespace: f.Namespace, Name: cmp.Or(f.Name, "x")}
	if err := check.Check(); err != nil {
		return query{}, err
	}
	var fields []string
	for _, p := range [][2]string{{"involvedObject.kind", f.Kind}, {"involvedObject.name", f.Name}, {"type", f.Type}} {
		if p[1] != "" {
			fields = append(fields, p[0]+"="+p[1])
		}
	}
	values := url.Values{"limit": {strconv.Itoa(eventPage)}}
	if len(fields) > 0 {
		values.Set("fieldSelector", strings.Join(fields, ","))
	}
	return query{path: kinds.MustNamed("Event").Path(f.Namespace), values: values, accept: acceptJSON, max: maxList, kind: "list"}, nil
}

// listEvents returns the events that f selects, at most limit of them, the last
// seen first, and how many more it has met.
func (r *reading) listEvents(ctx context.Context, f EventFilter, limit int) ([]corev1.Event, int, error) {
	q, err := f.asQuery()
	if err != nil {
		return nil, 0, err
	}
	var all []corev1.Event
	for range eventPages {
		doc, err := r.readMasked(ctx, q)
		if err != nil {
			return nil, 0, err
		}
		var page corev1.EventList
		if err := convertInto(doc, &page); err != nil {
			return nil, 0, err
		}
		for _, e := range page.Items {
			if strings.HasPrefix(strings.ToLower(e.Reason), strings.ToLower(f.Reason)) {
				all = append(all, e)
			}
		}
		if page.Continue == "" {
			break
		}
		q.values.Set("continue", page.Continue)
	}
	slices.SortStableFunc(all, func(a, b corev1.Event) int { return lastSeen(&b).Compare(lastSeen(&a)) })
	shown := all[:min(len(all), limit)]
	q.values.Del("continue")
	return shown, len(all) - len(shown), r.recordDoc(q, corev1.EventList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}, Items: shown,
	})
}

// lastSeen is when an event happened last, by whatever its sender filled in.
func lastSeen(e *corev1.Event) time.Time {
	if e.Series != nil && !e.Series.LastObservedTime.IsZero() {
		return e.Series.LastObservedTime.Time
	}
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time, e.CreationTimestamp.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

func eventCount(e *corev1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return max(e.Count, 1)
}

func (r *reading) eventTable(list []corev1.Event, withObject bool) string {
	head := []string{"LAST SEEN", "TIMES", "TYPE", "REASON"}
	if withObject {
		head = append(head, "OBJECT")
	}
	rows := [][]string{append(head, "MESSAGE")}
	for i := range list {
		e := &list[i]
		row := []string{formatAgo(r.currentTime(), lastSeen(e)), strconv.Itoa(int(eventCount(e))), e.Type, e.Reason}
		if withObject {
			o := e.InvolvedObject
			row = append(row, nightcrier.Resource{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}.String())
		}
		rows = append(rows, append(row, e.Message))
	}
	return formatTable(rows)
}

// Events returns events as they are, for other faces than a tool's text: at
// most limit, the last seen first.
func (s *Set) Events(ctx context.Context, f EventFilter, limit int) ([]corev1.Event, error) {
	r := &reading{set: s}
	list, _, err := r.listEvents(ctx, f, cmp.Or(limit, eventPage))
	return list, err
}
