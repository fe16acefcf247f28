package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// maxEventIDs bounds Incident.EventIDs: the first and the newest hundred.
const maxEventIDs = 101

// pageSize is how many rows a list returns when nobody says how many;
// maxPageSize is how many it returns at most.
const (
	pageSize    = 100
	maxPageSize = 1000
)

// IncidentFilter selects incidents; zero fields select all.
type IncidentFilter struct {
	Status             nightcrier.IncidentStatus
	Cluster, Namespace string
	// Severity is the lowest that is selected.
	Severity  nightcrier.Severity
	Condition nightcrier.Condition
	// Text stands in what the incident names: its objects, its kind of fault, its cause.
	Text string
	// CausedBy selects those that have this incident as their root.
	CausedBy string
	// Since leaves out what was opened before, Until what was opened then or later.
	Since, Until time.Time
	// Limit is at most 1000, 100 by default. Cursor is the nextCursor of the
	// page before.
	Limit  int
	Cursor string
}

// Incident returns one incident; NotFound when there is none.
func (s *Store) Incident(ctx context.Context, id string) (nightcrier.Incident, error) {
	inc, err := s.readConn(ctx).incidentByID(id)
	return inc, s.wrapError("read an incident", err)
}

// Incidents lists incidents, newest first. The cursor of the next page is ""
// after the last.
func (s *Store) Incidents(ctx context.Context, f IncidentFilter) ([]nightcrier.Incident, string, error) {
	var q filter
	q.addEqual("status", string(f.Status))
	q.addEqual("cluster", f.Cluster)
	q.addEqual("namespace", f.Namespace)
	q.addEqual("condition", string(f.Condition))
	q.addEqual("caused_by", f.CausedBy)
	if f.Severity > nightcrier.Info {
		q.addTerm("severity >= ?", int(f.Severity))
	}
	for _, word := range strings.Fields(strings.ToLower(f.Text)) {
		q.addTerm(`words LIKE ? ESCAPE '\'`, "%"+likeEscaper.Replace(word)+"%")
	}
	if !f.Until.IsZero() {
		q.addTerm("created_at < ?", toMicros(f.Until))
	}
	if !f.Since.IsZero() {
		q.addTerm("created_at >= ?", toMicros(f.Since))
	}
	limit, err := q.addPage("created_at", f.Limit, f.Cursor)
	if err != nil {
		return nil, "", err
	}
	list := []nightcrier.Incident{}
	err = s.readConn(ctx).eachRow(func(rows *sql.Rows) error {
		inc, err := scanIncident(rows)
		list = append(list, inc)
		return err
	}, `SELECT doc FROM incidents`+q.whereClause()+` ORDER BY created_at DESC, id DESC LIMIT ?`, append(q.args, limit+1)...)
	if err != nil {
		return nil, "", s.wrapError("list incidents", err)
	}
	if len(list) <= limit {
		return list, "", nil
	}
	last := list[limit-1]
	return list[:limit], formatCursor(last.CreatedAt, last.ID), nil
}

// Report returns the incident's report.json; NotFound when it has none.
func (s *Store) Report(ctx context.Context, incidentID string) ([]byte, error) {
	var report []byte
	err := s.readConn(ctx).queryRow(`SELECT report FROM incidents WHERE id = ?`, incidentID).Scan(&report)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, s.wrapError("read a report", notFound("incident", incidentID))
	}
	if err == nil && len(report) == 0 {
		err = nightcrier.Errorf(nightcrier.NotFound, "incident %s has no report", incidentID)
	}
	return report, s.wrapError("read a report", err)
}

func (c conn) incidentByID(id string) (nightcrier.Incident, error) {
	inc, err := scanIncident(c.queryRow(`SELECT doc FROM incidents WHERE id = ?`, id))
	return inc, orNotFound(err, "incident", id)
}

func scanIncident(row interface{ Scan(...any) error }) (nightcrier.Incident, error) {
	var doc string
	var inc nightcrier.Incident
	if err := row.Scan(&doc); err != nil {
		return inc, err
	}
	return inc, decodeDoc(doc, &inc)
}

// likeEscaper makes a word match itself alone in LIKE.
var likeEscaper = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`)

// maxWords bounds what is searched of one incident, in bytes.
const maxWords = 2 << 10

// searchWords is what a person may remember of an incident.
func searchWords(inc *nightcrier.Incident) string {
	said := strings.Join([]string{inc.ID, inc.Cluster, inc.Resource.String(), inc.Owner.String(), inc.FaultType, string(inc.Class), inc.RootCause, inc.Context}, "\n")
	return text.KeepBytes(strings.ToLower(said), maxWords)
}

// addIncident stores a new incident.
func (t *tx) addIncident(inc *nightcrier.Incident, stormID string) error {
	doc, err := encodeDoc(inc)
	if err != nil {
		return err
	}
	t.wake = append(t.wake, allIncidents)
	_, err = t.execStatement(`INSERT INTO incidents (id, fingerprint, cluster, namespace, words, status, severity, condition, created_at, last_event_at, cleared_at, storm_id, doc)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		inc.ID, inc.Fingerprint, inc.Cluster, inc.Namespace(), searchWords(inc), string(inc.Status), int(inc.Severity), string(inc.Condition),
		toMicros(inc.CreatedAt), toMicros(inc.LastEventAt), toMicros(inc.ClearedAt), stormID, doc)
	return err
}

// saveIncident writes inc back if its row still has the status from.
func (t *tx) saveIncident(inc *nightcrier.Incident, from nightcrier.IncidentStatus) error {
	doc, err := encodeDoc(inc)
	if err != nil {
		return err
	}
	n, err := t.execStatement(`UPDATE incidents SET namespace = ?, words = ?, status = ?, severity = ?, condition = ?, last_event_at = ?, cleared_at = ?, caused_by = ?, doc = ? WHERE id = ? AND status = ?`,
		inc.Namespace(), searchWords(inc), string(inc.Status), int(inc.Severity), string(inc.Condition), toMicros(inc.LastEventAt), toMicros(inc.ClearedAt), inc.CausedBy, doc, inc.ID, string(from))
	t.wake = append(t.wake, allIncidents)
	if err == nil && n != 1 {
		err = nightcrier.Errorf(nightcrier.Conflict, "incident %s is no longer %s", inc.ID, from)
	}
	return err
}

// moveIncident is the only way to another status: it refuses what is not legal.
func (t *tx) moveIncident(inc *nightcrier.Incident, to nightcrier.IncidentStatus) error {
	from := inc.Status
	if !from.CanBecome(to) {
		return nightcrier.Errorf(nightcrier.Conflict, "incident %s is %s and cannot become %s", inc.ID, from, to)
	}
	inc.Status = to
	if !to.Open() {
		inc.CompletedAt = t.now
	}
	return t.saveIncident(inc, from)
}

// noteEvent counts an event in its incident.
func noteEvent(inc *nightcrier.Incident, id string, at time.Time) {
	inc.EventCount++
	inc.EventIDs = append(inc.EventIDs, id)
	if len(inc.EventIDs) > maxEventIDs {
		inc.EventIDs = slices.Delete(inc.EventIDs, 1, 2)
	}
	if at.After(inc.LastEventAt) {
		inc.LastEventAt = at
	}
}

// filter builds the WHERE of a list.
type filter struct {
	terms []string
	args  []any
}

func (f *filter) addTerm(term string, args ...any) {
	f.terms = append(f.terms, term)
	f.args = append(f.args, args...)
}

func (f *filter) addEqual(column, value string) {
	if value != "" {
		f.addTerm(column+" = ?", value)
	}
}

// addPage continues behind the cursor and returns the page's size.
func (f *filter) addPage(column string, limit int, after string) (int, error) {
	if limit <= 0 {
		limit = pageSize
	}
	limit = min(limit, maxPageSize)
	if after == "" {
		return limit, nil
	}
	at, id, err := parseCursor(after)
	if err != nil {
		return 0, err
	}
	f.addTerm("("+column+" < ? OR ("+column+" = ? AND id < ?))", at, at, id)
	return limit, nil
}

func (f *filter) whereClause() string {
	if len(f.terms) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(f.terms, " AND ")
}
