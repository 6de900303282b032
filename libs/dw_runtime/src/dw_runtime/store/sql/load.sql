-- name: lock_instances
-- The instances that workflow-id inputs name, locked in key order, with their current run.
SELECT i.namespace, i.workflow_id, i.current_run_id
FROM workflow_instances i
JOIN json_to_recordset($1::json) AS k(namespace text, workflow_id text)
    ON i.namespace = k.namespace AND i.workflow_id = k.workflow_id
ORDER BY i.namespace, i.workflow_id
FOR UPDATE OF i;

-- name: lock_runs
-- The runs of a batch, locked in run-id order.
SELECT row_to_json(r)::text
FROM workflow_runs r
WHERE r.run_id = ANY($1::text[])
ORDER BY r.run_id
FOR UPDATE OF r;

-- name: read_related
-- What the decisions of a batch need beside the locked runs, each part as one JSON array, and the time.
WITH points AS (
    SELECT * FROM json_to_recordset($2::json) AS p(run_id text, task_number bigint, sequence bigint)
),
tasks AS (
    SELECT t.* FROM workflow_tasks t WHERE t.run_id = ANY($1::text[]) AND t.kind = 0
    UNION ALL
    SELECT t.* FROM points p JOIN workflow_tasks t ON t.run_id = p.run_id AND t.task_number = p.task_number
    WHERE t.kind = 1 AND NOT t.run_id = ANY($4::text[])
    UNION ALL
    SELECT t.* FROM workflow_tasks t WHERE t.run_id = ANY($4::text[]) AND t.kind = 1
),
activities AS (
    SELECT a.run_id, a.sequence, a.activity_type, a.queue, a.status, a.has_retry_policy, a.retry_policy, a.timeouts,
           a.cancellation_policy, a.parallel_group_path, a.group_base, a.attempt_count, a.scheduled_at, a.closed_at
    FROM activity_executions a
    JOIN (
        SELECT run_id, sequence FROM points WHERE sequence > 0
        UNION
        SELECT run_id, activity_sequence FROM tasks WHERE kind = 1
    ) named ON a.run_id = named.run_id AND a.sequence = named.sequence
)
SELECT
    dw_now(),
    (SELECT json_agg(t) FROM tasks t)::text,
    (SELECT json_agg(a) FROM activities a)::text,
    (
        SELECT json_agg(g)
        FROM workflow_parallel_groups g
        JOIN (
            SELECT run_id, group_base AS base_sequence FROM activities WHERE group_base IS NOT NULL
            UNION
            SELECT * FROM json_to_recordset($5::json) AS b(run_id text, base_sequence bigint)
        ) named USING (run_id, base_sequence)
    )::text,
    (
        SELECT json_agg(m)
        FROM workflow_version_markers m
        JOIN json_to_recordset($6::json) AS c(run_id text, change_id text) USING (run_id, change_id)
    )::text,
    (
        SELECT json_agg(
            json_build_object(
                'run_id', i.run_id, 'event_type', i.event_type, 'payload', i.payload::json, 'resume', i.resume,
                'workflow_task_id', i.workflow_task_id, 'workflow_command_id', i.workflow_command_id
            ) ORDER BY i.ordinal
        )
        FROM workflow_inbox i
        WHERE i.run_id = ANY($3::text[])
    )::text;

-- name: read_settled
-- The records of closed tasks and attempts, for reports that found nothing open, and the open tasks of the activities
-- they name. Looks through the open tasks of a run: late reports are rare.
WITH points AS (
    SELECT * FROM json_to_recordset($1::json) AS p(run_id text, task_number bigint, sequence bigint, attempt integer)
)
SELECT
    (SELECT json_agg(r) FROM workflow_task_receipts r JOIN points p USING (run_id, task_number))::text,
    (
        SELECT json_agg(a)
        FROM activity_attempts a
        JOIN points p ON a.run_id = p.run_id AND a.sequence = p.sequence AND a.attempt = p.attempt
    )::text,
    (
        SELECT json_agg(t)
        FROM workflow_tasks t
        JOIN (SELECT DISTINCT run_id, sequence FROM points WHERE sequence > 0) p
            ON t.run_id = p.run_id AND t.activity_sequence = p.sequence
    )::text;
