-- name: read_services
-- The operations in $1 ({namespace, endpoint_name, service_name, operation_name}), the calls that were made of them
-- before under the same key ($2: the same with caller_namespace and idempotency_key), and the calls in $3
-- ({service_call_id}). Calls are locked in the order of their ids.
WITH named AS (
    SELECT c.service_call_id
    FROM json_to_recordset($2::json) AS k(
        namespace text, endpoint_name text, service_name text, operation_name text, caller_namespace text,
        idempotency_key text
    )
    JOIN workflow_service_calls c
        ON c.namespace = k.namespace AND c.endpoint_name = k.endpoint_name AND c.service_name = k.service_name
        AND c.operation_name = k.operation_name AND COALESCE(c.caller_namespace, '') = COALESCE(k.caller_namespace, '')
        AND c.idempotency_key = k.idempotency_key
    UNION
    SELECT k.service_call_id FROM json_to_recordset($3::json) AS k(service_call_id text)
),
locked AS MATERIALIZED (
    SELECT c.*
    FROM named n
    JOIN workflow_service_calls c ON c.service_call_id = n.service_call_id
    ORDER BY c.service_call_id
    FOR UPDATE OF c
)
SELECT
    (
        SELECT json_agg(o)
        FROM json_to_recordset($1::json) AS k(
            namespace text, endpoint_name text, service_name text, operation_name text
        )
        JOIN workflow_service_operations o USING (namespace, endpoint_name, service_name, operation_name)
    ),
    (SELECT json_agg(l) FROM locked l);

-- name: open_service_calls
-- Record new calls.
INSERT INTO workflow_service_calls SELECT n.* FROM json_populate_recordset(NULL::workflow_service_calls, $1::json) n;

-- name: find_operation
-- An operation that is about to be called, and the time.
SELECT row_to_json(o)::text, dw_now() FROM workflow_service_operations o
WHERE o.namespace = $1 AND o.endpoint_name = $2 AND o.service_name = $3 AND o.operation_name = $4;

-- name: admit_service_call
-- Record a call that no workflow has made, due at once, unless one with its key exists. Gives back its id.
INSERT INTO workflow_service_calls
SELECT n.* FROM json_populate_recordset(NULL::workflow_service_calls, $1::json) n
ON CONFLICT DO NOTHING
RETURNING service_call_id;

-- name: add_service_waiters
-- Record who is told of the end of calls.
INSERT INTO workflow_service_waiters
SELECT n.* FROM json_populate_recordset(NULL::workflow_service_waiters, $1::json) n
ON CONFLICT DO NOTHING;

-- name: link_service_calls
-- Have runs or updates answer calls: $1 {service_call_id, linked_workflow_id, linked_run_id, linked_update_id}. What is due then is the deadline.
UPDATE workflow_service_calls c SET
    status = 'started', started_at = COALESCE(c.started_at, dw_now()), linked_workflow_id = n.linked_workflow_id,
    linked_run_id = n.linked_run_id, linked_update_id = n.linked_update_id, lease_owner = NULL, due_at = c.deadline_at
FROM json_to_recordset($1::json) AS n(
    service_call_id text, linked_workflow_id text, linked_run_id text, linked_update_id text
)
WHERE c.service_call_id = n.service_call_id AND c.closed_at IS NULL;

-- name: move_service_calls
-- The calls of runs go on with their successors: $1 {from_run_id, to_run_id}.
UPDATE workflow_service_calls c SET linked_run_id = n.to_run_id
FROM json_to_recordset($1::json) AS n(from_run_id text, to_run_id text)
WHERE c.linked_run_id = n.from_run_id AND c.closed_at IS NULL;

-- name: end_service_calls
-- Close calls, named in $1 by service_call_id or by linked_run_id, and leave word with every run that waits for them;
-- gives back those runs and the calls. With a lease_owner only calls under that lease at that attempt are closed.
WITH named AS (
    SELECT * FROM json_to_recordset($1::json) AS n(
        service_call_id text, linked_run_id text, status text, outcome text, outcome_reason text, reason text,
        message text, error_type text, response_payload text, lease_owner text, attempt integer, attempts json
    )
),
picked AS MATERIALIZED (
    SELECT c.service_call_id AS call_id, n.*
    FROM named n
    JOIN workflow_service_calls c ON c.service_call_id = n.service_call_id
    WHERE c.closed_at IS NULL
      AND (n.lease_owner IS NULL OR (c.lease_owner = n.lease_owner AND c.attempt_count = n.attempt))
    UNION ALL
    SELECT c.service_call_id, n.*
    FROM named n
    JOIN workflow_service_calls c ON c.linked_run_id = n.linked_run_id AND c.linked_run_id IS NOT NULL
    WHERE c.closed_at IS NULL
),
ended AS (
    UPDATE workflow_service_calls c SET
        status = p.status, outcome = p.outcome, outcome_reason = p.outcome_reason, reason = p.reason,
        message = p.message, error_type = p.error_type, response_payload = p.response_payload,
        attempts = COALESCE(p.attempts, c.attempts), started_at = COALESCE(c.started_at, clock.now),
        closed_at = clock.now, due_at = NULL, lease_owner = NULL
    FROM picked p, (SELECT dw_now() AS now OFFSET 0) clock
    WHERE c.service_call_id = p.call_id AND c.closed_at IS NULL
    RETURNING c.*
),
told AS (
    DELETE FROM workflow_service_waiters w USING ended e
    WHERE w.service_call_id = e.service_call_id
    RETURNING w.service_call_id, w.run_id, w.sequence
),
left_behind AS (
    INSERT INTO workflow_deliveries (run_id, kind, sequence, body, created_at)
    SELECT t.run_id, 'service_call_closed', t.sequence, row_to_json(e), e.closed_at
    FROM told t
    JOIN ended e ON e.service_call_id = t.service_call_id
)
SELECT (SELECT json_agg(t.run_id) FROM told t), (SELECT json_agg(e.service_call_id) FROM ended e);

-- name: lease_service_calls
-- Take due calls for $1: at most $2, for $3 seconds each and as long as a request to an HTTP target or a question to a
-- run may take, which is $4 seconds when the operation does not say. Tells of each whether its deadline has passed, and the time.
WITH due AS MATERIALIZED (
    SELECT c.service_call_id
    FROM workflow_service_calls c
    WHERE c.closed_at IS NULL AND c.due_at <= (SELECT dw_now())
    ORDER BY c.due_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
UPDATE workflow_service_calls c SET
    lease_owner = $1, started_at = COALESCE(c.started_at, clock.now),
    attempt_count = c.attempt_count + CASE WHEN c.deadline_at <= clock.now THEN 0 ELSE 1 END,
    due_at = clock.now + make_interval(
        secs => $3 + CASE WHEN c.binding_kind IN ('invocable_http', 'query_workflow') THEN COALESCE(
            (c.policies -> 'deadline_policy' ->> 'request_timeout_seconds')::float8, $4
        ) ELSE 0 END
    )
FROM due d, (SELECT dw_now() AS now OFFSET 0) clock
WHERE c.service_call_id = d.service_call_id
RETURNING row_to_json(c)::text, COALESCE(c.deadline_at <= clock.now, false),
          EXTRACT(EPOCH FROM c.deadline_at - clock.now)::float8;

-- name: retry_service_call
-- Give a leased call back: $1 id, $2 lease owner, $3 attempt, $4 seconds until it is due, $5 its closed attempts.
UPDATE workflow_service_calls c SET
    lease_owner = NULL, due_at = LEAST(dw_now() + make_interval(secs => $4), c.deadline_at), attempts = $5::json
WHERE c.service_call_id = $1 AND c.lease_owner = $2 AND c.attempt_count = $3 AND c.closed_at IS NULL
RETURNING c.service_call_id;

-- name: forget_service_calls
-- Remove at most $1 calls that have ended longer ago than their namespace keeps closed runs; their keys are free again.
WITH expired AS MATERIALIZED (
    SELECT c.service_call_id
    FROM workflow_namespaces n
    CROSS JOIN LATERAL (
        SELECT c.service_call_id
        FROM workflow_service_calls c
        WHERE c.namespace = n.name AND c.closed_at <= (SELECT dw_now()) - make_interval(days => n.retention_days)
        ORDER BY c.closed_at
        LIMIT $1
    ) c
    LIMIT $1
)
DELETE FROM workflow_service_calls d
USING expired e
WHERE d.service_call_id = e.service_call_id
RETURNING d.service_call_id;

-- name: describe_service_call
-- One call.
SELECT row_to_json(c)::text FROM workflow_service_calls c WHERE c.service_call_id = $1;

-- name: find_service_call
-- The call of an operation under a key: $1-$4 names, $5 caller namespace, $6 key.
SELECT row_to_json(c)::text
FROM workflow_service_calls c
WHERE c.namespace = $1 AND c.endpoint_name = $2 AND c.service_name = $3 AND c.operation_name = $4
  AND COALESCE(c.caller_namespace, '') = $5 AND c.idempotency_key = $6;

-- name: closed_service_calls
-- Which of the calls $1 have ended.
SELECT c.service_call_id FROM workflow_service_calls c
WHERE c.service_call_id = ANY(ARRAY(SELECT json_array_elements_text($1::json))) AND c.closed_at IS NOT NULL;
