-- name: runs
-- Every run with everything that belongs to it, each as one JSON value.
SELECT
    to_jsonb(r),
    (SELECT COALESCE(json_agg(e.body::json ORDER BY e.sequence), '[]') FROM workflow_history_events e WHERE e.run_id = r.run_id),
    (SELECT COALESCE(sum(length(e.body)), 0) FROM workflow_history_events e WHERE e.run_id = r.run_id),
    (SELECT COALESCE(json_agg(t ORDER BY t.task_number), '[]') FROM workflow_tasks t WHERE t.run_id = r.run_id),
    (SELECT COALESCE(json_agg(a ORDER BY a.sequence), '[]') FROM activity_executions a WHERE a.run_id = r.run_id),
    (SELECT COALESCE(json_agg(a ORDER BY a.sequence, a.attempt), '[]') FROM activity_attempts a WHERE a.run_id = r.run_id),
    (SELECT COALESCE(json_agg(i ORDER BY i.ordinal), '[]') FROM workflow_inbox i WHERE i.run_id = r.run_id),
    (SELECT COALESCE(json_agg(g ORDER BY g.base_sequence), '[]') FROM workflow_parallel_groups g WHERE g.run_id = r.run_id),
    (SELECT COALESCE(json_agg(c ORDER BY c.task_number), '[]') FROM workflow_task_receipts c WHERE c.run_id = r.run_id),
    (SELECT COALESCE(json_agg(m ORDER BY m.sequence), '[]') FROM workflow_timers m WHERE m.run_id = r.run_id),
    (SELECT COALESCE(json_agg(u ORDER BY u.command_sequence), '[]') FROM workflow_updates u WHERE u.run_id = r.run_id)
FROM workflow_runs r
WHERE r.queue = $1
ORDER BY r.run_id;

-- name: gaps
-- Message streams whose messages are not numbered from 1 to their last position.
SELECT s.workflow_id
FROM workflow_message_streams s
LEFT JOIN workflow_stream_messages m USING (namespace, workflow_id, stream_name)
GROUP BY s.namespace, s.workflow_id, s.stream_name
HAVING count(m.position) <> max(s.last_position) OR COALESCE(max(m.position), 0) <> max(s.last_position);

-- name: outputs
-- Every output stream: its run, how many items it has, how many its offsets promise, and how many keys.
SELECT i.run_id, count(*), max(i.item_offset) + 1, count(DISTINCT i.idempotency_key)
FROM workflow_output_items i
GROUP BY i.run_id, i.stream_name;

-- name: service_calls
-- Every service call that a run has made: its caller, status and outcome.
SELECT c.caller_run_id, c.status, c.outcome FROM workflow_service_calls c;

-- name: waiters
-- Runs that are still to be told of the end of a call that has ended.
SELECT w.run_id, w.service_call_id
FROM workflow_service_waiters w
LEFT JOIN workflow_service_calls c ON c.service_call_id = w.service_call_id AND c.closed_at IS NULL
WHERE c.service_call_id IS NULL;

-- name: open_runs
-- How many runs of a queue are still open.
SELECT count(*) FROM workflow_runs r WHERE r.queue = $1 AND r.closed_at IS NULL;

-- name: leased_tasks
-- Id and owner of the leased tasks of a queue.
SELECT t.run_id || '.t' || t.task_number, t.lease_owner FROM workflow_tasks t WHERE t.queue = $1 AND t.state = 1;

-- name: fingerprint
-- How many rows every table of the server holds, and how far the runs have come.
SELECT
    (SELECT count(*) FROM workflow_instances), (SELECT count(*) FROM workflow_runs),
    (SELECT count(*) FROM workflow_history_events), (SELECT count(*) FROM workflow_tasks),
    (SELECT count(*) FROM workflow_task_receipts), (SELECT count(*) FROM activity_executions),
    (SELECT count(*) FROM activity_attempts), (SELECT count(*) FROM workflow_inbox),
    (SELECT count(*) FROM workflow_commands), (SELECT count(*) FROM worker_registrations),
    (SELECT count(*) FROM workflow_namespaces), (SELECT count(*) FROM workflow_stream_messages),
    (SELECT sum(duplicate_count) FROM workflow_message_streams), (SELECT count(*) FROM workflow_output_items),
    (SELECT count(*) FROM workflow_updates), (SELECT sum(attempt) FROM workflow_tasks),
    (SELECT sum(last_history_sequence + next_task_number) FROM workflow_runs);
