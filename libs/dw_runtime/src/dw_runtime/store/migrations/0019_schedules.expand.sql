-- Schedules: what they are, what has happened to them, and the starts they have ordered.

CREATE TABLE workflow_schedules (
    namespace text COLLATE "C" NOT NULL,
    schedule_id text COLLATE "C" NOT NULL,
    schedule_ulid text COLLATE "C" NOT NULL,
    status text NOT NULL CHECK (status IN ('active', 'paused', 'deleted')),
    spec json NOT NULL,
    action json NOT NULL,
    workflow_type text COLLATE "C" NOT NULL,
    task_queue text COLLATE "C",
    overlap_policy text NOT NULL,
    jitter_seconds integer NOT NULL CHECK (jitter_seconds >= 0),
    max_runs integer CHECK (max_runs > 0),
    memo json NOT NULL,
    search_attributes jsonb NOT NULL,
    note text,
    fires_count bigint NOT NULL,
    failures_count bigint NOT NULL,
    skipped_trigger_count bigint NOT NULL,
    last_skip_reason text,
    last_skipped_at timestamptz,
    last_fired_at timestamptz,
    latest_workflow_instance_id text COLLATE "C",
    latest_trigger_number bigint NOT NULL,
    next_occurrence_at timestamptz,
    next_cron_expression text,
    next_fire_at timestamptz,
    paused_at timestamptz,
    deleted_at timestamptz,
    recent_actions json NOT NULL,
    buffered_actions json NOT NULL,
    last_event_sequence bigint NOT NULL,
    last_trigger_number bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, schedule_id),
    CHECK ((status = 'deleted') = (deleted_at IS NOT NULL)),
    CHECK ((next_fire_at IS NULL) = (next_occurrence_at IS NULL)),
    CHECK (status = 'active' OR next_fire_at IS NULL)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX workflow_schedules_due ON workflow_schedules (next_fire_at) WHERE status = 'active';
CREATE INDEX workflow_schedules_buffered ON workflow_schedules (namespace, schedule_id)
    WHERE status = 'active' AND json_array_length(buffered_actions) > 0;
CREATE INDEX workflow_schedules_recent ON workflow_schedules (namespace, created_at DESC, schedule_id)
    WHERE status <> 'deleted';
CREATE INDEX workflow_schedules_type ON workflow_schedules (namespace, workflow_type, created_at DESC, schedule_id)
    WHERE status <> 'deleted';
CREATE INDEX workflow_schedules_paused ON workflow_schedules (paused_at) WHERE status = 'paused';
CREATE INDEX workflow_schedules_deleted ON workflow_schedules (namespace, deleted_at) WHERE status = 'deleted';

-- Append only. The sequence goes on when the id of a deleted schedule is used again.
CREATE TABLE workflow_schedule_events (
    namespace text COLLATE "C" NOT NULL,
    schedule_id text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL CHECK (sequence > 0),
    event_id text COLLATE "C" NOT NULL,
    event_type text NOT NULL,
    payload json NOT NULL,
    workflow_instance_id text COLLATE "C",
    workflow_run_id text COLLATE "C",
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, schedule_id, sequence)
);
CREATE INDEX workflow_schedule_events_age ON workflow_schedule_events (namespace, recorded_at);

-- Starts that have been ordered and not carried out yet: one per schedule and nominal moment.
CREATE TABLE workflow_schedule_fires (
    namespace text COLLATE "C" NOT NULL,
    schedule_id text COLLATE "C" NOT NULL,
    schedule_ulid text COLLATE "C" NOT NULL,
    trigger_number bigint NOT NULL,
    occurrence_at timestamptz NOT NULL,
    kind text NOT NULL CHECK (kind IN ('scheduled', 'triggered', 'backfilled', 'drained')),
    cron_expression text,
    timezone text NOT NULL,
    overlap_policy text NOT NULL,
    effective_overlap_policy text NOT NULL,
    workflow_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    action json NOT NULL,
    memo json NOT NULL,
    search_attributes json NOT NULL,
    ends text CHECK (ends IN ('cancel', 'terminate')),
    ends_workflow_id text COLLATE "C",
    lease_owner text COLLATE "C",
    due_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (schedule_ulid, trigger_number),
    UNIQUE (schedule_ulid, occurrence_at)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX workflow_schedule_fires_due ON workflow_schedule_fires (due_at);

-- Secrets that all processes share, each drawn once: what page tokens are signed with.
CREATE TABLE server_secrets (
    name text COLLATE "C" PRIMARY KEY,
    secret text NOT NULL
);
INSERT INTO server_secrets VALUES ('page-tokens', gen_random_uuid()::text || gen_random_uuid()::text);

CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON workflow_schedules
    FOR EACH ROW EXECUTE FUNCTION dw_audit();
