CREATE TABLE alerts (
    incident_id TEXT NOT NULL,
    fault_id    TEXT NOT NULL,
    source      TEXT NOT NULL,
    occurred_at BIGINT NOT NULL,
    PRIMARY KEY (incident_id, fault_id, source)
);

CREATE TABLE breakers (
    executor  TEXT PRIMARY KEY,
    failures  INTEGER NOT NULL,
    open      INTEGER NOT NULL,
    since     BIGINT NOT NULL,
    last_error TEXT NOT NULL
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

CREATE TABLE nightcrier_schema (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);

CREATE TABLE notes (
    id          TEXT PRIMARY KEY,
    incident_id TEXT NOT NULL REFERENCES incidents (id),
    at          BIGINT NOT NULL,
    author      TEXT NOT NULL,
    text        TEXT NOT NULL
);

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

CREATE TABLE ownership (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    epoch  BIGINT NOT NULL,
    holder TEXT NOT NULL,
    since  BIGINT NOT NULL
);

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

CREATE TABLE schedule_ticks (
    pipeline     TEXT NOT NULL,
    trigger_name TEXT NOT NULL,
    at           BIGINT NOT NULL,
    run_id       TEXT NOT NULL,
    PRIMARY KEY (pipeline, trigger_name, at)
);

CREATE TABLE schedules (
    pipeline     TEXT NOT NULL,
    trigger_name TEXT NOT NULL,
    last_tick    BIGINT NOT NULL,
    missed       BIGINT NOT NULL,
    PRIMARY KEY (pipeline, trigger_name)
);

CREATE TABLE steps (
    run_id   TEXT NOT NULL,
    step     TEXT NOT NULL,
    attempt  INTEGER NOT NULL,
    position INTEGER NOT NULL,
    doc      TEXT NOT NULL,
    PRIMARY KEY (run_id, step, attempt)
);

CREATE TABLE storms (
    id         TEXT PRIMARY KEY,
    cluster    TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    last_at    BIGINT NOT NULL,
    ended_at   BIGINT NOT NULL,
    incidents  INTEGER NOT NULL
);

CREATE INDEX events_cluster ON events (cluster, received_at, id);

CREATE INDEX events_incident ON events (incident_id, received_at, id);

CREATE INDEX events_outcome ON events (outcome, reason, received_at);

CREATE INDEX events_received ON events (received_at, id);

CREATE INDEX incidents_cause ON incidents (cluster, cause_key, created_at, id) WHERE cause_key <> '';

CREATE INDEX incidents_caused_by ON incidents (caused_by) WHERE caused_by <> '';

CREATE INDEX incidents_cleared ON incidents (cleared_at, id) WHERE cleared_at > 0 AND over_at = 0;

CREATE INDEX incidents_cluster ON incidents (cluster, created_at, id);

CREATE INDEX incidents_created ON incidents (created_at, id);

CREATE INDEX incidents_diagnosis ON incidents (fingerprint, diagnosis, created_at, id) WHERE diagnosis <> '';

CREATE INDEX incidents_fingerprint ON incidents (fingerprint, created_at, id);

CREATE INDEX incidents_look_again ON incidents (look_again_at, id) WHERE look_again_at > 0;

CREATE UNIQUE INDEX incidents_open ON incidents (fingerprint) WHERE status IN ('pending', 'investigating');

CREATE INDEX incidents_status ON incidents (status, created_at, id);

CREATE INDEX incidents_storm ON incidents (storm_id) WHERE storm_id <> '';

CREATE UNIQUE INDEX journal_key ON journal (run_id, key);

CREATE INDEX notes_incident ON notes (incident_id, at, id);

CREATE INDEX notifications_incident ON notifications (incident_id, created_at);

CREATE INDEX notifications_pending ON notifications (created_at) WHERE state = 'pending';

CREATE INDEX runs_leases ON runs (run_key) WHERE status = 'admitted';

CREATE INDEX runs_listed ON runs (queued_at, id);

CREATE UNIQUE INDEX runs_open ON runs (subject_id) WHERE subject_kind = 'incident' AND status IN ('queued', 'admitted');

CREATE INDEX runs_queue ON runs (severity DESC, queued_at, id) WHERE status = 'queued';

CREATE INDEX runs_storm ON runs (storm_id) WHERE storm_id <> '';

CREATE INDEX runs_subject ON runs (subject_kind, subject_id, queued_at, id);

CREATE UNIQUE INDEX storms_open ON storms (cluster) WHERE ended_at = 0;

INSERT INTO "alerts" VALUES ('01a21cb8-9206-7629-bc74-b10d12a4dc94', 'd1-critical', 'mcp', 1795778187000000);
INSERT INTO "events" VALUES ('01a21cb8-9206-7145-855d-a51f03a6aa16', 1795778187782078, 'c1', 'opened', '', '01a21cb8-9206-7629-bc74-b10d12a4dc94', '{"run":"01a21cb8-9206-7734-ac4e-e85b2382581b","was":"info"}', '{"eventId":"01a21cb8-9206-7145-855d-a51f03a6aa16","receivedAt":"2026-11-27T11:16:27.782078Z","source":"mcp","cluster":"c1","dialect":"faults","faultId":"d1-critical","faultType":"CrashLoop","severity":"critical","resource":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"made-up","name":"d1"},"owner":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"made-up","name":"d1"},"context":"it crashes","timestamp":"2026-11-27T11:16:27Z","class":"workload","fingerprint":"c1/made-up/Deployment/d1/workload","outcome":"opened","incidentId":"01a21cb8-9206-7629-bc74-b10d12a4dc94"}', X'7B22636C7573746572223A226331222C22636F6E74657874223A2269742063726173686573222C226661756C744964223A2264312D637269746963616C222C226661756C7454797065223A2243726173684C6F6F70222C227265736F75726365223A7B2261706956657273696F6E223A22617070732F7631222C226B696E64223A224465706C6F796D656E74222C226E616D65223A226431222C226E616D657370616365223A226D6164652D7570227D2C227365766572697479223A22637269746963616C222C2274696D657374616D70223A22323032362D31312D32375431313A31363A32375A227D');
INSERT INTO "incidents" VALUES ('01a21cb8-9206-7629-bc74-b10d12a4dc94', 'c1/made-up/Deployment/d1/workload', 'c1', 'investigating', 3, 1795778187782078, 1795778187782078, '', '', '', '', 'active', 0, 0, 0, '', '{"incidentId":"01a21cb8-9206-7629-bc74-b10d12a4dc94","eventId":"01a21cb8-9206-7145-855d-a51f03a6aa16","eventIds":["01a21cb8-9206-7145-855d-a51f03a6aa16"],"eventCount":1,"lastEventAt":"2026-11-27T11:16:27.782078Z","faultId":"d1-critical","fingerprint":"c1/made-up/Deployment/d1/workload","status":"investigating","condition":"active","seenBy":["mcp"],"cluster":"c1","resource":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"made-up","name":"d1"},"owner":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"made-up","name":"d1"},"class":"workload","faultType":"CrashLoop","severity":"critical","context":"it crashes","timestamp":"2026-11-27T11:16:27Z","createdAt":"2026-11-27T11:16:27.782078Z","startedAt":"2026-11-27T11:16:27.788046Z","contextIncomplete":"the cluster: no credential is configured for cluster c1: everything here rests on the event alone","executor":"script","attempts":1,"runId":"01a21cb8-9206-7734-ac4e-e85b2382581b","state":"created","skills":[{"name":"k8s-troubleshooter","version":"0.2.0","digest":"sha256:10ca91cb98ff5dc8dc01b15bbf8ab959c27c69b46bcf3ec542ef57ba951a40ba"}],"workspace":"/the/root/incident-01a21cb8-9206-7629-bc74-b10d12a4dc94","id":"01a21cb8-9206-7629-bc74-b10d12a4dc94","triggeringEventId":"01a21cb8-9206-7145-855d-a51f03a6aa16","namespace":"made-up"}', NULL);
INSERT INTO "journal" VALUES ('01a21cb8-9206-7734-ac4e-e85b2382581b', 1, 'state:created', 1795778187789338, 'collect', 0, 'state', X'7B22746F223A2263726561746564227D', '', '05d522e615850cc7d919eda496b3d5c96bcc2993adcbc5f11d8dddda2ad91882');
INSERT INTO "journal" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 1, 'state:created', 1795778187791553, 'plan', 0, 'state', X'7B22746F223A2263726561746564227D', '', '8eea429246bf9be04f7e0ad7e3a42c7107b6c5e0034d3177c213b5024e066784');
INSERT INTO "journal" VALUES ('01a21cb8-9206-7734-ac4e-e85b2382581b', 2, 'evidence:E1', 1795778187797901, 'collect', 0, 'evidence', X'7B226279746573223A3233342C226964223A224531222C226B696E64223A226576656E74222C22736861323536223A2234626363386236636366373132343639306465653430343739326433376663656564393738373563653565653434656232366136356532643533653931643438222C22736F75726365223A226576656E742030316132316362382D393230362D373134352D383535642D613531663033613661613136227D', '05d522e615850cc7d919eda496b3d5c96bcc2993adcbc5f11d8dddda2ad91882', '83e04eb4d94bd014e708f9bbf25b25e29dade6bc3731c741a25d06424f72e460');
INSERT INTO "journal" VALUES ('01a21cb8-9206-7734-ac4e-e85b2382581b', 3, 'prepared', 1795778187797929, 'collect', 0, 'log', X'7B226C6576656C223A22696E666F222C2273747265616D223A2272756E222C2274657874223A22666163747320636F6C6C65637465643A20302072656164732C207665726469637420756E64657465726D696E6564227D', '83e04eb4d94bd014e708f9bbf25b25e29dade6bc3731c741a25d06424f72e460', '2f3bbc1faae98412e08d389452cb9736abc0d9a9cacf292a3c4ef308a5ae85ec');
INSERT INTO "journal" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 2, 'skill', 1795778187798883, 'plan', 0, 'log', X'7B226C6576656C223A22696E666F222C2273747265616D223A2272756E222C2274657874223A2274686520736B696C6C2073686F702F74656C6C65722020287368613235363A633636353031656565643864313639313265616239313764643432643734626435393734383835663434636334613436373236623636316433623932336266312920697320696E7374616C6C6564227D', '8eea429246bf9be04f7e0ad7e3a42c7107b6c5e0034d3177c213b5024e066784', 'f98980504601470adc74353becebc0c6e57137f06746b08896d865a1e8cefdec');
INSERT INTO "journal" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 3, 'launch#1', 1795778187799292, 'plan', 0, 'log', X'7B226C6576656C223A22696E666F222C2273747265616D223A2272756E222C2274657874223A227374617274696E67207363726970742C20617474656D707420312C207768696368206C6F6F6B7320696E746F206E6F20636C7573746572227D', 'f98980504601470adc74353becebc0c6e57137f06746b08896d865a1e8cefdec', '57c883a784251110a060f40f1e85b31347451a9e3f808059482aeb94a4f6ee1a');
INSERT INTO "journal" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 4, 'right/skill', 1795778187813847, 'right', 0, 'log', X'7B226C6576656C223A22696E666F222C2273747265616D223A2272756E222C2274657874223A2274686520736B696C6C2073686F702F74656C6C65722020287368613235363A633636353031656565643864313639313265616239313764643432643734626435393734383835663434636334613436373236623636316433623932336266312920697320696E7374616C6C6564227D', '57c883a784251110a060f40f1e85b31347451a9e3f808059482aeb94a4f6ee1a', 'd059c9d02ed4128f27c6a2708587d11c061399c0f6698e081580539cf7321ce7');
INSERT INTO "journal" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 5, 'right/launch#1', 1795778187816008, 'right', 0, 'log', X'7B226C6576656C223A22696E666F222C2273747265616D223A2272756E222C2274657874223A227374617274696E67207363726970742C20617474656D707420312C207768696368206C6F6F6B7320696E746F206E6F20636C7573746572227D', 'd059c9d02ed4128f27c6a2708587d11c061399c0f6698e081580539cf7321ce7', '77af362ceee8fbf5911c81ecfa9f13a2357ed8de53ec7e652fd9661346b31aeb');
INSERT INTO "journal" VALUES ('01a21cb8-9206-7734-ac4e-e85b2382581b', 4, 'launch#1', 1795778187816331, 'investigate', 0, 'log', X'7B226C6576656C223A22696E666F222C2273747265616D223A2272756E222C2274657874223A227374617274696E67207363726970742C20617474656D707420312C207768696368206C6F6F6B7320696E746F206E6F20636C7573746572227D', '2f3bbc1faae98412e08d389452cb9736abc0d9a9cacf292a3c4ef308a5ae85ec', '176804df59aa167a28ac1fa60feeac3938ff8dbd77802efea93d53a67aa97035');
INSERT INTO "journal" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 6, 'left/skill', 1795778187820205, 'left', 0, 'log', X'7B226C6576656C223A22696E666F222C2273747265616D223A2272756E222C2274657874223A2274686520736B696C6C2073686F702F74656C6C65722020287368613235363A633636353031656565643864313639313265616239313764643432643734626435393734383835663434636334613436373236623636316433623932336266312920697320696E7374616C6C6564227D', '77af362ceee8fbf5911c81ecfa9f13a2357ed8de53ec7e652fd9661346b31aeb', '2fa63ff6b975e6e8a4906d073cdaaa1e68950c056a66bcaae3045039781facb5');
INSERT INTO "journal" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 7, 'left/launch#1', 1795778187820750, 'left', 0, 'log', X'7B226C6576656C223A22696E666F222C2273747265616D223A2272756E222C2274657874223A227374617274696E67207363726970742C20617474656D707420312C207768696368206C6F6F6B7320696E746F206E6F20636C7573746572227D', '2fa63ff6b975e6e8a4906d073cdaaa1e68950c056a66bcaae3045039781facb5', '5f876ac88960575ddc30f82d0723c54d5de403c45bba72467d31719d97d0e958');
INSERT INTO "nightcrier_schema" VALUES (1, 0, 1, '2026-11-27 11:16:27');
INSERT INTO "nightcrier_schema" VALUES (2, 1, 1, '2026-11-27 11:16:27');
INSERT INTO "runs" VALUES ('01a21cb8-9206-7734-ac4e-e85b2382581b', 'incident', '01a21cb8-9206-7629-bc74-b10d12a4dc94', '', 'k8s-incident-triage', 'c1', 'script', '', 3, 'admitted', '', '', '', '', 0.0, '', 1795778187782078, 1795778187785356, 0, 0, '', '', '', 0, '', '', '', NULL, '');
INSERT INTO "runs" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 'call', 'd9af119d-b22e-8b4f-8980-606334ad0c8a', 'ann', 'wide', 'cart', 'script', '', 0, 'admitted', '', '', '', '', 0.0, '', 1795778187784840, 1795778187787030, 0, 0, '', '', 'ann', 0, '', '', '', X'7B22617070223A2263617274227D', '41de4048-58f2-8198-baf4-86fb28161f15');
INSERT INTO "runs" VALUES ('2f4a7864-2a3c-82f7-a0ee-a75d7f4b8d36', 'call', '2f4a7864-2a3c-82f7-a0ee-a75d7f4b8d36', 'ann', 'wide', 'cart', 'script', '', 0, 'queued', '', '', '', '', 0.0, '', 1795778187786563, 0, 0, 0, '', '', 'ann', 0, '', '', '', X'7B22617070223A2263617274227D', '41de4048-58f2-8198-baf4-86fb28161f15');
INSERT INTO "steps" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 'plan', 1, 1, '{"runId":"d9af119d-b22e-8b4f-8980-606334ad0c8a","stepId":"plan","attempt":1,"phase":"first","uses":"shop/teller","executor":"script","model":"sonnet","state":"success","startedAt":"2026-11-27T11:16:27.788595Z","endedAt":"2026-11-27T11:16:27.805061Z","output":{"summary":"All is well."}}');
INSERT INTO "steps" VALUES ('01a21cb8-9206-7734-ac4e-e85b2382581b', 'collect', 1, 1, '{"runId":"01a21cb8-9206-7734-ac4e-e85b2382581b","stepId":"collect","attempt":1,"uses":"action:collect","state":"success","startedAt":"2026-11-27T11:16:27.787206Z","endedAt":"2026-11-27T11:16:27.814562Z"}');
INSERT INTO "steps" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 'right', 1, 2, '{"runId":"d9af119d-b22e-8b4f-8980-606334ad0c8a","stepId":"right","attempt":1,"phase":"look","beside":["left","right"],"uses":"shop/teller","executor":"script","model":"sonnet","state":"running","startedAt":"2026-11-27T11:16:27.809133Z"}');
INSERT INTO "steps" VALUES ('01a21cb8-9206-7734-ac4e-e85b2382581b', 'investigate', 1, 2, '{"runId":"01a21cb8-9206-7734-ac4e-e85b2382581b","stepId":"investigate","attempt":1,"uses":"sre/k8s-troubleshooter","executor":"script","model":"sonnet","state":"running","startedAt":"2026-11-27T11:16:27.815469Z"}');
INSERT INTO "steps" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 'left', 1, 3, '{"runId":"d9af119d-b22e-8b4f-8980-606334ad0c8a","stepId":"left","attempt":1,"phase":"look","beside":["left","right"],"uses":"shop/teller","executor":"script","model":"sonnet","state":"success","startedAt":"2026-11-27T11:16:27.808646Z","endedAt":"2026-11-27T11:16:27.825589Z","output":{"summary":"All is well."}}');
