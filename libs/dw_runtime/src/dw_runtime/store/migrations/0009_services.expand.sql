-- The service catalogue, service calls, and the runs that wait for them or answer them.

CREATE TABLE workflow_service_endpoints (
    namespace text COLLATE "C" NOT NULL,
    endpoint_name text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    description text,
    metadata json,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, endpoint_name)
);

CREATE TABLE workflow_services (
    namespace text COLLATE "C" NOT NULL,
    endpoint_name text COLLATE "C" NOT NULL,
    service_name text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    endpoint_id text COLLATE "C" NOT NULL,
    description text,
    metadata json,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, endpoint_name, service_name),
    FOREIGN KEY (namespace, endpoint_name) REFERENCES workflow_service_endpoints
);

CREATE TABLE workflow_service_operations (
    namespace text COLLATE "C" NOT NULL,
    endpoint_name text COLLATE "C" NOT NULL,
    service_name text COLLATE "C" NOT NULL,
    operation_name text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    service_id text COLLATE "C" NOT NULL,
    operation_mode text NOT NULL CHECK (operation_mode IN ('sync', 'async')),
    handler_binding_kind text NOT NULL,
    handler_target_reference text,
    handler_binding json,
    deadline_policy json,
    idempotency_policy json,
    cancellation_policy json,
    retry_policy json,
    boundary_policy json,
    metadata json,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, endpoint_name, service_name, operation_name),
    FOREIGN KEY (namespace, endpoint_name, service_name) REFERENCES workflow_services
);

-- due_at is when the dispatcher must look at an open call; no open call is without it for longer than its run may take.
CREATE TABLE workflow_service_calls (
    service_call_id text COLLATE "C" NOT NULL PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    endpoint_name text COLLATE "C" NOT NULL,
    service_name text COLLATE "C" NOT NULL,
    operation_name text COLLATE "C" NOT NULL,
    operation_mode text NOT NULL,
    wait_for text NOT NULL,
    binding_kind text NOT NULL,
    target_reference text,
    handler_binding json,
    policies json NOT NULL,
    options json NOT NULL,
    metadata json,
    caller_namespace text COLLATE "C",
    caller_workflow_id text COLLATE "C",
    caller_run_id text COLLATE "C",
    idempotency_key text COLLATE "C",
    request_payload text NOT NULL,
    status text NOT NULL CHECK (status IN ('accepted', 'started', 'completed', 'failed', 'cancelled')),
    outcome text NOT NULL,
    outcome_reason text,
    reason text,
    message text,
    error_type text,
    response_payload text,
    linked_workflow_id text COLLATE "C",
    linked_run_id text COLLATE "C",
    linked_update_id text COLLATE "C",
    attempts json NOT NULL,
    attempt_count integer NOT NULL CHECK (attempt_count >= 0),
    lease_owner text COLLATE "C",
    due_at timestamptz,
    deadline_at timestamptz,
    accepted_at timestamptz NOT NULL,
    started_at timestamptz,
    closed_at timestamptz,
    CHECK ((closed_at IS NULL) = (status IN ('accepted', 'started'))),
    CHECK (closed_at IS NULL OR (due_at IS NULL AND lease_owner IS NULL))
) WITH (fillfactor = 85);
CREATE UNIQUE INDEX workflow_service_calls_key ON workflow_service_calls (
    namespace, endpoint_name, service_name, operation_name, COALESCE(caller_namespace, ''), idempotency_key
) WHERE idempotency_key IS NOT NULL;
CREATE INDEX workflow_service_calls_operation
    ON workflow_service_calls (namespace, endpoint_name, service_name, operation_name, service_call_id);
CREATE INDEX workflow_service_calls_due ON workflow_service_calls (due_at) WHERE closed_at IS NULL;
CREATE INDEX workflow_service_calls_closed ON workflow_service_calls (namespace, closed_at) WHERE closed_at IS NOT NULL;
CREATE INDEX workflow_service_calls_linked ON workflow_service_calls (linked_run_id)
    WHERE closed_at IS NULL AND linked_run_id IS NOT NULL;

-- Runs that are told when a call ends: the call of their workflow sequence.
CREATE TABLE workflow_service_waiters (
    service_call_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL CHECK (sequence > 0),
    PRIMARY KEY (service_call_id, run_id, sequence)
);
CREATE INDEX workflow_service_waiters_run ON workflow_service_waiters (run_id);

-- service_wait is the call that the run is blocked on; has_service_calls: calls end with the run.
ALTER TABLE workflow_runs
    ADD COLUMN service_wait json,
    ADD COLUMN has_service_calls boolean NOT NULL DEFAULT false;

-- The service call that ends with an update.
ALTER TABLE workflow_updates ADD COLUMN service_call_id text COLLATE "C";

ALTER TABLE workflow_deliveries DROP CONSTRAINT workflow_deliveries_kind_check;
ALTER TABLE workflow_deliveries ADD CONSTRAINT workflow_deliveries_kind_check
    CHECK (kind IN ('child_closed', 'child_continued', 'parent_closed', 'cancellation', 'service_call_closed'));

CREATE OR REPLACE VIEW workflow_run_waits AS
SELECT a.run_id, 'activity' AS wait_kind, a.sequence, a.activity_type AS target, a.scheduled_at AS opened_at,
       NULL::timestamptz AS deadline_at
FROM activity_executions a
WHERE a.closed_at IS NULL
UNION ALL
SELECT t.run_id, t.kind, t.sequence, NULL, t.created_at, t.fire_at
FROM workflow_timers t
WHERE t.status = 'pending'
UNION ALL
SELECT c.run_id, 'child', c.sequence, c.workflow_type, c.started_at, NULL
FROM workflow_child_calls c
WHERE c.closed_at IS NULL
UNION ALL
SELECT r.run_id, 'condition', (r.open_wait ->> 'sequence')::bigint, r.open_wait ->> 'key',
       (r.open_wait ->> 'opened_at')::timestamptz, (r.open_wait ->> 'fire_at')::timestamptz
FROM workflow_runs r
WHERE r.open_wait IS NOT NULL AND r.closed_at IS NULL
UNION ALL
SELECT k.run_id, 'workflow_task', k.task_number, k.task_type, k.created_at, k.lease_expires_at
FROM workflow_tasks k
WHERE k.kind = 0
UNION ALL
SELECT r.run_id, 'service_call', (r.service_wait ->> 'sequence')::bigint, r.service_wait ->> 'service_call_id',
       (r.service_wait ->> 'opened_at')::timestamptz, NULL
FROM workflow_runs r
WHERE r.service_wait IS NOT NULL AND r.closed_at IS NULL;
