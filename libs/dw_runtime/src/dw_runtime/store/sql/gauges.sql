-- name: sample_queues
-- How the queues with open tasks stand, by namespace, queue and kind: at most $1 of them, at most $2 tasks of each counted.
-- The last column counts workflow tasks that wait after $3 attempts or more. Walks from queue to queue, whatever waits
-- there.
WITH RECURSIVE ready_keys AS (
    (
        SELECT t.namespace, t.queue, t.kind FROM workflow_tasks t WHERE t.state = 0
        ORDER BY t.namespace, t.queue, t.kind LIMIT 1
    )
    UNION ALL
    SELECT n.namespace, n.queue, n.kind
    FROM ready_keys k
    CROSS JOIN LATERAL (
        SELECT t.namespace, t.queue, t.kind FROM workflow_tasks t
        WHERE t.state = 0 AND (t.namespace, t.queue, t.kind) > (k.namespace, k.queue, k.kind)
        ORDER BY t.namespace, t.queue, t.kind LIMIT 1
    ) n
),
leased_keys AS (
    (
        SELECT t.namespace, t.kind, t.queue FROM workflow_tasks t WHERE t.state = 1
        ORDER BY t.namespace, t.kind, t.queue LIMIT 1
    )
    UNION ALL
    SELECT n.namespace, n.kind, n.queue
    FROM leased_keys k
    CROSS JOIN LATERAL (
        SELECT t.namespace, t.kind, t.queue FROM workflow_tasks t
        WHERE t.state = 1 AND (t.namespace, t.kind, t.queue) > (k.namespace, k.kind, k.queue)
        ORDER BY t.namespace, t.kind, t.queue LIMIT 1
    ) n
),
keys AS (
    SELECT k.namespace, k.queue, k.kind FROM (SELECT * FROM ready_keys LIMIT $1::integer) k
    UNION
    SELECT k.namespace, k.queue, k.kind FROM (SELECT * FROM leased_keys LIMIT $1::integer) k
)
SELECT k.namespace, k.queue, k.kind::integer, r.tasks::integer, l.tasks::integer, r.oldest_seconds::float8,
       r.failing::integer
FROM keys k
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE t.available_at <= dw_now()) AS tasks,
           COALESCE(GREATEST(extract(epoch FROM dw_now() - min(t.available_at)), 0), 0) AS oldest_seconds,
           count(*) FILTER (WHERE k.kind = 0 AND t.attempt >= $3::integer) AS failing
    FROM (
        SELECT t.available_at, t.attempt FROM workflow_tasks t
        WHERE t.state = 0 AND t.namespace = k.namespace AND t.queue = k.queue AND t.kind = k.kind
        ORDER BY t.priority, t.available_at
        LIMIT $2::integer
    ) t
) r
CROSS JOIN LATERAL (
    SELECT count(*) AS tasks
    FROM (
        SELECT 1 FROM workflow_tasks t
        WHERE t.state = 1 AND t.namespace = k.namespace AND t.kind = k.kind AND t.queue = k.queue
        LIMIT $2::integer
    ) t
) l
ORDER BY k.namespace, k.queue, k.kind
LIMIT $1::integer;

-- name: sample_delays
-- Seconds by which the oldest due timer, schedule, ordered start and task deadline are late; then the open runs that
-- cannot be replayed, at most $1 of them counted.
WITH clock AS MATERIALIZED (SELECT dw_now() AS now),
oldest AS (
    SELECT
        (SELECT min(t.due_at) FROM workflow_timers t WHERE t.status = 'pending') AS timer,
        (SELECT min(s.next_fire_at) FROM workflow_schedules s WHERE s.status = 'active') AS schedule,
        (SELECT min(f.due_at) FROM workflow_schedule_fires f) AS fire,
        (SELECT min(t.sweep_at) FROM workflow_tasks t WHERE t.sweep_at IS NOT NULL) AS deadline
)
SELECT
    COALESCE(GREATEST(extract(epoch FROM c.now - o.timer), 0), 0)::float8,
    COALESCE(GREATEST(extract(epoch FROM c.now - o.schedule), 0), 0)::float8,
    COALESCE(GREATEST(extract(epoch FROM c.now - o.fire), 0), 0)::float8,
    COALESCE(GREATEST(extract(epoch FROM c.now - o.deadline), 0), 0)::float8,
    (
        SELECT count(*)
        FROM (
            SELECT 1 FROM workflow_runs r WHERE r.closed_at IS NULL AND r.replay_blocked
            ORDER BY r.namespace, r.queue, r.run_id LIMIT $1::integer
        ) b
    )::integer
FROM clock c, oldest o;
