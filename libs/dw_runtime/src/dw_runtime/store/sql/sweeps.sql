-- name: hold_lease
-- Take or keep a service lease: a holder that stops renewing loses it after $3 seconds.
INSERT INTO service_leases AS l (name, holder, expires_at)
VALUES ($1, $2, dw_now() + make_interval(secs => $3))
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
WHERE l.holder = excluded.holder OR l.expires_at <= dw_now()
RETURNING l.name;

-- name: drop_lease
-- Give a service lease back, so that a standby takes over at once.
DELETE FROM service_leases l WHERE l.name = $1 AND l.holder = $2;

-- name: find_expired_leases
-- Tasks whose lease has run out, oldest first. Here and below the time is read in a sub-select, because a volatile
-- function cannot bound an index scan.
SELECT t.run_id, t.task_number, t.activity_sequence, t.kind
FROM workflow_tasks t
WHERE t.sweep_at <= (SELECT dw_now()) AND t.state = 1 AND t.lease_expires_at <= dw_now()
ORDER BY t.sweep_at
LIMIT $1;

-- name: find_activity_deadlines
-- Activity tasks with a deadline or lease that has passed, oldest first.
SELECT t.run_id, t.task_number, t.activity_sequence, t.kind
FROM workflow_tasks t
WHERE t.sweep_at <= (SELECT dw_now()) AND t.kind = 1
ORDER BY t.sweep_at
LIMIT $1;

-- name: find_run_deadlines
-- Open runs past their deadline, oldest first.
SELECT r.run_id
FROM workflow_runs r
WHERE r.closed_at IS NULL AND LEAST(r.execution_deadline_at, r.run_deadline_at) <= (SELECT dw_now())
ORDER BY LEAST(r.execution_deadline_at, r.run_deadline_at)
LIMIT $1;
