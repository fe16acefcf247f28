-- What people ask, and are answered: doc is the question as JSON. A question whose answered_at is
-- 0 is open, and one is at a time.

-- +goose Up
CREATE TABLE conversations (
    id          TEXT PRIMARY KEY,
    incident_id TEXT NOT NULL,
    title       TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL
);
CREATE INDEX conversations_updated ON conversations (updated_at, id);

CREATE TABLE questions (
    conversation_id TEXT NOT NULL REFERENCES conversations (id),
    seq             INTEGER NOT NULL,
    run_id          TEXT NOT NULL,
    answered_at     BIGINT NOT NULL,
    doc             TEXT NOT NULL,
    PRIMARY KEY (conversation_id, seq)
);
CREATE UNIQUE INDEX questions_open ON questions (conversation_id) WHERE answered_at = 0;
