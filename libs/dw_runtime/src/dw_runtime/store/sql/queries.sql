-- name: read_query_target
-- What decides whether a run can be asked: $1 namespace, $2 workflow id, $3 run id or null for the current run,
-- $4 seconds of silence after which a worker counts as gone. No row means that there is no such workflow id; a null run
-- that the run is not one of its runs. Workers are told apart by build id and declared contract only.
SELECT
    r.run_id = i.current_run_id,
    row_to_json(r)::text,
    EXISTS (SELECT 1 FROM workflow_history_events e WHERE e.run_id = r.run_id AND e.sequence = 1),
    (
        SELECT json_agg(c)::text
        FROM (
            SELECT w.build_id, (w.workflow_command_contracts -> r.workflow_type)::text AS contract
            FROM worker_registrations w
            LEFT JOIN build_id_rollouts d
                ON d.namespace = w.namespace AND d.task_queue = w.task_queue AND d.build_id = COALESCE(w.build_id, '')
            WHERE w.namespace = r.namespace AND w.task_queue = r.queue
              AND w.last_heartbeat_at > dw_now() - make_interval(secs => $4::integer)
              AND 'query_tasks' = ANY(w.capabilities)
              AND (w.supported_workflow_types = '{}' OR r.workflow_type = ANY(w.supported_workflow_types))
              AND d.drain_intent IS DISTINCT FROM 'draining'
            GROUP BY 1, 2
        ) c
    )
FROM workflow_instances i
LEFT JOIN workflow_runs r
    ON r.run_id = COALESCE($3::text, i.current_run_id) AND r.namespace = i.namespace AND r.workflow_id = i.workflow_id
WHERE i.namespace = $1 AND i.workflow_id = $2;

-- name: admit_query
-- Add a query to its queue, unless the queue is full. $1 is the task as JSON, $2 the seconds its caller waits, $3 the
-- seconds it is kept, $4 how many may wait. Callers that are admitted at the same instant may exceed that by their number.
WITH clock AS MATERIALIZED (SELECT dw_now() AS now)
INSERT INTO workflow_query_tasks (
    query_task_id, kind, namespace, queue, workflow_id, run_id, workflow_type, compatibility, query_name, update_id,
    arguments, caller, admitted_at, deadline_at, expires_at
)
SELECT n.query_task_id, n.kind, n.namespace, n.queue, n.workflow_id, n.run_id, n.workflow_type, n.compatibility,
       n.query_name, n.update_id, n.arguments, n.caller, c.now, c.now + make_interval(secs => $2::double precision),
       c.now + make_interval(secs => $3::double precision)
FROM clock c, json_to_record($1::json) AS n(
    query_task_id text, kind smallint, namespace text, queue text, workflow_id text, run_id text, workflow_type text,
    compatibility text, query_name text, update_id text, arguments text, caller text
)
WHERE $4::integer > (
    SELECT count(*)
    FROM (
        SELECT 1
        FROM workflow_query_tasks q
        WHERE q.namespace = n.namespace AND q.queue = n.queue AND q.kind = n.kind AND q.state = 0
          AND q.deadline_at > c.now
        LIMIT $4::integer
    ) waiting
)
RETURNING query_task_id;

-- name: take_answers
-- The outcomes that have come for waiting callers, taken out; a null state says that a query is no longer known. $1 is
-- a JSON array of query task ids.
WITH asked AS MATERIALIZED (
    SELECT a.query_task_id FROM json_array_elements_text($1::json) AS a(query_task_id)
),
taken AS (
    DELETE FROM workflow_query_tasks q
    USING asked a
    WHERE q.query_task_id = a.query_task_id AND q.state IN (2, 3)
    RETURNING q.query_task_id, q.state, q.answer, q.failure
)
SELECT t.query_task_id, t.state, t.answer, t.failure::text FROM taken t
UNION ALL
SELECT a.query_task_id, NULL, NULL, NULL
FROM asked a
WHERE NOT EXISTS (SELECT 1 FROM workflow_query_tasks q WHERE q.query_task_id = a.query_task_id);

-- name: end_query
-- Its caller has given a query up; how often it had been leased, and whether it still was. One that never was need not
-- be remembered.
UPDATE workflow_query_tasks q
SET state = 4, lease_owner = NULL, lease_expires_at = NULL,
    expires_at = CASE WHEN q.attempt = 0 THEN dw_now() ELSE q.expires_at END
FROM (
    SELECT o.query_task_id, o.state FROM workflow_query_tasks o
    WHERE o.query_task_id = $1 AND o.state IN (0, 1)
    FOR UPDATE
) old
WHERE q.query_task_id = old.query_task_id
RETURNING q.attempt, old.state = 1;

-- name: claim_queries
-- Lease waiting queries to polls, oldest first. $1 is a JSON array of {position, namespace, kind, queue, types, build_id,
-- slots, claimants}: claimants are {lease_owner, poll_request_id, lease_seconds}; types null means any type; a query of
-- a run that is pinned to a build goes only to that build. A query whose run has a leased workflow task waits for the
-- end of that lease, at most $2 seconds; a row with a null task says that such a one was left. Gives the position, the
-- place among its claimants, the task, the run's status and last sequence, and its arguments.
WITH clock AS MATERIALIZED (SELECT dw_now() AS now),
wanted AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1::json) AS w(
        position integer, namespace text, kind smallint, queue text, types text[], build_id text, slots integer,
        claimants json
    )
),
picked AS MATERIALIZED (
    SELECT w.position, w.claimants, q.query_task_id,
           (row_number() OVER (PARTITION BY w.position ORDER BY q.admitted_at, q.query_task_id) - 1)::integer AS place
    FROM clock, wanted w
    CROSS JOIN LATERAL (
        SELECT q.query_task_id, q.admitted_at
        FROM workflow_query_tasks q
        WHERE q.namespace = w.namespace AND q.queue = w.queue AND q.kind = w.kind AND q.state = 0
          AND q.deadline_at > clock.now
          AND (w.types IS NULL OR q.workflow_type = ANY(w.types))
          AND (q.compatibility IS NULL OR q.compatibility = w.build_id)
          AND (
              q.admitted_at <= clock.now - make_interval(secs => $2::double precision)
              OR NOT EXISTS (
                  SELECT 1
                  FROM workflow_tasks t
                  WHERE t.run_id = q.run_id AND t.kind = 0 AND t.state = 1 AND t.lease_expires_at > clock.now
              )
          )
        ORDER BY q.admitted_at, q.query_task_id
        LIMIT w.slots
        FOR UPDATE OF q SKIP LOCKED
    ) q
),
leased AS (
    UPDATE workflow_query_tasks q
    SET state = 1, attempt = q.attempt + 1,
        lease_owner = p.claimants -> p.place ->> 'lease_owner',
        poll_request_id = p.claimants -> p.place ->> 'poll_request_id',
        lease_expires_at =
            clock.now + make_interval(secs => (p.claimants -> p.place ->> 'lease_seconds')::double precision)
    FROM clock, picked p
    WHERE q.query_task_id = p.query_task_id
    RETURNING p.position, p.place, q.*
)
SELECT l.position, l.place, row_to_json(l)::text, r.status, r.last_history_sequence, s.arguments
FROM leased l
JOIN workflow_runs r ON r.run_id = l.run_id
JOIN workflow_run_summaries s ON s.run_id = l.run_id
UNION ALL
SELECT w.position, NULL, NULL, NULL, NULL, NULL
FROM clock, wanted w
CROSS JOIN LATERAL (
    SELECT 1
    FROM workflow_query_tasks q
    JOIN workflow_tasks t ON t.run_id = q.run_id AND t.kind = 0 AND t.state = 1
    WHERE q.namespace = w.namespace AND q.queue = w.queue AND q.kind = w.kind AND q.state = 0
      AND q.admitted_at > clock.now - make_interval(secs => $2::double precision)
    LIMIT 1
) left_waiting;

-- name: renew_polled_queries
-- Leases that earlier polls with these request ids were granted, for their whole length again. $1 is a JSON array of
-- {position, namespace, kind, queue, lease_owner, poll_request_id, lease_seconds}. The columns of claim_queries.
WITH renewed AS (
    UPDATE workflow_query_tasks q
    SET lease_expires_at = dw_now() + make_interval(secs => k.lease_seconds)
    FROM json_to_recordset($1::json) AS k(
        position integer, namespace text, kind smallint, queue text, lease_owner text, poll_request_id text,
        lease_seconds integer
    )
    WHERE q.lease_owner = k.lease_owner AND q.poll_request_id = k.poll_request_id AND q.state = 1
      AND q.namespace = k.namespace AND q.kind = k.kind AND q.queue = k.queue AND q.lease_expires_at > dw_now() AND q.deadline_at > dw_now()
    RETURNING k.position, q.*
)
SELECT l.position, 0, row_to_json(l)::text, r.status, r.last_history_sequence, s.arguments
FROM renewed l
JOIN workflow_runs r ON r.run_id = l.run_id
JOIN workflow_run_summaries s ON s.run_id = l.run_id;

-- name: release_query
-- Give back a query that was leased to a poll whose client had gone: $1 task, $2 attempt, $3 owner. No worker saw it.
UPDATE workflow_query_tasks q
SET state = 0, attempt = q.attempt - 1, lease_owner = NULL, lease_expires_at = NULL, poll_request_id = NULL
WHERE q.query_task_id = $1 AND q.attempt = $2 AND q.lease_owner = $3 AND q.state = 1;

-- name: lock_query
-- A query a worker reports on, locked, and the time: $1 task, $2 namespace, $3 kind.
SELECT dw_now(), row_to_json(q)::text
FROM workflow_query_tasks q
WHERE q.query_task_id = $1 AND q.namespace = $2 AND q.kind = $3::smallint
FOR UPDATE;

-- name: settle_query
-- The outcome of a query: $1 task, $2 state, $3 answer, $4 failure.
UPDATE workflow_query_tasks q
SET state = $2::smallint, answer = $3, failure = $4::json, lease_owner = NULL, lease_expires_at = NULL
WHERE q.query_task_id = $1;

-- name: reoffer_queries_of
-- Queries leased to these workers become claimable again: the workers have hung up. $1 is a JSON array of {namespace,
-- worker_id}. Gives the queues.
UPDATE workflow_query_tasks q
SET state = 0, lease_owner = NULL, lease_expires_at = NULL, poll_request_id = NULL
FROM json_to_recordset($1::json) AS k(namespace text, worker_id text)
WHERE q.lease_owner = k.worker_id AND q.state = 1 AND q.namespace = k.namespace AND q.deadline_at > dw_now()
RETURNING q.namespace, q.kind, q.queue;

-- name: sweep_queries
-- Forget queries that have been kept long enough, and make claimable again those whose lease has run out or whose
-- worker has left or gone silent: $1 at most so many of each, $2 seconds of worker silence. Gives the queues.
WITH clock AS MATERIALIZED (SELECT dw_now() AS now),
forgotten AS (
    DELETE FROM workflow_query_tasks q
    WHERE q.query_task_id IN (
        SELECT f.query_task_id
        FROM workflow_query_tasks f
        WHERE f.expires_at <= (SELECT now FROM clock)
        ORDER BY f.expires_at
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    )
),
lost AS MATERIALIZED (
    SELECT q.query_task_id
    FROM clock, workflow_query_tasks q
    WHERE q.state = 1 AND q.deadline_at > clock.now
      AND (
          q.lease_expires_at <= clock.now
          OR NOT EXISTS (
              SELECT 1
              FROM worker_registrations w
              WHERE w.namespace = q.namespace AND w.worker_id = q.lease_owner
                AND w.last_heartbeat_at > clock.now - make_interval(secs => $2::integer)
          )
      )
    LIMIT $1
    FOR UPDATE OF q SKIP LOCKED
)
UPDATE workflow_query_tasks q
SET state = 0, lease_owner = NULL, lease_expires_at = NULL, poll_request_id = NULL
FROM lost l
WHERE q.query_task_id = l.query_task_id
RETURNING q.namespace, q.kind, q.queue;

-- name: read_validators
-- The live workers of a queue that run a workflow type, told apart by build id, capability and declared contract:
-- $1 namespace, $2 queue, $3 workflow type, $4 seconds of silence after which a worker counts as gone.
SELECT json_agg(c)::text
FROM (
    SELECT w.build_id, 'update_validation_tasks' = ANY(w.capabilities) AS is_capable,
           (w.workflow_command_contracts -> $3::text)::jsonb -> 'update_validators' AS update_validators
    FROM worker_registrations w
    LEFT JOIN build_id_rollouts d
        ON d.namespace = w.namespace AND d.task_queue = w.task_queue AND d.build_id = COALESCE(w.build_id, '')
    WHERE w.namespace = $1 AND w.task_queue = $2
      AND w.last_heartbeat_at > dw_now() - make_interval(secs => $4::integer)
      AND (w.supported_workflow_types = '{}' OR $3::text = ANY(w.supported_workflow_types))
      AND d.drain_intent IS DISTINCT FROM 'draining'
    GROUP BY 1, 2, 3
) c;
