-- name: read_attempt_sessions
-- The sessions of attempts that report. $1 is a JSON array of {run_id, task_number}.
SELECT t.run_id, row_to_json(s)
FROM json_to_recordset($1::json) AS p(run_id text, task_number bigint)
JOIN workflow_tasks t ON t.run_id = p.run_id AND t.task_number = p.task_number
JOIN worker_sessions s ON s.namespace = t.namespace AND s.session_id = t.session_id;

-- name: renew_sessions
-- Move the end of leases, where their owner still holds the session. $1 is a JSON array of {namespace, session_id,
-- lease_owner, lease_expires_at}; the rows are locked in key order.
WITH held AS MATERIALIZED (
    SELECT s.namespace, s.session_id, n.lease_expires_at
    FROM (
        SELECT r.namespace, r.session_id, r.lease_owner, max(r.lease_expires_at) AS lease_expires_at
        FROM json_to_recordset($1::json) AS r(
            namespace text, session_id text, lease_owner text, lease_expires_at timestamptz
        )
        GROUP BY r.namespace, r.session_id, r.lease_owner
    ) n
    JOIN worker_sessions s
        ON s.namespace = n.namespace AND s.session_id = n.session_id AND s.lease_owner = n.lease_owner
    WHERE s.status = 'active'
    ORDER BY s.namespace, s.session_id
    FOR NO KEY UPDATE OF s
)
UPDATE worker_sessions s SET
    lease_expires_at = GREATEST(s.lease_expires_at, h.lease_expires_at), last_heartbeat_at = dw_now(),
    updated_at = dw_now()
FROM held h
WHERE s.namespace = h.namespace AND s.session_id = h.session_id;

-- name: save_sessions
-- Store sessions as they were decided on under lock_queues; $1 is a JSON array of rows.
INSERT INTO worker_sessions AS s
SELECT n.* FROM json_populate_recordset(NULL::worker_sessions, $1::json) n
ON CONFLICT (namespace, session_id) DO UPDATE SET
    status = excluded.status, lease_owner = excluded.lease_owner, lease_expires_at = excluded.lease_expires_at,
    failure_reason = excluded.failure_reason, last_heartbeat_at = excluded.last_heartbeat_at,
    updated_at = excluded.updated_at, closed_at = excluded.closed_at;

-- name: lock_session
-- The time, and a session, locked. $1 namespace, $2 session id.
SELECT dw_now(), (
    SELECT row_to_json(s) FROM (
        SELECT * FROM worker_sessions WHERE namespace = $1 AND session_id = $2 FOR UPDATE
    ) s
)::text;

-- name: find_session
-- Whether there is such a session by now, without waiting for its row. $1 namespace, $2 session id.
SELECT EXISTS (SELECT 1 FROM worker_sessions WHERE namespace = $1 AND session_id = $2);

-- name: read_holder
-- A registered worker as one that holds sessions: $1 namespace, $2 worker, $3 seconds of silence after which it is
-- stale, $4 the session whose running activities are counted for it.
SELECT json_build_object(
    'task_queue', w.task_queue,
    'capabilities', w.capabilities,
    'sessions_max', w.max_concurrent_worker_sessions,
    'sessions_held', (
        SELECT count(*)
        FROM worker_sessions s
        WHERE s.namespace = w.namespace AND s.lease_owner = w.worker_id AND s.closed_at IS NULL
          AND s.status = 'active' AND s.lease_expires_at > dw_now()
    ),
    'last_heartbeat_at', w.last_heartbeat_at,
    'is_stale', w.last_heartbeat_at < dw_now() - make_interval(secs => $3),
    'is_draining', EXISTS (
        SELECT 1
        FROM build_id_rollouts d
        WHERE d.namespace = w.namespace AND d.task_queue = w.task_queue AND d.build_id = COALESCE(w.build_id, '')
          AND d.drain_intent = 'draining'
    ),
    'running', (
        SELECT count(*)
        FROM workflow_tasks t
        WHERE t.namespace = w.namespace AND t.session_id = $4 AND t.state = 1 AND t.lease_owner = w.worker_id
    )
)::text
FROM worker_registrations w
WHERE w.namespace = $1 AND w.worker_id = $2;

-- name: lose_sessions
-- Take at most $2 sessions from holders that have let the lease or the time to live run out or have been silent for $1
-- seconds, and return how each was lost and a queue on which its activities wait. A session that is locked is being
-- renewed or acquired just now.
WITH lost AS MATERIALIZED (
    SELECT s.namespace, s.session_id,
           CASE
               WHEN s.ttl_expires_at <= dw_now() THEN 'ttl_expired'
               WHEN s.lease_expires_at <= dw_now() THEN 'lease_expired'
               ELSE 'worker_heartbeat_stale'
           END AS reason
    FROM worker_sessions s
    WHERE s.closed_at IS NULL
      AND (
          s.ttl_expires_at <= dw_now()
          OR s.status = 'active' AND (
              s.lease_expires_at <= dw_now()
              OR NOT EXISTS (
                  SELECT 1
                  FROM worker_registrations w
                  WHERE w.namespace = s.namespace AND w.worker_id = s.lease_owner
                    AND w.last_heartbeat_at >= dw_now() - make_interval(secs => $1)
              )
          )
      )
    LIMIT $2
    FOR UPDATE OF s SKIP LOCKED
),
taken AS (
    UPDATE worker_sessions s SET
        status = CASE
            WHEN l.reason = 'ttl_expired' THEN 'closed'
            WHEN NOT s.allow_reacquire_after_failure THEN 'failed'
            WHEN l.reason = 'lease_expired' THEN 'expired'
            ELSE 'orphaned'
        END,
        closed_at = CASE WHEN l.reason = 'ttl_expired' THEN dw_now() END,
        failure_reason = l.reason, updated_at = dw_now()
    FROM lost l
    WHERE s.namespace = l.namespace AND s.session_id = l.session_id
)
SELECT l.namespace, l.session_id, l.reason, (
    SELECT t.queue
    FROM workflow_tasks t
    WHERE t.namespace = l.namespace AND t.session_id = l.session_id AND t.state = 0
    LIMIT 1
)
FROM lost l;

-- name: forget_sessions
-- Remove at most $2 sessions that ended more than $1 seconds ago and that no task names any more.
DELETE FROM worker_sessions s
USING (
    SELECT e.namespace, e.session_id
    FROM (
        SELECT o.namespace, o.session_id
        FROM worker_sessions o
        WHERE o.closed_at < (SELECT dw_now()) - make_interval(secs => $1)
        ORDER BY o.closed_at
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) e
    WHERE NOT EXISTS (
        SELECT 1 FROM workflow_tasks t WHERE t.namespace = e.namespace AND t.session_id = e.session_id
    )
) ended
WHERE s.namespace = ended.namespace AND s.session_id = ended.session_id
RETURNING s.session_id;
