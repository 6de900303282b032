-- name: read_task_pressure
-- Late, waiting and blocked tasks of every namespace as one JSON object: $1 seconds after which a due task counts as
-- overdue, $2 seconds of worker silence, $3 tasks looked at in each of the two scans. Past that bound the counts are
-- lower bounds, so that a backlog of any size costs the same.
WITH clock AS MATERIALIZED (SELECT dw_now() AS now),
late AS MATERIALIZED (
    SELECT t.kind, t.queue, t.compatibility, t.created_at, t.lease_expires_at,
           t.state = 1 AND t.lease_expires_at <= clock.now AS is_lease_expired,
           LEAST(
               CASE WHEN t.state = 0 THEN t.schedule_to_start_at ELSE LEAST(t.start_to_close_at, t.heartbeat_at) END,
               t.schedule_to_close_at
           ) AS deadline_at
    FROM clock
    CROSS JOIN LATERAL (
        SELECT t.* FROM workflow_tasks t WHERE t.sweep_at <= clock.now ORDER BY t.sweep_at LIMIT $3::integer
    ) t
),
ready AS MATERIALIZED (
    SELECT t.namespace, t.queue, t.kind, t.compatibility, t.attempt, t.repair_count, t.available_at, t.created_at,
           t.available_at + make_interval(secs => $1::integer) AS overdue_at
    FROM workflow_tasks t
    WHERE t.state = 0
    ORDER BY t.namespace, t.queue, t.kind, t.priority, t.available_at, t.run_id, t.task_number
    LIMIT $3::integer
),
blocked AS (
    SELECT g.tasks, g.oldest_at
    FROM (
        SELECT r.namespace, r.queue, r.compatibility, count(*) AS tasks, min(r.created_at) AS oldest_at
        FROM ready r
        WHERE r.kind = 0 AND r.compatibility IS NOT NULL
        GROUP BY r.namespace, r.queue, r.compatibility
    ) g
    WHERE NOT dw_is_supported(g.namespace, g.queue, g.compatibility, $2::integer)
),
scopes AS (
    SELECT c.queue, c.compatibility, count(*) AS candidates, min(c.created_at) AS oldest_created_at
    FROM (
        SELECT l.queue, l.compatibility, l.created_at FROM late l WHERE l.is_lease_expired
        UNION ALL
        SELECT r.queue, r.compatibility, r.created_at FROM ready r, clock WHERE r.overdue_at <= clock.now
    ) c
    GROUP BY c.queue, c.compatibility
)
SELECT json_build_object(
    'now', (SELECT now FROM clock),
    'lease_expired_tasks', (SELECT count(*) FROM late l WHERE l.is_lease_expired),
    'oldest_lease_expired_at', (SELECT min(l.lease_expires_at) FROM late l WHERE l.is_lease_expired),
    'ready_due_tasks', (SELECT count(*) FROM ready r, clock WHERE r.available_at <= clock.now),
    'oldest_ready_due_at', (SELECT min(r.available_at) FROM ready r, clock WHERE r.available_at <= clock.now),
    'dispatch_overdue_tasks', (SELECT count(*) FROM ready r, clock WHERE r.overdue_at <= clock.now),
    'oldest_dispatch_overdue_since', (SELECT min(r.overdue_at) FROM ready r, clock WHERE r.overdue_at <= clock.now),
    'max_attempt_count', (SELECT COALESCE(max(r.attempt), 0) FROM ready r),
    'max_repair_count', (SELECT COALESCE(max(r.repair_count), 0) FROM ready r),
    'compatibility_blocked_runs', (SELECT COALESCE(sum(b.tasks), 0) FROM blocked b),
    'oldest_compatibility_blocked_started_at', (SELECT min(b.oldest_at) FROM blocked b),
    'timeout_overdue', (SELECT count(*) FROM late l, clock WHERE l.kind = 1 AND l.deadline_at <= clock.now),
    'oldest_timeout_overdue_at',
        (SELECT min(l.deadline_at) FROM late l, clock WHERE l.kind = 1 AND l.deadline_at <= clock.now),
    'retrying', (SELECT count(*) FROM ready r WHERE r.kind = 1 AND r.attempt > 0),
    'oldest_retrying_started_at', (SELECT min(r.created_at) FROM ready r WHERE r.kind = 1 AND r.attempt > 0),
    'failed_attempts', (SELECT COALESCE(sum(r.attempt), 0) FROM ready r WHERE r.kind = 1),
    'max_activity_attempt_count', (SELECT COALESCE(max(r.attempt), 0) FROM ready r WHERE r.kind = 1),
    'history_events', (
        SELECT GREATEST(c.reltuples, 0)::bigint FROM pg_class c WHERE c.oid = 'workflow_history_events'::regclass
    ),
    'scopes', (SELECT COALESCE(json_agg(s ORDER BY s.oldest_created_at), '[]') FROM scopes s)
)::text;

-- name: read_fleet
-- The live workers as one JSON object, counted over every namespace and listed for one: $1 namespace, $2 seconds of
-- silence after which a worker counts as gone, $3 required compatibility marker or null, $4 workers listed at most.
WITH live AS MATERIALIZED (
    SELECT w.namespace, w.worker_id, w.task_queue, w.build_id, w.last_heartbeat_at AS recorded_at,
           w.last_heartbeat_at + make_interval(secs => $2::integer) AS expires_at
    FROM worker_registrations w
    WHERE w.last_heartbeat_at > dw_now() - make_interval(secs => $2::integer)
)
SELECT json_build_object(
    'total_workers', (SELECT count(*) FROM live),
    'supporting_workers', (SELECT count(*) FROM live l WHERE l.build_id = $3::text),
    'workers', (
        SELECT COALESCE(json_agg(n), '[]')
        FROM (
            SELECT l.* FROM live l WHERE l.namespace = $1 ORDER BY l.recorded_at DESC, l.worker_id LIMIT $4::integer
        ) n
    )
)::text;

-- name: read_drains
-- Every queue with a draining build as a JSON array: its workers, and one entry per draining build. $1 seconds of
-- silence after which a worker counts as gone, $2 ready tasks counted per build at most.
WITH draining AS (
    SELECT r.* FROM build_id_rollouts r WHERE r.drain_intent = 'draining'
),
workers AS MATERIALIZED (
    SELECT w.namespace, w.task_queue, COALESCE(w.build_id, '') AS build_id, w.runtime, w.sdk_version,
           w.registered_at, w.last_heartbeat_at, w.workflow_definition_fingerprints <> '{}'::jsonb AS has_fingerprints,
           w.last_heartbeat_at > dw_now() - make_interval(secs => $1::integer) AS is_live,
           EXISTS (
               SELECT 1 FROM draining d
               WHERE d.namespace = w.namespace AND d.task_queue = w.task_queue
                 AND d.build_id = COALESCE(w.build_id, '')
           ) AS is_draining
    FROM worker_registrations w
    WHERE (w.namespace, w.task_queue) IN (SELECT d.namespace, d.task_queue FROM draining d)
),
builds AS (
    SELECT d.namespace, d.task_queue, NULLIF(d.build_id, '') AS build_id, d.drain_intent, d.drained_at,
           count(w.*) FILTER (WHERE w.is_live) AS draining_worker_count,
           count(w.*) FILTER (WHERE NOT w.is_live) AS stale_worker_count,
           count(w.*) AS total_worker_count,
           COALESCE(json_agg(DISTINCT w.runtime) FILTER (WHERE w.runtime IS NOT NULL), '[]') AS runtimes,
           COALESCE(json_agg(DISTINCT w.sdk_version) FILTER (WHERE w.sdk_version IS NOT NULL), '[]') AS sdk_versions,
           count(*) FILTER (WHERE w.has_fingerprints) AS workflow_definition_fingerprint_count,
           max(w.last_heartbeat_at) AS last_heartbeat_at,
           min(w.registered_at) AS first_seen_at,
           (
               SELECT count(*)
               FROM (
                   SELECT 1 FROM workflow_tasks t
                   WHERE t.namespace = d.namespace AND t.queue = d.task_queue AND t.kind = 0 AND t.state = 0
                     AND COALESCE(t.compatibility, '') = d.build_id
                   LIMIT $2::integer
               ) counted
           ) AS pending_workflow_tasks
    FROM draining d
    LEFT JOIN workers w
        ON w.namespace = d.namespace AND w.task_queue = d.task_queue AND w.build_id = d.build_id
    GROUP BY d.namespace, d.task_queue, d.build_id, d.drain_intent, d.drained_at
)
SELECT COALESCE(json_agg(q ORDER BY q.latest_drained_at DESC NULLS LAST, q.namespace, q.task_queue), '[]')::text
FROM (
    SELECT b.namespace, b.task_queue, max(b.drained_at) AS latest_drained_at,
           (
               SELECT count(DISTINCT w.build_id) FROM workers w
               WHERE w.namespace = b.namespace AND w.task_queue = b.task_queue AND w.is_live AND NOT w.is_draining
           ) AS active_build_id_count,
           count(*) AS draining_build_id_count,
           (
               SELECT count(*) FROM workers w
               WHERE w.namespace = b.namespace AND w.task_queue = b.task_queue AND w.is_live AND NOT w.is_draining
           ) AS active_worker_count,
           sum(b.draining_worker_count) AS draining_worker_count,
           (
               SELECT count(*) FROM workers w
               WHERE w.namespace = b.namespace AND w.task_queue = b.task_queue AND NOT w.is_live
           ) AS stale_worker_count,
           json_agg(b ORDER BY b.build_id NULLS FIRST) AS build_ids
    FROM builds b
    GROUP BY b.namespace, b.task_queue
) q;
