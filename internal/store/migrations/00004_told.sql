-- What decides who is told what: the cause that an incident came to, whether its
-- fault is over, and what each message said of it.

-- +goose Up
ALTER TABLE incidents ADD COLUMN cause_key TEXT NOT NULL DEFAULT '';
ALTER TABLE incidents ADD COLUMN caused_by TEXT NOT NULL DEFAULT '';
ALTER TABLE incidents ADD COLUMN condition TEXT NOT NULL DEFAULT '';
ALTER TABLE incidents ADD COLUMN cleared_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE incidents ADD COLUMN over_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX incidents_cause ON incidents (cluster, cause_key, created_at, id) WHERE cause_key <> '';
CREATE INDEX incidents_caused_by ON incidents (caused_by) WHERE caused_by <> '';
CREATE INDEX incidents_cleared ON incidents (cleared_at, id) WHERE cleared_at > 0 AND over_at = 0;
ALTER TABLE notifications ADD COLUMN severity INTEGER NOT NULL DEFAULT 0;
ALTER TABLE notifications ADD COLUMN gist TEXT NOT NULL DEFAULT '';
ALTER TABLE notifications ADD COLUMN reason TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE notifications DROP COLUMN reason;
ALTER TABLE notifications DROP COLUMN gist;
ALTER TABLE notifications DROP COLUMN severity;
DROP INDEX incidents_cleared;
DROP INDEX incidents_caused_by;
DROP INDEX incidents_cause;
ALTER TABLE incidents DROP COLUMN over_at;
ALTER TABLE incidents DROP COLUMN cleared_at;
ALTER TABLE incidents DROP COLUMN condition;
ALTER TABLE incidents DROP COLUMN caused_by;
ALTER TABLE incidents DROP COLUMN cause_key;
