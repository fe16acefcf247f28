package ui

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// perPage is how many rows a list has.
const perPage = 50

// incidentFilter is what a list is narrowed to. It stands in the address, so that it can be
// kept and sent to somebody.
type incidentFilter struct {
	Text, Cluster, Namespace, Severity, Status, Condition, Since, CausedBy, Cursor string
}

// span is a time that a list can be narrowed to.
type span struct {
	Value, Words string
	length       time.Duration
}

var spans = []span{{"1h", "in the last hour", time.Hour}, {"6h", "in the last 6 hours", 6 * time.Hour}, {"24h", "in the last day", 24 * time.Hour}, {"7d", "in the last week", 7 * 24 * time.Hour}, {"30d", "in the last 30 days", 30 * 24 * time.Hour}}

func readFilter(q url.Values) incidentFilter {
	return incidentFilter{q.Get("text"), q.Get("cluster"), q.Get("namespace"), q.Get("severity"), q.Get("status"), q.Get("condition"), q.Get("since"), q.Get("causedBy"), q.Get("cursor")}
}

// values are the filter as it stands in an address.
func (f incidentFilter) values() url.Values {
	q := url.Values{}
	for name, v := range map[string]string{"text": f.Text, "cluster": f.Cluster, "namespace": f.Namespace, "severity": f.Severity, "status": f.Status, "condition": f.Condition, "since": f.Since, "causedBy": f.CausedBy, "cursor": f.Cursor} {
		if v != "" {
			q.Set(name, v)
		}
	}
	return q
}

// With is the address of the list with one thing changed; "" takes it away. It begins with
// the first page.
func (f incidentFilter) With(name, value string) string {
	q := f.values()
	q.Del("cursor")
	q.Set(name, value)
	if value == "" {
		q.Del(name)
	}
	return strings.TrimSuffix("/incidents?"+q.Encode(), "?")
}

// Page is the address of the page behind a cursor.
func (f incidentFilter) Page(cursor string) string {
	f.Cursor = cursor
	return "/incidents?" + f.values().Encode()
}

// Given reports whether anything is narrowed.
func (f incidentFilter) Given() bool {
	f.Cursor = ""
	return f != incidentFilter{}
}

// forStore is the filter as the store takes it; an Invalid error for words that it does not know.
func (f incidentFilter) forStore(now time.Time) (store.IncidentFilter, error) {
	q := store.IncidentFilter{Text: f.Text, Cluster: f.Cluster, Namespace: f.Namespace, Condition: nightcrier.Condition(f.Condition), CausedBy: f.CausedBy, Limit: perPage, Cursor: f.Cursor}
	var err error
	if f.Status != "" {
		if q.Status, err = nightcrier.ParseIncidentStatus(f.Status); err != nil {
			return q, err
		}
	}
	if f.Severity != "" {
		var ok bool
		if q.Severity, ok = nightcrier.ParseSeverity(f.Severity); !ok {
			return q, nightcrier.Errorf(nightcrier.Invalid, "severity %.32q is not one of info, warning, error, critical", f.Severity)
		}
	}
	if f.Since != "" {
		at := slices.IndexFunc(spans, func(s span) bool { return s.Value == f.Since })
		if at < 0 {
			return q, nightcrier.Errorf(nightcrier.Invalid, "since %.32q is not one of 1h, 6h, 24h, 7d, 30d", f.Since)
		}
		q.Since = now.Add(-spans[at].length)
	}
	return q, nil
}

// incidentRow is one line of the list; or a storm, of which those that are only listed are
// folded below the newest.
type incidentRow struct {
	nightcrier.Incident
	// Says is the line below the object: what the matter is, as far as that is known.
	Says   string
	Folded []incidentRow
}

// incidentsPage is the list of incidents.
type incidentsPage struct {
	Filter     incidentFilter
	Rows       []incidentRow
	Next       string
	Counts     store.Counts
	Clusters   []string
	Suppressed int
	Statuses   []nightcrier.IncidentStatus
	Severities []nightcrier.Severity
	Spans      []span
}

// Count is how many incidents have a status.
func (p incidentsPage) Count(status string) int {
	return p.Counts.Incidents[nightcrier.IncidentStatus(status)]
}

func (incidentsPage) liveAt() string { return "/live/incidents" }

func (u *UI) listIncidents(w http.ResponseWriter, r *http.Request) error {
	f := readFilter(r.URL.Query())
	q, err := f.forStore(u.opt.Now())
	if err != nil {
		return err
	}
	list, next, err := u.opt.Incidents.Incidents(r.Context(), q)
	if err != nil {
		return err
	}
	p := incidentsPage{Filter: f, Rows: foldStorms(list), Next: next, Statuses: nightcrier.IncidentStatuses(), Clusters: u.clusterNames(), Spans: spans,
		Severities: []nightcrier.Severity{nightcrier.Critical, nightcrier.ErrorSeverity, nightcrier.Warning}}
	if p.Counts, err = u.opt.Incidents.Counts(r.Context()); err != nil {
		return err
	}
	for _, n := range p.Counts.Suppressed {
		p.Suppressed += n
	}
	return u.render(w, r, "incidents", "Incidents", p)
}

// clusterNames are those of the clusters that are watched.
func (u *UI) clusterNames() (names []string) {
	seen := map[string]bool{}
	for _, s := range u.opt.Server.Statuses() {
		if !seen[s.Cluster] {
			names, seen[s.Cluster] = append(names, s.Cluster), true
		}
	}
	return names
}

// foldStorms puts what is only listed of a storm below one line for each cluster: it must
// not push what is investigated out of sight.
func foldStorms(list []nightcrier.Incident) (rows []incidentRow) {
	at := map[string]int{}
	for _, inc := range list {
		row := incidentRow{Incident: inc, Says: summaryOf(inc)}
		if inc.Status != nightcrier.Listed {
			rows = append(rows, row)
			continue
		}
		i, ok := at[inc.Cluster]
		if !ok {
			i = len(rows)
			at[inc.Cluster] = i
			rows = append(rows, row)
		}
		rows[i].Folded = append(rows[i].Folded, row)
	}
	return rows
}

// summaryOf says in a line what the matter is.
func summaryOf(inc nightcrier.Incident) string {
	switch {
	case inc.RootCause != "":
		return inc.RootCause
	case inc.FailureReason != "":
		return inc.FailureReason
	case inc.Context != "":
		return inc.FaultType + ": " + inc.Context
	}
	return inc.FaultType
}

// followIncidents tells a browser that the list has changed: it asks for it anew, as it is
// narrowed there. A burst of changes is told of once.
func (u *UI) followIncidents(w http.ResponseWriter, r *http.Request) error {
	wake, stop := u.opt.Incidents.WatchIncidents()
	defer stop()
	s := newStream(w)
	if err := s.send(": incidents\n\n"); err != nil {
		return nil
	}
	return u.eachWake(r.Context(), wake, s, func() error { return s.send("event: changed\ndata: {}\n\n") })
}

// settleTime is how long a list waits after a change for those that come with it.
const settleTime = 300 * time.Millisecond

// eachWake calls tell after each wake-up, until the client has gone or the server stops.
func (u *UI) eachWake(ctx context.Context, wake <-chan struct{}, s *stream, tell func() error) error {
	keep := time.NewTicker(u.opt.KeepAlive)
	defer keep.Stop()
	var settled <-chan time.Time
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-u.closing:
			return nil
		case <-wake:
			if settled == nil {
				settled = time.After(settleTime)
			}
		case <-settled:
			settled = nil
			err = tell()
		case <-keep.C:
			err = s.send(": keep-alive\n\n")
		}
		if err != nil {
			return nil // the client has gone
		}
	}
}
