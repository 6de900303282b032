-- name: advance
-- Write the transitions of a batch. Each parameter is one JSON array of rows, maybe empty. Closed tasks are deleted before
-- new ones are inserted (the inserts read the deleted rows), because a run has at most one open workflow task. CASE keeps
-- the planner of a new database from reading every summary for the few that are still open.
WITH events AS (
    INSERT INTO workflow_history_events (run_id, sequence, event_type, body)
    SELECT e.run_id, e.sequence, e.event_type, e.body
    FROM json_to_recordset($1::json) AS e(run_id text, sequence bigint, event_type text, body text)
),
runs AS (
    UPDATE workflow_runs r SET
        status = n.status, closed_reason = n.closed_reason, closed_at = n.closed_at,
        last_progress_at = n.last_progress_at, last_history_sequence = n.last_history_sequence,
        history_bytes = n.history_bytes, next_workflow_sequence = n.next_workflow_sequence,
        next_task_number = n.next_task_number, next_command_sequence = n.next_command_sequence,
        last_wake_sequence = n.last_wake_sequence, consumed_wake_sequence = n.consumed_wake_sequence,
        open_activity_count = n.open_activity_count, open_timer_count = n.open_timer_count,
        open_child_count = n.open_child_count, continued_to_run_id = n.continued_to_run_id,
        service_wait = n.service_wait, has_service_calls = n.has_service_calls,
        pending_signal_count = n.pending_signal_count, newest_signal = n.newest_signal,
        open_update_count = n.open_update_count, open_wait = n.open_wait, selected_waits = n.selected_waits,
        task_failure_count = n.task_failure_count,
        replay_blocked = n.replay_blocked, blocked_build_id = n.blocked_build_id,
        cancellation = n.cancellation, cleanup_deadline_at = n.cleanup_deadline_at,
        sticky_worker = n.sticky_worker, sticky_until = n.sticky_until, archive = n.archive, redrive_of = n.redrive_of
    FROM json_populate_recordset(NULL::workflow_runs, $2::json) n
    WHERE r.run_id = n.run_id
),
closed AS (
    UPDATE workflow_run_summaries s SET
        status_bucket = CASE WHEN n.status = 'completed' THEN 'completed' ELSE 'failed' END,
        closed_at = n.closed_at, output = COALESCE(s.output, n.output),
        archived_at = (n.archive ->> 'archived_at')::timestamptz
    FROM json_to_recordset($2::json) AS n(run_id text, status text, closed_at timestamptz, output text, archive json)
    WHERE n.closed_at IS NOT NULL AND s.run_id = n.run_id
      AND CASE WHEN n.archive IS NULL THEN s.closed_at IS NULL ELSE s.archived_at IS NULL END
),
gone AS (
    DELETE FROM workflow_tasks t
    USING json_to_recordset($3::json) AS g(run_id text, task_number bigint)
    WHERE t.run_id = g.run_id AND t.task_number = g.task_number
    RETURNING 1
),
opened AS (
    INSERT INTO workflow_tasks
    SELECT n.* FROM json_populate_recordset(NULL::workflow_tasks, $4::json) n
    WHERE (SELECT count(*) FROM gone) >= 0
),
changed AS (
    UPDATE workflow_tasks t SET
        state = n.state, available_at = n.available_at, attempt = n.attempt, repair_count = n.repair_count,
        lease_owner = n.lease_owner, leased_at = n.leased_at, lease_expires_at = n.lease_expires_at,
        poll_request_id = n.poll_request_id, claimed_history_sequence = n.claimed_history_sequence,
        schedule_to_start_at = n.schedule_to_start_at, start_to_close_at = n.start_to_close_at,
        heartbeat_at = n.heartbeat_at, last_heartbeat_at = n.last_heartbeat_at,
        heartbeat_details = n.heartbeat_details, sweep_at = n.sweep_at,
        needs_cooperation = n.needs_cooperation, is_cooperative = n.is_cooperative,
        is_cancel_requested = n.is_cancel_requested,
        reserved_for = n.reserved_for, reserved_until = n.reserved_until
    FROM json_populate_recordset(NULL::workflow_tasks, $5::json) n
    WHERE t.run_id = n.run_id AND t.task_number = n.task_number
),
receipts AS (
    INSERT INTO workflow_task_receipts
    SELECT n.* FROM json_populate_recordset(NULL::workflow_task_receipts, $6::json) n
),
scheduled AS (
    INSERT INTO activity_executions
    SELECT n.* FROM json_populate_recordset(NULL::activity_executions, $7::json) n
),
settled AS (
    UPDATE activity_executions a SET
        status = n.status, attempt_count = n.attempt_count, closed_at = n.closed_at
    FROM json_populate_recordset(NULL::activity_executions, $8::json) n
    WHERE a.run_id = n.run_id AND a.sequence = n.sequence
),
commands AS (
    INSERT INTO workflow_commands SELECT n.* FROM json_populate_recordset(NULL::workflow_commands, $10::json) n
),
audited AS (
    INSERT INTO audit_entries
    SELECT n.command_id, COALESCE(n.accepted_at, n.rejected_at), n.namespace, n.context #>> '{caller,subject}',
           n.context #>> '{caller,role}', n.context #>> '{auth,method}', n.context #>> '{request,address}',
           n.context #>> '{request,id}', n.context #>> '{request,name}', n.workflow_id, n.run_id, n.status,
           n.rejection_reason, NULL, NULL
    FROM json_populate_recordset(NULL::workflow_commands, $10::json) n
    WHERE n.context #>> '{request,name}' IS NOT NULL
)
INSERT INTO activity_attempts
SELECT n.* FROM json_populate_recordset(NULL::activity_attempts, $9::json) n;

-- name: start_runs
-- Create runs and their summaries, and instances, or move these to the run that follows. A row holds the columns of the
-- run and the details of its start.
WITH followed AS (
    UPDATE workflow_instances i SET current_run_id = n.run_id, run_count = n.run_number
    FROM json_to_recordset($1::json) AS n(namespace text, workflow_id text, run_id text, run_number integer)
    WHERE n.run_number > 1 AND i.namespace = n.namespace AND i.workflow_id = n.workflow_id
),
runs AS (
    INSERT INTO workflow_runs SELECT n.* FROM json_populate_recordset(NULL::workflow_runs, $1::json) n
),
instances AS (
    INSERT INTO workflow_instances (namespace, workflow_id, current_run_id, run_count)
    SELECT n.namespace, n.workflow_id, n.run_id, 1
    FROM json_to_recordset($1::json) AS n(namespace text, workflow_id text, run_id text, run_number integer)
    WHERE n.run_number = 1
)
INSERT INTO workflow_run_summaries (
    run_id, namespace, workflow_id, workflow_type, queue, compatibility, business_key, status_bucket, started_at,
    closed_at, memo, search_attributes, execution_timeout_seconds, run_timeout_seconds, arguments, memo_blob,
    search_attribute_types, command_contract
)
SELECT n.run_id, n.namespace, n.workflow_id, n.workflow_type, n.queue, n.compatibility, n.business_key,
       CASE WHEN n.closed_at IS NULL THEN 'running' WHEN n.status = 'completed' THEN 'completed' ELSE 'failed' END,
       n.started_at, n.closed_at, n.memo, n.search_attributes, n.execution_timeout_seconds, n.run_timeout_seconds,
       n.arguments, n.memo_blob, n.search_attribute_types, n.command_contract
FROM json_to_recordset($1::json) AS n(
    run_id text, namespace text, workflow_id text, workflow_type text, queue text, compatibility text,
    business_key text, status text, started_at timestamptz, closed_at timestamptz, memo jsonb, search_attributes jsonb,
    execution_timeout_seconds integer, run_timeout_seconds integer, arguments text, memo_blob text,
    search_attribute_types json, command_contract json
);

-- name: open_timers
-- Record new timers.
INSERT INTO workflow_timers SELECT n.* FROM json_populate_recordset(NULL::workflow_timers, $1::json) n;

-- name: end_timers
-- Write what has become of timers.
UPDATE workflow_timers t SET
    status = n.status, due_at = n.due_at, fired_at = n.fired_at, cancelled_at = n.cancelled_at
FROM json_populate_recordset(NULL::workflow_timers, $1::json) n
WHERE t.run_id = n.run_id AND t.sequence = n.sequence;

-- name: open_updates
-- Record accepted updates.
INSERT INTO workflow_updates SELECT n.* FROM json_populate_recordset(NULL::workflow_updates, $1::json) n;

-- name: settle_updates
-- Write what has become of updates: settled, no longer behind a signal, or moved to the run that continues theirs.
UPDATE workflow_updates u SET
    run_id = n.run_id, status = n.status, outcome = n.outcome, workflow_sequence = n.workflow_sequence, result = n.result,
    failure_id = n.failure_id, failure_message = n.failure_message, queued_behind = n.queued_behind,
    applied_at = n.applied_at, closed_at = n.closed_at
FROM json_populate_recordset(NULL::workflow_updates, $1::json) n
WHERE u.update_id = n.update_id;

-- name: open_child_calls
-- Record the calls of new children.
INSERT INTO workflow_child_calls SELECT n.* FROM json_populate_recordset(NULL::workflow_child_calls, $1::json) n;

-- name: move_child_calls
-- Write what has become of calls.
UPDATE workflow_child_calls c SET
    current_run_id = n.current_run_id, status = n.status, closed_at = n.closed_at
FROM json_populate_recordset(NULL::workflow_child_calls, $1::json) n
WHERE c.run_id = n.run_id AND c.sequence = n.sequence;

-- name: take_deliveries
-- Remove what has been taken.
DELETE FROM workflow_deliveries d
USING json_to_recordset($1::json) AS t(run_id text, ordinal bigint)
WHERE d.run_id = t.run_id AND d.ordinal = t.ordinal;

-- name: leave_deliveries
-- Leave word for other runs, in order.
INSERT INTO workflow_deliveries (run_id, kind, sequence, body, created_at)
SELECT n.run_id, n.kind, n.sequence, n.body, n.created_at
FROM json_array_elements($1::json) WITH ORDINALITY AS e(value, position),
     json_to_record(e.value) AS n(run_id text, kind text, sequence bigint, body json, created_at timestamptz)
ORDER BY e.position;

-- name: open_groups
-- Record new parallel groups.
INSERT INTO workflow_parallel_groups
SELECT n.* FROM json_populate_recordset(NULL::workflow_parallel_groups, $1::json) n;

-- name: count_groups
-- Write how many leaves of each group are still open, and how selections stand.
UPDATE workflow_parallel_groups g SET open_count = n.open_count, selection = n.selection
FROM json_populate_recordset(NULL::workflow_parallel_groups, $1::json) n
WHERE g.run_id = n.run_id AND g.base_sequence = n.base_sequence;

-- name: record_markers
-- Record version decisions.
INSERT INTO workflow_version_markers
SELECT n.* FROM json_populate_recordset(NULL::workflow_version_markers, $1::json) n;

-- name: empty_inboxes
-- Remove the buffered events that have been taken into history.
DELETE FROM workflow_inbox i WHERE i.run_id = ANY(ARRAY(SELECT json_array_elements_text($1::json)));

-- name: fill_inboxes
-- Buffer events in arrival order.
INSERT INTO workflow_inbox (run_id, event_type, payload, resume, workflow_task_id, workflow_command_id)
SELECT n.run_id, n.event_type, n.payload, n.resume, n.workflow_task_id, n.workflow_command_id
FROM json_array_elements($1::json) WITH ORDINALITY AS e(value, position),
     json_to_record(e.value) AS n(
         run_id text, event_type text, payload text, resume json, workflow_task_id text, workflow_command_id text
     )
ORDER BY e.position;
