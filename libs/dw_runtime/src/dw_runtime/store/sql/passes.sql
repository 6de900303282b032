-- name: find_expired_activities
-- Activity tasks of namespace $1 that are past a deadline of theirs, the longest overdue first: at most $2, among the $3
-- tasks that have been due for the longest time in any namespace.
WITH clock AS MATERIALIZED (SELECT dw_now() AS now),
due AS MATERIALIZED (
    SELECT t.*
    FROM clock
    CROSS JOIN LATERAL (
        SELECT t.run_id, t.task_number, t.activity_sequence, t.namespace, t.kind, t.sweep_at,
               LEAST(
                   CASE WHEN t.state = 0 THEN t.schedule_to_start_at ELSE LEAST(t.start_to_close_at, t.heartbeat_at) END,
                   t.schedule_to_close_at
               ) AS deadline_at
        FROM workflow_tasks t
        WHERE t.sweep_at <= clock.now
        ORDER BY t.sweep_at
        LIMIT $3::integer
    ) t
)
SELECT d.run_id, d.activity_sequence, d.task_number
FROM due d, clock
WHERE d.namespace = $1 AND d.kind = 1 AND d.deadline_at <= clock.now
ORDER BY d.sweep_at
LIMIT $2::integer;

-- name: find_activities
-- Activities by name: $1 namespace, $2 a JSON array of {run_id, sequence}. Gives the two, the status, whether the run has
-- closed, and the open task if any; an activity that does not exist has no row.
SELECT a.run_id, a.sequence, a.status, r.closed_at IS NOT NULL,
       (
           SELECT t.task_number FROM workflow_tasks t
           WHERE t.run_id = a.run_id AND t.kind = 1 AND t.activity_sequence = a.sequence
           LIMIT 1
       )
FROM json_to_recordset($2::json) AS k(run_id text, sequence bigint)
JOIN activity_executions a ON a.run_id = k.run_id AND a.sequence = k.sequence
JOIN workflow_runs r ON r.run_id = a.run_id AND r.namespace = $1;

-- name: begin_repair_pass
-- Stamp a repair pass: $1 the name of its throttle, $2 who makes it, $3 seconds until the next one. No row when $4 says
-- that the throttle counts and the last pass is not that long ago.
INSERT INTO service_leases AS l (name, holder, expires_at)
VALUES ($1, $2, dw_now() + make_interval(secs => $3::double precision))
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
WHERE NOT $4::boolean OR l.expires_at <= dw_now()
RETURNING l.name;

-- name: find_repair_candidates
-- Tasks of namespace $1 whose lease has run out, or that nobody has taken for $2 seconds since they were due: at most $3,
-- one per queue and build in turn, the oldest first. $4 is how many tasks are looked at of either sort. With a JSON array
-- of run ids in $5, or the current run of workflow id $6, those are looked at instead; $7 names a queue. Gives run, task,
-- activity, kind, queue and whether the lease has run out.
WITH clock AS MATERIALIZED (SELECT dw_now() AS now),
named AS MATERIALIZED (
    SELECT n.run_id FROM json_array_elements_text($5::json) AS n(run_id)
    UNION
    SELECT i.current_run_id FROM workflow_instances i WHERE $5::text IS NULL AND i.namespace = $1 AND i.workflow_id = $6::text
),
looked AS MATERIALIZED (
    (
        SELECT t.* FROM clock
        CROSS JOIN LATERAL (
            SELECT t.* FROM workflow_tasks t
            WHERE $5::text IS NULL AND $6::text IS NULL AND t.sweep_at <= clock.now
            ORDER BY t.sweep_at
            LIMIT $4::integer
        ) t
        WHERE t.state = 1
    )
    UNION ALL
    (
        SELECT t.* FROM workflow_tasks t
        WHERE $5::text IS NULL AND $6::text IS NULL AND t.namespace = $1 AND t.state = 0
        ORDER BY t.queue, t.kind, t.priority, t.available_at, t.run_id, t.task_number
        LIMIT $4::integer
    )
    UNION ALL
    (
        SELECT t.* FROM named n JOIN workflow_tasks t ON t.run_id = n.run_id
        LIMIT $4::integer
    )
),
candidates AS (
    SELECT t.run_id, t.task_number, t.activity_sequence, t.kind, t.queue, t.created_at, t.state = 1 AS is_expired,
           row_number() OVER (PARTITION BY t.queue, t.compatibility ORDER BY t.created_at, t.run_id) AS place
    FROM looked t, clock
    WHERE t.namespace = $1
      AND CASE t.state
          WHEN 1 THEN t.lease_expires_at <= clock.now
          ELSE t.available_at + make_interval(secs => $2::double precision) <= clock.now
      END
      AND ($7::text IS NULL OR t.queue = $7::text)
      AND (
          $6::text IS NULL
          OR t.run_id = (SELECT i.current_run_id FROM workflow_instances i WHERE i.namespace = $1 AND i.workflow_id = $6::text)
      )
)
SELECT c.run_id, c.task_number, c.activity_sequence, c.kind, c.queue, c.is_expired
FROM candidates c
ORDER BY c.place, c.created_at
LIMIT $3::integer;
