package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"nightcrier.dev/nightcrier"
)

// StormPolicy says when many incidents of one cluster are a storm, and how few
// of them are then investigated.
type StormPolicy struct {
	// Fingerprints new ones Within this time begin a storm; 0 means never.
	Fingerprints int
	Within       time.Duration
	// Investigate is how many incidents of a storm are investigated.
	Investigate int
	// Quiet is how long no new fingerprint must come for the storm to end.
	Quiet time.Duration
}

// Storm is a burst of incidents of one cluster.
type Storm struct {
	ID        string    `json:"stormId"`
	Cluster   string    `json:"cluster"`
	StartedAt time.Time `json:"startedAt"`
	// LastAt is when its newest fingerprint came.
	LastAt time.Time `json:"lastAt"`
	// EndedAt is zero while it lasts.
	EndedAt time.Time `json:"endedAt,omitzero"`
	// Incidents is how many belong to it.
	Incidents int `json:"incidents"`
}

// OpenStorms lists the storms that last.
func (s *Store) OpenStorms(ctx context.Context) ([]Storm, error) {
	list, err := s.readConn(ctx).listStorms(`ended_at = 0`)
	return list, s.wrapError("list storms", err)
}

// Storms lists the storms that began at or after since, oldest first.
func (s *Store) Storms(ctx context.Context, since time.Time) ([]Storm, error) {
	list, err := s.readConn(ctx).listStorms(`started_at >= ?`, toMicros(since))
	return list, s.wrapError("list storms", err)
}

// StormIncidents lists the incidents of a storm, the most severe first.
func (s *Store) StormIncidents(ctx context.Context, stormID string) ([]nightcrier.Incident, error) {
	list := []nightcrier.Incident{}
	err := s.readConn(ctx).eachRow(func(rows *sql.Rows) error {
		inc, err := scanIncident(rows)
		list = append(list, inc)
		return err
	}, `SELECT doc FROM incidents WHERE storm_id = ? AND storm_id <> '' ORDER BY severity DESC, created_at, id`, stormID)
	return list, s.wrapError("list the incidents of a storm", err)
}

// EndStorms ends the storms that had no new fingerprint for quiet, and returns
// them. (A storm ends as well when its cluster's next incident finds it quiet.)
func (s *Store) EndStorms(ctx context.Context, quiet time.Duration) ([]Storm, error) {
	var ended []Storm
	err := s.writeTransaction(ctx, "end storms", func(t *tx) error {
		list, err := t.listStorms(`ended_at = 0 AND last_at <= ?`, toMicros(t.now.Add(-quiet)))
		for i := range list {
			err = errors.Join(err, t.endStorm(&list[i], quiet))
		}
		ended = list
		return err
	})
	return ended, err
}

const stormColumns = `id, cluster, started_at, last_at, ended_at, incidents`

func scanStorm(row interface{ Scan(...any) error }) (Storm, error) {
	var st Storm
	var started, last, ended int64
	err := row.Scan(&st.ID, &st.Cluster, &started, &last, &ended, &st.Incidents)
	st.StartedAt, st.LastAt, st.EndedAt = fromMicros(started), fromMicros(last), fromMicros(ended)
	return st, err
}

func (c conn) listStorms(where string, args ...any) ([]Storm, error) {
	list := []Storm{}
	err := c.eachRow(func(rows *sql.Rows) error {
		st, err := scanStorm(rows)
		list = append(list, st)
		return err
	}, `SELECT `+stormColumns+` FROM storms WHERE `+where+` ORDER BY started_at, id`, args...)
	return list, err
}

func (c conn) stormByID(id string) (Storm, error) {
	st, err := scanStorm(c.queryRow(`SELECT `+stormColumns+` FROM storms WHERE id = ?`, id))
	return st, orNotFound(err, "storm", id)
}

// stormOf is the storm that a new incident belongs to; fresh when it began it.
type stormOf struct {
	Storm
	fresh bool
}

// stormFor finds or begins the storm that inc belongs to; its ID is "" for none.
func (t *tx) stormFor(inc *nightcrier.Incident, p StormPolicy) (stormOf, error) {
	if p.Fingerprints <= 0 {
		return stormOf{}, nil
	}
	list, err := t.listStorms(`ended_at = 0 AND cluster = ?`, inc.Cluster)
	if err != nil {
		return stormOf{}, err
	}
	for _, st := range list { // at most one is open
		if inc.CreatedAt.Sub(st.LastAt) < p.Quiet {
			inc.Storm = true
			st, err := t.joinStorm(st, inc)
			return stormOf{Storm: st}, err
		}
		if err := t.endStorm(&st, p.Quiet); err != nil {
			return stormOf{}, err
		}
	}
	return t.beginStorm(inc, p)
}

// joinStorm counts inc in a storm. Only a fingerprint that is new to it prolongs it.
func (t *tx) joinStorm(st Storm, inc *nightcrier.Incident) (Storm, error) {
	var known int
	err := t.queryRow(`SELECT COUNT(*) FROM incidents WHERE storm_id = ? AND storm_id <> '' AND fingerprint = ?`,
		st.ID, inc.Fingerprint).Scan(&known)
	if err != nil {
		return st, err
	}
	if known == 0 && inc.CreatedAt.After(st.LastAt) {
		st.LastAt = inc.CreatedAt
	}
	st.Incidents++
	_, err = t.execStatement(`UPDATE storms SET last_at = ?, incidents = ? WHERE id = ?`, toMicros(st.LastAt), st.Incidents, st.ID)
	return st, err
}

// beginStorm begins one when inc, not stored yet, is the incident too many.
func (t *tx) beginStorm(inc *nightcrier.Incident, p StormPolicy) (stormOf, error) {
	recent, err := t.recentIncidents(inc, p.Within)
	if err != nil {
		return stormOf{}, err
	}
	distinct := map[string]bool{inc.Fingerprint: true}
	for _, r := range recent {
		distinct[r.Fingerprint] = true
	}
	if len(distinct) < p.Fingerprints {
		return stormOf{}, nil
	}
	st := Storm{
		ID: nightcrier.NewID(), Cluster: inc.Cluster, StartedAt: inc.CreatedAt, LastAt: inc.CreatedAt,
		Incidents: len(recent) + 1,
	}
	_, err = t.execStatement(`INSERT INTO storms (`+stormColumns+`) VALUES (?, ?, ?, ?, 0, ?)`,
		st.ID, st.Cluster, toMicros(st.StartedAt), toMicros(st.LastAt), st.Incidents)
	if err != nil {
		return stormOf{}, err
	}
	inc.Storm = true
	return stormOf{Storm: st, fresh: true}, t.drawIn(recent, st.ID)
}

// recentIncidents lists the incidents that would make a storm together with inc.
func (t *tx) recentIncidents(inc *nightcrier.Incident, within time.Duration) ([]nightcrier.Incident, error) {
	var list []nightcrier.Incident
	err := t.eachRow(func(rows *sql.Rows) error {
		r, err := scanIncident(rows)
		list = append(list, r)
		return err
	}, `SELECT doc FROM incidents WHERE cluster = ? AND created_at > ? AND storm_id = ''`,
		inc.Cluster, toMicros(inc.CreatedAt.Add(-within)))
	return list, err
}

// drawIn makes incidents that came before the storm was seen part of it.
func (t *tx) drawIn(list []nightcrier.Incident, stormID string) error {
	for i := range list {
		list[i].Storm = true
		if err := t.saveIncident(&list[i], list[i].Status); err != nil {
			return err
		}
		for _, statement := range []string{
			`UPDATE incidents SET storm_id = ? WHERE id = ?`,
			`UPDATE runs SET storm_id = ? WHERE subject_kind = 'incident' AND subject_id = ?`,
		} {
			if _, err := t.execStatement(statement, stormID, list[i].ID); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *tx) endStorm(st *Storm, quiet time.Duration) error {
	st.EndedAt = st.LastAt.Add(quiet)
	_, err := t.execStatement(`UPDATE storms SET ended_at = ? WHERE id = ? AND ended_at = 0`, toMicros(st.EndedAt), st.ID)
	return err
}

// limitStorm drops the queued runs of a storm but the most severe: those that
// were admitted already count.
func (t *tx) limitStorm(st stormOf, investigate int) ([]nightcrier.Run, error) {
	var taken int
	err := t.queryRow(`SELECT COUNT(*) FROM runs WHERE storm_id = ? AND storm_id <> '' AND status IN ('admitted', 'finished')`,
		st.ID).Scan(&taken)
	if err != nil {
		return nil, err
	}
	waiting, err := t.listRuns(`storm_id = ? AND storm_id <> '' AND status = 'queued' ORDER BY severity DESC, queued_at, id`, st.ID)
	keep := max(investigate-taken, 0)
	if err != nil || len(waiting) <= keep {
		return nil, err
	}
	why := fmt.Sprintf("it came in a storm of faults on cluster %s (storm %s), of which only the %d most severe are",
		st.Cluster, st.ID, investigate)
	return t.dropAll(waiting[keep:], nightcrier.StormListed, why)
}
