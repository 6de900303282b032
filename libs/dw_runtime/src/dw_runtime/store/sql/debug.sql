-- name: diagnose_run
-- What a run waits for and what went wrong, bounded whatever its size: $1 run, $2 tasks of each kind, $3 failures, $4 of its
-- newest events that are searched for failures, $5 characters of a message or a payload. Gives the time, workflow tasks,
-- activities with their tasks, failures, the last event, the time of the next timer and the active workers of the queues
-- of these tasks, $6 seconds of silence after which a worker counts as gone.
WITH tasks AS MATERIALIZED (
    SELECT t.* FROM workflow_tasks t WHERE t.run_id = $1 AND t.kind = 0 ORDER BY t.task_number LIMIT $2::integer
),
activities AS MATERIALIZED (
    SELECT t.* FROM workflow_tasks t WHERE t.run_id = $1 AND t.kind = 1 ORDER BY t.task_number LIMIT $2::integer
),
newest AS MATERIALIZED (
    SELECT e.sequence, e.event_type, e.body
    FROM workflow_history_events e WHERE e.run_id = $1 ORDER BY e.sequence DESC LIMIT $4::integer
)
SELECT
    dw_now(),
    (SELECT COALESCE(json_agg(t ORDER BY t.task_number), '[]')::text FROM tasks t),
    (
        SELECT COALESCE(json_agg(json_build_object(
            'task', t, 'activity_type', a.activity_type, 'scheduled_at', a.scheduled_at
        ) ORDER BY t.task_number), '[]')::text
        FROM activities t
        JOIN activity_executions a ON a.run_id = t.run_id AND a.sequence = t.activity_sequence
    ),
    (
        SELECT COALESCE(json_agg(f ORDER BY f.sequence DESC), '[]')::text
        FROM (
            SELECT n.sequence, n.event_type, n.body::json ->> 'timestamp' AS timestamp,
                   n.body::json -> 'payload' ->> 'activity_type' AS activity_type,
                   n.body::json -> 'payload' ->> 'exception_type' AS exception_type,
                   left(n.body::json -> 'payload' ->> 'message', $5::integer) AS message
            FROM newest n
            WHERE n.event_type ~ '(Failed|TimedOut|RetryScheduled)$'
            ORDER BY n.sequence DESC
            LIMIT $3::integer
        ) f
    ),
    (
        SELECT json_build_object(
            'sequence', n.sequence, 'event_type', n.event_type, 'timestamp', n.body::json ->> 'timestamp',
            'bytes', octet_length((n.body::json -> 'payload')::text),
            'members', (SELECT json_agg(k) FROM json_object_keys(n.body::json -> 'payload') k),
            'preview', left((n.body::json -> 'payload')::text, $5::integer)
        )::text
        FROM newest n ORDER BY n.sequence DESC LIMIT 1
    ),
    (SELECT min(m.due_at) FROM workflow_timers m WHERE m.run_id = $1 AND m.status = 'pending'),
    (
        SELECT COALESCE(json_object_agg(q.queue, (
            SELECT count(*) FROM worker_registrations w
            WHERE w.namespace = q.namespace AND w.task_queue = q.queue
              AND w.last_heartbeat_at > dw_now() - make_interval(secs => $6::integer)
        )), '{}')::text
        FROM (SELECT DISTINCT o.namespace, o.queue FROM (TABLE tasks UNION ALL TABLE activities) o) q
    );

-- name: count_workers
-- The live workers of namespace $1 and those of them on queue $2: $3 seconds of silence after which a worker counts as
-- gone.
SELECT count(*), count(*) FILTER (WHERE w.task_queue = $2)
FROM worker_registrations w
WHERE w.namespace = $1 AND w.last_heartbeat_at > dw_now() - make_interval(secs => $3::integer);

-- name: diagnose_cancellation
-- What a cancellation request has reached: $1 run, $2 rows of each kind. Gives the run and those below it that have a
-- request, each with how its parent calls it, and the activities of the run that were told to stop: the open ones with
-- their tasks, and closed attempts with what is known of their callbacks.
WITH RECURSIVE reached AS (
    SELECT r.run_id, NULL::text COLLATE "C" AS parent_run_id, NULL::text AS parent_close_policy,
           NULL::text AS cancellation_policy, 0 AS depth
    FROM workflow_runs r
    WHERE r.run_id = $1
    UNION ALL
    SELECT c.current_run_id, c.run_id, c.parent_close_policy, c.cancellation_policy, p.depth + 1
    FROM reached p
    JOIN workflow_child_calls c ON c.run_id = p.run_id
    JOIN workflow_runs r ON r.run_id = c.current_run_id AND r.cancellation IS NOT NULL
    WHERE p.depth < 10
),
bounded AS MATERIALIZED (SELECT * FROM reached LIMIT $2::integer),
stopping AS MATERIALIZED (
    SELECT t.activity_sequence AS sequence, t.attempt, 'running' AS status, NULL::json AS acknowledgement
    FROM workflow_tasks t
    WHERE t.run_id = $1 AND t.kind = 1 AND t.is_cancel_requested
    ORDER BY t.task_number LIMIT $2::integer
),
told AS MATERIALIZED (
    SELECT a.sequence, a.attempt, a.status, a.cancellation AS acknowledgement
    FROM activity_attempts a
    WHERE a.run_id = $1 AND a.cancellation IS NOT NULL
    ORDER BY a.sequence, a.attempt LIMIT $2::integer
)
SELECT
    dw_now(),
    (
        SELECT json_agg(json_build_object(
            'run', row_to_json(r), 'parent_run_id', b.parent_run_id, 'parent_close_policy', b.parent_close_policy,
            'cancellation_policy', b.cancellation_policy
        ) ORDER BY b.depth, r.run_id)::text
        FROM bounded b JOIN workflow_runs r ON r.run_id = b.run_id
    ),
    (
        SELECT COALESCE(json_agg(json_build_object(
            'sequence', s.sequence, 'attempt', s.attempt, 'status', s.status, 'acknowledgement', s.acknowledgement,
            'activity_type', a.activity_type, 'cancellation_policy', a.cancellation_policy
        ) ORDER BY s.sequence, s.attempt), '[]')::text
        FROM (TABLE stopping UNION ALL TABLE told) s
        JOIN activity_executions a ON a.run_id = $1 AND a.sequence = s.sequence
    );
