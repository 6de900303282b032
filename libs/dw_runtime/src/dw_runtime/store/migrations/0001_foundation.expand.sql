-- The foundation: namespaces, instances, runs, history, tasks, activities, workers.

CREATE FUNCTION dw_now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN COALESCE(NULLIF(current_setting('dw.now', true), '')::timestamptz, clock_timestamp());
COMMENT ON FUNCTION dw_now IS 'The one clock of leases, timers and deadlines; tests override it with the setting dw.now';

CREATE TABLE workflow_namespaces (
    name text COLLATE "C" PRIMARY KEY,
    description text,
    retention_days integer NOT NULL CHECK (retention_days BETWEEN 1 AND 365),
    status text NOT NULL DEFAULT 'active',
    external_payload_storage jsonb,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);

CREATE TABLE workflow_instances (
    namespace text COLLATE "C" NOT NULL,
    workflow_id text COLLATE "C" NOT NULL,
    current_run_id text COLLATE "C" NOT NULL,
    run_count integer NOT NULL,
    PRIMARY KEY (namespace, workflow_id)
) WITH (fillfactor = 90);

-- Updated by every transition: narrow, and no changing column is indexed, so that updates stay on the page.
CREATE TABLE workflow_runs (
    run_id text COLLATE "C" PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    workflow_id text COLLATE "C" NOT NULL,
    run_number integer NOT NULL,
    workflow_type text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    compatibility text COLLATE "C",
    priority smallint NOT NULL,
    fairness_key text COLLATE "C",
    fairness_weight smallint NOT NULL,
    status text NOT NULL CHECK (status IN ('pending', 'running', 'waiting', 'completed', 'failed', 'cancelled', 'terminated')),
    closed_reason text,
    started_at timestamptz NOT NULL,
    closed_at timestamptz,
    execution_deadline_at timestamptz,
    run_deadline_at timestamptz,
    last_progress_at timestamptz NOT NULL,
    last_history_sequence bigint NOT NULL,
    history_bytes bigint NOT NULL,
    next_workflow_sequence bigint NOT NULL,
    next_task_number bigint NOT NULL,
    next_command_sequence bigint NOT NULL,
    last_wake_sequence bigint NOT NULL,
    consumed_wake_sequence bigint NOT NULL,
    open_activity_count integer NOT NULL CHECK (open_activity_count >= 0),
    open_timer_count integer NOT NULL CHECK (open_timer_count >= 0),
    pending_signal_count integer NOT NULL CHECK (pending_signal_count >= 0),
    open_wait json,
    task_failure_count integer NOT NULL,
    replay_blocked boolean NOT NULL,
    CHECK ((closed_at IS NOT NULL) = (status IN ('completed', 'failed', 'cancelled', 'terminated'))),
    CHECK ((closed_at IS NOT NULL) = (closed_reason IS NOT NULL))
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02);
CREATE UNIQUE INDEX workflow_runs_instance ON workflow_runs (namespace, workflow_id, run_number);
CREATE INDEX workflow_runs_deadline ON workflow_runs (LEAST(execution_deadline_at, run_deadline_at)) WHERE closed_at IS NULL;

-- Written at start and close only: what listings and descriptions read.
CREATE TABLE workflow_run_summaries (
    run_id text COLLATE "C" PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    workflow_id text COLLATE "C" NOT NULL,
    workflow_type text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    compatibility text COLLATE "C",
    business_key text COLLATE "C",
    status_bucket text NOT NULL CHECK (status_bucket IN ('running', 'completed', 'failed')),
    started_at timestamptz NOT NULL,
    closed_at timestamptz,
    memo jsonb NOT NULL,
    search_attributes jsonb NOT NULL,
    execution_timeout_seconds integer,
    run_timeout_seconds integer,
    arguments text NOT NULL,
    output text
) WITH (fillfactor = 80);
CREATE INDEX workflow_run_summaries_recent ON workflow_run_summaries (namespace, started_at DESC, run_id DESC);
CREATE INDEX workflow_run_summaries_bucket ON workflow_run_summaries (namespace, status_bucket, started_at DESC, run_id DESC);
CREATE INDEX workflow_run_summaries_type ON workflow_run_summaries (namespace, workflow_type, started_at DESC, run_id DESC);

-- Append only. body is the exact JSON text that is served.
CREATE TABLE workflow_history_events (
    run_id text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL CHECK (sequence > 0),
    event_type text NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (run_id, sequence)
);

-- Open tasks only; a closed task leaves in the transaction that closes it. The key is (run_id, task_number) so that
-- the ready index is the only index that can give the claim its order.
CREATE TABLE workflow_tasks (
    run_id text COLLATE "C" NOT NULL,
    task_number bigint NOT NULL,
    kind smallint NOT NULL CHECK (kind IN (0, 1)),
    namespace text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    task_type text COLLATE "C" NOT NULL,
    compatibility text COLLATE "C",
    priority smallint NOT NULL,
    fairness_key text COLLATE "C",
    fairness_weight smallint NOT NULL,
    state smallint NOT NULL CHECK (state IN (0, 1)),
    available_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    attempt integer NOT NULL,
    repair_count integer NOT NULL,
    lease_owner text COLLATE "C",
    leased_at timestamptz,
    lease_expires_at timestamptz,
    poll_request_id text COLLATE "C",
    claimed_history_sequence bigint NOT NULL,
    resume json,
    activity_sequence bigint NOT NULL,
    schedule_to_start_at timestamptz,
    schedule_to_close_at timestamptz,
    start_to_close_at timestamptz,
    heartbeat_at timestamptz,
    last_heartbeat_at timestamptz,
    heartbeat_details json,
    sweep_at timestamptz,
    PRIMARY KEY (run_id, task_number),
    CHECK ((state = 1) = (lease_owner IS NOT NULL AND lease_expires_at IS NOT NULL)),
    CHECK ((kind = 1) = (activity_sequence > 0))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX workflow_tasks_one_per_run ON workflow_tasks (run_id) WHERE kind = 0;
CREATE INDEX workflow_tasks_ready ON workflow_tasks (namespace, queue, kind, priority, available_at, run_id, task_number)
    WHERE state = 0;
CREATE INDEX workflow_tasks_sweep ON workflow_tasks (sweep_at) WHERE sweep_at IS NOT NULL;
CREATE INDEX workflow_tasks_owner ON workflow_tasks (lease_owner, poll_request_id) WHERE state = 1;

CREATE TABLE workflow_task_receipts (
    run_id text COLLATE "C" NOT NULL,
    task_number bigint NOT NULL,
    attempt integer NOT NULL,
    lease_owner text COLLATE "C",
    outcome text NOT NULL CHECK (outcome IN ('completed', 'failed', 'waiting_for_history', 'cancelled')),
    reply json,
    closed_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, task_number)
);

CREATE TABLE activity_executions (
    run_id text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL CHECK (sequence > 0),
    activity_type text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    status text NOT NULL CHECK (status IN ('pending', 'completed', 'failed', 'cancelled')),
    arguments text NOT NULL,
    has_retry_policy boolean NOT NULL,
    retry_policy json NOT NULL,
    timeouts json NOT NULL,
    cancellation_policy text,
    parallel_group_path json,
    group_base bigint,
    attempt_count integer NOT NULL,
    scheduled_at timestamptz NOT NULL,
    closed_at timestamptz,
    PRIMARY KEY (run_id, sequence),
    CHECK ((closed_at IS NULL) = (status = 'pending'))
) WITH (fillfactor = 85);

-- Closed attempts; the live attempt of an activity is its leased task.
CREATE TABLE activity_attempts (
    run_id text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    attempt integer NOT NULL CHECK (attempt > 0),
    task_number bigint NOT NULL,
    status text NOT NULL CHECK (status IN ('completed', 'failed', 'cancelled', 'expired')),
    lease_owner text COLLATE "C",
    reply json,
    started_at timestamptz,
    closed_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, sequence, attempt)
);

CREATE TABLE workflow_parallel_groups (
    run_id text COLLATE "C" NOT NULL,
    base_sequence bigint NOT NULL,
    size integer NOT NULL,
    open_count integer NOT NULL CHECK (open_count BETWEEN 0 AND size),
    first_path json NOT NULL,
    PRIMARY KEY (run_id, base_sequence)
) WITH (fillfactor = 60);

CREATE TABLE workflow_version_markers (
    run_id text COLLATE "C" NOT NULL,
    change_id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (run_id, change_id)
);

-- Events that wait for a lease to end, and what one run does to another.
CREATE TABLE workflow_inbox (
    ordinal bigint GENERATED ALWAYS AS IDENTITY,
    run_id text COLLATE "C" NOT NULL,
    event_type text NOT NULL,
    payload text NOT NULL,
    resume json,
    workflow_task_id text,
    workflow_command_id text,
    PRIMARY KEY (run_id, ordinal)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);

CREATE TABLE workflow_commands (
    command_id text COLLATE "C" PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    workflow_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    command_sequence bigint NOT NULL,
    command_type text NOT NULL,
    target_scope text NOT NULL,
    status text NOT NULL CHECK (status IN ('accepted', 'rejected')),
    outcome text,
    rejection_reason text,
    request_id text COLLATE "C",
    payload json,
    source text NOT NULL,
    context json,
    accepted_at timestamptz,
    applied_at timestamptz,
    rejected_at timestamptz,
    reply json
);
CREATE UNIQUE INDEX workflow_commands_request ON workflow_commands (namespace, workflow_id, request_id)
    WHERE request_id IS NOT NULL;
CREATE INDEX workflow_commands_run ON workflow_commands (run_id, command_sequence);

CREATE TABLE worker_registrations (
    namespace text COLLATE "C" NOT NULL,
    worker_id text COLLATE "C" NOT NULL,
    task_queue text COLLATE "C" NOT NULL,
    build_id text COLLATE "C",
    runtime text NOT NULL,
    sdk_version text,
    supported_workflow_types text[] NOT NULL,
    supported_activity_types text[] NOT NULL,
    capabilities text[] NOT NULL,
    capability_manifest json NOT NULL,
    workflow_definition_fingerprints jsonb NOT NULL,
    workflow_command_contracts json NOT NULL,
    max_concurrent_workflow_tasks integer NOT NULL,
    max_concurrent_activity_tasks integer NOT NULL,
    max_concurrent_worker_sessions integer NOT NULL,
    task_slots json,
    process_metrics json,
    heartbeat_interval_seconds integer,
    registered_at timestamptz NOT NULL,
    last_heartbeat_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, worker_id)
) WITH (fillfactor = 70);
CREATE INDEX worker_registrations_queue ON worker_registrations (namespace, task_queue);

-- What an operator wants of a build cohort; outlives its workers.
CREATE TABLE build_id_rollouts (
    namespace text COLLATE "C" NOT NULL,
    task_queue text COLLATE "C" NOT NULL,
    build_id text COLLATE "C" NOT NULL,
    drain_intent text NOT NULL CHECK (drain_intent IN ('active', 'draining')),
    drained_at timestamptz,
    PRIMARY KEY (namespace, task_queue, build_id)
);
COMMENT ON COLUMN build_id_rollouts.build_id IS 'The empty text stands for the unversioned cohort';

CREATE TABLE service_leases (
    name text COLLATE "C" PRIMARY KEY,
    holder text NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- A page of history: the sequence of its last event, a space, and the events as one JSON fragment; null when there is
-- none. It ends with the event that fills HISTORY_PAGE_BYTES_MAX, so that no history can be too large to be read.
-- VOLATILE: it reads what is committed now, even inside a claiming statement that began before it got its locks.
CREATE FUNCTION dw_history_page(of_run text, after_sequence bigint, up_to bigint, page_size integer)
RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT max(page.sequence) || ' ' || string_agg(page.body, ',' ORDER BY page.sequence)
    FROM (
        SELECT e.sequence, e.body, sum(octet_length(e.body)) OVER (ORDER BY e.sequence) - octet_length(e.body) AS earlier
        FROM (
            SELECT e.sequence, e.body
            FROM workflow_history_events e
            WHERE e.run_id = of_run AND e.sequence > after_sequence AND e.sequence <= up_to
            ORDER BY e.sequence
            LIMIT page_size
        ) e
    ) page
    WHERE page.earlier < 4194304
$$;

-- Whether the run's workflow task is leased right now. VOLATILE for the same reason.
CREATE FUNCTION dw_has_leased_workflow_task(of_run text) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS (SELECT 1 FROM workflow_tasks t WHERE t.run_id = of_run AND t.kind = 0 AND t.state = 1)
$$;
