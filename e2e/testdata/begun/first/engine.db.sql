CREATE TABLE application_versions (
    version_id TEXT NOT NULL PRIMARY KEY,
    version_name TEXT NOT NULL UNIQUE,
    version_timestamp INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    created_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
, "application_name" TEXT DEFAULT NULL);

CREATE TABLE dbos_migrations (version INTEGER NOT NULL PRIMARY KEY);

CREATE TABLE event_dispatch_kv (
    service_name TEXT NOT NULL,
    workflow_fn_name TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT,
    update_seq NUMERIC,
    update_time NUMERIC,
    PRIMARY KEY (service_name, workflow_fn_name, key)
);

CREATE TABLE notifications (
    message_uuid TEXT NOT NULL PRIMARY KEY,
    destination_uuid TEXT NOT NULL,
    topic TEXT,
    message TEXT NOT NULL,
    created_at_epoch_ms INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)), "serialization" TEXT DEFAULT NULL, "consumed" BOOLEAN NOT NULL DEFAULT FALSE,
    FOREIGN KEY (destination_uuid) REFERENCES workflow_status(workflow_uuid)
        ON UPDATE CASCADE ON DELETE CASCADE
);

CREATE TABLE "operation_outputs" (
    workflow_uuid TEXT NOT NULL,
    function_id INTEGER NOT NULL,
    function_name TEXT NOT NULL DEFAULT '',
    output TEXT,
    error TEXT,
    child_workflow_id TEXT,
    started_at_epoch_ms INTEGER,
    completed_at_epoch_ms INTEGER,
    serialization TEXT,
    application_name TEXT DEFAULT NULL,
    retention_timestamp INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    PRIMARY KEY (workflow_uuid, function_id)
);

CREATE TABLE queues (
    queue_id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    concurrency INTEGER,
    worker_concurrency INTEGER,
    rate_limit_max INTEGER,
    rate_limit_period_sec REAL,
    priority_enabled BOOLEAN NOT NULL DEFAULT FALSE,
    partition_queue BOOLEAN NOT NULL DEFAULT FALSE,
    polling_interval_sec REAL NOT NULL DEFAULT 1.0,
    created_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    updated_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
, "application_name" TEXT DEFAULT NULL, "partition_concurrency" INTEGER DEFAULT NULL, "partition_worker_concurrency" INTEGER DEFAULT NULL, "partition_rate_limit_max" INTEGER DEFAULT NULL, "partition_rate_limit_period_sec" REAL DEFAULT NULL);

CREATE TABLE streams (
    workflow_uuid TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    "offset" INTEGER NOT NULL, function_id INTEGER NOT NULL DEFAULT 0, "serialization" TEXT DEFAULT NULL,
    PRIMARY KEY (workflow_uuid, key, "offset"),
    FOREIGN KEY (workflow_uuid) REFERENCES workflow_status(workflow_uuid)
        ON UPDATE CASCADE ON DELETE CASCADE
);

CREATE TABLE workflow_events (
    workflow_uuid TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL, "serialization" TEXT DEFAULT NULL,
    PRIMARY KEY (workflow_uuid, key),
    FOREIGN KEY (workflow_uuid) REFERENCES workflow_status(workflow_uuid)
        ON UPDATE CASCADE ON DELETE CASCADE
);

CREATE TABLE workflow_events_history (
    workflow_uuid TEXT NOT NULL,
    function_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL, "serialization" TEXT DEFAULT NULL,
    PRIMARY KEY (workflow_uuid, function_id, key),
    FOREIGN KEY (workflow_uuid) REFERENCES workflow_status(workflow_uuid)
        ON UPDATE CASCADE ON DELETE CASCADE
);

CREATE TABLE workflow_input (
    workflow_uuid TEXT NOT NULL PRIMARY KEY,
    inputs TEXT,
    retention_timestamp INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
);

CREATE TABLE workflow_output (
    workflow_uuid TEXT NOT NULL PRIMARY KEY,
    output TEXT,
    error TEXT,
    retention_timestamp INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
);

CREATE TABLE workflow_schedules (
    schedule_id TEXT PRIMARY KEY,
    schedule_name TEXT NOT NULL UNIQUE,
    workflow_name TEXT NOT NULL,
    workflow_class_name TEXT,
    schedule TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'ACTIVE',
    context TEXT NOT NULL
, "last_fired_at" TEXT DEFAULT NULL, "automatic_backfill" BOOLEAN NOT NULL DEFAULT FALSE, "cron_timezone" TEXT DEFAULT NULL, "queue_name" TEXT DEFAULT NULL, "application_name" TEXT DEFAULT NULL);

CREATE TABLE workflow_status (
    workflow_uuid TEXT PRIMARY KEY,
    status TEXT,
    name TEXT,
    authenticated_user TEXT,
    assumed_role TEXT,
    authenticated_roles TEXT,
    request TEXT,
    output TEXT,
    error TEXT,
    executor_id TEXT,
    created_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    updated_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    application_version TEXT,
    application_id TEXT,
    class_name TEXT DEFAULT NULL,
    config_name TEXT DEFAULT NULL,
    recovery_attempts INTEGER DEFAULT 0,
    queue_name TEXT,
    workflow_timeout_ms INTEGER,
    workflow_deadline_epoch_ms INTEGER,
    inputs TEXT,
    started_at_epoch_ms INTEGER,
    deduplication_id TEXT,
    priority INTEGER NOT NULL DEFAULT 0
, queue_partition_key TEXT, forked_from TEXT, "owner_xid" TEXT DEFAULT NULL, "parent_workflow_id" TEXT DEFAULT NULL, "serialization" TEXT DEFAULT NULL, "delay_until_epoch_ms" INTEGER DEFAULT NULL, "was_forked_from" BOOLEAN NOT NULL DEFAULT FALSE, "rate_limited" BOOLEAN NOT NULL DEFAULT FALSE, "completed_at" BIGINT, "attributes" TEXT, "schedule_name" TEXT, "debounce_deadline_epoch_ms" INTEGER DEFAULT NULL, "is_debounced" BOOLEAN NOT NULL DEFAULT FALSE, "application_name" TEXT DEFAULT NULL);

CREATE INDEX "idx_notifications" ON "notifications" ("destination_uuid", "topic");

CREATE INDEX idx_operation_outputs_completed_at_function_name
    ON operation_outputs (completed_at_epoch_ms, function_name);

CREATE INDEX idx_operation_outputs_retention
    ON operation_outputs (retention_timestamp);

CREATE INDEX idx_workflow_input_retention
    ON workflow_input (retention_timestamp);

CREATE INDEX idx_workflow_output_retention
    ON workflow_output (retention_timestamp);

CREATE INDEX "idx_workflow_status_completed_at" ON "workflow_status" ("completed_at") WHERE "completed_at" IS NOT NULL;

CREATE INDEX "idx_workflow_status_delayed" ON "workflow_status" ("delay_until_epoch_ms")
    WHERE status = 'DELAYED';

CREATE INDEX "idx_workflow_status_failed"
    ON "workflow_status" ("status", "created_at")
    WHERE "status" IN ('ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED');

CREATE INDEX "idx_workflow_status_forked_from"
    ON "workflow_status" ("forked_from")
    WHERE "forked_from" IS NOT NULL;

CREATE INDEX "idx_workflow_status_in_flight"
    ON "workflow_status" ("queue_name", "status", "priority", "created_at")
    WHERE "status" IN ('ENQUEUED', 'PENDING');

CREATE INDEX "idx_workflow_status_parent_workflow_id"
    ON "workflow_status" ("parent_workflow_id")
    WHERE "parent_workflow_id" IS NOT NULL;

CREATE INDEX "idx_workflow_status_partition_dequeue_v2"
    ON "workflow_status" ("queue_name", "status", "queue_partition_key", "priority", "created_at", "workflow_uuid")
    WHERE "status" IN ('ENQUEUED', 'PENDING') AND "queue_partition_key" IS NOT NULL;

CREATE INDEX "idx_workflow_status_pending"
    ON "workflow_status" ("created_at")
    WHERE "status" = 'PENDING';

CREATE INDEX "idx_workflow_status_rate_limited"
    ON "workflow_status" ("queue_name", "started_at_epoch_ms")
    WHERE "rate_limited" = TRUE;

CREATE INDEX "idx_workflow_status_schedule_name" ON "workflow_status" ("schedule_name") WHERE "schedule_name" IS NOT NULL;

CREATE INDEX "idx_workflow_status_started_at" ON "workflow_status" ("started_at_epoch_ms") WHERE "started_at_epoch_ms" IS NOT NULL;

CREATE INDEX idx_workflow_topic ON notifications (destination_uuid, topic);

CREATE UNIQUE INDEX "uq_application_versions_owner_version"
    ON "application_versions" ("application_name", "version_name")
    WHERE "application_name" IS NOT NULL;

CREATE UNIQUE INDEX "uq_application_versions_unclaimed_version"
    ON "application_versions" ("version_name")
    WHERE "application_name" IS NULL;

CREATE UNIQUE INDEX "uq_workflow_status_dedup_id"
    ON "workflow_status" ("queue_name", "deduplication_id")
    WHERE "deduplication_id" IS NOT NULL;

CREATE INDEX workflow_status_created_at_index ON workflow_status (created_at);

INSERT INTO "application_versions" VALUES ('4d912173-6036-4044-bdaa-9a01714a6786', '1', 1795777759795, 1795777759795, 'nightcrier');
INSERT INTO "dbos_migrations" VALUES (112);
-- {"value":{"handle":{"backend":"orders","id":"5b222a25-52d7-846a-8ed4-8c6e7b203784-1"}},"from":"2026-11-27T11:09:19.806333033Z","to":"2026-11-27T11:09:19.827908212Z"}
INSERT INTO "operation_outputs" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 0, 'plan/launch#1', 'eyJ2YWx1ZSI6eyJoYW5kbGUiOnsiYmFja2VuZCI6Im9yZGVycyIsImlkIjoiNWIyMjJhMjUtNTJkNy04NDZhLThlZDQtOGM2ZTdiMjAzNzg0LTEifX0sImZyb20iOiIyMDI2LTExLTI3VDExOjA5OjE5LjgwNjMzMzAzM1oiLCJ0byI6IjIwMjYtMTEtMjdUMTE6MDk6MTkuODI3OTA4MjEyWiJ9', NULL, NULL, 1795777759806, 1795777759827, 'DBOS_JSON', 'nightcrier', 1795777759827);
-- {"value":{"state":"success","startedAt":"2026-11-27T11:09:19.830685674Z","endedAt":"2026-11-27T11:09:19.830685674Z"},"from":"2026-11-27T11:09:19.828420095Z","to":"2026-11-27T11:09:19.832259552Z"}
INSERT INTO "operation_outputs" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 1, 'plan/await#1', 'eyJ2YWx1ZSI6eyJzdGF0ZSI6InN1Y2Nlc3MiLCJzdGFydGVkQXQiOiIyMDI2LTExLTI3VDExOjA5OjE5LjgzMDY4NTY3NFoiLCJlbmRlZEF0IjoiMjAyNi0xMS0yN1QxMTowOToxOS44MzA2ODU2NzRaIn0sImZyb20iOiIyMDI2LTExLTI3VDExOjA5OjE5LjgyODQyMDA5NVoiLCJ0byI6IjIwMjYtMTEtMjdUMTE6MDk6MTkuODMyMjU5NTUyWiJ9', NULL, NULL, 1795777759828, 1795777759832, 'DBOS_JSON', 'nightcrier', 1795777759832);
-- {"value":{"output":{"summary":"All is well."}},"from":"2026-11-27T11:09:19.833597507Z","to":"2026-11-27T11:09:19.83468541Z"}
INSERT INTO "operation_outputs" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 2, 'plan/keep', 'eyJ2YWx1ZSI6eyJvdXRwdXQiOnsic3VtbWFyeSI6IkFsbCBpcyB3ZWxsLiJ9fSwiZnJvbSI6IjIwMjYtMTEtMjdUMTE6MDk6MTkuODMzNTk3NTA3WiIsInRvIjoiMjAyNi0xMS0yN1QxMTowOToxOS44MzQ2ODU0MVoifQ==', NULL, NULL, 1795777759833, 1795777759834, 'DBOS_JSON', 'nightcrier', 1795777759833);
INSERT INTO "operation_outputs" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 3, 'workflow/1', NULL, NULL, '5b222a25-52d7-846a-8ed4-8c6e7b203784/left', 1795777759835, NULL, NULL, 'nightcrier', 1795777759834);
INSERT INTO "operation_outputs" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 4, 'workflow/1', NULL, NULL, '5b222a25-52d7-846a-8ed4-8c6e7b203784/right', 1795777759836, NULL, NULL, 'nightcrier', 1795777759838);
-- {"value":{"state":"created"},"from":"2026-11-27T11:09:19.804479838Z","to":"2026-11-27T11:09:19.849946321Z"}
INSERT INTO "operation_outputs" VALUES ('01a21cb2-0a37-7144-857d-bd795cdb916f', 0, 'collect/prepare', 'eyJ2YWx1ZSI6eyJzdGF0ZSI6ImNyZWF0ZWQifSwiZnJvbSI6IjIwMjYtMTEtMjdUMTE6MDk6MTkuODA0NDc5ODM4WiIsInRvIjoiMjAyNi0xMS0yN1QxMTowOToxOS44NDk5NDYzMjFaIn0=', NULL, NULL, 1795777759804, 1795777759851, 'DBOS_JSON', 'nightcrier', 1795777759851);
-- {"value":{"handle":{"backend":"orders","id":"5b222a25-52d7-846a-8ed4-8c6e7b203784-33"}},"from":"2026-11-27T11:09:19.836969046Z","to":"2026-11-27T11:09:19.853827761Z"}
INSERT INTO "operation_outputs" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784/left', 0, 'left/launch#1', 'eyJ2YWx1ZSI6eyJoYW5kbGUiOnsiYmFja2VuZCI6Im9yZGVycyIsImlkIjoiNWIyMjJhMjUtNTJkNy04NDZhLThlZDQtOGM2ZTdiMjAzNzg0LTMzIn19LCJmcm9tIjoiMjAyNi0xMS0yN1QxMTowOToxOS44MzY5NjkwNDZaIiwidG8iOiIyMDI2LTExLTI3VDExOjA5OjE5Ljg1MzgyNzc2MVoifQ==', NULL, NULL, 1795777759836, 1795777759853, 'DBOS_JSON', 'nightcrier', 1795777759852);
-- {"value":{"handle":{"backend":"orders","id":"01a21cb2-0a37-7144-857d-bd795cdb916f-1"}},"from":"2026-11-27T11:09:19.852016639Z","to":"2026-11-27T11:09:19.85623426Z"}
INSERT INTO "operation_outputs" VALUES ('01a21cb2-0a37-7144-857d-bd795cdb916f', 1, 'investigate/launch#1', 'eyJ2YWx1ZSI6eyJoYW5kbGUiOnsiYmFja2VuZCI6Im9yZGVycyIsImlkIjoiMDFhMjFjYjItMGEzNy03MTQ0LTg1N2QtYmQ3OTVjZGI5MTZmLTEifX0sImZyb20iOiIyMDI2LTExLTI3VDExOjA5OjE5Ljg1MjAxNjYzOVoiLCJ0byI6IjIwMjYtMTEtMjdUMTE6MDk6MTkuODU2MjM0MjZaIn0=', NULL, NULL, 1795777759851, 1795777759856, 'DBOS_JSON', 'nightcrier', 1795777759855);
-- {"value":{"handle":{"backend":"orders","id":"5b222a25-52d7-846a-8ed4-8c6e7b203784-65"}},"from":"2026-11-27T11:09:19.839186253Z","to":"2026-11-27T11:09:19.857190166Z"}
INSERT INTO "operation_outputs" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784/right', 0, 'right/launch#1', 'eyJ2YWx1ZSI6eyJoYW5kbGUiOnsiYmFja2VuZCI6Im9yZGVycyIsImlkIjoiNWIyMjJhMjUtNTJkNy04NDZhLThlZDQtOGM2ZTdiMjAzNzg0LTY1In19LCJmcm9tIjoiMjAyNi0xMS0yN1QxMTowOToxOS44MzkxODYyNTNaIiwidG8iOiIyMDI2LTExLTI3VDExOjA5OjE5Ljg1NzE5MDE2NloifQ==', NULL, NULL, 1795777759839, 1795777759857, 'DBOS_JSON', 'nightcrier', 1795777759857);
-- {"value":{"state":"success","startedAt":"2026-11-27T11:09:19.858213131Z","endedAt":"2026-11-27T11:09:19.858213131Z"},"from":"2026-11-27T11:09:19.855064705Z","to":"2026-11-27T11:09:19.859525138Z"}
INSERT INTO "operation_outputs" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784/left', 1, 'left/await#1', 'eyJ2YWx1ZSI6eyJzdGF0ZSI6InN1Y2Nlc3MiLCJzdGFydGVkQXQiOiIyMDI2LTExLTI3VDExOjA5OjE5Ljg1ODIxMzEzMVoiLCJlbmRlZEF0IjoiMjAyNi0xMS0yN1QxMTowOToxOS44NTgyMTMxMzFaIn0sImZyb20iOiIyMDI2LTExLTI3VDExOjA5OjE5Ljg1NTA2NDcwNVoiLCJ0byI6IjIwMjYtMTEtMjdUMTE6MDk6MTkuODU5NTI1MTM4WiJ9', NULL, NULL, 1795777759854, 1795777759859, 'DBOS_JSON', 'nightcrier', 1795777759859);
-- {"value":{"output":{"summary":"All is well."}},"from":"2026-11-27T11:09:19.860282257Z","to":"2026-11-27T11:09:19.861278984Z"}
INSERT INTO "operation_outputs" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784/left', 2, 'left/keep', 'eyJ2YWx1ZSI6eyJvdXRwdXQiOnsic3VtbWFyeSI6IkFsbCBpcyB3ZWxsLiJ9fSwiZnJvbSI6IjIwMjYtMTEtMjdUMTE6MDk6MTkuODYwMjgyMjU3WiIsInRvIjoiMjAyNi0xMS0yN1QxMTowOToxOS44NjEyNzg5ODRaIn0=', NULL, NULL, 1795777759860, 1795777759861, 'DBOS_JSON', 'nightcrier', 1795777759860);
INSERT INTO "operation_outputs" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 5, 'DBOS.getResult', 'IntcInJvd1wiOntcInJ1bklkXCI6XCI1YjIyMmEyNS01MmQ3LTg0NmEtOGVkNC04YzZlN2IyMDM3ODRcIixcInN0ZXBJZFwiOlwibGVmdFwiLFwiYXR0ZW1wdFwiOjEsXCJwaGFzZVwiOlwibG9va1wiLFwiYmVzaWRlXCI6W1wibGVmdFwiLFwicmlnaHRcIl0sXCJ1c2VzXCI6XCJzaG9wL3RlbGxlclwiLFwiZXhlY3V0b3JcIjpcInNjcmlwdFwiLFwibW9kZWxcIjpcInNvbm5ldFwiLFwic3RhdGVcIjpcInN1Y2Nlc3NcIixcInN0YXJ0ZWRBdFwiOlwiMjAyNi0xMS0yN1QxMTowOToxOS44MzY5NjkwNDZaXCIsXCJlbmRlZEF0XCI6XCIyMDI2LTExLTI3VDExOjA5OjE5Ljg2MTI3ODk4NFpcIixcIm91dHB1dFwiOntcInN1bW1hcnlcIjpcIkFsbCBpcyB3ZWxsLlwifX19Ig==', NULL, '5b222a25-52d7-846a-8ed4-8c6e7b203784/left', 1795777759838, 1795777759862, 'DBOS_JSON', 'nightcrier', 1795777759861);
-- {"name":"run/1","input":{"runId":"01a21cb2-0a37-7144-857d-bd795cdb916f","subject":{"kind":"incident","id":"01a21cb2-0a37-7095-b128-a7684211378e"},"pipeline":{"version":1,"definition":{"name":"k8s-incident-triage","description":"Investigates an incident of a Kubernetes cluster and tells the on-call engineer what was found","on":[{"type":"incident"}],"phases":[{"steps":[{"id":"collect","action":"collect","agent_id":"collect","required":true,"on_failure":"stop","context_for_next":true},{"id":"investigate","skill":"sre/k8s-troubleshooter","agent_id":"sre-k8s-troubleshooter","required":false,"on_failure":"continue","deliverable":{"kind":"report"},"context_for_next":true},{"id":"check","action":"check","agent_id":"check","required":true,"on_failure":"stop","context_for_next":true},{"id":"notify","action":"notify","agent_id":"notify","required":true,"on_failure":"stop","context_for_next":true}]}],"file":"embedded:k8s-incident-triage.yaml","lines":{"name":1}},"digest":"sha256:b9474b2d26910c09368109ad4e943f4bf73c813491e6a9198ff4f9da32f212c1","skills":{"sre/k8s-troubleshooter":{"name":"k8s-troubleshooter","version":"0.2.0","digest":"sha256:10ca91cb98ff5dc8dc01b15bbf8ab959c27c69b46bcf3ec542ef57ba951a40ba"}}},"agent":{"executor":"script","scriptPath":"/bin/true","skillsDir":"/tmp/TestWhatAnOlderVersionBeganIsFinished3710855374/001/skills","preload":true,"model":"sonnet","provider":"anthropic","maxTurns":30,"maxTokens":32000,"budget":{"run":{"money":2000000000},"incident":{"money":4000000000},"clusterDay":{"money":50000000000}},"allowedTools":["Read","Grep","Glob","Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"],"shell":true,"require":"best-effort","uidBase":1879048192,"timeout":300000000000,"grace":30000000000,"maxWorkspaceBytes":268435456}}}
INSERT INTO "workflow_input" VALUES ('01a21cb2-0a37-7144-857d-bd795cdb916f', 'eyJuYW1lIjoicnVuLzEiLCJpbnB1dCI6eyJydW5JZCI6IjAxYTIxY2IyLTBhMzctNzE0NC04NTdkLWJkNzk1Y2RiOTE2ZiIsInN1YmplY3QiOnsia2luZCI6ImluY2lkZW50IiwiaWQiOiIwMWEyMWNiMi0wYTM3LTcwOTUtYjEyOC1hNzY4NDIxMTM3OGUifSwicGlwZWxpbmUiOnsidmVyc2lvbiI6MSwiZGVmaW5pdGlvbiI6eyJuYW1lIjoiazhzLWluY2lkZW50LXRyaWFnZSIsImRlc2NyaXB0aW9uIjoiSW52ZXN0aWdhdGVzIGFuIGluY2lkZW50IG9mIGEgS3ViZXJuZXRlcyBjbHVzdGVyIGFuZCB0ZWxscyB0aGUgb24tY2FsbCBlbmdpbmVlciB3aGF0IHdhcyBmb3VuZCIsIm9uIjpbeyJ0eXBlIjoiaW5jaWRlbnQifV0sInBoYXNlcyI6W3sic3RlcHMiOlt7ImlkIjoiY29sbGVjdCIsImFjdGlvbiI6ImNvbGxlY3QiLCJhZ2VudF9pZCI6ImNvbGxlY3QiLCJyZXF1aXJlZCI6dHJ1ZSwib25fZmFpbHVyZSI6InN0b3AiLCJjb250ZXh0X2Zvcl9uZXh0Ijp0cnVlfSx7ImlkIjoiaW52ZXN0aWdhdGUiLCJza2lsbCI6InNyZS9rOHMtdHJvdWJsZXNob290ZXIiLCJhZ2VudF9pZCI6InNyZS1rOHMtdHJvdWJsZXNob290ZXIiLCJyZXF1aXJlZCI6ZmFsc2UsIm9uX2ZhaWx1cmUiOiJjb250aW51ZSIsImRlbGl2ZXJhYmxlIjp7ImtpbmQiOiJyZXBvcnQifSwiY29udGV4dF9mb3JfbmV4dCI6dHJ1ZX0seyJpZCI6ImNoZWNrIiwiYWN0aW9uIjoiY2hlY2siLCJhZ2VudF9pZCI6ImNoZWNrIiwicmVxdWlyZWQiOnRydWUsIm9uX2ZhaWx1cmUiOiJzdG9wIiwiY29udGV4dF9mb3JfbmV4dCI6dHJ1ZX0seyJpZCI6Im5vdGlmeSIsImFjdGlvbiI6Im5vdGlmeSIsImFnZW50X2lkIjoibm90aWZ5IiwicmVxdWlyZWQiOnRydWUsIm9uX2ZhaWx1cmUiOiJzdG9wIiwiY29udGV4dF9mb3JfbmV4dCI6dHJ1ZX1dfV0sImZpbGUiOiJlbWJlZGRlZDprOHMtaW5jaWRlbnQtdHJpYWdlLnlhbWwiLCJsaW5lcyI6eyJuYW1lIjoxfX0sImRpZ2VzdCI6InNoYTI1NjpiOTQ3NGIyZDI2OTEwYzA5MzY4MTA5YWQ0ZTk0M2Y0YmY3M2M4MTM0OTFlNmE5MTk4ZmY0ZjlkYTMyZjIxMmMxIiwic2tpbGxzIjp7InNyZS9rOHMtdHJvdWJsZXNob290ZXIiOnsibmFtZSI6Ims4cy10cm91Ymxlc2hvb3RlciIsInZlcnNpb24iOiIwLjIuMCIsImRpZ2VzdCI6InNoYTI1NjoxMGNhOTFjYjk4ZmY1ZGM4ZGMwMWIxNWJiZjhhYjk1OWMyN2M2OWI0NmJjZjNlYzU0MmVmNTdiYTk1MWE0MGJhIn19fSwiYWdlbnQiOnsiZXhlY3V0b3IiOiJzY3JpcHQiLCJzY3JpcHRQYXRoIjoiL2Jpbi90cnVlIiwic2tpbGxzRGlyIjoiL3RtcC9UZXN0V2hhdEFuT2xkZXJWZXJzaW9uQmVnYW5Jc0ZpbmlzaGVkMzcxMDg1NTM3NC8wMDEvc2tpbGxzIiwicHJlbG9hZCI6dHJ1ZSwibW9kZWwiOiJzb25uZXQiLCJwcm92aWRlciI6ImFudGhyb3BpYyIsIm1heFR1cm5zIjozMCwibWF4VG9rZW5zIjozMjAwMCwiYnVkZ2V0Ijp7InJ1biI6eyJtb25leSI6MjAwMDAwMDAwMH0sImluY2lkZW50Ijp7Im1vbmV5Ijo0MDAwMDAwMDAwfSwiY2x1c3RlckRheSI6eyJtb25leSI6NTAwMDAwMDAwMDB9fSwiYWxsb3dlZFRvb2xzIjpbIlJlYWQiLCJHcmVwIiwiR2xvYiIsIkJhc2goa3ViZWN0bDpnZXQqLGt1YmVjdGw6ZGVzY3JpYmUqLGt1YmVjdGw6bG9ncyopIl0sInNoZWxsIjp0cnVlLCJyZXF1aXJlIjoiYmVzdC1lZmZvcnQiLCJ1aWRCYXNlIjoxODc5MDQ4MTkyLCJ0aW1lb3V0IjozMDAwMDAwMDAwMDAsImdyYWNlIjozMDAwMDAwMDAwMCwibWF4V29ya3NwYWNlQnl0ZXMiOjI2ODQzNTQ1Nn19fQ==', 1795777759803);
-- {"name":"run/1","input":{"runId":"5b222a25-52d7-846a-8ed4-8c6e7b203784","subject":{"kind":"call","id":"5b222a25-52d7-846a-8ed4-8c6e7b203784","title":"ann"},"pipeline":{"version":1,"definition":{"name":"wide","on":[{"type":"manual"}],"concurrency":{"key":"input.app","policy":"queue"},"phases":[{"name":"first","steps":[{"id":"plan","skill":"shop/teller","agent_id":"plan","required":true,"on_failure":"stop","context_for_next":true}]},{"name":"look","parallel":true,"steps":[{"id":"left","skill":"shop/teller","agent_id":"left","required":true,"on_failure":"stop","context_for_next":true},{"id":"right","skill":"shop/teller","agent_id":"right","required":true,"on_failure":"stop","context_for_next":true}]},{"name":"end","fan_in_from":"look","steps":[{"id":"sum","skill":"shop/teller","agent_id":"sum","required":true,"on_failure":"stop","context_for_next":true}]}],"file":"/tmp/TestWhatAnOlderVersionBeganIsFinished3710855374/001/pipelines/wide.yaml","lines":{"concurrency.key":3,"name":1}},"digest":"sha256:c71572c2b25a4b7fa2fc1cd4e4450baa4db8a51705f63ad78bcb1ee50228c3cd","skills":{"shop/teller":{"name":"teller","digest":"sha256:c66501eeed8d16912eab917dd42d74bd5974885f44cc4a46726b661d3b923bf1","agent":{"executor":"script","scriptPath":"/bin/true","model":"sonnet","provider":"anthropic","maxTurns":30,"maxTokens":32000,"allowedTools":["Read","Grep","Glob","Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"],"shell":true,"require":"best-effort","uidBase":1879048192,"timeout":300000000000,"grace":30000000000,"maxWorkspaceBytes":268435456}}}},"input":{"app":"cart"},"agent":{"executor":"script","scriptPath":"/bin/true","skillsDir":"/tmp/TestWhatAnOlderVersionBeganIsFinished3710855374/001/skills","preload":true,"model":"sonnet","provider":"anthropic","maxTurns":30,"maxTokens":32000,"budget":{"run":{"money":2000000000},"incident":{"money":4000000000},"clusterDay":{"money":50000000000}},"allowedTools":["Read","Grep","Glob","Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"],"shell":true,"require":"best-effort","uidBase":1879048192,"timeout":300000000000,"grace":30000000000,"maxWorkspaceBytes":268435456}}}
INSERT INTO "workflow_input" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 'eyJuYW1lIjoicnVuLzEiLCJpbnB1dCI6eyJydW5JZCI6IjViMjIyYTI1LTUyZDctODQ2YS04ZWQ0LThjNmU3YjIwMzc4NCIsInN1YmplY3QiOnsia2luZCI6ImNhbGwiLCJpZCI6IjViMjIyYTI1LTUyZDctODQ2YS04ZWQ0LThjNmU3YjIwMzc4NCIsInRpdGxlIjoiYW5uIn0sInBpcGVsaW5lIjp7InZlcnNpb24iOjEsImRlZmluaXRpb24iOnsibmFtZSI6IndpZGUiLCJvbiI6W3sidHlwZSI6Im1hbnVhbCJ9XSwiY29uY3VycmVuY3kiOnsia2V5IjoiaW5wdXQuYXBwIiwicG9saWN5IjoicXVldWUifSwicGhhc2VzIjpbeyJuYW1lIjoiZmlyc3QiLCJzdGVwcyI6W3siaWQiOiJwbGFuIiwic2tpbGwiOiJzaG9wL3RlbGxlciIsImFnZW50X2lkIjoicGxhbiIsInJlcXVpcmVkIjp0cnVlLCJvbl9mYWlsdXJlIjoic3RvcCIsImNvbnRleHRfZm9yX25leHQiOnRydWV9XX0seyJuYW1lIjoibG9vayIsInBhcmFsbGVsIjp0cnVlLCJzdGVwcyI6W3siaWQiOiJsZWZ0Iiwic2tpbGwiOiJzaG9wL3RlbGxlciIsImFnZW50X2lkIjoibGVmdCIsInJlcXVpcmVkIjp0cnVlLCJvbl9mYWlsdXJlIjoic3RvcCIsImNvbnRleHRfZm9yX25leHQiOnRydWV9LHsiaWQiOiJyaWdodCIsInNraWxsIjoic2hvcC90ZWxsZXIiLCJhZ2VudF9pZCI6InJpZ2h0IiwicmVxdWlyZWQiOnRydWUsIm9uX2ZhaWx1cmUiOiJzdG9wIiwiY29udGV4dF9mb3JfbmV4dCI6dHJ1ZX1dfSx7Im5hbWUiOiJlbmQiLCJmYW5faW5fZnJvbSI6Imxvb2siLCJzdGVwcyI6W3siaWQiOiJzdW0iLCJza2lsbCI6InNob3AvdGVsbGVyIiwiYWdlbnRfaWQiOiJzdW0iLCJyZXF1aXJlZCI6dHJ1ZSwib25fZmFpbHVyZSI6InN0b3AiLCJjb250ZXh0X2Zvcl9uZXh0Ijp0cnVlfV19XSwiZmlsZSI6Ii90bXAvVGVzdFdoYXRBbk9sZGVyVmVyc2lvbkJlZ2FuSXNGaW5pc2hlZDM3MTA4NTUzNzQvMDAxL3BpcGVsaW5lcy93aWRlLnlhbWwiLCJsaW5lcyI6eyJjb25jdXJyZW5jeS5rZXkiOjMsIm5hbWUiOjF9fSwiZGlnZXN0Ijoic2hhMjU2OmM3MTU3MmMyYjI1YTRiN2ZhMmZjMWNkNGU0NDUwYmFhNGRiOGE1MTcwNWY2M2FkNzhiY2IxZWU1MDIyOGMzY2QiLCJza2lsbHMiOnsic2hvcC90ZWxsZXIiOnsibmFtZSI6InRlbGxlciIsImRpZ2VzdCI6InNoYTI1NjpjNjY1MDFlZWVkOGQxNjkxMmVhYjkxN2RkNDJkNzRiZDU5NzQ4ODVmNDRjYzRhNDY3MjZiNjYxZDNiOTIzYmYxIiwiYWdlbnQiOnsiZXhlY3V0b3IiOiJzY3JpcHQiLCJzY3JpcHRQYXRoIjoiL2Jpbi90cnVlIiwibW9kZWwiOiJzb25uZXQiLCJwcm92aWRlciI6ImFudGhyb3BpYyIsIm1heFR1cm5zIjozMCwibWF4VG9rZW5zIjozMjAwMCwiYWxsb3dlZFRvb2xzIjpbIlJlYWQiLCJHcmVwIiwiR2xvYiIsIkJhc2goa3ViZWN0bDpnZXQqLGt1YmVjdGw6ZGVzY3JpYmUqLGt1YmVjdGw6bG9ncyopIl0sInNoZWxsIjp0cnVlLCJyZXF1aXJlIjoiYmVzdC1lZmZvcnQiLCJ1aWRCYXNlIjoxODc5MDQ4MTkyLCJ0aW1lb3V0IjozMDAwMDAwMDAwMDAsImdyYWNlIjozMDAwMDAwMDAwMCwibWF4V29ya3NwYWNlQnl0ZXMiOjI2ODQzNTQ1Nn19fX0sImlucHV0Ijp7ImFwcCI6ImNhcnQifSwiYWdlbnQiOnsiZXhlY3V0b3IiOiJzY3JpcHQiLCJzY3JpcHRQYXRoIjoiL2Jpbi90cnVlIiwic2tpbGxzRGlyIjoiL3RtcC9UZXN0V2hhdEFuT2xkZXJWZXJzaW9uQmVnYW5Jc0ZpbmlzaGVkMzcxMDg1NTM3NC8wMDEvc2tpbGxzIiwicHJlbG9hZCI6dHJ1ZSwibW9kZWwiOiJzb25uZXQiLCJwcm92aWRlciI6ImFudGhyb3BpYyIsIm1heFR1cm5zIjozMCwibWF4VG9rZW5zIjozMjAwMCwiYnVkZ2V0Ijp7InJ1biI6eyJtb25leSI6MjAwMDAwMDAwMH0sImluY2lkZW50Ijp7Im1vbmV5Ijo0MDAwMDAwMDAwfSwiY2x1c3RlckRheSI6eyJtb25leSI6NTAwMDAwMDAwMDB9fSwiYWxsb3dlZFRvb2xzIjpbIlJlYWQiLCJHcmVwIiwiR2xvYiIsIkJhc2goa3ViZWN0bDpnZXQqLGt1YmVjdGw6ZGVzY3JpYmUqLGt1YmVjdGw6bG9ncyopIl0sInNoZWxsIjp0cnVlLCJyZXF1aXJlIjoiYmVzdC1lZmZvcnQiLCJ1aWRCYXNlIjoxODc5MDQ4MTkyLCJ0aW1lb3V0IjozMDAwMDAwMDAwMDAsImdyYWNlIjozMDAwMDAwMDAwMCwibWF4V29ya3NwYWNlQnl0ZXMiOjI2ODQzNTQ1Nn19fQ==', 1795777759804);
-- {"name":"run/1/branch","input":{"order":{"runId":"5b222a25-52d7-846a-8ed4-8c6e7b203784","subject":{"kind":"call","id":"5b222a25-52d7-846a-8ed4-8c6e7b203784","title":"ann"},"pipeline":{"version":1,"definition":{"name":"wide","on":[{"type":"manual"}],"concurrency":{"key":"input.app","policy":"queue"},"phases":[{"name":"first","steps":[{"id":"plan","skill":"shop/teller","agent_id":"plan","required":true,"on_failure":"stop","context_for_next":true}]},{"name":"look","parallel":true,"steps":[{"id":"left","skill":"shop/teller","agent_id":"left","required":true,"on_failure":"stop","context_for_next":true},{"id":"right","skill":"shop/teller","agent_id":"right","required":true,"on_failure":"stop","context_for_next":true}]},{"name":"end","fan_in_from":"look","steps":[{"id":"sum","skill":"shop/teller","agent_id":"sum","required":true,"on_failure":"stop","context_for_next":true}]}],"file":"/tmp/TestWhatAnOlderVersionBeganIsFinished3710855374/001/pipelines/wide.yaml","lines":{"concurrency.key":3,"name":1}},"digest":"sha256:c71572c2b25a4b7fa2fc1cd4e4450baa4db8a51705f63ad78bcb1ee50228c3cd","skills":{"shop/teller":{"name":"teller","digest":"sha256:c66501eeed8d16912eab917dd42d74bd5974885f44cc4a46726b661d3b923bf1","agent":{"executor":"script","scriptPath":"/bin/true","model":"sonnet","provider":"anthropic","maxTurns":30,"maxTokens":32000,"allowedTools":["Read","Grep","Glob","Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"],"shell":true,"require":"best-effort","uidBase":1879048192,"timeout":300000000000,"grace":30000000000,"maxWorkspaceBytes":268435456}}}},"input":{"app":"cart"},"agent":{"executor":"script","scriptPath":"/bin/true","skillsDir":"/tmp/TestWhatAnOlderVersionBeganIsFinished3710855374/001/skills","preload":true,"model":"sonnet","provider":"anthropic","maxTurns":30,"maxTokens":32000,"budget":{"run":{"money":2000000000},"step":{"money":1000000000,"moneyOf":"what this step may spend of what was left (budget.per_run_usd, for 2 steps)"},"incident":{"money":4000000000},"clusterDay":{"money":50000000000}},"allowedTools":["Read","Grep","Glob","Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"],"shell":true,"require":"best-effort","uidBase":1879048192,"timeout":300000000000,"grace":30000000000,"maxWorkspaceBytes":268435456}},"phase":1,"step":0,"done":{"plan":{"runId":"5b222a25-52d7-846a-8ed4-8c6e7b203784","stepId":"plan","attempt":1,"phase":"first","uses":"shop/teller","executor":"script","model":"sonnet","state":"success","startedAt":"2026-11-27T11:09:19.806333033Z","endedAt":"2026-11-27T11:09:19.83468541Z","output":{"summary":"All is well."}}},"previous":"plan"}}
INSERT INTO "workflow_input" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784/left', 'eyJuYW1lIjoicnVuLzEvYnJhbmNoIiwiaW5wdXQiOnsib3JkZXIiOnsicnVuSWQiOiI1YjIyMmEyNS01MmQ3LTg0NmEtOGVkNC04YzZlN2IyMDM3ODQiLCJzdWJqZWN0Ijp7ImtpbmQiOiJjYWxsIiwiaWQiOiI1YjIyMmEyNS01MmQ3LTg0NmEtOGVkNC04YzZlN2IyMDM3ODQiLCJ0aXRsZSI6ImFubiJ9LCJwaXBlbGluZSI6eyJ2ZXJzaW9uIjoxLCJkZWZpbml0aW9uIjp7Im5hbWUiOiJ3aWRlIiwib24iOlt7InR5cGUiOiJtYW51YWwifV0sImNvbmN1cnJlbmN5Ijp7ImtleSI6ImlucHV0LmFwcCIsInBvbGljeSI6InF1ZXVlIn0sInBoYXNlcyI6W3sibmFtZSI6ImZpcnN0Iiwic3RlcHMiOlt7ImlkIjoicGxhbiIsInNraWxsIjoic2hvcC90ZWxsZXIiLCJhZ2VudF9pZCI6InBsYW4iLCJyZXF1aXJlZCI6dHJ1ZSwib25fZmFpbHVyZSI6InN0b3AiLCJjb250ZXh0X2Zvcl9uZXh0Ijp0cnVlfV19LHsibmFtZSI6Imxvb2siLCJwYXJhbGxlbCI6dHJ1ZSwic3RlcHMiOlt7ImlkIjoibGVmdCIsInNraWxsIjoic2hvcC90ZWxsZXIiLCJhZ2VudF9pZCI6ImxlZnQiLCJyZXF1aXJlZCI6dHJ1ZSwib25fZmFpbHVyZSI6InN0b3AiLCJjb250ZXh0X2Zvcl9uZXh0Ijp0cnVlfSx7ImlkIjoicmlnaHQiLCJza2lsbCI6InNob3AvdGVsbGVyIiwiYWdlbnRfaWQiOiJyaWdodCIsInJlcXVpcmVkIjp0cnVlLCJvbl9mYWlsdXJlIjoic3RvcCIsImNvbnRleHRfZm9yX25leHQiOnRydWV9XX0seyJuYW1lIjoiZW5kIiwiZmFuX2luX2Zyb20iOiJsb29rIiwic3RlcHMiOlt7ImlkIjoic3VtIiwic2tpbGwiOiJzaG9wL3RlbGxlciIsImFnZW50X2lkIjoic3VtIiwicmVxdWlyZWQiOnRydWUsIm9uX2ZhaWx1cmUiOiJzdG9wIiwiY29udGV4dF9mb3JfbmV4dCI6dHJ1ZX1dfV0sImZpbGUiOiIvdG1wL1Rlc3RXaGF0QW5PbGRlclZlcnNpb25CZWdhbklzRmluaXNoZWQzNzEwODU1Mzc0LzAwMS9waXBlbGluZXMvd2lkZS55YW1sIiwibGluZXMiOnsiY29uY3VycmVuY3kua2V5IjozLCJuYW1lIjoxfX0sImRpZ2VzdCI6InNoYTI1NjpjNzE1NzJjMmIyNWE0YjdmYTJmYzFjZDRlNDQ1MGJhYTRkYjhhNTE3MDVmNjNhZDc4YmNiMWVlNTAyMjhjM2NkIiwic2tpbGxzIjp7InNob3AvdGVsbGVyIjp7Im5hbWUiOiJ0ZWxsZXIiLCJkaWdlc3QiOiJzaGEyNTY6YzY2NTAxZWVlZDhkMTY5MTJlYWI5MTdkZDQyZDc0YmQ1OTc0ODg1ZjQ0Y2M0YTQ2NzI2YjY2MWQzYjkyM2JmMSIsImFnZW50Ijp7ImV4ZWN1dG9yIjoic2NyaXB0Iiwic2NyaXB0UGF0aCI6Ii9iaW4vdHJ1ZSIsIm1vZGVsIjoic29ubmV0IiwicHJvdmlkZXIiOiJhbnRocm9waWMiLCJtYXhUdXJucyI6MzAsIm1heFRva2VucyI6MzIwMDAsImFsbG93ZWRUb29scyI6WyJSZWFkIiwiR3JlcCIsIkdsb2IiLCJCYXNoKGt1YmVjdGw6Z2V0KixrdWJlY3RsOmRlc2NyaWJlKixrdWJlY3RsOmxvZ3MqKSJdLCJzaGVsbCI6dHJ1ZSwicmVxdWlyZSI6ImJlc3QtZWZmb3J0IiwidWlkQmFzZSI6MTg3OTA0ODE5MiwidGltZW91dCI6MzAwMDAwMDAwMDAwLCJncmFjZSI6MzAwMDAwMDAwMDAsIm1heFdvcmtzcGFjZUJ5dGVzIjoyNjg0MzU0NTZ9fX19LCJpbnB1dCI6eyJhcHAiOiJjYXJ0In0sImFnZW50Ijp7ImV4ZWN1dG9yIjoic2NyaXB0Iiwic2NyaXB0UGF0aCI6Ii9iaW4vdHJ1ZSIsInNraWxsc0RpciI6Ii90bXAvVGVzdFdoYXRBbk9sZGVyVmVyc2lvbkJlZ2FuSXNGaW5pc2hlZDM3MTA4NTUzNzQvMDAxL3NraWxscyIsInByZWxvYWQiOnRydWUsIm1vZGVsIjoic29ubmV0IiwicHJvdmlkZXIiOiJhbnRocm9waWMiLCJtYXhUdXJucyI6MzAsIm1heFRva2VucyI6MzIwMDAsImJ1ZGdldCI6eyJydW4iOnsibW9uZXkiOjIwMDAwMDAwMDB9LCJzdGVwIjp7Im1vbmV5IjoxMDAwMDAwMDAwLCJtb25leU9mIjoid2hhdCB0aGlzIHN0ZXAgbWF5IHNwZW5kIG9mIHdoYXQgd2FzIGxlZnQgKGJ1ZGdldC5wZXJfcnVuX3VzZCwgZm9yIDIgc3RlcHMpIn0sImluY2lkZW50Ijp7Im1vbmV5Ijo0MDAwMDAwMDAwfSwiY2x1c3RlckRheSI6eyJtb25leSI6NTAwMDAwMDAwMDB9fSwiYWxsb3dlZFRvb2xzIjpbIlJlYWQiLCJHcmVwIiwiR2xvYiIsIkJhc2goa3ViZWN0bDpnZXQqLGt1YmVjdGw6ZGVzY3JpYmUqLGt1YmVjdGw6bG9ncyopIl0sInNoZWxsIjp0cnVlLCJyZXF1aXJlIjoiYmVzdC1lZmZvcnQiLCJ1aWRCYXNlIjoxODc5MDQ4MTkyLCJ0aW1lb3V0IjozMDAwMDAwMDAwMDAsImdyYWNlIjozMDAwMDAwMDAwMCwibWF4V29ya3NwYWNlQnl0ZXMiOjI2ODQzNTQ1Nn19LCJwaGFzZSI6MSwic3RlcCI6MCwiZG9uZSI6eyJwbGFuIjp7InJ1bklkIjoiNWIyMjJhMjUtNTJkNy04NDZhLThlZDQtOGM2ZTdiMjAzNzg0Iiwic3RlcElkIjoicGxhbiIsImF0dGVtcHQiOjEsInBoYXNlIjoiZmlyc3QiLCJ1c2VzIjoic2hvcC90ZWxsZXIiLCJleGVjdXRvciI6InNjcmlwdCIsIm1vZGVsIjoic29ubmV0Iiwic3RhdGUiOiJzdWNjZXNzIiwic3RhcnRlZEF0IjoiMjAyNi0xMS0yN1QxMTowOToxOS44MDYzMzMwMzNaIiwiZW5kZWRBdCI6IjIwMjYtMTEtMjdUMTE6MDk6MTkuODM0Njg1NDFaIiwib3V0cHV0Ijp7InN1bW1hcnkiOiJBbGwgaXMgd2VsbC4ifX19LCJwcmV2aW91cyI6InBsYW4ifX0=', 1795777759834);
-- {"name":"run/1/branch","input":{"order":{"runId":"5b222a25-52d7-846a-8ed4-8c6e7b203784","subject":{"kind":"call","id":"5b222a25-52d7-846a-8ed4-8c6e7b203784","title":"ann"},"pipeline":{"version":1,"definition":{"name":"wide","on":[{"type":"manual"}],"concurrency":{"key":"input.app","policy":"queue"},"phases":[{"name":"first","steps":[{"id":"plan","skill":"shop/teller","agent_id":"plan","required":true,"on_failure":"stop","context_for_next":true}]},{"name":"look","parallel":true,"steps":[{"id":"left","skill":"shop/teller","agent_id":"left","required":true,"on_failure":"stop","context_for_next":true},{"id":"right","skill":"shop/teller","agent_id":"right","required":true,"on_failure":"stop","context_for_next":true}]},{"name":"end","fan_in_from":"look","steps":[{"id":"sum","skill":"shop/teller","agent_id":"sum","required":true,"on_failure":"stop","context_for_next":true}]}],"file":"/tmp/TestWhatAnOlderVersionBeganIsFinished3710855374/001/pipelines/wide.yaml","lines":{"concurrency.key":3,"name":1}},"digest":"sha256:c71572c2b25a4b7fa2fc1cd4e4450baa4db8a51705f63ad78bcb1ee50228c3cd","skills":{"shop/teller":{"name":"teller","digest":"sha256:c66501eeed8d16912eab917dd42d74bd5974885f44cc4a46726b661d3b923bf1","agent":{"executor":"script","scriptPath":"/bin/true","model":"sonnet","provider":"anthropic","maxTurns":30,"maxTokens":32000,"allowedTools":["Read","Grep","Glob","Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"],"shell":true,"require":"best-effort","uidBase":1879048192,"timeout":300000000000,"grace":30000000000,"maxWorkspaceBytes":268435456}}}},"input":{"app":"cart"},"agent":{"executor":"script","scriptPath":"/bin/true","skillsDir":"/tmp/TestWhatAnOlderVersionBeganIsFinished3710855374/001/skills","preload":true,"model":"sonnet","provider":"anthropic","maxTurns":30,"maxTokens":32000,"budget":{"run":{"money":2000000000},"step":{"money":1000000000,"moneyOf":"what this step may spend of what was left (budget.per_run_usd, for 2 steps)"},"incident":{"money":4000000000},"clusterDay":{"money":50000000000}},"allowedTools":["Read","Grep","Glob","Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"],"shell":true,"require":"best-effort","uidBase":1879048192,"timeout":300000000000,"grace":30000000000,"maxWorkspaceBytes":268435456}},"phase":1,"step":1,"done":{"plan":{"runId":"5b222a25-52d7-846a-8ed4-8c6e7b203784","stepId":"plan","attempt":1,"phase":"first","uses":"shop/teller","executor":"script","model":"sonnet","state":"success","startedAt":"2026-11-27T11:09:19.806333033Z","endedAt":"2026-11-27T11:09:19.83468541Z","output":{"summary":"All is well."}}},"previous":"plan"}}
INSERT INTO "workflow_input" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784/right', 'eyJuYW1lIjoicnVuLzEvYnJhbmNoIiwiaW5wdXQiOnsib3JkZXIiOnsicnVuSWQiOiI1YjIyMmEyNS01MmQ3LTg0NmEtOGVkNC04YzZlN2IyMDM3ODQiLCJzdWJqZWN0Ijp7ImtpbmQiOiJjYWxsIiwiaWQiOiI1YjIyMmEyNS01MmQ3LTg0NmEtOGVkNC04YzZlN2IyMDM3ODQiLCJ0aXRsZSI6ImFubiJ9LCJwaXBlbGluZSI6eyJ2ZXJzaW9uIjoxLCJkZWZpbml0aW9uIjp7Im5hbWUiOiJ3aWRlIiwib24iOlt7InR5cGUiOiJtYW51YWwifV0sImNvbmN1cnJlbmN5Ijp7ImtleSI6ImlucHV0LmFwcCIsInBvbGljeSI6InF1ZXVlIn0sInBoYXNlcyI6W3sibmFtZSI6ImZpcnN0Iiwic3RlcHMiOlt7ImlkIjoicGxhbiIsInNraWxsIjoic2hvcC90ZWxsZXIiLCJhZ2VudF9pZCI6InBsYW4iLCJyZXF1aXJlZCI6dHJ1ZSwib25fZmFpbHVyZSI6InN0b3AiLCJjb250ZXh0X2Zvcl9uZXh0Ijp0cnVlfV19LHsibmFtZSI6Imxvb2siLCJwYXJhbGxlbCI6dHJ1ZSwic3RlcHMiOlt7ImlkIjoibGVmdCIsInNraWxsIjoic2hvcC90ZWxsZXIiLCJhZ2VudF9pZCI6ImxlZnQiLCJyZXF1aXJlZCI6dHJ1ZSwib25fZmFpbHVyZSI6InN0b3AiLCJjb250ZXh0X2Zvcl9uZXh0Ijp0cnVlfSx7ImlkIjoicmlnaHQiLCJza2lsbCI6InNob3AvdGVsbGVyIiwiYWdlbnRfaWQiOiJyaWdodCIsInJlcXVpcmVkIjp0cnVlLCJvbl9mYWlsdXJlIjoic3RvcCIsImNvbnRleHRfZm9yX25leHQiOnRydWV9XX0seyJuYW1lIjoiZW5kIiwiZmFuX2luX2Zyb20iOiJsb29rIiwic3RlcHMiOlt7ImlkIjoic3VtIiwic2tpbGwiOiJzaG9wL3RlbGxlciIsImFnZW50X2lkIjoic3VtIiwicmVxdWlyZWQiOnRydWUsIm9uX2ZhaWx1cmUiOiJzdG9wIiwiY29udGV4dF9mb3JfbmV4dCI6dHJ1ZX1dfV0sImZpbGUiOiIvdG1wL1Rlc3RXaGF0QW5PbGRlclZlcnNpb25CZWdhbklzRmluaXNoZWQzNzEwODU1Mzc0LzAwMS9waXBlbGluZXMvd2lkZS55YW1sIiwibGluZXMiOnsiY29uY3VycmVuY3kua2V5IjozLCJuYW1lIjoxfX0sImRpZ2VzdCI6InNoYTI1NjpjNzE1NzJjMmIyNWE0YjdmYTJmYzFjZDRlNDQ1MGJhYTRkYjhhNTE3MDVmNjNhZDc4YmNiMWVlNTAyMjhjM2NkIiwic2tpbGxzIjp7InNob3AvdGVsbGVyIjp7Im5hbWUiOiJ0ZWxsZXIiLCJkaWdlc3QiOiJzaGEyNTY6YzY2NTAxZWVlZDhkMTY5MTJlYWI5MTdkZDQyZDc0YmQ1OTc0ODg1ZjQ0Y2M0YTQ2NzI2YjY2MWQzYjkyM2JmMSIsImFnZW50Ijp7ImV4ZWN1dG9yIjoic2NyaXB0Iiwic2NyaXB0UGF0aCI6Ii9iaW4vdHJ1ZSIsIm1vZGVsIjoic29ubmV0IiwicHJvdmlkZXIiOiJhbnRocm9waWMiLCJtYXhUdXJucyI6MzAsIm1heFRva2VucyI6MzIwMDAsImFsbG93ZWRUb29scyI6WyJSZWFkIiwiR3JlcCIsIkdsb2IiLCJCYXNoKGt1YmVjdGw6Z2V0KixrdWJlY3RsOmRlc2NyaWJlKixrdWJlY3RsOmxvZ3MqKSJdLCJzaGVsbCI6dHJ1ZSwicmVxdWlyZSI6ImJlc3QtZWZmb3J0IiwidWlkQmFzZSI6MTg3OTA0ODE5MiwidGltZW91dCI6MzAwMDAwMDAwMDAwLCJncmFjZSI6MzAwMDAwMDAwMDAsIm1heFdvcmtzcGFjZUJ5dGVzIjoyNjg0MzU0NTZ9fX19LCJpbnB1dCI6eyJhcHAiOiJjYXJ0In0sImFnZW50Ijp7ImV4ZWN1dG9yIjoic2NyaXB0Iiwic2NyaXB0UGF0aCI6Ii9iaW4vdHJ1ZSIsInNraWxsc0RpciI6Ii90bXAvVGVzdFdoYXRBbk9sZGVyVmVyc2lvbkJlZ2FuSXNGaW5pc2hlZDM3MTA4NTUzNzQvMDAxL3NraWxscyIsInByZWxvYWQiOnRydWUsIm1vZGVsIjoic29ubmV0IiwicHJvdmlkZXIiOiJhbnRocm9waWMiLCJtYXhUdXJucyI6MzAsIm1heFRva2VucyI6MzIwMDAsImJ1ZGdldCI6eyJydW4iOnsibW9uZXkiOjIwMDAwMDAwMDB9LCJzdGVwIjp7Im1vbmV5IjoxMDAwMDAwMDAwLCJtb25leU9mIjoid2hhdCB0aGlzIHN0ZXAgbWF5IHNwZW5kIG9mIHdoYXQgd2FzIGxlZnQgKGJ1ZGdldC5wZXJfcnVuX3VzZCwgZm9yIDIgc3RlcHMpIn0sImluY2lkZW50Ijp7Im1vbmV5Ijo0MDAwMDAwMDAwfSwiY2x1c3RlckRheSI6eyJtb25leSI6NTAwMDAwMDAwMDB9fSwiYWxsb3dlZFRvb2xzIjpbIlJlYWQiLCJHcmVwIiwiR2xvYiIsIkJhc2goa3ViZWN0bDpnZXQqLGt1YmVjdGw6ZGVzY3JpYmUqLGt1YmVjdGw6bG9ncyopIl0sInNoZWxsIjp0cnVlLCJyZXF1aXJlIjoiYmVzdC1lZmZvcnQiLCJ1aWRCYXNlIjoxODc5MDQ4MTkyLCJ0aW1lb3V0IjozMDAwMDAwMDAwMDAsImdyYWNlIjozMDAwMDAwMDAwMCwibWF4V29ya3NwYWNlQnl0ZXMiOjI2ODQzNTQ1Nn19LCJwaGFzZSI6MSwic3RlcCI6MSwiZG9uZSI6eyJwbGFuIjp7InJ1bklkIjoiNWIyMjJhMjUtNTJkNy04NDZhLThlZDQtOGM2ZTdiMjAzNzg0Iiwic3RlcElkIjoicGxhbiIsImF0dGVtcHQiOjEsInBoYXNlIjoiZmlyc3QiLCJ1c2VzIjoic2hvcC90ZWxsZXIiLCJleGVjdXRvciI6InNjcmlwdCIsIm1vZGVsIjoic29ubmV0Iiwic3RhdGUiOiJzdWNjZXNzIiwic3RhcnRlZEF0IjoiMjAyNi0xMS0yN1QxMTowOToxOS44MDYzMzMwMzNaIiwiZW5kZWRBdCI6IjIwMjYtMTEtMjdUMTE6MDk6MTkuODM0Njg1NDFaIiwib3V0cHV0Ijp7InN1bW1hcnkiOiJBbGwgaXMgd2VsbC4ifX19LCJwcmV2aW91cyI6InBsYW4ifX0=', 1795777759838);
INSERT INTO "workflow_output" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784/left', 'IntcInJvd1wiOntcInJ1bklkXCI6XCI1YjIyMmEyNS01MmQ3LTg0NmEtOGVkNC04YzZlN2IyMDM3ODRcIixcInN0ZXBJZFwiOlwibGVmdFwiLFwiYXR0ZW1wdFwiOjEsXCJwaGFzZVwiOlwibG9va1wiLFwiYmVzaWRlXCI6W1wibGVmdFwiLFwicmlnaHRcIl0sXCJ1c2VzXCI6XCJzaG9wL3RlbGxlclwiLFwiZXhlY3V0b3JcIjpcInNjcmlwdFwiLFwibW9kZWxcIjpcInNvbm5ldFwiLFwic3RhdGVcIjpcInN1Y2Nlc3NcIixcInN0YXJ0ZWRBdFwiOlwiMjAyNi0xMS0yN1QxMTowOToxOS44MzY5NjkwNDZaXCIsXCJlbmRlZEF0XCI6XCIyMDI2LTExLTI3VDExOjA5OjE5Ljg2MTI3ODk4NFpcIixcIm91dHB1dFwiOntcInN1bW1hcnlcIjpcIkFsbCBpcyB3ZWxsLlwifX19Ig==', '', 1795777759861);
INSERT INTO "workflow_status" VALUES ('01a21cb2-0a37-7144-857d-bd795cdb916f', 'PENDING', 'workflow/1', '', '', X'6E756C6C', NULL, NULL, NULL, 'nightcrier', 1795777759803, 1795777759803, '1', '', NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, '6f6d66ef-01f4-4125-9d4f-9dfadfb7b858', NULL, 'DBOS_JSON', NULL, 0, 0, NULL, NULL, NULL, NULL, 0, 'nightcrier');
INSERT INTO "workflow_status" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784', 'PENDING', 'workflow/1', '', '', X'6E756C6C', NULL, NULL, NULL, 'nightcrier', 1795777759804, 1795777759804, '1', '', NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, 'd81ab39e-4e66-4c93-922f-2af3c26de82d', NULL, 'DBOS_JSON', NULL, 0, 0, NULL, NULL, NULL, NULL, 0, 'nightcrier');
INSERT INTO "workflow_status" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784/left', 'SUCCESS', 'workflow/1', '', '', X'6E756C6C', NULL, NULL, NULL, 'nightcrier', 1795777759834, 1795777759861, '1', '', NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, '343d0538-2e32-43dc-ba14-c8cc72158721', '5b222a25-52d7-846a-8ed4-8c6e7b203784', 'DBOS_JSON', NULL, 0, 0, 1795777759861, NULL, NULL, NULL, 0, 'nightcrier');
INSERT INTO "workflow_status" VALUES ('5b222a25-52d7-846a-8ed4-8c6e7b203784/right', 'PENDING', 'workflow/1', '', '', X'6E756C6C', NULL, NULL, NULL, 'nightcrier', 1795777759837, 1795777759837, '1', '', NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, '167fb896-78a6-44ca-bf80-0d08bc39632e', '5b222a25-52d7-846a-8ed4-8c6e7b203784', 'DBOS_JSON', NULL, 0, 0, NULL, NULL, NULL, NULL, 0, 'nightcrier');
