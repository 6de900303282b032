-- name: drop_lease
-- Give a service lease back, so that a standby takes over at once.
DELETE FROM service_leases l WHERE l.name = $1 AND l.holder = $2;

-- name: find_due
-- One pass of a sweep. Take or keep the service lease $1 for $2, who loses it after $3 seconds without a pass, and with
-- it find what has come due, oldest first, at most $4 of each kind: tasks whose lease has lapsed, or with $5 activity
-- tasks past any of their deadlines instead; and open runs past theirs or past the end of their cleanup, which have no
-- task_number. No rows without the lease; without $5 also runs that were left something which nobody has taken for two
-- seconds. Deliveries whose run has been removed are removed too. The time is read in a sub-select, because a volatile
-- function cannot bound an index scan.
WITH held AS MATERIALIZED (
    INSERT INTO service_leases AS l (name, holder, expires_at)
    VALUES ($1, $2, dw_now() + make_interval(secs => $3))
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
    WHERE l.holder = excluded.holder OR l.expires_at <= dw_now()
    RETURNING l.name
),
left_behind AS MATERIALIZED (
    SELECT d.run_id, d.ordinal
    FROM held
    CROSS JOIN LATERAL (
        SELECT d.run_id, d.ordinal
        FROM workflow_deliveries d
        WHERE NOT $5 AND d.created_at <= (SELECT dw_now()) - interval '2 seconds'
        ORDER BY d.created_at
        LIMIT $4
    ) d
),
orphans AS (
    DELETE FROM workflow_deliveries d
    USING left_behind l
    WHERE d.run_id = l.run_id AND d.ordinal = l.ordinal
      AND NOT EXISTS (SELECT 1 FROM workflow_runs r WHERE r.run_id = l.run_id)
)
SELECT DISTINCT 'delivery' AS what, l.run_id, NULL::bigint AS task_number, NULL::bigint AS activity_sequence, NULL::smallint AS kind
FROM left_behind l
UNION ALL
SELECT due.what, due.run_id, due.task_number, due.activity_sequence, due.kind
FROM held
CROSS JOIN LATERAL (
    (
        SELECT 'task' AS what, t.run_id, t.task_number, t.activity_sequence, t.kind
        FROM workflow_tasks t
        WHERE t.sweep_at <= (SELECT dw_now())
          AND CASE WHEN $5 THEN t.kind = 1 ELSE t.state = 1 AND t.lease_expires_at <= dw_now() END
        ORDER BY t.sweep_at
        LIMIT $4
    )
    UNION ALL
    (
        SELECT 'run', r.run_id, NULL, NULL, NULL
        FROM workflow_runs r
        WHERE r.closed_at IS NULL AND LEAST(r.execution_deadline_at, r.run_deadline_at) <= (SELECT dw_now())
        ORDER BY LEAST(r.execution_deadline_at, r.run_deadline_at)
        LIMIT $4
    )
    UNION ALL
    (
        SELECT 'run', r.run_id, NULL, NULL, NULL
        FROM workflow_runs r
        WHERE r.closed_at IS NULL AND r.cleanup_deadline_at <= (SELECT dw_now())
        ORDER BY r.cleanup_deadline_at
        LIMIT $4
    )
) due;

-- name: find_due_timers
-- One look of the timer clock: the lease $1 for $2 and $3 seconds as above, and with it at most $5 pending timers that
-- come due within $4 seconds, with how many seconds are left.
WITH held AS MATERIALIZED (
    INSERT INTO service_leases AS l (name, holder, expires_at)
    VALUES ($1, $2, dw_now() + make_interval(secs => $3))
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
    WHERE l.holder = excluded.holder OR l.expires_at <= dw_now()
    RETURNING l.name
)
SELECT due.run_id, due.sequence, due.seconds
FROM held
CROSS JOIN LATERAL (
    SELECT t.run_id, t.sequence, EXTRACT(EPOCH FROM t.due_at - dw_now())::float8 AS seconds
    FROM workflow_timers t
    WHERE t.status = 'pending' AND t.due_at <= (SELECT dw_now()) + make_interval(secs => $4)
    ORDER BY t.due_at
    LIMIT $5
) due;
