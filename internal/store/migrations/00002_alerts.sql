-- +goose Up
-- The alerts of an incident that fire.
CREATE TABLE alerts (
    incident_id TEXT NOT NULL,
    fault_id    TEXT NOT NULL,
    PRIMARY KEY (incident_id, fault_id)
);

-- +goose Down
DROP TABLE alerts;
