package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// maxRecalledNotes is how many notes a recollection brings along.
const maxRecalledNotes = 10

// Recollection is the newest finished incident with the same fingerprint and the
// same diagnosis, and what people noted about all of them.
type Recollection struct {
	Incident nightcrier.Incident
	// Report is its report.json.
	Report []byte
	// Notes are the newest ones, the newest first.
	Notes []nightcrier.Note
}

// AddNote adds a note to an incident. An incident that has as many as it takes
// is an Exhausted error.
func (s *Store) AddNote(ctx context.Context, incidentID string, n nightcrier.Note) error {
	return s.writeTransaction(ctx, "add a note", func(t *tx) error {
		if _, err := t.incidentByID(incidentID); err != nil {
			return err
		}
		var have int
		if err := t.queryRow(`SELECT COUNT(*) FROM notes WHERE incident_id = ?`, incidentID).Scan(&have); err != nil {
			return err
		}
		if have >= nightcrier.MaxNotes {
			return nightcrier.Errorf(nightcrier.Exhausted, "incident %s has %d notes, and takes no more", incidentID, have)
		}
		_, err := t.execStatement(`INSERT INTO notes (id, incident_id, at, author, text) VALUES (?, ?, ?, ?, ?)`,
			nightcrier.NewID(), incidentID, toMicros(n.At), n.By, n.Text)
		return err
	})
}

// Notes lists what people noted about an incident, newest first.
func (s *Store) Notes(ctx context.Context, incidentID string) ([]nightcrier.Note, error) {
	list, err := s.readConn(ctx).listNotes(`SELECT at, author, text FROM notes WHERE incident_id = ? ORDER BY at DESC, id DESC`, incidentID)
	return list, s.wrapError("list notes", err)
}

// Recall returns what is remembered of a diagnosis, for an incident that has come
// to it again; NotFound when it is the first to. Its own fingerprint decides, and
// itself is left out.
func (s *Store) Recall(ctx context.Context, incidentID string, cause nightcrier.RootCause) (Recollection, error) {
	c, hash := s.readConn(ctx), diagnosisHash(&cause)
	var doc string
	var r Recollection
	// An open incident is one that is investigated again: its report is outdated.
	const same = ` FROM incidents i JOIN incidents me ON me.id = ? AND i.fingerprint = me.fingerprint AND i.id <> me.id
		WHERE i.diagnosis = ? AND i.diagnosis <> '' AND i.status NOT IN ('pending', 'investigating')`
	err := c.queryRow(`SELECT i.doc, i.report`+same+` AND i.report IS NOT NULL ORDER BY i.created_at DESC, i.id DESC LIMIT 1`, incidentID, hash).Scan(&doc, &r.Report)
	if errors.Is(err, sql.ErrNoRows) {
		return r, s.wrapError("recall", nightcrier.Errorf(nightcrier.NotFound, "no earlier incident came to this diagnosis"))
	}
	if err == nil {
		err = decodeDoc(doc, &r.Incident)
	}
	if err == nil {
		r.Notes, err = c.listNotes(`SELECT n.at, n.author, n.text FROM notes n WHERE n.incident_id IN (SELECT i.id`+same+`)
			ORDER BY n.at DESC, n.id DESC LIMIT ?`, incidentID, hash, maxRecalledNotes)
	}
	return r, s.wrapError("recall", err)
}

func (c conn) listNotes(query string, args ...any) ([]nightcrier.Note, error) {
	list := []nightcrier.Note{}
	err := c.eachRow(func(rows *sql.Rows) error {
		var n nightcrier.Note
		var at int64
		err := rows.Scan(&at, &n.By, &n.Text)
		n.At = fromMicros(at)
		list = append(list, n)
		return err
	}, query, args...)
	return list, err
}

// diagnosisHash is what two diagnoses have in common when they name the same
// cause on the same object; "" for none. How sure they are, and in which words,
// does not matter.
func diagnosisHash(c *nightcrier.RootCause) string {
	if c == nil || c.Cause == "" {
		return ""
	}
	parts, err := json.Marshal([]string{c.Cause, c.Object.Kind, c.Object.Namespace, c.Object.Name})
	if err != nil {
		return "" // strings always encode
	}
	return text.DigestOf(parts)
}

// relatedFor is how long after an incident was reported or closed another one of its
// cause belongs to it. Later, whoever was told of the first may have forgotten it.
const relatedFor = time.Hour

// relateIncident keeps what an incident came to, and links it with another one of the cluster
// that came to the same cause of the same object: alerts of a cause and of its symptoms
// are one trouble. The older one is the root, whichever was closed first. An incident
// that came to something else than before loses what hung on it. One that is about no
// object is related to nothing: the worst that was found in its cluster need not be what
// its sender complained of.
func (t *tx) relateIncident(inc *nightcrier.Incident, causeKey string) error {
	if inc.Resource.Name == "" || inc.Resource.Kind == nightcrier.AlertKind {
		causeKey = ""
	}
	var before string
	if err := t.queryRow(`SELECT cause_key FROM incidents WHERE id = ?`, inc.ID).Scan(&before); err != nil {
		return err
	}
	if before != causeKey {
		inc.CausedBy = ""
		if err := t.rehangIncidents(inc.ID, ""); err != nil {
			return err
		}
	}
	if _, err := t.execStatement(`UPDATE incidents SET cause_key = ? WHERE id = ?`, causeKey, inc.ID); err != nil || causeKey == "" || inc.CausedBy != "" {
		return err
	}
	root, found, err := t.rootOf(inc, causeKey)
	if err != nil || !found {
		return err
	}
	if !isOlder(inc, &root) {
		inc.CausedBy = root.ID
		return t.rehangIncidents(inc.ID, root.ID)
	}
	root.CausedBy = inc.ID
	if err := t.saveIncident(&root, root.Status); err != nil {
		return err
	}
	return t.rehangIncidents(root.ID, inc.ID)
}

// rootOf is the oldest root of the same cause whose fault is not known to be over for
// good. The same fault again is no other fault with the same cause.
func (t *tx) rootOf(inc *nightcrier.Incident, causeKey string) (nightcrier.Incident, bool, error) {
	since := toMicros(t.now.Add(-relatedFor))
	root, err := scanIncident(t.queryRow(`SELECT doc FROM incidents WHERE cluster = ? AND cause_key = ? AND cause_key <> '' AND caused_by = ''
		AND id <> ? AND fingerprint <> ? AND condition IN ('active', 'cleared') AND over_at = 0
		AND (last_event_at > ? OR EXISTS (SELECT 1 FROM runs WHERE subject_kind = 'incident' AND subject_id = incidents.id AND ended_at > ?))
		ORDER BY created_at, id LIMIT 1`, inc.Cluster, causeKey, inc.ID, inc.Fingerprint, since, since))
	if errors.Is(err, sql.ErrNoRows) {
		return root, false, nil
	}
	return root, err == nil, err
}

// rehangIncidents gives the incidents that a root has another root, "" for none.
func (t *tx) rehangIncidents(from, to string) error {
	var list []nightcrier.Incident
	err := t.eachRow(func(rows *sql.Rows) error {
		inc, err := scanIncident(rows)
		list = append(list, inc)
		return err
	}, `SELECT doc FROM incidents WHERE caused_by = ? AND caused_by <> ''`, from)
	for i := range list {
		if err == nil {
			list[i].CausedBy = to
			err = t.saveIncident(&list[i], list[i].Status)
		}
	}
	return err
}

// isOlder reports whether a was opened before b.
func isOlder(a, b *nightcrier.Incident) bool {
	if a.CreatedAt.Equal(b.CreatedAt) {
		return a.ID < b.ID
	}
	return a.CreatedAt.Before(b.CreatedAt)
}
