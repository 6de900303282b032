-- name: list_workers
-- Registered workers of namespace $1, the newest sign of life first: $2 queue or null, $3 seconds of silence after which a
-- worker is stale, $4 worker id or null, $5 at most that many.
SELECT row_to_json(w)::text
FROM (
    SELECT w.*, w.last_heartbeat_at <= dw_now() - make_interval(secs => $3) AS is_stale,
           d.drain_intent IS NOT DISTINCT FROM 'draining' AS is_draining
    FROM worker_registrations w
    LEFT JOIN build_id_rollouts d
        ON d.namespace = w.namespace AND d.task_queue = w.task_queue AND d.build_id = COALESCE(w.build_id, '')
    WHERE w.namespace = $1 AND ($2::text IS NULL OR w.task_queue = $2) AND ($4::text IS NULL OR w.worker_id = $4)
    ORDER BY w.last_heartbeat_at DESC, w.worker_id
    LIMIT $5
) w;

-- name: list_queues
-- The names of at most $3 queues of namespace $1 behind the name $2 that have workers, open tasks or an intent about a
-- build, in order. Walks from name to name, whatever waits there.
WITH RECURSIVE names AS (
    SELECT dw_next_queue($1, $2) AS name
    UNION ALL
    SELECT dw_next_queue($1, n.name) FROM names n WHERE n.name IS NOT NULL
)
SELECT n.name FROM names n WHERE n.name IS NOT NULL LIMIT $3;

-- name: measure_queues
-- How the queues $2 (a JSON array of names) of namespace $1 stand: $3 seconds of worker silence, $4 seconds after which a
-- ready task is late, $5 at most that many tasks are counted of each kind.
WITH clock AS MATERIALIZED (SELECT dw_now() AS now)
SELECT q.name, w.active, w.stale, w.draining, w.workflow_slots, w.activity_slots, t.kinds::text,
       (
           SELECT count(*)
           FROM (
               SELECT 1
               FROM workflow_query_tasks p
               WHERE p.namespace = $1 AND p.queue = q.name AND p.state = 0 AND p.kind = 2 AND p.deadline_at > clock.now
               LIMIT $5
           ) waiting
       )
FROM clock
CROSS JOIN json_array_elements_text($2::json) AS q(name)
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE f.is_live AND NOT f.is_draining) AS active,
           count(*) FILTER (WHERE NOT f.is_live) AS stale,
           count(*) FILTER (WHERE f.is_live AND f.is_draining) AS draining,
           COALESCE(sum(f.max_concurrent_workflow_tasks) FILTER (WHERE f.is_live AND NOT f.is_draining), 0) AS workflow_slots,
           COALESCE(sum(f.max_concurrent_activity_tasks) FILTER (WHERE f.is_live AND NOT f.is_draining), 0) AS activity_slots
    FROM (
        SELECT w.max_concurrent_workflow_tasks, w.max_concurrent_activity_tasks,
               w.last_heartbeat_at > clock.now - make_interval(secs => $3) AS is_live,
               d.drain_intent IS NOT DISTINCT FROM 'draining' AS is_draining
        FROM worker_registrations w
        LEFT JOIN build_id_rollouts d
            ON d.namespace = w.namespace AND d.task_queue = w.task_queue AND d.build_id = COALESCE(w.build_id, '')
        WHERE w.namespace = $1 AND w.task_queue = q.name
    ) f
) w
CROSS JOIN LATERAL (
    SELECT json_agg(json_build_object(
        'kind', k.kind, 'ready', r.ready, 'late', r.late, 'oldest_ready_at', r.oldest_at, 'leased', l.leased,
        'expired', l.expired
    )) AS kinds
    FROM (VALUES (0::smallint), (1::smallint)) AS k(kind)
    CROSS JOIN LATERAL (
        SELECT count(*) AS ready, min(o.available_at) AS oldest_at,
               count(*) FILTER (WHERE o.available_at < clock.now - make_interval(secs => $4)) AS late
        FROM (
            SELECT t.available_at
            FROM workflow_tasks t
            WHERE t.namespace = $1 AND t.queue = q.name AND t.kind = k.kind AND t.state = 0
              AND t.available_at <= clock.now
            ORDER BY t.priority, t.available_at
            LIMIT $5
        ) o
    ) r
    CROSS JOIN LATERAL (
        SELECT count(*) AS leased, count(*) FILTER (WHERE o.lease_expires_at <= clock.now) AS expired
        FROM (
            SELECT t.lease_expires_at
            FROM workflow_tasks t
            WHERE t.namespace = $1 AND t.queue = q.name AND t.kind = k.kind AND t.state = 1
            LIMIT $5
        ) o
    ) l
) t;

-- name: measure_namespace
-- Leased tasks of namespace $1 by kind, at most $2 counted of each, and the dispatches of this minute by scope; the time.
SELECT
    (
        SELECT json_agg(json_build_object('kind', k.kind, 'leased', (
            SELECT count(*)
            FROM (SELECT 1 FROM workflow_tasks t WHERE t.namespace = $1 AND t.kind = k.kind AND t.state = 1 LIMIT $2) o
        )))::text
        FROM (VALUES (0::smallint), (1::smallint)) AS k(kind)
    ),
    (
        SELECT COALESCE(json_agg(c), '[]')::text
        FROM (
            SELECT c.kind, c.scope, c.dispatched
            FROM task_dispatch_counters c
            WHERE c.namespace = $1 AND c.minute = date_trunc('minute', dw_now(), 'UTC')
        ) c
    ),
    dw_now();

-- name: list_leases
-- At most $3 leased tasks of queue $2 in namespace $1.
SELECT row_to_json(l)::text
FROM (
    SELECT t.run_id, t.task_number, t.kind, r.workflow_id, t.lease_owner, t.lease_expires_at, t.attempt,
           t.lease_expires_at <= dw_now() AS is_expired
    FROM workflow_tasks t
    JOIN workflow_runs r ON r.run_id = t.run_id
    WHERE t.namespace = $1 AND t.queue = $2 AND t.kind IN (0, 1) AND t.state = 1
    LIMIT $3
) l;

-- name: list_shares
-- The fair shares of queue $2 in namespace $1 with what waits in each: at most $3 shares, at most $4 tasks counted.
SELECT row_to_json(s)::text
FROM (
    SELECT s.kind, s.priority, NULLIF(s.share, '') AS fairness_key, s.granted_at, s.ends_at - s.began_at AS last_cost,
           s.began_at,
           (
               SELECT count(*)
               FROM (
                   SELECT 1
                   FROM workflow_tasks t
                   WHERE t.namespace = s.namespace AND t.queue = s.queue AND t.kind = s.kind AND t.priority = s.priority
                     AND t.state = 0 AND t.fairness_key = s.share
                   LIMIT $4
               ) o
           ) AS ready_count
    FROM task_queue_shares s
    WHERE s.namespace = $1 AND s.queue = $2
    ORDER BY s.kind, s.priority, s.share
    LIMIT $3
) s;

-- name: count_priorities
-- Ready tasks of queue $2 in namespace $1 by kind and priority, at most $3 counted of each.
SELECT k.kind, p.priority, o.ready, o.oldest_at
FROM (VALUES (0::smallint), (1::smallint)) AS k(kind)
CROSS JOIN generate_series(0, 9) AS p(priority)
CROSS JOIN LATERAL (
    SELECT count(*) AS ready, min(t.available_at) AS oldest_at
    FROM (
        SELECT t.available_at
        FROM workflow_tasks t
        WHERE t.namespace = $1 AND t.queue = $2 AND t.kind = k.kind AND t.state = 0 AND t.priority = p.priority
          AND t.available_at <= (SELECT dw_now())
        ORDER BY t.available_at
        LIMIT $3
    ) t
) o
WHERE o.ready > 0
ORDER BY k.kind, p.priority;

-- name: count_sessions
-- The sessions of namespace $1 by status; ended ones are forgotten after a while.
SELECT s.status, count(*) FROM worker_sessions s WHERE s.namespace = $1 GROUP BY s.status;

-- name: list_sessions
-- At most $4 sessions of namespace $1, the newest first: $2 seconds of silence after which a worker is stale, $3 session id or
-- null for all.
SELECT row_to_json(s)::text,
       (
           SELECT row_to_json(h)::text
           FROM (
               SELECT w.worker_id, w.task_queue, CASE WHEN d.drain_intent = 'draining' THEN 'draining' ELSE 'active' END AS status,
                      w.last_heartbeat_at, w.last_heartbeat_at <= dw_now() - make_interval(secs => $2) AS is_stale
               FROM worker_registrations w
               LEFT JOIN build_id_rollouts d
                   ON d.namespace = w.namespace AND d.task_queue = w.task_queue AND d.build_id = COALESCE(w.build_id, '')
               WHERE w.namespace = s.namespace AND w.worker_id = s.lease_owner
           ) h
       ),
       (
           SELECT count(*)
           FROM workflow_tasks t
           WHERE t.namespace = s.namespace AND t.session_id = s.session_id AND t.state = 1 AND t.lease_owner = s.lease_owner
       )
FROM worker_sessions s
WHERE s.namespace = $1 AND ($3::text IS NULL OR s.session_id = $3)
ORDER BY s.created_at DESC, s.session_id
LIMIT $4;
