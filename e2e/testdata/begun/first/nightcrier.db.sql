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

INSERT INTO "alerts" VALUES ('01a21cb2-0a37-7095-b128-a7684211378e', 'd1-critical', 'mcp', 1795777759000000);
INSERT INTO "events" VALUES ('01a21cb2-0a36-7bf6-b160-6af741a6e099', 1795777759798745, 'c1', 'opened', '', '01a21cb2-0a37-7095-b128-a7684211378e', '{"run":"01a21cb2-0a37-7144-857d-bd795cdb916f","was":"info"}', '{"eventId":"01a21cb2-0a36-7bf6-b160-6af741a6e099","receivedAt":"2026-11-27T11:09:19.798745Z","source":"mcp","cluster":"c1","dialect":"faults","faultId":"d1-critical","faultType":"CrashLoop","severity":"critical","resource":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"made-up","name":"d1"},"owner":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"made-up","name":"d1"},"context":"it crashes","timestamp":"2026-11-27T11:09:19Z","class":"workload","fingerprint":"c1/made-up/Deployment/d1/workload","outcome":"opened","incidentId":"01a21cb2-0a37-7095-b128-a7684211378e"}', X'7B22636C7573746572223A226331222C22636F6E74657874223A2269742063726173686573222C226661756C744964223A2264312D637269746963616C222C226661756C7454797065223A2243726173684C6F6F70222C227265736F75726365223A7B2261706956657273696F6E223A22617070732F7631222C226B696E64223A224465706C6F796D656E74222C226E616D65223A226431222C226E616D657370616365223A226D6164652D7570227D2C227365766572697479223A22637269746963616C222C2274696D657374616D70223A22323032362D31312D32375431313A30393A31395A227D');
INSERT INTO "incidents" VALUES ('01a21cb2-0a37-7095-b128-a7684211378e', 'c1/made-up/Deployment/d1/workload', 'c1', 'investigating', 3, 1795777759798745, 1795777759798745, '', '', '', '', 'active', 0, 0, 0, '{"incidentId":"01a21cb2-0a37-7095-b128-a7684211378e","eventId":"01a21cb2-0a36-7bf6-b160-6af741a6e099","eventIds":["01a21cb2-0a36-7bf6-b160-6af741a6e099"],"eventCount":1,"lastEventAt":"2026-11-27T11:09:19.798745Z","faultId":"d1-critical","fingerprint":"c1/made-up/Deployment/d1/workload","status":"investigating","condition":"active","seenBy":["mcp"],"cluster":"c1","resource":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"made-up","name":"d1"},"owner":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"made-up","name":"d1"},"class":"workload","faultType":"CrashLoop","severity":"critical","context":"it crashes","timestamp":"2026-11-27T11:09:19Z","createdAt":"2026-11-27T11:09:19.798745Z","startedAt":"2026-11-27T11:09:19.804926Z","contextIncomplete":"the cluster: no credential is configured for cluster c1: everything here rests on the event alone","executor":"script","attempts":1,"runId":"01a21cb2-0a37-7144-857d-bd795cdb916f","state":"created","skills":[{"name":"k8s-troubleshooter","version":"0.2.0","digest":"sha256:10ca91cb98ff5dc8dc01b15bbf8ab959c27c69b46bcf3ec542ef57ba951a40ba"}],"workspace":"/the/root/incident-01a21cb2-0a37-7095-b128-a7684211378e","id":"01a21cb2-0a37-7095-b128-a7684211378e","triggeringEventId":"01a21cb2-0a36-7bf6-b160-6af741a6e099","namespace":"made-up"}', NULL);
INSERT INTO "journal" VALUES ('01a21cb2-0a37-7144-857d-bd795cdb916f', 1, 'state:created', 1795777759807248, 'collect', 0, 'state', X'7B22746F223A2263726561746564227D', '', 'c274161dd824d19fa939289f267cc688bac61b91f42c9a7cab1e810d8a47028e');
INSERT INTO "journal" VALUES ('01a21cb2-0a37-7144-857d-bd795cdb916f', 2, 'evidence:E1', 1795777759813813, 'collect', 0, 'evidence', X'7B226279746573223A3233342C226964223A224531222C226B696E64223A226576656E74222C22736861323536223A2261316233303536663139316634373535343731626264623932616563376631643433373232303865353661363230393631646361643135613064323563323265222C22736F75726365223A226576656E742030316132316362322D306133362D376266362D623136302D366166373431613665303939227D', 'c274161dd824d19fa939289f267cc688bac61b91f42c9a7cab1e810d8a47028e', '161af851980187bf81ab842a739df84075b2f1e9f34de57da1884f1d4f5ac52b');
INSERT INTO "journal" VALUES ('01a21cb2-0a37-7144-857d-bd795cdb916f', 3, 'prepared', 1795777759813820, 'collect', 0, 'log', X'7B226C6576656C223A22696E666F222C2273747265616D223A2272756E222C2274657874223A22666163747320636F6C6C65637465643A20302072656164732C207665726469637420756E64657465726D696E6564227D', '161af851980187bf81ab842a739df84075b2f1e9f34de57da1884f1d4f5ac52b', '1489809aba0e76e59f419e37f56061ff0c9986314d58bc4e9473ae0bcbaf015e');
INSERT INTO "journal" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 1, 'state:created', 1795777759815593, 'plan', 0, 'state', X'7B22746F223A2263726561746564227D', '', '51542411e8d014e4a12bbb5c60ff61b07056260c257588b1369d0949cb33ae05');
INSERT INTO "journal" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 2, 'skill', 1795777759823860, 'plan', 0, 'log', X'7B226C6576656C223A22696E666F222C2273747265616D223A2272756E222C2274657874223A2274686520736B696C6C2073686F702F74656C6C65722020287368613235363A633636353031656565643864313639313265616239313764643432643734626435393734383835663434636334613436373236623636316433623932336266312920697320696E7374616C6C6564227D', '51542411e8d014e4a12bbb5c60ff61b07056260c257588b1369d0949cb33ae05', 'e3c044e5d940d973af38ba2964cfd9c390adf6932fc74597be67709b88413f9d');
INSERT INTO "journal" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 3, 'launch#1', 1795777759825375, 'plan', 0, 'log', X'7B226C6576656C223A22696E666F222C2273747265616D223A2272756E222C2274657874223A227374617274696E67207363726970742C20617474656D707420312C207768696368206C6F6F6B7320696E746F206E6F20636C7573746572227D', 'e3c044e5d940d973af38ba2964cfd9c390adf6932fc74597be67709b88413f9d', '618c3479db427e3f141093ac398b7fac2b2e7227d5fd5b8049cc4b2c831f61e6');
INSERT INTO "journal" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 4, 'left/skill', 1795777759849080, 'left', 0, 'log', X'7B226C6576656C223A22696E666F222C2273747265616D223A2272756E222C2274657874223A2274686520736B696C6C2073686F702F74656C6C65722020287368613235363A633636353031656565643864313639313265616239313764643432643734626435393734383835663434636334613436373236623636316433623932336266312920697320696E7374616C6C6564227D', '618c3479db427e3f141093ac398b7fac2b2e7227d5fd5b8049cc4b2c831f61e6', '9165a83b027a2380dea0a51245df235d6847ae14c89593e1dbe0e9671a8d782f');
INSERT INTO "journal" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 5, 'left/launch#1', 1795777759850292, 'left', 0, 'log', X'7B226C6576656C223A22696E666F222C2273747265616D223A2272756E222C2274657874223A227374617274696E67207363726970742C20617474656D707420312C207768696368206C6F6F6B7320696E746F206E6F20636C7573746572227D', '9165a83b027a2380dea0a51245df235d6847ae14c89593e1dbe0e9671a8d782f', '087945836cdd2bdf5e4cccf5e2fffc1ec78041993553d93115b2fb9e4500d7ae');
INSERT INTO "journal" VALUES ('01a21cb2-0a37-7144-857d-bd795cdb916f', 4, 'launch#1', 1795777759852790, 'investigate', 0, 'log', X'7B226C6576656C223A22696E666F222C2273747265616D223A2272756E222C2274657874223A227374617274696E67207363726970742C20617474656D707420312C207768696368206C6F6F6B7320696E746F206E6F20636C7573746572227D', '1489809aba0e76e59f419e37f56061ff0c9986314d58bc4e9473ae0bcbaf015e', '8661a80a79728a935777106931c3fdef9d62918eda82e95ac53ad5fac009b668');
INSERT INTO "journal" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 6, 'right/skill', 1795777759853145, 'right', 0, 'log', X'7B226C6576656C223A22696E666F222C2273747265616D223A2272756E222C2274657874223A2274686520736B696C6C2073686F702F74656C6C65722020287368613235363A633636353031656565643864313639313265616239313764643432643734626435393734383835663434636334613436373236623636316433623932336266312920697320696E7374616C6C6564227D', '087945836cdd2bdf5e4cccf5e2fffc1ec78041993553d93115b2fb9e4500d7ae', 'efb223ae2b452336c5b7faf5aeba4e046432d7b443f7e2b9c9df4beb57accd93');
INSERT INTO "journal" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 7, 'right/launch#1', 1795777759853580, 'right', 0, 'log', X'7B226C6576656C223A22696E666F222C2273747265616D223A2272756E222C2274657874223A227374617274696E67207363726970742C20617474656D707420312C207768696368206C6F6F6B7320696E746F206E6F20636C7573746572227D', 'efb223ae2b452336c5b7faf5aeba4e046432d7b443f7e2b9c9df4beb57accd93', '9a101aab23c2dde071971d884603e9630e0c0a9f6b2b755c355afae6ee7024b4');
INSERT INTO "nightcrier_schema" VALUES (1, 0, 1, '2026-11-27 11:09:19');
INSERT INTO "nightcrier_schema" VALUES (2, 1, 1, '2026-11-27 11:09:19');
INSERT INTO "runs" VALUES ('01a21cb2-0a37-7144-857d-bd795cdb916f', 'incident', '01a21cb2-0a37-7095-b128-a7684211378e', '', 'k8s-incident-triage', 'c1', 'script', '', 3, 'admitted', '', '', '', '', 0.0, '', 1795777759798745, 1795777759802556, 0, 0, '', '', '', 0, '', '', '', NULL, '');
INSERT INTO "runs" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 'call', '5b222a25-52d7-846a-8ed4-8c6e7b203784', 'ann', 'wide', 'cart', 'script', '', 0, 'admitted', '', '', '', '', 0.0, '', 1795777759801956, 1795777759804403, 0, 0, '', '', 'ann', 0, '', '', '', X'7B22617070223A2263617274227D', '41de4048-58f2-8198-baf4-86fb28161f15');
INSERT INTO "runs" VALUES ('81aa02bd-9155-84a0-a2fa-b8cd4c8480d4', 'call', '81aa02bd-9155-84a0-a2fa-b8cd4c8480d4', 'ann', 'wide', 'cart', 'script', '', 0, 'queued', '', '', '', '', 0.0, '', 1795777759803748, 0, 0, 0, '', '', 'ann', 0, '', '', '', X'7B22617070223A2263617274227D', '41de4048-58f2-8198-baf4-86fb28161f15');
INSERT INTO "steps" VALUES ('01a21cb2-0a37-7144-857d-bd795cdb916f', 'collect', 1, 1, '{"runId":"01a21cb2-0a37-7144-857d-bd795cdb916f","stepId":"collect","attempt":1,"uses":"action:collect","state":"success","startedAt":"2026-11-27T11:09:19.804479Z","endedAt":"2026-11-27T11:09:19.849946Z"}');
INSERT INTO "steps" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 'plan', 1, 1, '{"runId":"5b222a25-52d7-846a-8ed4-8c6e7b203784","stepId":"plan","attempt":1,"phase":"first","uses":"shop/teller","executor":"script","model":"sonnet","state":"success","startedAt":"2026-11-27T11:09:19.806333Z","endedAt":"2026-11-27T11:09:19.834685Z","output":{"summary":"All is well."}}');
INSERT INTO "steps" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 'left', 1, 2, '{"runId":"5b222a25-52d7-846a-8ed4-8c6e7b203784","stepId":"left","attempt":1,"phase":"look","beside":["left","right"],"uses":"shop/teller","executor":"script","model":"sonnet","state":"success","startedAt":"2026-11-27T11:09:19.836969Z","endedAt":"2026-11-27T11:09:19.861278Z","output":{"summary":"All is well."}}');
INSERT INTO "steps" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 'right', 1, 3, '{"runId":"5b222a25-52d7-846a-8ed4-8c6e7b203784","stepId":"right","attempt":1,"phase":"look","beside":["left","right"],"uses":"shop/teller","executor":"script","model":"sonnet","state":"running","startedAt":"2026-11-27T11:09:19.839186Z"}');
INSERT INTO "steps" VALUES ('01a21cb2-0a37-7144-857d-bd795cdb916f', 'investigate', 1, 2, '{"runId":"01a21cb2-0a37-7144-857d-bd795cdb916f","stepId":"investigate","attempt":1,"uses":"sre/k8s-troubleshooter","executor":"script","model":"sonnet","state":"running","startedAt":"2026-11-27T11:09:19.852016Z"}');
