-- name: pick_tasks
-- For every wanted queue, lock up to that many ready, due tasks together with their runs, skipping what is locked.
-- $1 is a JSON array of {position, namespace, kind, queue, owners, types, build_id, page_size,
-- is_cooperative}; owners are {lease_owner,
-- polls, leases_max}, and each gets at most the rest of its leases_max; types null means any type; a task pinned to a
-- build goes only to that build, one that is reserved for a worker at first only to that, one that needs cooperation only
-- to who offers it. page_size counts history
-- events; a worker that keeps the history gets two events of a longer one. Two wants on one queue may pick the same task. A task
-- whose run another transaction holds comes without its run. Nothing is picked from a queue on which shares compete or
-- activities of sessions wait; the last column says so. Every want has a row: with a null task when nothing was picked. The column before it has the
-- room of each owner.
WITH clock AS MATERIALIZED (SELECT dw_now() AS now),
wanted AS MATERIALIZED (
    SELECT w.*, r.rooms, CASE WHEN k.shared IS NULL AND k.sessioned IS NULL THEN r.slots ELSE 0 END AS slots,
           k.shared IS NOT NULL AS is_shared, k.sessioned IS NOT NULL AS is_sessioned, r.names
    FROM json_to_recordset($1::json) AS w(
        position integer, namespace text, kind smallint, queue text, owners json, types text[], build_id text,
        page_size integer, is_cooperative boolean
    )
    CROSS JOIN LATERAL (
        SELECT json_agg(o.room ORDER BY o.place) AS rooms, sum(LEAST(o.polls, o.room)) AS slots,
               array_agg(o.name) AS names
        FROM (
            SELECT e.place, e.owner ->> 'lease_owner' AS name, (e.owner ->> 'polls')::bigint AS polls, GREATEST((e.owner ->> 'leases_max')::bigint - (
                SELECT count(*)
                FROM workflow_tasks l
                WHERE l.lease_owner = e.owner ->> 'lease_owner' AND l.state = 1 AND l.kind = w.kind
                  AND l.namespace = w.namespace
            ), 0) AS room
            FROM json_array_elements(w.owners) WITH ORDINALITY AS e(owner, place)
            OFFSET 0
        ) o
    ) r
    CROSS JOIN LATERAL (
        SELECT (
            SELECT s.run_id
            FROM workflow_tasks s
            WHERE s.namespace = w.namespace AND s.queue = w.queue AND s.kind = w.kind AND s.state = 0
              AND s.fairness_key IS NOT NULL
            LIMIT 1
        ) AS shared,
        (
            SELECT s.run_id
            FROM workflow_tasks s
            WHERE s.namespace = w.namespace AND s.queue = w.queue AND s.kind = w.kind AND s.state = 0
              AND s.session_id IS NOT NULL
            LIMIT 1
        ) AS sessioned
        OFFSET 0
    ) k
),
picked AS MATERIALIZED (
    SELECT w.position, w.page_size, t.*
    FROM clock, wanted w
    CROSS JOIN LATERAL (
        SELECT t.*
        FROM workflow_tasks t
        WHERE t.namespace = w.namespace AND t.queue = w.queue AND t.kind = w.kind AND t.state = 0
          AND t.available_at <= clock.now AND (t.sweep_at IS NULL OR t.sweep_at > clock.now)
          AND (w.types IS NULL OR t.task_type = ANY(w.types))
          AND (t.compatibility IS NULL OR t.compatibility = w.build_id)
          AND (t.needs_cooperation IS NOT TRUE OR w.is_cooperative)
          AND (t.reserved_for IS NULL OR t.reserved_until <= clock.now OR t.reserved_for = ANY(w.names))
          AND t.session_id IS NULL
        ORDER BY t.priority, t.available_at, t.run_id, t.task_number
        LIMIT w.slots
        FOR UPDATE OF t SKIP LOCKED
    ) t
)
SELECT
    to_json(clock.now),
    row_to_json(p),
    CASE WHEN r.run_id IS NOT NULL THEN row_to_json(r) END,
    to_json(CASE WHEN p.kind = 1 THEN dw_has_leased_workflow_task(p.run_id) ELSE false END),
    (
        SELECT row_to_json(a)
        FROM activity_executions a
        WHERE p.kind = 1 AND a.run_id = p.run_id AND a.sequence = p.activity_sequence
    ),
    CASE WHEN p.kind = 0 THEN (SELECT s.arguments FROM workflow_run_summaries s WHERE s.run_id = p.run_id) END,
    CASE WHEN p.kind = 0 THEN dw_history_page(
        p.run_id, 0, r.last_history_sequence,
        CASE WHEN p.reserved_for IS NOT NULL AND r.last_history_sequence > p.page_size THEN 2 ELSE p.page_size END
    ) END,
    p.position,
    NULL::json,
    NULL::json
FROM clock, picked p
LEFT JOIN LATERAL (
    SELECT r.* FROM workflow_runs r WHERE r.run_id = p.run_id FOR UPDATE OF r SKIP LOCKED
) r ON true
UNION ALL
SELECT to_json(clock.now), NULL, NULL, NULL, NULL, NULL, NULL, w.position, w.rooms,
       json_build_object('is_shared', w.is_shared, 'is_sessioned', w.is_sessioned)
FROM clock, wanted w;

-- name: find_polled
-- Leases that earlier polls with these request ids were granted. $1 is a JSON array of {position, namespace, kind,
-- queue, lease_owner, poll_request_id, page_size}. The columns of pick_tasks up to the position, and the session of an activity.
SELECT
    to_json(dw_now()),
    row_to_json(p),
    row_to_json(r),
    to_json(false),
    (
        SELECT row_to_json(a)
        FROM activity_executions a
        WHERE p.kind = 1 AND a.run_id = p.run_id AND a.sequence = p.activity_sequence
    ),
    CASE WHEN p.kind = 0 THEN (SELECT s.arguments FROM workflow_run_summaries s WHERE s.run_id = p.run_id) END,
    CASE WHEN p.kind = 0 THEN dw_history_page(p.run_id, 0, p.claimed_history_sequence, k.page_size) END,
    k.position,
    (
        SELECT row_to_json(s)
        FROM worker_sessions s
        WHERE p.session_id IS NOT NULL AND s.namespace = p.namespace AND s.session_id = p.session_id
    )
FROM json_to_recordset($1::json) AS k(
    position integer, namespace text, kind smallint, queue text, lease_owner text, poll_request_id text, page_size integer
)
JOIN workflow_tasks p
    ON p.poll_request_id = k.poll_request_id AND p.lease_owner = k.lease_owner AND p.namespace = k.namespace
   AND p.queue = k.queue AND p.kind = k.kind AND p.state = 1 AND p.lease_expires_at > dw_now()
JOIN workflow_runs r ON r.run_id = p.run_id;

-- name: read_pages
-- Arguments and first history page of runs whose task has just been leased. $1 is a JSON array of {run_id, up_to,
-- page_size}.
SELECT g.run_id, s.arguments, dw_history_page(g.run_id, 0, g.up_to, g.page_size)
FROM json_to_recordset($1::json) AS g(run_id text, up_to bigint, page_size integer)
JOIN workflow_run_summaries s ON s.run_id = g.run_id;

-- name: read_history_page
-- One page of a run's history as a JSON fragment. $1 run, $2 after sequence, $3 up to sequence, $4 page size.
SELECT dw_history_page($1, $2, $3, $4);

-- name: look_around
-- Once a second for the whole process: which of the queues with held polls have something ready, which held polls repeat
-- one that was granted a lease, and, by a row of NULLs, whether service calls are due. $1 is a JSON array of {namespace,
-- kind, queue}, $2 of {lease_owner, poll_request_id}. Queries (kind 2) and validations of updates (kind 3) have a table of
-- their own.
SELECT w.namespace, w.kind, w.queue, NULL
FROM json_to_recordset($1::json) AS w(namespace text, kind smallint, queue text)
WHERE CASE
    WHEN w.kind IN (2, 3) THEN EXISTS (
        SELECT 1
        FROM workflow_query_tasks q
        WHERE q.namespace = w.namespace AND q.queue = w.queue AND q.kind = w.kind AND q.state = 0
          AND q.deadline_at > (SELECT dw_now())
    )
    ELSE EXISTS (
        SELECT 1
        FROM workflow_tasks t
        WHERE t.namespace = w.namespace AND t.queue = w.queue AND t.kind = w.kind AND t.state = 0
          AND t.available_at <= (SELECT dw_now())
    )
END
UNION ALL
SELECT NULL, NULL, NULL, t.poll_request_id
FROM json_to_recordset($2::json) AS k(lease_owner text, poll_request_id text)
JOIN workflow_tasks t ON t.lease_owner = k.lease_owner AND t.poll_request_id = k.poll_request_id AND t.state = 1
UNION ALL
SELECT NULL, NULL, NULL, q.poll_request_id
FROM json_to_recordset($2::json) AS k(lease_owner text, poll_request_id text)
JOIN workflow_query_tasks q ON q.lease_owner = k.lease_owner AND q.poll_request_id = k.poll_request_id AND q.state = 1
UNION ALL
SELECT NULL, NULL, NULL, NULL
WHERE EXISTS (
    SELECT 1 FROM workflow_service_calls c WHERE c.closed_at IS NULL AND c.due_at <= (SELECT dw_now())
);

-- name: read_task
-- One open task.
SELECT row_to_json(t)::text FROM workflow_tasks t WHERE t.run_id = $1 AND t.task_number = $2;
