-- What incidents are searched by: words is what a person remembers, in lower case. Those that
-- were there before are found by all that they hold, and by no namespace until they change.

-- +goose Up
ALTER TABLE incidents ADD COLUMN namespace TEXT NOT NULL DEFAULT '';
ALTER TABLE incidents ADD COLUMN words TEXT NOT NULL DEFAULT '';
UPDATE incidents SET words = lower(substr(doc, 1, 2048));
