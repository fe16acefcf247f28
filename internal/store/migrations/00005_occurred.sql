-- +goose Up
-- When each fault that a source reported began, as that source says, so that an end which
-- arrives late is not taken for that of what was reported since.
ALTER TABLE alerts ADD COLUMN source TEXT NOT NULL DEFAULT 'webhook';
ALTER TABLE alerts ADD COLUMN occurred_at BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE alerts DROP COLUMN occurred_at;
ALTER TABLE alerts DROP COLUMN source;
