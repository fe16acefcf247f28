-- What is remembered of an incident: a hash of its diagnosis, "" when it came to
-- none, and what people noted about it.

-- +goose Up
ALTER TABLE incidents ADD COLUMN diagnosis TEXT NOT NULL DEFAULT '';
CREATE INDEX incidents_diagnosis ON incidents (fingerprint, diagnosis, created_at, id) WHERE diagnosis <> '';
CREATE TABLE notes (
    id          TEXT PRIMARY KEY,
    incident_id TEXT NOT NULL REFERENCES incidents (id),
    at          BIGINT NOT NULL,
    author      TEXT NOT NULL,
    text        TEXT NOT NULL
);
CREATE INDEX notes_incident ON notes (incident_id, at, id);

-- +goose Down
DROP TABLE notes;
DROP INDEX incidents_diagnosis;
ALTER TABLE incidents DROP COLUMN diagnosis;
