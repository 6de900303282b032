-- name: read_operator_counts
-- How the runs and tasks of namespace $1 stand, as one JSON object; at most $2 rows of each kind are looked at, so that a
-- count is a lower bound past that.
WITH clock AS MATERIALIZED (SELECT dw_now() AS now),
open_runs AS MATERIALIZED (
    SELECT r.status, r.started_at, r.last_progress_at, r.compatibility, r.replay_blocked, r.task_failure_count,
           r.workflow_type, r.last_history_sequence, r.history_bytes, r.open_activity_count + r.open_child_count AS fan_out,
           r.next_task_number, r.closed_at IS NOT NULL AS has_drifted
    FROM (
        SELECT s.run_id
        FROM workflow_run_summaries s
        WHERE s.namespace = $1 AND s.status_bucket = 'running'
        ORDER BY s.started_at DESC, s.run_id DESC
        LIMIT $2
    ) s
    JOIN workflow_runs r ON r.run_id = s.run_id
),
failed_runs AS MATERIALIZED (
    SELECT r.status, r.closed_at IS NULL AS has_drifted
    FROM (
        SELECT s.run_id
        FROM workflow_run_summaries s
        WHERE s.namespace = $1 AND s.status_bucket = 'failed'
        ORDER BY s.started_at DESC, s.run_id DESC
        LIMIT $2
    ) s
    JOIN workflow_runs r ON r.run_id = s.run_id
),
tasks AS MATERIALIZED (
    (
        SELECT t.kind, t.state, t.available_at, t.lease_expires_at, t.attempt, t.created_at, t.repair_count, t.task_number
        FROM workflow_tasks t
        WHERE t.namespace = $1 AND t.state = 0
        ORDER BY t.queue, t.kind, t.priority, t.available_at
        LIMIT $2
    )
    UNION ALL
    (
        SELECT t.kind, t.state, t.available_at, t.lease_expires_at, t.attempt, t.created_at, t.repair_count, t.task_number
        FROM workflow_tasks t
        WHERE t.namespace = $1 AND t.state = 1 AND t.kind IN (0, 1)
        LIMIT $2
    )
)
SELECT json_build_object(
    'now', (SELECT now FROM clock),
    'completed', (
        SELECT count(*)
        FROM (
            SELECT 1 FROM workflow_run_summaries s
            WHERE s.namespace = $1 AND s.status_bucket = 'completed' ORDER BY s.started_at DESC LIMIT $2
        ) c
    ),
    'instances', (SELECT count(*) FROM (SELECT 1 FROM workflow_instances i WHERE i.namespace = $1 ORDER BY i.workflow_id LIMIT $2) c),
    'failed', (SELECT count(*) FROM failed_runs f WHERE f.status = 'failed'),
    'cancelled', (SELECT count(*) FROM failed_runs f WHERE f.status = 'cancelled'),
    'terminated', (SELECT count(*) FROM failed_runs f WHERE f.status = 'terminated'),
    'drifted', (SELECT count(*) FROM open_runs o WHERE o.has_drifted)
        + (SELECT count(*) FROM failed_runs f WHERE f.has_drifted),
    'runs', (
        SELECT json_build_object(
            'open', count(*), 'waiting', count(*) FILTER (WHERE o.status = 'waiting'),
            'oldest_wait_started_at', min(o.last_progress_at) FILTER (WHERE o.status = 'waiting'),
            'repair_needed', count(*) FILTER (WHERE o.replay_blocked),
            'oldest_repair_needed_at', min(o.last_progress_at) FILTER (WHERE o.replay_blocked),
            'failing', count(*) FILTER (WHERE o.task_failure_count > 0),
            'pending', count(*) FILTER (WHERE o.status = 'pending'),
            'oldest_pending_start_at', min(o.started_at) FILTER (WHERE o.status = 'pending'),
            'max_event_count', COALESCE(max(o.last_history_sequence), 0),
            'max_size_bytes', COALESCE(max(o.history_bytes), 0), 'max_fan_out', COALESCE(max(o.fan_out), 0)
        )
        FROM open_runs o
    ),
    'budgets', (
        SELECT COALESCE(json_agg(b), '[]')
        FROM (
            SELECT o.last_history_sequence AS events, o.history_bytes AS size_bytes, o.fan_out FROM open_runs o
            WHERE o.last_history_sequence >= $3 OR o.history_bytes >= $4 OR o.fan_out >= $5
        ) b
    ),
    'task_failures', (
        SELECT COALESCE(json_agg(f ORDER BY f.max_consecutive_failures DESC, f.workflow_type), '[]')
        FROM (
            SELECT o.workflow_type, max(o.task_failure_count) AS max_consecutive_failures, count(*) AS failed_task_count
            FROM open_runs o
            WHERE o.task_failure_count > 0
            GROUP BY o.workflow_type
        ) f
    ),
    'tasks', (
        SELECT json_agg(g)
        FROM (
            SELECT t.kind, count(*) FILTER (WHERE t.state = 0) AS ready,
                   count(*) FILTER (WHERE t.state = 0 AND t.available_at <= clock.now) AS ready_due,
                   count(*) FILTER (WHERE t.state = 0 AND t.available_at > clock.now) AS delayed,
                   count(*) FILTER (WHERE t.state = 1) AS leased,
                   count(*) FILTER (WHERE t.state = 1 AND t.lease_expires_at <= clock.now) AS lease_expired,
                   count(*) FILTER (WHERE t.state = 0 AND t.attempt > 0) AS retrying,
                   count(*) FILTER (WHERE t.task_number = 1 AND t.state = 0) AS first_ready,
                   count(*) FILTER (WHERE t.created_at > clock.now - interval '1 minute') AS added_last_minute,
                   count(*) FILTER (WHERE t.state = 1 AND t.created_at > clock.now - interval '1 minute')
                       AS dispatched_last_minute
            FROM tasks t, clock
            GROUP BY t.kind
        ) g
    )
)::text;
