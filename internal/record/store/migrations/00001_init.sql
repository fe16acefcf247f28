-- One schema for SQLite and PostgreSQL. Times are microseconds since 1970, 0 is
-- "not yet"; doc is the noun as JSON, the other columns are what is asked for.

-- +goose Up
CREATE TABLE ownership (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    epoch  BIGINT NOT NULL,
    holder TEXT NOT NULL,
    since  BIGINT NOT NULL
);

CREATE TABLE events (
    id          TEXT PRIMARY KEY,
    received_at BIGINT NOT NULL,
    cluster     TEXT NOT NULL,
    outcome     TEXT NOT NULL,
    reason      TEXT NOT NULL,
    incident_id TEXT NOT NULL,
    decision    TEXT NOT NULL,
    doc         TEXT NOT NULL,
    raw         BYTEA
);
CREATE INDEX events_received ON events (received_at, id);
CREATE INDEX events_cluster ON events (cluster, received_at, id);
CREATE INDEX events_incident ON events (incident_id, received_at, id);
CREATE INDEX events_outcome ON events (outcome, reason, received_at);

CREATE TABLE storms (
    id         TEXT PRIMARY KEY,
    cluster    TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    last_at    BIGINT NOT NULL,
    ended_at   BIGINT NOT NULL,
    incidents  INTEGER NOT NULL
);
CREATE UNIQUE INDEX storms_open ON storms (cluster) WHERE ended_at = 0;

-- diagnosis is a hash of what an incident came to, cause_key of its cause in its cluster,
-- and caused_by the incident that came to that first: each '' where there is none.
-- condition, cleared_at and over_at say whether its fault goes on, look_again_at when the question
-- is to be asked again.
CREATE TABLE incidents (
    id            TEXT PRIMARY KEY,
    fingerprint   TEXT NOT NULL,
    cluster       TEXT NOT NULL,
    status        TEXT NOT NULL,
    severity      INTEGER NOT NULL,
    created_at    BIGINT NOT NULL,
    last_event_at BIGINT NOT NULL,
    storm_id      TEXT NOT NULL,
    diagnosis     TEXT NOT NULL DEFAULT '',
    cause_key     TEXT NOT NULL DEFAULT '',
    caused_by     TEXT NOT NULL DEFAULT '',
    condition     TEXT NOT NULL,
    cleared_at    BIGINT NOT NULL,
    over_at       BIGINT NOT NULL DEFAULT 0,
    look_again_at BIGINT NOT NULL DEFAULT 0,
    before_retry  TEXT NOT NULL DEFAULT '',
    doc           TEXT NOT NULL,
    report        BYTEA
);
CREATE UNIQUE INDEX incidents_open ON incidents (fingerprint) WHERE status IN ('pending', 'investigating');
CREATE INDEX incidents_fingerprint ON incidents (fingerprint, created_at, id);
CREATE INDEX incidents_created ON incidents (created_at, id);
CREATE INDEX incidents_cluster ON incidents (cluster, created_at, id);
CREATE INDEX incidents_status ON incidents (status, created_at, id);
CREATE INDEX incidents_storm ON incidents (storm_id) WHERE storm_id <> '';
CREATE INDEX incidents_diagnosis ON incidents (fingerprint, diagnosis, created_at, id) WHERE diagnosis <> '';
CREATE INDEX incidents_cause ON incidents (cluster, cause_key, created_at, id) WHERE cause_key <> '';
CREATE INDEX incidents_caused_by ON incidents (caused_by) WHERE caused_by <> '';
CREATE INDEX incidents_look_again ON incidents (look_again_at, id) WHERE look_again_at > 0;
CREATE INDEX incidents_cleared ON incidents (cleared_at, id) WHERE cleared_at > 0 AND over_at = 0;

-- The alerts of an incident that fire, and what other sources reported of it; with when it
-- began, as the source says, so that an end which arrives late is not taken for that of
-- what was reported since.
CREATE TABLE alerts (
    incident_id TEXT NOT NULL,
    fault_id    TEXT NOT NULL,
    source      TEXT NOT NULL,
    occurred_at BIGINT NOT NULL,
    PRIMARY KEY (incident_id, fault_id, source)
);

-- What people noted about an incident.
CREATE TABLE notes (
    id          TEXT PRIMARY KEY,
    incident_id TEXT NOT NULL REFERENCES incidents (id),
    at          BIGINT NOT NULL,
    author      TEXT NOT NULL,
    text        TEXT NOT NULL
);
CREATE INDEX notes_incident ON notes (incident_id, at, id);

-- input is what the pipeline was called with, NULL for a run about an incident: that is
-- its input. run_key is what may not run twice at once.
CREATE TABLE runs (
    id               TEXT PRIMARY KEY,
    subject_kind     TEXT NOT NULL,
    subject_id       TEXT NOT NULL,
    subject_title    TEXT NOT NULL,
    pipeline         TEXT NOT NULL,
    run_key          TEXT NOT NULL,
    executor         TEXT NOT NULL,
    model            TEXT NOT NULL,
    severity         INTEGER NOT NULL,
    status           TEXT NOT NULL,
    reason           TEXT NOT NULL,
    outcome          TEXT NOT NULL DEFAULT '',
    failure_class    TEXT NOT NULL DEFAULT '',
    failure_reason   TEXT NOT NULL DEFAULT '',
    cost_usd         DOUBLE PRECISION NOT NULL DEFAULT 0,
    storm_id         TEXT NOT NULL,
    queued_at        BIGINT NOT NULL,
    admitted_at      BIGINT NOT NULL,
    ended_at         BIGINT NOT NULL,
    deadline         BIGINT NOT NULL,
    retry_of         TEXT NOT NULL,
    from_step        TEXT NOT NULL,
    triggered_by     TEXT NOT NULL,
    cancel_requested INTEGER NOT NULL,
    cause            TEXT NOT NULL,
    waits_for        TEXT NOT NULL DEFAULT '',
    waits_text       TEXT NOT NULL DEFAULT '',
    input            BYTEA,
    call_digest      TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX runs_open ON runs (subject_id) WHERE subject_kind = 'incident' AND status IN ('queued', 'admitted');
CREATE INDEX runs_subject ON runs (subject_kind, subject_id, queued_at, id);
CREATE INDEX runs_listed ON runs (queued_at, id);
CREATE INDEX runs_queue ON runs (severity DESC, queued_at, id) WHERE status = 'queued';
CREATE INDEX runs_leases ON runs (run_key) WHERE status = 'admitted';
CREATE INDEX runs_storm ON runs (storm_id) WHERE storm_id <> '';

-- The attempts of a run's steps; position counts the steps in the order they came up.
CREATE TABLE steps (
    run_id   TEXT NOT NULL,
    step     TEXT NOT NULL,
    attempt  INTEGER NOT NULL,
    position INTEGER NOT NULL,
    doc      TEXT NOT NULL,
    PRIMARY KEY (run_id, step, attempt)
);

-- How far the ticks of a pipeline's triggers were considered, and what became of each; run_id
-- is '' for one that was missed.
CREATE TABLE schedules (
    pipeline     TEXT NOT NULL,
    trigger_name TEXT NOT NULL,
    last_tick    BIGINT NOT NULL,
    missed       BIGINT NOT NULL,
    PRIMARY KEY (pipeline, trigger_name)
);
CREATE TABLE schedule_ticks (
    pipeline     TEXT NOT NULL,
    trigger_name TEXT NOT NULL,
    at           BIGINT NOT NULL,
    run_id       TEXT NOT NULL,
    PRIMARY KEY (pipeline, trigger_name, at)
);

CREATE TABLE journal (
    run_id  TEXT NOT NULL,
    seq     BIGINT NOT NULL,
    key     TEXT NOT NULL,
    at      BIGINT NOT NULL,
    step    TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    type    TEXT NOT NULL,
    data    BYTEA NOT NULL,
    prev    TEXT NOT NULL,
    hash    TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
);
CREATE UNIQUE INDEX journal_key ON journal (run_id, key);

CREATE TABLE notifications (
    key         TEXT PRIMARY KEY,
    id          TEXT NOT NULL,
    incident_id TEXT NOT NULL,
    run_id      TEXT NOT NULL,
    channel     TEXT NOT NULL,
    kind        TEXT NOT NULL,
    digest      TEXT NOT NULL,
    severity    INTEGER NOT NULL,
    gist        TEXT NOT NULL,
    state       TEXT NOT NULL,
    reason      TEXT NOT NULL,
    detail      TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    ended_at    BIGINT NOT NULL
);
CREATE INDEX notifications_incident ON notifications (incident_id, created_at);
CREATE INDEX notifications_pending ON notifications (created_at) WHERE state = 'pending';

CREATE TABLE breakers (
    executor  TEXT PRIMARY KEY,
    failures  INTEGER NOT NULL,
    open      INTEGER NOT NULL,
    since     BIGINT NOT NULL,
    last_error TEXT NOT NULL
);
