-- Timers and updates as tables; the rest of the operator surface, which can be derived, as views.

-- A timeout timer shares the workflow sequence of the wait it bounds. due_at is when the clock looks at it.
CREATE TABLE workflow_timers (
    run_id text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL CHECK (sequence > 0),
    kind text NOT NULL CHECK (kind IN ('timer', 'condition_timeout', 'signal_timeout')),
    status text NOT NULL CHECK (status IN ('pending', 'fired', 'cancelled')),
    delay_seconds bigint NOT NULL CHECK (delay_seconds >= 0),
    created_at timestamptz NOT NULL,
    fire_at timestamptz NOT NULL,
    due_at timestamptz NOT NULL,
    fired_at timestamptz,
    cancelled_at timestamptz,
    parallel_group_path json,
    group_base bigint,
    PRIMARY KEY (run_id, sequence),
    CHECK ((fired_at IS NOT NULL) = (status = 'fired')),
    CHECK ((cancelled_at IS NOT NULL) = (status = 'cancelled'))
) WITH (fillfactor = 85);
CREATE INDEX workflow_timers_due ON workflow_timers (due_at) WHERE status = 'pending';
CREATE INDEX workflow_timers_pending ON workflow_timers (run_id, sequence) WHERE status = 'pending';

CREATE TABLE workflow_updates (
    update_id text COLLATE "C" PRIMARY KEY,
    command_id text COLLATE "C" NOT NULL UNIQUE,
    run_id text COLLATE "C" NOT NULL,
    update_name text COLLATE "C" NOT NULL,
    status text NOT NULL CHECK (status IN ('accepted', 'rejected', 'completed', 'failed')),
    outcome text,
    command_sequence bigint NOT NULL,
    workflow_sequence bigint,
    arguments text,
    result text,
    validation_errors json,
    failure_id text COLLATE "C",
    failure_message text,
    accepted_at timestamptz,
    applied_at timestamptz,
    rejected_at timestamptz,
    closed_at timestamptz
) WITH (fillfactor = 85);
CREATE INDEX workflow_updates_run ON workflow_updates (run_id, command_sequence);

-- Views from here on. A projection that is a view is written by nobody, so it never drifts from its source and needs
-- no rebuild. Each reads one run by an index when it is filtered by run_id.

CREATE VIEW workflow_run_waits AS
SELECT a.run_id, 'activity' AS wait_kind, a.sequence, a.activity_type AS target, a.scheduled_at AS opened_at,
       NULL::timestamptz AS deadline_at
FROM activity_executions a
WHERE a.closed_at IS NULL
UNION ALL
SELECT t.run_id, t.kind, t.sequence, NULL, t.created_at, t.fire_at
FROM workflow_timers t
WHERE t.status = 'pending'
UNION ALL
SELECT r.run_id, 'condition', (r.open_wait ->> 'sequence')::bigint, r.open_wait ->> 'key',
       (r.open_wait ->> 'opened_at')::timestamptz, (r.open_wait ->> 'fire_at')::timestamptz
FROM workflow_runs r
WHERE r.open_wait IS NOT NULL AND r.closed_at IS NULL
UNION ALL
SELECT k.run_id, 'workflow_task', k.task_number, k.task_type, k.created_at, k.lease_expires_at
FROM workflow_tasks k
WHERE k.kind = 0;

-- A signal is applied when a worker has closed a task that showed it; one that waits for a lease to end is in the inbox.
CREATE VIEW workflow_signals AS
SELECT e.run_id, p.payload ->> 'signal_id' AS signal_id, p.payload ->> 'workflow_command_id' AS command_id,
       p.payload ->> 'signal_name' AS signal_name,
       CASE WHEN e.sequence <= r.consumed_wake_sequence THEN 'applied' ELSE 'received' END AS status,
       (p.payload ->> 'workflow_sequence')::bigint AS workflow_sequence, p.payload -> 'arguments' AS arguments,
       (e.body::json ->> 'recorded_at')::timestamptz AS received_at
FROM workflow_history_events e
JOIN workflow_runs r ON r.run_id = e.run_id
CROSS JOIN LATERAL (SELECT e.body::json -> 'payload' AS payload) p
WHERE e.event_type = 'SignalReceived'
UNION ALL
SELECT i.run_id, i.payload::json ->> 'signal_id', i.payload::json ->> 'workflow_command_id',
       i.payload::json ->> 'signal_name', 'received', NULL, i.payload::json -> 'arguments', NULL
FROM workflow_inbox i
WHERE i.event_type = 'SignalReceived';

CREATE VIEW workflow_run_timeline_entries AS
SELECT e.run_id, e.sequence, e.event_type, (e.body::json ->> 'recorded_at')::timestamptz AS recorded_at
FROM workflow_history_events e;

CREATE VIEW workflow_run_timer_entries AS
SELECT t.run_id, t.sequence, t.kind, t.status, t.delay_seconds, t.fire_at, t.fired_at, t.cancelled_at
FROM workflow_timers t;

CREATE VIEW workflow_failures AS
SELECT e.run_id, e.sequence AS event_sequence, e.event_type, p.payload ->> 'failure_id' AS failure_id,
       p.payload ->> 'source_kind' AS source_kind, p.payload ->> 'source_id' AS source_id,
       p.payload ->> 'failure_category' AS failure_category, (p.payload ->> 'non_retryable')::boolean AS non_retryable,
       p.payload ->> 'exception_class' AS exception_class, p.payload ->> 'message' AS message
FROM workflow_history_events e
CROSS JOIN LATERAL (SELECT e.body::json -> 'payload' AS payload) p
WHERE e.event_type IN (
    'WorkflowFailed', 'WorkflowTimedOut', 'WorkflowTerminated', 'WorkflowCancelled', 'ActivityFailed',
    'ActivityTimedOut', 'ChildRunFailed', 'ChildRunCancelled', 'ChildRunTerminated'
);

-- Whether a live worker on the queue runs the build a run is pinned to; an unpinned run suits every worker.
CREATE FUNCTION dw_is_supported(of_namespace text, on_queue text, build text, silence_seconds integer)
RETURNS boolean LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN build IS NULL OR EXISTS (
        SELECT 1
        FROM worker_registrations w
        WHERE w.namespace = of_namespace AND w.task_queue = on_queue AND w.build_id = build
          AND w.last_heartbeat_at > dw_now() - make_interval(secs => silence_seconds)
    );
