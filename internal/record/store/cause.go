package store

import (
	"database/sql"
	"errors"
	"time"

	"nightcrier.dev/nightcrier"
)

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
		AND (last_event_at > ? OR EXISTS (SELECT 1 FROM runs WHERE incident_id = incidents.id AND ended_at > ?))
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
