-- name: acknowledge_attempts
-- Keep what is known of the callbacks of closed attempts that were told to stop.
UPDATE activity_attempts a SET cancellation = n.cancellation
FROM json_populate_recordset(NULL::activity_attempts, $1::json) n
WHERE a.run_id = n.run_id AND a.sequence = n.sequence AND a.attempt = n.attempt;

-- name: find_blocked
-- Runs on a queue that another build than $3 could not replay: $1 namespace, $2 queue, $4 rows.
SELECT r.run_id
FROM workflow_runs r
WHERE r.namespace = $1 AND r.queue = $2 AND r.closed_at IS NULL AND r.replay_blocked
  AND r.blocked_build_id IS DISTINCT FROM $3::text
ORDER BY r.run_id
LIMIT $4;
