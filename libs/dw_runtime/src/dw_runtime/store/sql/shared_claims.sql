-- name: lock_queues
-- Hold every other process off these queues until the end of the transaction. $1 is a JSON array of names in order.
SELECT pg_advisory_xact_lock(hashtextextended(k.name, 0)) FROM json_array_elements_text($1::json) AS k(name);

-- name: pick_shared_tasks
-- pick_tasks for queues that are locked by lock_queues: by shares, and within caps on leases and dispatches. $1 has
-- besides the members of pick_tasks is_sessioned (the sessions of the namespace are locked too, and their activities
-- may be picked; then an owner also has its capabilities and sessions_max) and the caps queue_leases_max, namespace_leases_max, queue_dispatches_max,
-- namespace_dispatches_max and group_dispatches_max of budget_group, null without a cap. The last column has, beside a
-- task, its share with the end of its newest grant, the queue's time and what is known of its session, and in the row of each want what has been used
-- of each cap and whether shares compete. At most a thousand shares compete, and tasks without a key take part with the
-- first thousand ready tasks of all.
WITH RECURSIVE clock AS MATERIALIZED (SELECT dw_now() AS now),
asked AS MATERIALIZED (
    SELECT w.*,
           CASE WHEN w.queue_leases_max IS NOT NULL THEN (
               SELECT count(*)
               FROM workflow_tasks l
               WHERE l.namespace = w.namespace AND l.kind = w.kind AND l.queue = w.queue AND l.state = 1
           ) END AS queue_leases,
           CASE WHEN w.namespace_leases_max IS NOT NULL THEN (
               SELECT count(*) FROM workflow_tasks l WHERE l.namespace = w.namespace AND l.kind = w.kind AND l.state = 1
           ) END AS namespace_leases,
           (
               SELECT json_object_agg(d.scope, d.dispatched)
               FROM task_dispatch_counters d
               WHERE d.namespace = w.namespace AND d.kind = w.kind AND d.minute = date_trunc('minute', clock.now)
                 AND d.scope IN ('queue:' || w.queue, 'namespace', 'group:' || w.budget_group)
           ) AS dispatched
    FROM clock, json_to_recordset($1::json) AS w(
        position integer, namespace text, kind smallint, queue text, owners json, types text[], build_id text,
        page_size integer, queue_leases_max bigint, namespace_leases_max bigint, queue_dispatches_max bigint,
        namespace_dispatches_max bigint, budget_group text, group_dispatches_max bigint, is_sessioned boolean
    )
),
wanted AS MATERIALIZED (
    SELECT a.*, r.rooms, r.names, r.members, GREATEST(LEAST(
               r.slots,
               a.queue_leases_max - a.queue_leases,
               a.namespace_leases_max - a.namespace_leases,
               a.queue_dispatches_max - COALESCE((a.dispatched ->> ('queue:' || a.queue))::bigint, 0),
               a.namespace_dispatches_max - COALESCE((a.dispatched ->> 'namespace')::bigint, 0),
               a.group_dispatches_max - COALESCE((a.dispatched ->> ('group:' || a.budget_group))::bigint, 0)
           ), 0) AS slots
    FROM asked a
    CROSS JOIN LATERAL (
        SELECT json_agg(o.room ORDER BY o.place) AS rooms, sum(LEAST(o.polls, o.room)) AS slots,
               array_agg(o.name) AS names,
               CASE WHEN a.is_sessioned THEN json_agg(json_build_object(
                   'lease_owner', o.name, 'capabilities', o.capabilities, 'sessions_left', o.sessions_left
               )) FILTER (WHERE o.room > 0) END AS members
        FROM (
            SELECT e.place, e.owner -> 'capabilities' AS capabilities,
                   CASE WHEN a.is_sessioned THEN (e.owner ->> 'sessions_max')::bigint - (
                       SELECT count(*)
                       FROM clock, worker_sessions s
                       WHERE s.namespace = a.namespace AND s.lease_owner = e.owner ->> 'lease_owner'
                         AND s.closed_at IS NULL AND s.status = 'active' AND s.lease_expires_at > clock.now
                   ) END AS sessions_left,
                   e.owner ->> 'lease_owner' AS name, (e.owner ->> 'polls')::bigint AS polls, GREATEST((e.owner ->> 'leases_max')::bigint - (
                SELECT count(*)
                FROM workflow_tasks l
                WHERE l.lease_owner = e.owner ->> 'lease_owner' AND l.state = 1 AND l.kind = a.kind
                  AND l.namespace = a.namespace
            ), 0) AS room
            FROM json_array_elements(a.owners) WITH ORDINALITY AS e(owner, place)
            OFFSET 0
        ) o
    ) r
),
shares AS (
    SELECT w.position, f.priority, f.fairness_key AS share, 1 AS place
    FROM wanted w
    CROSS JOIN LATERAL (
        SELECT s.priority, s.fairness_key
        FROM workflow_tasks s
        WHERE s.namespace = w.namespace AND s.queue = w.queue AND s.kind = w.kind AND s.state = 0
          AND s.fairness_key IS NOT NULL
        ORDER BY s.priority, s.fairness_key
        LIMIT 1
    ) f
    UNION ALL
    SELECT w.position, f.priority, f.fairness_key, h.place + 1
    FROM shares h
    JOIN wanted w ON w.position = h.position
    CROSS JOIN LATERAL (
        SELECT s.priority, s.fairness_key
        FROM workflow_tasks s
        WHERE s.namespace = w.namespace AND s.queue = w.queue AND s.kind = w.kind AND s.state = 0
          AND s.fairness_key IS NOT NULL AND (s.priority, s.fairness_key) > (h.priority, h.share)
        ORDER BY s.priority, s.fairness_key
        LIMIT 1
    ) f
    WHERE h.place < 1000
),
candidates AS MATERIALIZED (
    SELECT w.position, h.share, t.*
    FROM clock, shares h
    JOIN wanted w ON w.position = h.position
    CROSS JOIN LATERAL (
        SELECT t.run_id, t.task_number, t.priority, t.available_at, t.fairness_weight
        FROM workflow_tasks t
        WHERE t.namespace = w.namespace AND t.queue = w.queue AND t.kind = w.kind AND t.state = 0
          AND t.fairness_key IS NOT NULL AND t.priority = h.priority AND t.fairness_key = h.share
          AND t.available_at <= clock.now AND (t.sweep_at IS NULL OR t.sweep_at > clock.now)
          AND (w.types IS NULL OR t.task_type = ANY(w.types))
          AND (t.compatibility IS NULL OR t.compatibility = w.build_id)
          AND (t.reserved_for IS NULL OR t.reserved_until <= clock.now OR t.reserved_for = ANY(w.names))
          AND CASE
              WHEN t.session_id IS NULL THEN true
              WHEN w.members IS NULL THEN false
              ELSE dw_session_admits(w.members, w.namespace, w.queue, t.session_id, t.worker_session, clock.now)
          END
        ORDER BY t.available_at, t.run_id, t.task_number
        LIMIT w.slots
    ) t
    UNION ALL
    SELECT w.position, '', t.run_id, t.task_number, t.priority, t.available_at, 1::smallint
    FROM clock, wanted w
    CROSS JOIN LATERAL (
        SELECT o.*
        FROM (
            SELECT t.run_id, t.task_number, t.priority, t.available_at, t.fairness_key
            FROM workflow_tasks t
            WHERE t.namespace = w.namespace AND t.queue = w.queue AND t.kind = w.kind AND t.state = 0
              AND t.available_at <= clock.now AND (t.sweep_at IS NULL OR t.sweep_at > clock.now)
              AND (w.types IS NULL OR t.task_type = ANY(w.types))
              AND (t.compatibility IS NULL OR t.compatibility = w.build_id)
              AND (t.reserved_for IS NULL OR t.reserved_until <= clock.now OR t.reserved_for = ANY(w.names))
              AND CASE
                  WHEN t.session_id IS NULL THEN true
                  WHEN w.members IS NULL THEN false
                  ELSE dw_session_admits(w.members, w.namespace, w.queue, t.session_id, t.worker_session, clock.now)
              END
            ORDER BY t.priority, t.available_at, t.run_id, t.task_number
            LIMIT 1000
        ) o
        WHERE o.fairness_key IS NULL
        LIMIT w.slots
    ) t
),
ranked AS (
    SELECT c.*, s.ends_at, q.now_at, GREATEST(s.ends_at, q.now_at, 0) + COALESCE(sum(1000000 / c.fairness_weight) OVER (
               PARTITION BY c.position, c.priority, c.share
               ORDER BY c.available_at, c.run_id, c.task_number
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
           ), 0) AS begins_at
    FROM candidates c
    JOIN wanted w ON w.position = c.position
    LEFT JOIN LATERAL (
        SELECT s.ends_at
        FROM task_queue_shares s
        WHERE s.namespace = w.namespace AND s.queue = w.queue AND s.kind = w.kind AND s.priority = c.priority
          AND s.share = c.share
    ) s ON true
    CROSS JOIN LATERAL (
        SELECT max(s.began_at) AS now_at
        FROM task_queue_shares s
        WHERE s.namespace = w.namespace AND s.queue = w.queue AND s.kind = w.kind AND s.priority = c.priority
    ) q
),
chosen AS (
    SELECT r.*, row_number() OVER (
               PARTITION BY r.position ORDER BY r.priority, r.begins_at, r.available_at, r.run_id, r.task_number
           ) AS place
    FROM ranked r
),
picked AS MATERIALIZED (
    SELECT w.position, w.page_size, t.*, c.share, c.ends_at, c.now_at
    FROM chosen c
    JOIN wanted w ON w.position = c.position AND c.place <= w.slots
    CROSS JOIN LATERAL (
        SELECT t.*
        FROM workflow_tasks t
        WHERE t.run_id = c.run_id AND t.task_number = c.task_number AND t.state = 0
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
    json_build_object(
        'share', p.share, 'ends_at', p.ends_at, 'now_at', p.now_at,
        'session', CASE WHEN p.session_id IS NOT NULL THEN (
            SELECT row_to_json(h) FROM (
                SELECT *
                FROM worker_sessions s
                WHERE s.namespace = p.namespace AND s.session_id = p.session_id
                FOR UPDATE OF s SKIP LOCKED
            ) h
        ) END,
        'is_known', p.session_id IS NOT NULL AND EXISTS (
            SELECT 1 FROM worker_sessions s WHERE s.namespace = p.namespace AND s.session_id = p.session_id
        ),
        'running', CASE WHEN p.session_id IS NOT NULL THEN (
            SELECT json_object_agg(g.lease_owner, g.running)
            FROM (
                SELECT l.lease_owner, count(*) AS running
                FROM workflow_tasks l
                WHERE l.namespace = p.namespace AND l.session_id = p.session_id AND l.state = 1
                GROUP BY l.lease_owner
            ) g
        ) END
    )
FROM clock, picked p
LEFT JOIN LATERAL (
    SELECT r.* FROM workflow_runs r WHERE r.run_id = p.run_id FOR UPDATE OF r SKIP LOCKED
) r ON true
UNION ALL
SELECT to_json(clock.now), NULL, NULL, NULL, NULL, NULL, NULL, w.position, w.rooms, json_build_object(
           'queue_leases', w.queue_leases, 'namespace_leases', w.namespace_leases, 'dispatched', w.dispatched,
           'is_shared', (SELECT true FROM shares h WHERE h.position = w.position LIMIT 1) IS NOT NULL,
           'is_sessioned', (
               SELECT s.run_id
               FROM workflow_tasks s
               WHERE s.namespace = w.namespace AND s.queue = w.queue AND s.kind = w.kind AND s.state = 0
                 AND s.session_id IS NOT NULL
               LIMIT 1
           ) IS NOT NULL,
           'members', w.members
       )
FROM clock, wanted w;

-- name: charge_shares
-- Write what shares have been granted. $1 is a JSON array of rows of task_queue_shares without the time. A share that
-- is behind the queue's time is like a new one and forgotten.
WITH charged AS (
    INSERT INTO task_queue_shares AS s (namespace, queue, kind, priority, share, began_at, ends_at, granted_at)
    SELECT n.namespace, n.queue, n.kind, n.priority, n.share, n.began_at, n.ends_at, dw_now()
    FROM json_populate_recordset(NULL::task_queue_shares, $1::json) n
    ON CONFLICT (namespace, queue, kind, priority, share) DO UPDATE SET
        began_at = excluded.began_at, ends_at = excluded.ends_at, granted_at = excluded.granted_at
),
moved AS MATERIALIZED (
    SELECT n.namespace, n.queue, n.kind, n.priority, max(n.began_at) AS now_at
    FROM json_populate_recordset(NULL::task_queue_shares, $1::json) n
    GROUP BY n.namespace, n.queue, n.kind, n.priority
)
DELETE FROM task_queue_shares s
USING moved m
WHERE s.namespace = m.namespace AND s.queue = m.queue AND s.kind = m.kind AND s.priority = m.priority
  AND s.ends_at <= m.now_at;

-- name: count_dispatches
-- Count granted leases in the running minute. $1 is a JSON array of {namespace, kind, scope, dispatched}.
INSERT INTO task_dispatch_counters AS c (namespace, kind, scope, minute, dispatched)
SELECT n.namespace, n.kind, n.scope, date_trunc('minute', dw_now()), n.dispatched
FROM json_populate_recordset(NULL::task_dispatch_counters, $1::json) n
ON CONFLICT (namespace, kind, scope, minute) DO UPDATE SET dispatched = c.dispatched + excluded.dispatched;

-- name: forget_counters
-- Remove what no decision reads any more: shares of queues that have granted nothing for an hour, and past minutes.
WITH shares AS (
    DELETE FROM task_queue_shares s WHERE s.granted_at < dw_now() - interval '1 hour' RETURNING 1
),
counters AS (
    DELETE FROM task_dispatch_counters c WHERE c.minute < dw_now() - interval '1 hour' RETURNING 1
)
SELECT (SELECT count(*) FROM shares) + (SELECT count(*) FROM counters);
