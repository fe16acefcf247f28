package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"nightcrier.dev/nightcrier"
)

// maxSuppressedRaw is how much of the payload of an event that started nothing
// is kept, in bytes.
const maxSuppressedRaw = 64 << 10

// maxJoinedRaw is the same for an event that joined an incident: a sender that
// repeats itself must not fill the disk. The event that opened it is kept whole.
const maxJoinedRaw = 16 << 10

// EventFilter selects events; zero fields select all.
type EventFilter struct {
	// Suppressed selects events that started nothing (true), or the others.
	Suppressed *bool
	IncidentID string
	Cluster    string
	Reason     nightcrier.Reason
	Limit      int
	Cursor     string
}

// Suppress stores an event that started nothing, with its Reason. Only the
// first 64 KiB of its payload are kept. The same event again is counted: repeated
// is then true.
func (s *Store) Suppress(ctx context.Context, ev nightcrier.Event) (repeated bool, err error) {
	if ev.ID == "" || ev.Reason == "" {
		return false, nightcrier.Errorf(nightcrier.Invalid, "a suppressed event needs an id and a reason")
	}
	ev.Outcome, ev.IncidentID = nightcrier.Suppressed, "" // it belongs to none
	err = s.writeTransaction(ctx, "record a suppressed event", func(t *tx) error {
		ev.ReceivedAt = receivedAt(ev, t.now)
		known, found, err := t.decisionFor(ev.ID)
		if err != nil {
			return err
		}
		if repeated = found; !found {
			return t.addEvent(ev, verdict{})
		}
		_, err = t.countRedelivery(known, ev.ReceivedAt)
		return err
	})
	return repeated, err
}

// countRepeat writes down that an event was delivered once more.
func (t *tx) countRepeat(id string, at time.Time) error {
	var doc string
	if err := t.queryRow(`SELECT doc FROM events WHERE id = ?`, id).Scan(&doc); err != nil {
		return err
	}
	var ev nightcrier.Event
	if err := decodeDoc(doc, &ev); err != nil {
		return err
	}
	ev.Repeats++
	ev.RepeatedAt = at
	doc, err := encodeDoc(ev)
	if err != nil {
		return err
	}
	_, err = t.execStatement(`UPDATE events SET doc = ? WHERE id = ?`, doc, id)
	return err
}

// Events lists events, newest first. The cursor of the next page is "" after
// the last.
func (s *Store) Events(ctx context.Context, f EventFilter) ([]nightcrier.Event, string, error) {
	var q filter
	if f.Suppressed != nil && *f.Suppressed {
		q.addTerm("outcome = ?", string(nightcrier.Suppressed))
	} else if f.Suppressed != nil {
		q.addTerm("outcome <> ?", string(nightcrier.Suppressed))
	}
	q.addEqual("incident_id", f.IncidentID)
	q.addEqual("cluster", f.Cluster)
	q.addEqual("reason", string(f.Reason))
	limit, err := q.addPage("received_at", f.Limit, f.Cursor)
	if err != nil {
		return nil, "", err
	}
	list := []nightcrier.Event{}
	err = s.readConn(ctx).eachRow(func(rows *sql.Rows) error {
		ev, err := scanEvent(rows)
		list = append(list, ev)
		return err
	}, `SELECT doc, raw FROM events`+q.whereClause()+` ORDER BY received_at DESC, id DESC LIMIT ?`, append(q.args, limit+1)...)
	if err != nil {
		return nil, "", s.wrapError("list events", err)
	}
	if len(list) <= limit {
		return list, "", nil
	}
	last := list[limit-1]
	return list[:limit], formatCursor(last.ReceivedAt, last.ID), nil
}

// Event returns one event; NotFound when there is none.
func (s *Store) Event(ctx context.Context, id string) (nightcrier.Event, error) {
	ev, err := scanEvent(s.readConn(ctx).queryRow(`SELECT doc, raw FROM events WHERE id = ?`, id))
	return ev, s.wrapError("read an event", orNotFound(err, "event", id))
}

// Prune deletes what a retention no longer covers: events received before the
// given time, but for the one that opened an incident and those of open
// incidents, and the journals, steps and approvals of runs that ended before it. Incidents, their runs,
// opening events and reports stay; of runs about anything else, and of
// conversations, nothing does. It
// returns how many events went.
func (s *Store) Prune(ctx context.Context, before time.Time) (int64, error) {
	var n int64
	err := s.writeTransaction(ctx, "prune events and journals", func(t *tx) (err error) {
		if n, err = t.execStatement(`DELETE FROM events WHERE outcome <> ? AND received_at < ? AND NOT EXISTS
			(SELECT 1 FROM incidents i WHERE i.id = events.incident_id AND i.status IN ('pending', 'investigating'))`,
			string(nightcrier.Opened), toMicros(before)); err != nil {
			return err
		}
		if _, err = t.execStatement(`DELETE FROM alerts WHERE NOT EXISTS
			(SELECT 1 FROM events e WHERE e.incident_id = alerts.incident_id AND e.received_at >= ?) AND NOT EXISTS
			(SELECT 1 FROM incidents i WHERE i.id = alerts.incident_id AND i.status IN ('pending', 'investigating'))`, toMicros(before)); err != nil {
			return err
		}
		if err := t.pruneConversations(before); err != nil {
			return err
		}
		return t.pruneRuns(before)
	})
	return n, err
}

// pruneConversations deletes those in which nothing was asked since a time, and no question is open.
func (t *tx) pruneConversations(before time.Time) error {
	const old = `updated_at < ? AND NOT EXISTS (SELECT 1 FROM questions q WHERE q.conversation_id = conversations.id AND q.answered_at = 0)`
	if _, err := t.execStatement(`DELETE FROM questions WHERE answered_at > 0 AND conversation_id IN (SELECT id FROM conversations WHERE `+old+`)`, toMicros(before)); err != nil {
		return err
	}
	_, err := t.execStatement(`DELETE FROM conversations WHERE `+old, toMicros(before))
	return err
}

// pruneRuns deletes what belongs to runs that ended before a time, the runs that no incident
// has, and ticks of schedules.
func (t *tx) pruneRuns(before time.Time) error {
	const ended = `status IN ('finished', 'dropped') AND ended_at > 0 AND ended_at < ?`
	for _, statement := range []string{
		`DELETE FROM journal WHERE run_id IN (SELECT id FROM runs WHERE ` + ended + `)`,
		`DELETE FROM approvals WHERE run_id IN (SELECT id FROM runs WHERE ` + ended + `)`,
		`DELETE FROM steps WHERE run_id IN (SELECT id FROM runs WHERE ` + ended + `)`,
		`DELETE FROM runs WHERE subject_kind <> 'incident' AND ` + ended,
		`DELETE FROM schedule_ticks WHERE at < ?`,
	} {
		if _, err := t.execStatement(statement, toMicros(before)); err != nil {
			return err
		}
	}
	return nil
}

// verdict is what an event's row remembers of the decision, to give it again.
type verdict struct {
	RunID   string              `json:"run,omitempty"`
	Rose    bool                `json:"rose,omitempty"`
	Was     nightcrier.Severity `json:"was"`
	StormID string              `json:"storm,omitempty"`
	Dropped []string            `json:"dropped,omitempty"`
}

func (t *tx) addEvent(ev nightcrier.Event, v verdict) error {
	raw := []byte(ev.Raw)
	switch {
	case ev.Outcome == nightcrier.Suppressed:
		raw = raw[:min(len(raw), maxSuppressedRaw)]
	case ev.Outcome == nightcrier.Joined:
		raw = raw[:min(len(raw), maxJoinedRaw)]
	}
	ev.Raw = nil
	doc, err := encodeDoc(ev)
	if err != nil {
		return err
	}
	decision, err := encodeDoc(v)
	if err != nil {
		return err
	}
	_, err = t.execStatement(`INSERT INTO events (id, received_at, cluster, outcome, reason, incident_id, decision, doc, raw)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		ev.ID, toMicros(ev.ReceivedAt), ev.Cluster, string(ev.Outcome), string(ev.Reason), ev.IncidentID,
		decision, doc, raw)
	return err
}

// decisionFor returns the decision that was taken for an event, if it is known.
func (c conn) decisionFor(eventID string) (Decision, bool, error) {
	var doc, decision string
	err := c.queryRow(`SELECT doc, decision FROM events WHERE id = ?`, eventID).Scan(&doc, &decision)
	if errors.Is(err, sql.ErrNoRows) {
		return Decision{}, false, nil
	}
	var ev nightcrier.Event
	var v verdict
	if err = errors.Join(err, decodeDoc(doc, &ev), decodeDoc(decision, &v)); err != nil {
		return Decision{}, false, err
	}
	d, err := c.recallDecision(ev, v)
	return d, true, err
}

func scanEvent(row interface{ Scan(...any) error }) (nightcrier.Event, error) {
	var ev nightcrier.Event
	var doc string
	var raw []byte
	if err := row.Scan(&doc, &raw); err != nil {
		return ev, err
	}
	if err := decodeDoc(doc, &ev); err != nil {
		return ev, err
	}
	ev.Raw = rawJSON(raw)
	return ev, nil
}

// rawJSON gives a payload as JSON: as it is, or as a string when it is none.
func rawJSON(raw []byte) json.RawMessage {
	if len(raw) == 0 || json.Valid(raw) {
		return raw
	}
	quoted, err := json.Marshal(string(raw))
	if err != nil {
		return nil // a string always has a JSON form
	}
	return quoted
}

// receivedAt is when the event came in; now, when nobody has said.
func receivedAt(ev nightcrier.Event, now time.Time) time.Time {
	if ev.ReceivedAt.IsZero() {
		return now
	}
	return truncateTime(ev.ReceivedAt)
}
