-- What runs ask people; doc is the approval. A run that waits for an answer is parked: it holds
-- no lease.

-- +goose Up
ALTER TABLE runs ADD COLUMN parked INTEGER NOT NULL DEFAULT 0;

CREATE TABLE approvals (
    id       TEXT PRIMARY KEY,
    run_id   TEXT NOT NULL,
    status   TEXT NOT NULL,
    asked_at BIGINT NOT NULL,
    doc      TEXT NOT NULL
);
CREATE INDEX approvals_run ON approvals (run_id);
CREATE INDEX approvals_listed ON approvals (asked_at, id);
