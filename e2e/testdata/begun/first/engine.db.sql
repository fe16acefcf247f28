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

INSERT INTO "application_versions" VALUES ('64ad6da5-cd21-402e-8932-48405846a59a', '1', 1795778187777, 1795778187777, 'nightcrier');
INSERT INTO "dbos_migrations" VALUES (112);
-- {"value":{"handle":{"backend":"orders","id":"d9af119d-b22e-8b4f-8980-606334ad0c8a-1"}},"from":"2026-11-27T11:16:27.788595144Z","to":"2026-11-27T11:16:27.800943872Z"}
INSERT INTO "operation_outputs" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 0, 'plan/launch#1', 'eyJ2YWx1ZSI6eyJoYW5kbGUiOnsiYmFja2VuZCI6Im9yZGVycyIsImlkIjoiZDlhZjExOWQtYjIyZS04YjRmLTg5ODAtNjA2MzM0YWQwYzhhLTEifX0sImZyb20iOiIyMDI2LTExLTI3VDExOjE2OjI3Ljc4ODU5NTE0NFoiLCJ0byI6IjIwMjYtMTEtMjdUMTE6MTY6MjcuODAwOTQzODcyWiJ9', NULL, NULL, 1795778187788, 1795778187801, 'DBOS_JSON', 'nightcrier', 1795778187801);
-- {"value":{"state":"success","startedAt":"2026-11-27T11:16:27.803208219Z","endedAt":"2026-11-27T11:16:27.803208219Z"},"from":"2026-11-27T11:16:27.801645438Z","to":"2026-11-27T11:16:27.803706513Z"}
INSERT INTO "operation_outputs" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 1, 'plan/await#1', 'eyJ2YWx1ZSI6eyJzdGF0ZSI6InN1Y2Nlc3MiLCJzdGFydGVkQXQiOiIyMDI2LTExLTI3VDExOjE2OjI3LjgwMzIwODIxOVoiLCJlbmRlZEF0IjoiMjAyNi0xMS0yN1QxMToxNjoyNy44MDMyMDgyMTlaIn0sImZyb20iOiIyMDI2LTExLTI3VDExOjE2OjI3LjgwMTY0NTQzOFoiLCJ0byI6IjIwMjYtMTEtMjdUMTE6MTY6MjcuODAzNzA2NTEzWiJ9', NULL, NULL, 1795778187801, 1795778187803, 'DBOS_JSON', 'nightcrier', 1795778187802);
-- {"value":{"output":{"summary":"All is well."}},"from":"2026-11-27T11:16:27.804397123Z","to":"2026-11-27T11:16:27.805061123Z"}
INSERT INTO "operation_outputs" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 2, 'plan/keep', 'eyJ2YWx1ZSI6eyJvdXRwdXQiOnsic3VtbWFyeSI6IkFsbCBpcyB3ZWxsLiJ9fSwiZnJvbSI6IjIwMjYtMTEtMjdUMTE6MTY6MjcuODA0Mzk3MTIzWiIsInRvIjoiMjAyNi0xMS0yN1QxMToxNjoyNy44MDUwNjExMjNaIn0=', NULL, NULL, 1795778187804, 1795778187805, 'DBOS_JSON', 'nightcrier', 1795778187804);
INSERT INTO "operation_outputs" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 3, 'workflow/1', NULL, NULL, 'd9af119d-b22e-8b4f-8980-606334ad0c8a/left', 1795778187805, NULL, NULL, 'nightcrier', 1795778187804);
INSERT INTO "operation_outputs" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 4, 'workflow/1', NULL, NULL, 'd9af119d-b22e-8b4f-8980-606334ad0c8a/right', 1795778187806, NULL, NULL, 'nightcrier', 1795778187806);
-- {"value":{"state":"created"},"from":"2026-11-27T11:16:27.787206443Z","to":"2026-11-27T11:16:27.814562288Z"}
INSERT INTO "operation_outputs" VALUES ('01a21cb8-9206-7734-ac4e-e85b2382581b', 0, 'collect/prepare', 'eyJ2YWx1ZSI6eyJzdGF0ZSI6ImNyZWF0ZWQifSwiZnJvbSI6IjIwMjYtMTEtMjdUMTE6MTY6MjcuNzg3MjA2NDQzWiIsInRvIjoiMjAyNi0xMS0yN1QxMToxNjoyNy44MTQ1NjIyODhaIn0=', NULL, NULL, 1795778187786, 1795778187815, 'DBOS_JSON', 'nightcrier', 1795778187815);
-- {"value":{"handle":{"backend":"orders","id":"d9af119d-b22e-8b4f-8980-606334ad0c8a-65"}},"from":"2026-11-27T11:16:27.80913322Z","to":"2026-11-27T11:16:27.818182707Z"}
INSERT INTO "operation_outputs" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a/right', 0, 'right/launch#1', 'eyJ2YWx1ZSI6eyJoYW5kbGUiOnsiYmFja2VuZCI6Im9yZGVycyIsImlkIjoiZDlhZjExOWQtYjIyZS04YjRmLTg5ODAtNjA2MzM0YWQwYzhhLTY1In19LCJmcm9tIjoiMjAyNi0xMS0yN1QxMToxNjoyNy44MDkxMzMyMloiLCJ0byI6IjIwMjYtMTEtMjdUMTE6MTY6MjcuODE4MTgyNzA3WiJ9', NULL, NULL, 1795778187809, 1795778187818, 'DBOS_JSON', 'nightcrier', 1795778187817);
-- {"value":{"handle":{"backend":"orders","id":"01a21cb8-9206-7734-ac4e-e85b2382581b-1"}},"from":"2026-11-27T11:16:27.81546926Z","to":"2026-11-27T11:16:27.821269007Z"}
INSERT INTO "operation_outputs" VALUES ('01a21cb8-9206-7734-ac4e-e85b2382581b', 1, 'investigate/launch#1', 'eyJ2YWx1ZSI6eyJoYW5kbGUiOnsiYmFja2VuZCI6Im9yZGVycyIsImlkIjoiMDFhMjFjYjgtOTIwNi03NzM0LWFjNGUtZTg1YjIzODI1ODFiLTEifX0sImZyb20iOiIyMDI2LTExLTI3VDExOjE2OjI3LjgxNTQ2OTI2WiIsInRvIjoiMjAyNi0xMS0yN1QxMToxNjoyNy44MjEyNjkwMDdaIn0=', NULL, NULL, 1795778187815, 1795778187821, 'DBOS_JSON', 'nightcrier', 1795778187821);
-- {"value":{"handle":{"backend":"orders","id":"d9af119d-b22e-8b4f-8980-606334ad0c8a-33"}},"from":"2026-11-27T11:16:27.808646084Z","to":"2026-11-27T11:16:27.822790887Z"}
INSERT INTO "operation_outputs" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a/left', 0, 'left/launch#1', 'eyJ2YWx1ZSI6eyJoYW5kbGUiOnsiYmFja2VuZCI6Im9yZGVycyIsImlkIjoiZDlhZjExOWQtYjIyZS04YjRmLTg5ODAtNjA2MzM0YWQwYzhhLTMzIn19LCJmcm9tIjoiMjAyNi0xMS0yN1QxMToxNjoyNy44MDg2NDYwODRaIiwidG8iOiIyMDI2LTExLTI3VDExOjE2OjI3LjgyMjc5MDg4N1oifQ==', NULL, NULL, 1795778187808, 1795778187822, 'DBOS_JSON', 'nightcrier', 1795778187822);
-- {"value":{"state":"success","startedAt":"2026-11-27T11:16:27.824404754Z","endedAt":"2026-11-27T11:16:27.824404754Z"},"from":"2026-11-27T11:16:27.82337636Z","to":"2026-11-27T11:16:27.824845772Z"}
INSERT INTO "operation_outputs" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a/left', 1, 'left/await#1', 'eyJ2YWx1ZSI6eyJzdGF0ZSI6InN1Y2Nlc3MiLCJzdGFydGVkQXQiOiIyMDI2LTExLTI3VDExOjE2OjI3LjgyNDQwNDc1NFoiLCJlbmRlZEF0IjoiMjAyNi0xMS0yN1QxMToxNjoyNy44MjQ0MDQ3NTRaIn0sImZyb20iOiIyMDI2LTExLTI3VDExOjE2OjI3LjgyMzM3NjM2WiIsInRvIjoiMjAyNi0xMS0yN1QxMToxNjoyNy44MjQ4NDU3NzJaIn0=', NULL, NULL, 1795778187823, 1795778187824, 'DBOS_JSON', 'nightcrier', 1795778187823);
-- {"value":{"output":{"summary":"All is well."}},"from":"2026-11-27T11:16:27.825262603Z","to":"2026-11-27T11:16:27.82558903Z"}
INSERT INTO "operation_outputs" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a/left', 2, 'left/keep', 'eyJ2YWx1ZSI6eyJvdXRwdXQiOnsic3VtbWFyeSI6IkFsbCBpcyB3ZWxsLiJ9fSwiZnJvbSI6IjIwMjYtMTEtMjdUMTE6MTY6MjcuODI1MjYyNjAzWiIsInRvIjoiMjAyNi0xMS0yN1QxMToxNjoyNy44MjU1ODkwM1oifQ==', NULL, NULL, 1795778187825, 1795778187825, 'DBOS_JSON', 'nightcrier', 1795778187824);
INSERT INTO "operation_outputs" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 5, 'DBOS.getResult', 'IntcInJvd1wiOntcInJ1bklkXCI6XCJkOWFmMTE5ZC1iMjJlLThiNGYtODk4MC02MDYzMzRhZDBjOGFcIixcInN0ZXBJZFwiOlwibGVmdFwiLFwiYXR0ZW1wdFwiOjEsXCJwaGFzZVwiOlwibG9va1wiLFwiYmVzaWRlXCI6W1wibGVmdFwiLFwicmlnaHRcIl0sXCJ1c2VzXCI6XCJzaG9wL3RlbGxlclwiLFwiZXhlY3V0b3JcIjpcInNjcmlwdFwiLFwibW9kZWxcIjpcInNvbm5ldFwiLFwic3RhdGVcIjpcInN1Y2Nlc3NcIixcInN0YXJ0ZWRBdFwiOlwiMjAyNi0xMS0yN1QxMToxNjoyNy44MDg2NDYwODRaXCIsXCJlbmRlZEF0XCI6XCIyMDI2LTExLTI3VDExOjE2OjI3LjgyNTU4OTAzWlwiLFwib3V0cHV0XCI6e1wic3VtbWFyeVwiOlwiQWxsIGlzIHdlbGwuXCJ9fX0i', NULL, 'd9af119d-b22e-8b4f-8980-606334ad0c8a/left', 1795778187813, 1795778187826, 'DBOS_JSON', 'nightcrier', 1795778187825);
-- {"name":"run/1","input":{"runId":"01a21cb8-9206-7734-ac4e-e85b2382581b","subject":{"kind":"incident","id":"01a21cb8-9206-7629-bc74-b10d12a4dc94"},"pipeline":{"version":1,"definition":{"name":"k8s-incident-triage","description":"Investigates an incident of a Kubernetes cluster and tells the on-call engineer what was found","on":[{"type":"incident"}],"phases":[{"steps":[{"id":"collect","action":"collect","agent_id":"collect","required":true,"on_failure":"stop","context_for_next":true},{"id":"investigate","skill":"sre/k8s-troubleshooter","agent_id":"sre-k8s-troubleshooter","required":false,"on_failure":"continue","deliverable":{"kind":"report"},"context_for_next":true},{"id":"check","action":"check","agent_id":"check","required":true,"on_failure":"stop","context_for_next":true},{"id":"notify","action":"notify","agent_id":"notify","required":true,"on_failure":"stop","context_for_next":true}]}],"file":"embedded:k8s-incident-triage.yaml","lines":{"name":1}},"digest":"sha256:b9474b2d26910c09368109ad4e943f4bf73c813491e6a9198ff4f9da32f212c1","skills":{"sre/k8s-troubleshooter":{"name":"k8s-troubleshooter","version":"0.2.0","digest":"sha256:10ca91cb98ff5dc8dc01b15bbf8ab959c27c69b46bcf3ec542ef57ba951a40ba"}}},"agent":{"executor":"script","scriptPath":"/bin/true","skillsDir":"/tmp/TestWhatAnOlderVersionBeganIsFinished50686582/001/skills","preload":true,"model":"sonnet","provider":"anthropic","maxTurns":30,"maxTokens":32000,"budget":{"run":{"money":2000000000},"incident":{"money":4000000000},"clusterDay":{"money":50000000000}},"allowedTools":["Read","Grep","Glob","Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"],"shell":true,"require":"best-effort","uidBase":1879048192,"timeout":300000000000,"grace":30000000000,"maxWorkspaceBytes":268435456}}}
INSERT INTO "workflow_input" VALUES ('01a21cb8-9206-7734-ac4e-e85b2382581b', 'eyJuYW1lIjoicnVuLzEiLCJpbnB1dCI6eyJydW5JZCI6IjAxYTIxY2I4LTkyMDYtNzczNC1hYzRlLWU4NWIyMzgyNTgxYiIsInN1YmplY3QiOnsia2luZCI6ImluY2lkZW50IiwiaWQiOiIwMWEyMWNiOC05MjA2LTc2MjktYmM3NC1iMTBkMTJhNGRjOTQifSwicGlwZWxpbmUiOnsidmVyc2lvbiI6MSwiZGVmaW5pdGlvbiI6eyJuYW1lIjoiazhzLWluY2lkZW50LXRyaWFnZSIsImRlc2NyaXB0aW9uIjoiSW52ZXN0aWdhdGVzIGFuIGluY2lkZW50IG9mIGEgS3ViZXJuZXRlcyBjbHVzdGVyIGFuZCB0ZWxscyB0aGUgb24tY2FsbCBlbmdpbmVlciB3aGF0IHdhcyBmb3VuZCIsIm9uIjpbeyJ0eXBlIjoiaW5jaWRlbnQifV0sInBoYXNlcyI6W3sic3RlcHMiOlt7ImlkIjoiY29sbGVjdCIsImFjdGlvbiI6ImNvbGxlY3QiLCJhZ2VudF9pZCI6ImNvbGxlY3QiLCJyZXF1aXJlZCI6dHJ1ZSwib25fZmFpbHVyZSI6InN0b3AiLCJjb250ZXh0X2Zvcl9uZXh0Ijp0cnVlfSx7ImlkIjoiaW52ZXN0aWdhdGUiLCJza2lsbCI6InNyZS9rOHMtdHJvdWJsZXNob290ZXIiLCJhZ2VudF9pZCI6InNyZS1rOHMtdHJvdWJsZXNob290ZXIiLCJyZXF1aXJlZCI6ZmFsc2UsIm9uX2ZhaWx1cmUiOiJjb250aW51ZSIsImRlbGl2ZXJhYmxlIjp7ImtpbmQiOiJyZXBvcnQifSwiY29udGV4dF9mb3JfbmV4dCI6dHJ1ZX0seyJpZCI6ImNoZWNrIiwiYWN0aW9uIjoiY2hlY2siLCJhZ2VudF9pZCI6ImNoZWNrIiwicmVxdWlyZWQiOnRydWUsIm9uX2ZhaWx1cmUiOiJzdG9wIiwiY29udGV4dF9mb3JfbmV4dCI6dHJ1ZX0seyJpZCI6Im5vdGlmeSIsImFjdGlvbiI6Im5vdGlmeSIsImFnZW50X2lkIjoibm90aWZ5IiwicmVxdWlyZWQiOnRydWUsIm9uX2ZhaWx1cmUiOiJzdG9wIiwiY29udGV4dF9mb3JfbmV4dCI6dHJ1ZX1dfV0sImZpbGUiOiJlbWJlZGRlZDprOHMtaW5jaWRlbnQtdHJpYWdlLnlhbWwiLCJsaW5lcyI6eyJuYW1lIjoxfX0sImRpZ2VzdCI6InNoYTI1NjpiOTQ3NGIyZDI2OTEwYzA5MzY4MTA5YWQ0ZTk0M2Y0YmY3M2M4MTM0OTFlNmE5MTk4ZmY0ZjlkYTMyZjIxMmMxIiwic2tpbGxzIjp7InNyZS9rOHMtdHJvdWJsZXNob290ZXIiOnsibmFtZSI6Ims4cy10cm91Ymxlc2hvb3RlciIsInZlcnNpb24iOiIwLjIuMCIsImRpZ2VzdCI6InNoYTI1NjoxMGNhOTFjYjk4ZmY1ZGM4ZGMwMWIxNWJiZjhhYjk1OWMyN2M2OWI0NmJjZjNlYzU0MmVmNTdiYTk1MWE0MGJhIn19fSwiYWdlbnQiOnsiZXhlY3V0b3IiOiJzY3JpcHQiLCJzY3JpcHRQYXRoIjoiL2Jpbi90cnVlIiwic2tpbGxzRGlyIjoiL3RtcC9UZXN0V2hhdEFuT2xkZXJWZXJzaW9uQmVnYW5Jc0ZpbmlzaGVkNTA2ODY1ODIvMDAxL3NraWxscyIsInByZWxvYWQiOnRydWUsIm1vZGVsIjoic29ubmV0IiwicHJvdmlkZXIiOiJhbnRocm9waWMiLCJtYXhUdXJucyI6MzAsIm1heFRva2VucyI6MzIwMDAsImJ1ZGdldCI6eyJydW4iOnsibW9uZXkiOjIwMDAwMDAwMDB9LCJpbmNpZGVudCI6eyJtb25leSI6NDAwMDAwMDAwMH0sImNsdXN0ZXJEYXkiOnsibW9uZXkiOjUwMDAwMDAwMDAwfX0sImFsbG93ZWRUb29scyI6WyJSZWFkIiwiR3JlcCIsIkdsb2IiLCJCYXNoKGt1YmVjdGw6Z2V0KixrdWJlY3RsOmRlc2NyaWJlKixrdWJlY3RsOmxvZ3MqKSJdLCJzaGVsbCI6dHJ1ZSwicmVxdWlyZSI6ImJlc3QtZWZmb3J0IiwidWlkQmFzZSI6MTg3OTA0ODE5MiwidGltZW91dCI6MzAwMDAwMDAwMDAwLCJncmFjZSI6MzAwMDAwMDAwMDAsIm1heFdvcmtzcGFjZUJ5dGVzIjoyNjg0MzU0NTZ9fX0=', 1795778187786);
-- {"name":"run/1","input":{"runId":"d9af119d-b22e-8b4f-8980-606334ad0c8a","subject":{"kind":"call","id":"d9af119d-b22e-8b4f-8980-606334ad0c8a","title":"ann"},"pipeline":{"version":1,"definition":{"name":"wide","on":[{"type":"manual"}],"concurrency":{"key":"input.app","policy":"queue"},"phases":[{"name":"first","steps":[{"id":"plan","skill":"shop/teller","agent_id":"plan","required":true,"on_failure":"stop","context_for_next":true}]},{"name":"look","parallel":true,"steps":[{"id":"left","skill":"shop/teller","agent_id":"left","required":true,"on_failure":"stop","context_for_next":true},{"id":"right","skill":"shop/teller","agent_id":"right","required":true,"on_failure":"stop","context_for_next":true}]},{"name":"end","fan_in_from":"look","steps":[{"id":"sum","skill":"shop/teller","agent_id":"sum","required":true,"on_failure":"stop","context_for_next":true}]}],"file":"/tmp/TestWhatAnOlderVersionBeganIsFinished50686582/001/pipelines/wide.yaml","lines":{"concurrency.key":3,"name":1}},"digest":"sha256:c71572c2b25a4b7fa2fc1cd4e4450baa4db8a51705f63ad78bcb1ee50228c3cd","skills":{"shop/teller":{"name":"teller","digest":"sha256:c66501eeed8d16912eab917dd42d74bd5974885f44cc4a46726b661d3b923bf1","agent":{"executor":"script","scriptPath":"/bin/true","model":"sonnet","provider":"anthropic","maxTurns":30,"maxTokens":32000,"allowedTools":["Read","Grep","Glob","Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"],"shell":true,"require":"best-effort","uidBase":1879048192,"timeout":300000000000,"grace":30000000000,"maxWorkspaceBytes":268435456}}}},"input":{"app":"cart"},"agent":{"executor":"script","scriptPath":"/bin/true","skillsDir":"/tmp/TestWhatAnOlderVersionBeganIsFinished50686582/001/skills","preload":true,"model":"sonnet","provider":"anthropic","maxTurns":30,"maxTokens":32000,"budget":{"run":{"money":2000000000},"incident":{"money":4000000000},"clusterDay":{"money":50000000000}},"allowedTools":["Read","Grep","Glob","Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"],"shell":true,"require":"best-effort","uidBase":1879048192,"timeout":300000000000,"grace":30000000000,"maxWorkspaceBytes":268435456}}}
INSERT INTO "workflow_input" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 'eyJuYW1lIjoicnVuLzEiLCJpbnB1dCI6eyJydW5JZCI6ImQ5YWYxMTlkLWIyMmUtOGI0Zi04OTgwLTYwNjMzNGFkMGM4YSIsInN1YmplY3QiOnsia2luZCI6ImNhbGwiLCJpZCI6ImQ5YWYxMTlkLWIyMmUtOGI0Zi04OTgwLTYwNjMzNGFkMGM4YSIsInRpdGxlIjoiYW5uIn0sInBpcGVsaW5lIjp7InZlcnNpb24iOjEsImRlZmluaXRpb24iOnsibmFtZSI6IndpZGUiLCJvbiI6W3sidHlwZSI6Im1hbnVhbCJ9XSwiY29uY3VycmVuY3kiOnsia2V5IjoiaW5wdXQuYXBwIiwicG9saWN5IjoicXVldWUifSwicGhhc2VzIjpbeyJuYW1lIjoiZmlyc3QiLCJzdGVwcyI6W3siaWQiOiJwbGFuIiwic2tpbGwiOiJzaG9wL3RlbGxlciIsImFnZW50X2lkIjoicGxhbiIsInJlcXVpcmVkIjp0cnVlLCJvbl9mYWlsdXJlIjoic3RvcCIsImNvbnRleHRfZm9yX25leHQiOnRydWV9XX0seyJuYW1lIjoibG9vayIsInBhcmFsbGVsIjp0cnVlLCJzdGVwcyI6W3siaWQiOiJsZWZ0Iiwic2tpbGwiOiJzaG9wL3RlbGxlciIsImFnZW50X2lkIjoibGVmdCIsInJlcXVpcmVkIjp0cnVlLCJvbl9mYWlsdXJlIjoic3RvcCIsImNvbnRleHRfZm9yX25leHQiOnRydWV9LHsiaWQiOiJyaWdodCIsInNraWxsIjoic2hvcC90ZWxsZXIiLCJhZ2VudF9pZCI6InJpZ2h0IiwicmVxdWlyZWQiOnRydWUsIm9uX2ZhaWx1cmUiOiJzdG9wIiwiY29udGV4dF9mb3JfbmV4dCI6dHJ1ZX1dfSx7Im5hbWUiOiJlbmQiLCJmYW5faW5fZnJvbSI6Imxvb2siLCJzdGVwcyI6W3siaWQiOiJzdW0iLCJza2lsbCI6InNob3AvdGVsbGVyIiwiYWdlbnRfaWQiOiJzdW0iLCJyZXF1aXJlZCI6dHJ1ZSwib25fZmFpbHVyZSI6InN0b3AiLCJjb250ZXh0X2Zvcl9uZXh0Ijp0cnVlfV19XSwiZmlsZSI6Ii90bXAvVGVzdFdoYXRBbk9sZGVyVmVyc2lvbkJlZ2FuSXNGaW5pc2hlZDUwNjg2NTgyLzAwMS9waXBlbGluZXMvd2lkZS55YW1sIiwibGluZXMiOnsiY29uY3VycmVuY3kua2V5IjozLCJuYW1lIjoxfX0sImRpZ2VzdCI6InNoYTI1NjpjNzE1NzJjMmIyNWE0YjdmYTJmYzFjZDRlNDQ1MGJhYTRkYjhhNTE3MDVmNjNhZDc4YmNiMWVlNTAyMjhjM2NkIiwic2tpbGxzIjp7InNob3AvdGVsbGVyIjp7Im5hbWUiOiJ0ZWxsZXIiLCJkaWdlc3QiOiJzaGEyNTY6YzY2NTAxZWVlZDhkMTY5MTJlYWI5MTdkZDQyZDc0YmQ1OTc0ODg1ZjQ0Y2M0YTQ2NzI2YjY2MWQzYjkyM2JmMSIsImFnZW50Ijp7ImV4ZWN1dG9yIjoic2NyaXB0Iiwic2NyaXB0UGF0aCI6Ii9iaW4vdHJ1ZSIsIm1vZGVsIjoic29ubmV0IiwicHJvdmlkZXIiOiJhbnRocm9waWMiLCJtYXhUdXJucyI6MzAsIm1heFRva2VucyI6MzIwMDAsImFsbG93ZWRUb29scyI6WyJSZWFkIiwiR3JlcCIsIkdsb2IiLCJCYXNoKGt1YmVjdGw6Z2V0KixrdWJlY3RsOmRlc2NyaWJlKixrdWJlY3RsOmxvZ3MqKSJdLCJzaGVsbCI6dHJ1ZSwicmVxdWlyZSI6ImJlc3QtZWZmb3J0IiwidWlkQmFzZSI6MTg3OTA0ODE5MiwidGltZW91dCI6MzAwMDAwMDAwMDAwLCJncmFjZSI6MzAwMDAwMDAwMDAsIm1heFdvcmtzcGFjZUJ5dGVzIjoyNjg0MzU0NTZ9fX19LCJpbnB1dCI6eyJhcHAiOiJjYXJ0In0sImFnZW50Ijp7ImV4ZWN1dG9yIjoic2NyaXB0Iiwic2NyaXB0UGF0aCI6Ii9iaW4vdHJ1ZSIsInNraWxsc0RpciI6Ii90bXAvVGVzdFdoYXRBbk9sZGVyVmVyc2lvbkJlZ2FuSXNGaW5pc2hlZDUwNjg2NTgyLzAwMS9za2lsbHMiLCJwcmVsb2FkIjp0cnVlLCJtb2RlbCI6InNvbm5ldCIsInByb3ZpZGVyIjoiYW50aHJvcGljIiwibWF4VHVybnMiOjMwLCJtYXhUb2tlbnMiOjMyMDAwLCJidWRnZXQiOnsicnVuIjp7Im1vbmV5IjoyMDAwMDAwMDAwfSwiaW5jaWRlbnQiOnsibW9uZXkiOjQwMDAwMDAwMDB9LCJjbHVzdGVyRGF5Ijp7Im1vbmV5Ijo1MDAwMDAwMDAwMH19LCJhbGxvd2VkVG9vbHMiOlsiUmVhZCIsIkdyZXAiLCJHbG9iIiwiQmFzaChrdWJlY3RsOmdldCosa3ViZWN0bDpkZXNjcmliZSosa3ViZWN0bDpsb2dzKikiXSwic2hlbGwiOnRydWUsInJlcXVpcmUiOiJiZXN0LWVmZm9ydCIsInVpZEJhc2UiOjE4NzkwNDgxOTIsInRpbWVvdXQiOjMwMDAwMDAwMDAwMCwiZ3JhY2UiOjMwMDAwMDAwMDAwLCJtYXhXb3Jrc3BhY2VCeXRlcyI6MjY4NDM1NDU2fX19', 1795778187787);
-- {"name":"run/1/branch","input":{"order":{"runId":"d9af119d-b22e-8b4f-8980-606334ad0c8a","subject":{"kind":"call","id":"d9af119d-b22e-8b4f-8980-606334ad0c8a","title":"ann"},"pipeline":{"version":1,"definition":{"name":"wide","on":[{"type":"manual"}],"concurrency":{"key":"input.app","policy":"queue"},"phases":[{"name":"first","steps":[{"id":"plan","skill":"shop/teller","agent_id":"plan","required":true,"on_failure":"stop","context_for_next":true}]},{"name":"look","parallel":true,"steps":[{"id":"left","skill":"shop/teller","agent_id":"left","required":true,"on_failure":"stop","context_for_next":true},{"id":"right","skill":"shop/teller","agent_id":"right","required":true,"on_failure":"stop","context_for_next":true}]},{"name":"end","fan_in_from":"look","steps":[{"id":"sum","skill":"shop/teller","agent_id":"sum","required":true,"on_failure":"stop","context_for_next":true}]}],"file":"/tmp/TestWhatAnOlderVersionBeganIsFinished50686582/001/pipelines/wide.yaml","lines":{"concurrency.key":3,"name":1}},"digest":"sha256:c71572c2b25a4b7fa2fc1cd4e4450baa4db8a51705f63ad78bcb1ee50228c3cd","skills":{"shop/teller":{"name":"teller","digest":"sha256:c66501eeed8d16912eab917dd42d74bd5974885f44cc4a46726b661d3b923bf1","agent":{"executor":"script","scriptPath":"/bin/true","model":"sonnet","provider":"anthropic","maxTurns":30,"maxTokens":32000,"allowedTools":["Read","Grep","Glob","Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"],"shell":true,"require":"best-effort","uidBase":1879048192,"timeout":300000000000,"grace":30000000000,"maxWorkspaceBytes":268435456}}}},"input":{"app":"cart"},"agent":{"executor":"script","scriptPath":"/bin/true","skillsDir":"/tmp/TestWhatAnOlderVersionBeganIsFinished50686582/001/skills","preload":true,"model":"sonnet","provider":"anthropic","maxTurns":30,"maxTokens":32000,"budget":{"run":{"money":2000000000},"step":{"money":1000000000,"moneyOf":"what this step may spend of what was left (budget.per_run_usd, for 2 steps)"},"incident":{"money":4000000000},"clusterDay":{"money":50000000000}},"allowedTools":["Read","Grep","Glob","Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"],"shell":true,"require":"best-effort","uidBase":1879048192,"timeout":300000000000,"grace":30000000000,"maxWorkspaceBytes":268435456}},"phase":1,"step":0,"done":{"plan":{"runId":"d9af119d-b22e-8b4f-8980-606334ad0c8a","stepId":"plan","attempt":1,"phase":"first","uses":"shop/teller","executor":"script","model":"sonnet","state":"success","startedAt":"2026-11-27T11:16:27.788595144Z","endedAt":"2026-11-27T11:16:27.805061123Z","output":{"summary":"All is well."}}},"previous":"plan"}}
INSERT INTO "workflow_input" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a/left', 'eyJuYW1lIjoicnVuLzEvYnJhbmNoIiwiaW5wdXQiOnsib3JkZXIiOnsicnVuSWQiOiJkOWFmMTE5ZC1iMjJlLThiNGYtODk4MC02MDYzMzRhZDBjOGEiLCJzdWJqZWN0Ijp7ImtpbmQiOiJjYWxsIiwiaWQiOiJkOWFmMTE5ZC1iMjJlLThiNGYtODk4MC02MDYzMzRhZDBjOGEiLCJ0aXRsZSI6ImFubiJ9LCJwaXBlbGluZSI6eyJ2ZXJzaW9uIjoxLCJkZWZpbml0aW9uIjp7Im5hbWUiOiJ3aWRlIiwib24iOlt7InR5cGUiOiJtYW51YWwifV0sImNvbmN1cnJlbmN5Ijp7ImtleSI6ImlucHV0LmFwcCIsInBvbGljeSI6InF1ZXVlIn0sInBoYXNlcyI6W3sibmFtZSI6ImZpcnN0Iiwic3RlcHMiOlt7ImlkIjoicGxhbiIsInNraWxsIjoic2hvcC90ZWxsZXIiLCJhZ2VudF9pZCI6InBsYW4iLCJyZXF1aXJlZCI6dHJ1ZSwib25fZmFpbHVyZSI6InN0b3AiLCJjb250ZXh0X2Zvcl9uZXh0Ijp0cnVlfV19LHsibmFtZSI6Imxvb2siLCJwYXJhbGxlbCI6dHJ1ZSwic3RlcHMiOlt7ImlkIjoibGVmdCIsInNraWxsIjoic2hvcC90ZWxsZXIiLCJhZ2VudF9pZCI6ImxlZnQiLCJyZXF1aXJlZCI6dHJ1ZSwib25fZmFpbHVyZSI6InN0b3AiLCJjb250ZXh0X2Zvcl9uZXh0Ijp0cnVlfSx7ImlkIjoicmlnaHQiLCJza2lsbCI6InNob3AvdGVsbGVyIiwiYWdlbnRfaWQiOiJyaWdodCIsInJlcXVpcmVkIjp0cnVlLCJvbl9mYWlsdXJlIjoic3RvcCIsImNvbnRleHRfZm9yX25leHQiOnRydWV9XX0seyJuYW1lIjoiZW5kIiwiZmFuX2luX2Zyb20iOiJsb29rIiwic3RlcHMiOlt7ImlkIjoic3VtIiwic2tpbGwiOiJzaG9wL3RlbGxlciIsImFnZW50X2lkIjoic3VtIiwicmVxdWlyZWQiOnRydWUsIm9uX2ZhaWx1cmUiOiJzdG9wIiwiY29udGV4dF9mb3JfbmV4dCI6dHJ1ZX1dfV0sImZpbGUiOiIvdG1wL1Rlc3RXaGF0QW5PbGRlclZlcnNpb25CZWdhbklzRmluaXNoZWQ1MDY4NjU4Mi8wMDEvcGlwZWxpbmVzL3dpZGUueWFtbCIsImxpbmVzIjp7ImNvbmN1cnJlbmN5LmtleSI6MywibmFtZSI6MX19LCJkaWdlc3QiOiJzaGEyNTY6YzcxNTcyYzJiMjVhNGI3ZmEyZmMxY2Q0ZTQ0NTBiYWE0ZGI4YTUxNzA1ZjYzYWQ3OGJjYjFlZTUwMjI4YzNjZCIsInNraWxscyI6eyJzaG9wL3RlbGxlciI6eyJuYW1lIjoidGVsbGVyIiwiZGlnZXN0Ijoic2hhMjU2OmM2NjUwMWVlZWQ4ZDE2OTEyZWFiOTE3ZGQ0MmQ3NGJkNTk3NDg4NWY0NGNjNGE0NjcyNmI2NjFkM2I5MjNiZjEiLCJhZ2VudCI6eyJleGVjdXRvciI6InNjcmlwdCIsInNjcmlwdFBhdGgiOiIvYmluL3RydWUiLCJtb2RlbCI6InNvbm5ldCIsInByb3ZpZGVyIjoiYW50aHJvcGljIiwibWF4VHVybnMiOjMwLCJtYXhUb2tlbnMiOjMyMDAwLCJhbGxvd2VkVG9vbHMiOlsiUmVhZCIsIkdyZXAiLCJHbG9iIiwiQmFzaChrdWJlY3RsOmdldCosa3ViZWN0bDpkZXNjcmliZSosa3ViZWN0bDpsb2dzKikiXSwic2hlbGwiOnRydWUsInJlcXVpcmUiOiJiZXN0LWVmZm9ydCIsInVpZEJhc2UiOjE4NzkwNDgxOTIsInRpbWVvdXQiOjMwMDAwMDAwMDAwMCwiZ3JhY2UiOjMwMDAwMDAwMDAwLCJtYXhXb3Jrc3BhY2VCeXRlcyI6MjY4NDM1NDU2fX19fSwiaW5wdXQiOnsiYXBwIjoiY2FydCJ9LCJhZ2VudCI6eyJleGVjdXRvciI6InNjcmlwdCIsInNjcmlwdFBhdGgiOiIvYmluL3RydWUiLCJza2lsbHNEaXIiOiIvdG1wL1Rlc3RXaGF0QW5PbGRlclZlcnNpb25CZWdhbklzRmluaXNoZWQ1MDY4NjU4Mi8wMDEvc2tpbGxzIiwicHJlbG9hZCI6dHJ1ZSwibW9kZWwiOiJzb25uZXQiLCJwcm92aWRlciI6ImFudGhyb3BpYyIsIm1heFR1cm5zIjozMCwibWF4VG9rZW5zIjozMjAwMCwiYnVkZ2V0Ijp7InJ1biI6eyJtb25leSI6MjAwMDAwMDAwMH0sInN0ZXAiOnsibW9uZXkiOjEwMDAwMDAwMDAsIm1vbmV5T2YiOiJ3aGF0IHRoaXMgc3RlcCBtYXkgc3BlbmQgb2Ygd2hhdCB3YXMgbGVmdCAoYnVkZ2V0LnBlcl9ydW5fdXNkLCBmb3IgMiBzdGVwcykifSwiaW5jaWRlbnQiOnsibW9uZXkiOjQwMDAwMDAwMDB9LCJjbHVzdGVyRGF5Ijp7Im1vbmV5Ijo1MDAwMDAwMDAwMH19LCJhbGxvd2VkVG9vbHMiOlsiUmVhZCIsIkdyZXAiLCJHbG9iIiwiQmFzaChrdWJlY3RsOmdldCosa3ViZWN0bDpkZXNjcmliZSosa3ViZWN0bDpsb2dzKikiXSwic2hlbGwiOnRydWUsInJlcXVpcmUiOiJiZXN0LWVmZm9ydCIsInVpZEJhc2UiOjE4NzkwNDgxOTIsInRpbWVvdXQiOjMwMDAwMDAwMDAwMCwiZ3JhY2UiOjMwMDAwMDAwMDAwLCJtYXhXb3Jrc3BhY2VCeXRlcyI6MjY4NDM1NDU2fX0sInBoYXNlIjoxLCJzdGVwIjowLCJkb25lIjp7InBsYW4iOnsicnVuSWQiOiJkOWFmMTE5ZC1iMjJlLThiNGYtODk4MC02MDYzMzRhZDBjOGEiLCJzdGVwSWQiOiJwbGFuIiwiYXR0ZW1wdCI6MSwicGhhc2UiOiJmaXJzdCIsInVzZXMiOiJzaG9wL3RlbGxlciIsImV4ZWN1dG9yIjoic2NyaXB0IiwibW9kZWwiOiJzb25uZXQiLCJzdGF0ZSI6InN1Y2Nlc3MiLCJzdGFydGVkQXQiOiIyMDI2LTExLTI3VDExOjE2OjI3Ljc4ODU5NTE0NFoiLCJlbmRlZEF0IjoiMjAyNi0xMS0yN1QxMToxNjoyNy44MDUwNjExMjNaIiwib3V0cHV0Ijp7InN1bW1hcnkiOiJBbGwgaXMgd2VsbC4ifX19LCJwcmV2aW91cyI6InBsYW4ifX0=', 1795778187804);
-- {"name":"run/1/branch","input":{"order":{"runId":"d9af119d-b22e-8b4f-8980-606334ad0c8a","subject":{"kind":"call","id":"d9af119d-b22e-8b4f-8980-606334ad0c8a","title":"ann"},"pipeline":{"version":1,"definition":{"name":"wide","on":[{"type":"manual"}],"concurrency":{"key":"input.app","policy":"queue"},"phases":[{"name":"first","steps":[{"id":"plan","skill":"shop/teller","agent_id":"plan","required":true,"on_failure":"stop","context_for_next":true}]},{"name":"look","parallel":true,"steps":[{"id":"left","skill":"shop/teller","agent_id":"left","required":true,"on_failure":"stop","context_for_next":true},{"id":"right","skill":"shop/teller","agent_id":"right","required":true,"on_failure":"stop","context_for_next":true}]},{"name":"end","fan_in_from":"look","steps":[{"id":"sum","skill":"shop/teller","agent_id":"sum","required":true,"on_failure":"stop","context_for_next":true}]}],"file":"/tmp/TestWhatAnOlderVersionBeganIsFinished50686582/001/pipelines/wide.yaml","lines":{"concurrency.key":3,"name":1}},"digest":"sha256:c71572c2b25a4b7fa2fc1cd4e4450baa4db8a51705f63ad78bcb1ee50228c3cd","skills":{"shop/teller":{"name":"teller","digest":"sha256:c66501eeed8d16912eab917dd42d74bd5974885f44cc4a46726b661d3b923bf1","agent":{"executor":"script","scriptPath":"/bin/true","model":"sonnet","provider":"anthropic","maxTurns":30,"maxTokens":32000,"allowedTools":["Read","Grep","Glob","Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"],"shell":true,"require":"best-effort","uidBase":1879048192,"timeout":300000000000,"grace":30000000000,"maxWorkspaceBytes":268435456}}}},"input":{"app":"cart"},"agent":{"executor":"script","scriptPath":"/bin/true","skillsDir":"/tmp/TestWhatAnOlderVersionBeganIsFinished50686582/001/skills","preload":true,"model":"sonnet","provider":"anthropic","maxTurns":30,"maxTokens":32000,"budget":{"run":{"money":2000000000},"step":{"money":1000000000,"moneyOf":"what this step may spend of what was left (budget.per_run_usd, for 2 steps)"},"incident":{"money":4000000000},"clusterDay":{"money":50000000000}},"allowedTools":["Read","Grep","Glob","Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"],"shell":true,"require":"best-effort","uidBase":1879048192,"timeout":300000000000,"grace":30000000000,"maxWorkspaceBytes":268435456}},"phase":1,"step":1,"done":{"plan":{"runId":"d9af119d-b22e-8b4f-8980-606334ad0c8a","stepId":"plan","attempt":1,"phase":"first","uses":"shop/teller","executor":"script","model":"sonnet","state":"success","startedAt":"2026-11-27T11:16:27.788595144Z","endedAt":"2026-11-27T11:16:27.805061123Z","output":{"summary":"All is well."}}},"previous":"plan"}}
INSERT INTO "workflow_input" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a/right', 'eyJuYW1lIjoicnVuLzEvYnJhbmNoIiwiaW5wdXQiOnsib3JkZXIiOnsicnVuSWQiOiJkOWFmMTE5ZC1iMjJlLThiNGYtODk4MC02MDYzMzRhZDBjOGEiLCJzdWJqZWN0Ijp7ImtpbmQiOiJjYWxsIiwiaWQiOiJkOWFmMTE5ZC1iMjJlLThiNGYtODk4MC02MDYzMzRhZDBjOGEiLCJ0aXRsZSI6ImFubiJ9LCJwaXBlbGluZSI6eyJ2ZXJzaW9uIjoxLCJkZWZpbml0aW9uIjp7Im5hbWUiOiJ3aWRlIiwib24iOlt7InR5cGUiOiJtYW51YWwifV0sImNvbmN1cnJlbmN5Ijp7ImtleSI6ImlucHV0LmFwcCIsInBvbGljeSI6InF1ZXVlIn0sInBoYXNlcyI6W3sibmFtZSI6ImZpcnN0Iiwic3RlcHMiOlt7ImlkIjoicGxhbiIsInNraWxsIjoic2hvcC90ZWxsZXIiLCJhZ2VudF9pZCI6InBsYW4iLCJyZXF1aXJlZCI6dHJ1ZSwib25fZmFpbHVyZSI6InN0b3AiLCJjb250ZXh0X2Zvcl9uZXh0Ijp0cnVlfV19LHsibmFtZSI6Imxvb2siLCJwYXJhbGxlbCI6dHJ1ZSwic3RlcHMiOlt7ImlkIjoibGVmdCIsInNraWxsIjoic2hvcC90ZWxsZXIiLCJhZ2VudF9pZCI6ImxlZnQiLCJyZXF1aXJlZCI6dHJ1ZSwib25fZmFpbHVyZSI6InN0b3AiLCJjb250ZXh0X2Zvcl9uZXh0Ijp0cnVlfSx7ImlkIjoicmlnaHQiLCJza2lsbCI6InNob3AvdGVsbGVyIiwiYWdlbnRfaWQiOiJyaWdodCIsInJlcXVpcmVkIjp0cnVlLCJvbl9mYWlsdXJlIjoic3RvcCIsImNvbnRleHRfZm9yX25leHQiOnRydWV9XX0seyJuYW1lIjoiZW5kIiwiZmFuX2luX2Zyb20iOiJsb29rIiwic3RlcHMiOlt7ImlkIjoic3VtIiwic2tpbGwiOiJzaG9wL3RlbGxlciIsImFnZW50X2lkIjoic3VtIiwicmVxdWlyZWQiOnRydWUsIm9uX2ZhaWx1cmUiOiJzdG9wIiwiY29udGV4dF9mb3JfbmV4dCI6dHJ1ZX1dfV0sImZpbGUiOiIvdG1wL1Rlc3RXaGF0QW5PbGRlclZlcnNpb25CZWdhbklzRmluaXNoZWQ1MDY4NjU4Mi8wMDEvcGlwZWxpbmVzL3dpZGUueWFtbCIsImxpbmVzIjp7ImNvbmN1cnJlbmN5LmtleSI6MywibmFtZSI6MX19LCJkaWdlc3QiOiJzaGEyNTY6YzcxNTcyYzJiMjVhNGI3ZmEyZmMxY2Q0ZTQ0NTBiYWE0ZGI4YTUxNzA1ZjYzYWQ3OGJjYjFlZTUwMjI4YzNjZCIsInNraWxscyI6eyJzaG9wL3RlbGxlciI6eyJuYW1lIjoidGVsbGVyIiwiZGlnZXN0Ijoic2hhMjU2OmM2NjUwMWVlZWQ4ZDE2OTEyZWFiOTE3ZGQ0MmQ3NGJkNTk3NDg4NWY0NGNjNGE0NjcyNmI2NjFkM2I5MjNiZjEiLCJhZ2VudCI6eyJleGVjdXRvciI6InNjcmlwdCIsInNjcmlwdFBhdGgiOiIvYmluL3RydWUiLCJtb2RlbCI6InNvbm5ldCIsInByb3ZpZGVyIjoiYW50aHJvcGljIiwibWF4VHVybnMiOjMwLCJtYXhUb2tlbnMiOjMyMDAwLCJhbGxvd2VkVG9vbHMiOlsiUmVhZCIsIkdyZXAiLCJHbG9iIiwiQmFzaChrdWJlY3RsOmdldCosa3ViZWN0bDpkZXNjcmliZSosa3ViZWN0bDpsb2dzKikiXSwic2hlbGwiOnRydWUsInJlcXVpcmUiOiJiZXN0LWVmZm9ydCIsInVpZEJhc2UiOjE4NzkwNDgxOTIsInRpbWVvdXQiOjMwMDAwMDAwMDAwMCwiZ3JhY2UiOjMwMDAwMDAwMDAwLCJtYXhXb3Jrc3BhY2VCeXRlcyI6MjY4NDM1NDU2fX19fSwiaW5wdXQiOnsiYXBwIjoiY2FydCJ9LCJhZ2VudCI6eyJleGVjdXRvciI6InNjcmlwdCIsInNjcmlwdFBhdGgiOiIvYmluL3RydWUiLCJza2lsbHNEaXIiOiIvdG1wL1Rlc3RXaGF0QW5PbGRlclZlcnNpb25CZWdhbklzRmluaXNoZWQ1MDY4NjU4Mi8wMDEvc2tpbGxzIiwicHJlbG9hZCI6dHJ1ZSwibW9kZWwiOiJzb25uZXQiLCJwcm92aWRlciI6ImFudGhyb3BpYyIsIm1heFR1cm5zIjozMCwibWF4VG9rZW5zIjozMjAwMCwiYnVkZ2V0Ijp7InJ1biI6eyJtb25leSI6MjAwMDAwMDAwMH0sInN0ZXAiOnsibW9uZXkiOjEwMDAwMDAwMDAsIm1vbmV5T2YiOiJ3aGF0IHRoaXMgc3RlcCBtYXkgc3BlbmQgb2Ygd2hhdCB3YXMgbGVmdCAoYnVkZ2V0LnBlcl9ydW5fdXNkLCBmb3IgMiBzdGVwcykifSwiaW5jaWRlbnQiOnsibW9uZXkiOjQwMDAwMDAwMDB9LCJjbHVzdGVyRGF5Ijp7Im1vbmV5Ijo1MDAwMDAwMDAwMH19LCJhbGxvd2VkVG9vbHMiOlsiUmVhZCIsIkdyZXAiLCJHbG9iIiwiQmFzaChrdWJlY3RsOmdldCosa3ViZWN0bDpkZXNjcmliZSosa3ViZWN0bDpsb2dzKikiXSwic2hlbGwiOnRydWUsInJlcXVpcmUiOiJiZXN0LWVmZm9ydCIsInVpZEJhc2UiOjE4NzkwNDgxOTIsInRpbWVvdXQiOjMwMDAwMDAwMDAwMCwiZ3JhY2UiOjMwMDAwMDAwMDAwLCJtYXhXb3Jrc3BhY2VCeXRlcyI6MjY4NDM1NDU2fX0sInBoYXNlIjoxLCJzdGVwIjoxLCJkb25lIjp7InBsYW4iOnsicnVuSWQiOiJkOWFmMTE5ZC1iMjJlLThiNGYtODk4MC02MDYzMzRhZDBjOGEiLCJzdGVwSWQiOiJwbGFuIiwiYXR0ZW1wdCI6MSwicGhhc2UiOiJmaXJzdCIsInVzZXMiOiJzaG9wL3RlbGxlciIsImV4ZWN1dG9yIjoic2NyaXB0IiwibW9kZWwiOiJzb25uZXQiLCJzdGF0ZSI6InN1Y2Nlc3MiLCJzdGFydGVkQXQiOiIyMDI2LTExLTI3VDExOjE2OjI3Ljc4ODU5NTE0NFoiLCJlbmRlZEF0IjoiMjAyNi0xMS0yN1QxMToxNjoyNy44MDUwNjExMjNaIiwib3V0cHV0Ijp7InN1bW1hcnkiOiJBbGwgaXMgd2VsbC4ifX19LCJwcmV2aW91cyI6InBsYW4ifX0=', 1795778187806);
INSERT INTO "workflow_output" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a/left', 'IntcInJvd1wiOntcInJ1bklkXCI6XCJkOWFmMTE5ZC1iMjJlLThiNGYtODk4MC02MDYzMzRhZDBjOGFcIixcInN0ZXBJZFwiOlwibGVmdFwiLFwiYXR0ZW1wdFwiOjEsXCJwaGFzZVwiOlwibG9va1wiLFwiYmVzaWRlXCI6W1wibGVmdFwiLFwicmlnaHRcIl0sXCJ1c2VzXCI6XCJzaG9wL3RlbGxlclwiLFwiZXhlY3V0b3JcIjpcInNjcmlwdFwiLFwibW9kZWxcIjpcInNvbm5ldFwiLFwic3RhdGVcIjpcInN1Y2Nlc3NcIixcInN0YXJ0ZWRBdFwiOlwiMjAyNi0xMS0yN1QxMToxNjoyNy44MDg2NDYwODRaXCIsXCJlbmRlZEF0XCI6XCIyMDI2LTExLTI3VDExOjE2OjI3LjgyNTU4OTAzWlwiLFwib3V0cHV0XCI6e1wic3VtbWFyeVwiOlwiQWxsIGlzIHdlbGwuXCJ9fX0i', '', 1795778187825);
INSERT INTO "workflow_status" VALUES ('01a21cb8-9206-7734-ac4e-e85b2382581b', 'PENDING', 'workflow/1', '', '', X'6E756C6C', NULL, NULL, NULL, 'nightcrier', 1795778187786, 1795778187786, '1', '', NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, 'a2637948-47f9-43e3-a746-3b4bf557cfd9', NULL, 'DBOS_JSON', NULL, 0, 0, NULL, NULL, NULL, NULL, 0, 'nightcrier');
INSERT INTO "workflow_status" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a', 'PENDING', 'workflow/1', '', '', X'6E756C6C', NULL, NULL, NULL, 'nightcrier', 1795778187787, 1795778187787, '1', '', NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, '97a1088b-e91e-4a92-932d-bb673e93a3d9', NULL, 'DBOS_JSON', NULL, 0, 0, NULL, NULL, NULL, NULL, 0, 'nightcrier');
INSERT INTO "workflow_status" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a/left', 'SUCCESS', 'workflow/1', '', '', X'6E756C6C', NULL, NULL, NULL, 'nightcrier', 1795778187804, 1795778187825, '1', '', NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, '63fb3f33-c865-4956-a2b1-f9107d2e6595', 'd9af119d-b22e-8b4f-8980-606334ad0c8a', 'DBOS_JSON', NULL, 0, 0, 1795778187825, NULL, NULL, NULL, 0, 'nightcrier');
INSERT INTO "workflow_status" VALUES ('d9af119d-b22e-8b4f-8980-606334ad0c8a/right', 'PENDING', 'workflow/1', '', '', X'6E756C6C', NULL, NULL, NULL, 'nightcrier', 1795778187806, 1795778187806, '1', '', NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, '42219833-be16-4408-b311-50bece5e5c4a', 'd9af119d-b22e-8b4f-8980-606334ad0c8a', 'DBOS_JSON', NULL, 0, 0, NULL, NULL, NULL, NULL, 0, 'nightcrier');
