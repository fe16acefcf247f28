package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"

	"nightcrier.dev/nightcrier"
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
	sum := sha256.Sum256(parts)
	return hex.EncodeToString(sum[:])
}
