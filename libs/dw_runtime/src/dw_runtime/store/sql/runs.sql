-- name: describe_run
-- One run with what its description needs: $1 namespace, $2 workflow id, $3 run id or null for the current run,
-- $4 seconds of silence after which a worker counts as gone. No row means that there is no such workflow id; a null
-- run that the run is not one of its runs. What follows the event that closed a run is of few types.
SELECT
    i.run_count,
    r.run_id = i.current_run_id,
    row_to_json(r)::text,
    row_to_json(s)::text,
    (SELECT t.state FROM workflow_tasks t WHERE t.run_id = r.run_id AND t.kind = 0),
    CASE WHEN r.status = 'failed' THEN (
        SELECT e.body
        FROM workflow_history_events e
        WHERE e.run_id = r.run_id AND e.event_type NOT IN (
            'UpdateCompleted', 'ParentClosePolicyApplied', 'ArchiveRequested', 'WorkflowArchived'
        )
        ORDER BY e.sequence DESC
        LIMIT 1
    ) END,
    dw_is_supported(r.namespace, r.queue, r.compatibility, $4::integer)
FROM workflow_instances i
LEFT JOIN workflow_runs r
    ON r.run_id = COALESCE($3::text, i.current_run_id) AND r.namespace = i.namespace AND r.workflow_id = i.workflow_id
LEFT JOIN workflow_run_summaries s ON s.run_id = r.run_id
WHERE i.namespace = $1 AND i.workflow_id = $2;

-- name: list_instance_runs
-- A page of the runs of one workflow id, oldest first: $1 namespace, $2 workflow id, $3 seconds of worker silence,
-- $4 the run number behind which to begin, $5 rows. A row with nulls says only how many runs there are.
WITH counted AS MATERIALIZED (
    SELECT count(*) AS runs FROM workflow_runs c WHERE c.namespace = $1 AND c.workflow_id = $2
)
SELECT
    (SELECT c.runs FROM counted c),
    r.run_id = i.current_run_id,
    row_to_json(r)::text,
    (SELECT s.business_key FROM workflow_run_summaries s WHERE s.run_id = r.run_id),
    dw_is_supported(r.namespace, r.queue, r.compatibility, $3::integer)
FROM workflow_instances i
LEFT JOIN LATERAL (
    SELECT w.*
    FROM workflow_runs w
    WHERE w.namespace = i.namespace AND w.workflow_id = i.workflow_id AND w.run_number > $4::integer
    ORDER BY w.run_number
    LIMIT $5::integer
) r ON true
WHERE i.namespace = $1 AND i.workflow_id = $2
ORDER BY r.run_number;

-- name: read_run_history
-- A page of a run's history as a JSON fragment: $1 namespace, $2 workflow id, $3 run id, $4 after sequence, $5 events.
-- No row means that there is no such workflow id; a null last sequence that the run is not one of its runs.
SELECT r.last_history_sequence, r.closed_at IS NOT NULL,
       dw_history_page(r.run_id, $4::bigint, r.last_history_sequence, $5::integer)
FROM workflow_instances i
LEFT JOIN workflow_runs r ON r.run_id = $3 AND r.namespace = i.namespace AND r.workflow_id = i.workflow_id
WHERE i.namespace = $1 AND i.workflow_id = $2;

-- name: run_exists
-- Whether a run belongs to a workflow id: $1 namespace, $2 workflow id, $3 run id.
SELECT EXISTS (
    SELECT 1 FROM workflow_runs r WHERE r.run_id = $3 AND r.namespace = $1 AND r.workflow_id = $2
);

-- name: measure_run
-- How many bytes of history a run has: $1 namespace, $2 workflow id, $3 run id. No row means that there is no such
-- workflow id; a null that the run is not one of its runs.
SELECT r.history_bytes
FROM workflow_instances i
LEFT JOIN workflow_runs r ON r.run_id = $3 AND r.namespace = i.namespace AND r.workflow_id = i.workflow_id
WHERE i.namespace = $1 AND i.workflow_id = $2;

-- name: export_run
-- Everything that is known of run $1, each section as one JSON text, in the order of the bundle's sections.
SELECT
    row_to_json(r)::text, row_to_json(s)::text, i.current_run_id,
    (SELECT json_agg(e.body::json ORDER BY e.sequence)::text FROM workflow_history_events e WHERE e.run_id = r.run_id),
    (SELECT json_agg(c ORDER BY c.command_sequence)::text FROM workflow_commands c WHERE c.run_id = r.run_id),
    (
        SELECT json_agg(json_build_object(
            'id', g.signal_id, 'command_id', g.command_id, 'name', g.signal_name, 'status', g.status,
            'workflow_sequence', g.workflow_sequence, 'arguments', g.arguments, 'received_at', g.received_at
        ))::text
        FROM workflow_signals g WHERE g.run_id = r.run_id
    ),
    (SELECT json_agg(u ORDER BY u.command_sequence)::text FROM workflow_updates u WHERE u.run_id = r.run_id),
    (
        SELECT json_agg(t ORDER BY t.task_number)::text
        FROM (
            SELECT k.run_id || '.t' || k.task_number AS id, k.task_number, CASE k.kind WHEN 0 THEN 'workflow' ELSE 'activity' END AS type,
                   CASE k.state WHEN 0 THEN 'ready' ELSE 'leased' END AS status, k.attempt AS attempt_count,
                   k.repair_count, k.lease_owner, k.leased_at, k.lease_expires_at, k.available_at
            FROM workflow_tasks k WHERE k.run_id = r.run_id
            UNION ALL
            SELECT c.run_id || '.t' || c.task_number, c.task_number, 'workflow', c.outcome, c.attempt, 0, c.lease_owner, NULL,
                   NULL, NULL
            FROM workflow_task_receipts c WHERE c.run_id = r.run_id
        ) t
    ),
    (
        SELECT json_agg(json_build_object(
            'id', a.run_id || '.a' || a.sequence, 'sequence', a.sequence, 'type', a.activity_type, 'status', a.status,
            'codec', 'avro', 'arguments', a.arguments, 'queue', a.queue, 'retry_policy', a.retry_policy,
            'timeouts', a.timeouts, 'attempt_count', a.attempt_count, 'scheduled_at', a.scheduled_at,
            'closed_at', a.closed_at,
            'attempts', (
                SELECT COALESCE(json_agg(json_build_object(
                    'attempt_number', p.attempt, 'status', p.status, 'lease_owner', p.lease_owner,
                    'started_at', p.started_at, 'closed_at', p.closed_at
                ) ORDER BY p.attempt), '[]')
                FROM activity_attempts p WHERE p.run_id = a.run_id AND p.sequence = a.sequence
            )
        ) ORDER BY a.sequence)::text
        FROM activity_executions a WHERE a.run_id = r.run_id
    ),
    (
        SELECT json_agg(json_build_object(
            'id', m.run_id || '.m' || m.sequence, 'sequence', m.sequence, 'kind', m.kind, 'status', m.status,
            'delay_seconds', m.delay_seconds, 'fire_at', m.fire_at, 'fired_at', m.fired_at, 'cancelled_at', m.cancelled_at
        ) ORDER BY m.sequence)::text
        FROM workflow_timers m WHERE m.run_id = r.run_id
    ),
    (SELECT json_agg(f ORDER BY f.event_sequence)::text FROM workflow_failures f WHERE f.run_id = r.run_id),
    (SELECT json_agg(w)::text FROM workflow_run_waits w WHERE w.run_id = r.run_id),
    (
        SELECT json_agg(l)::text
        FROM (
            SELECT 'child_workflow' AS type, r.parent ->> 'workflow_id' AS instance_id, r.parent ->> 'run_id' AS run_id,
                   (r.parent ->> 'sequence')::bigint AS sequence
            WHERE r.parent IS NOT NULL
            UNION ALL
            SELECT 'continue_as_new', p.workflow_id, p.run_id, NULL
            FROM workflow_runs p
            WHERE p.continued_to_run_id = r.run_id AND p.closed_reason = 'continued'
        ) l
    ),
    (
        SELECT json_agg(l)::text
        FROM (
            SELECT 'child_workflow' AS type, c.workflow_id AS instance_id, c.run_id,
                   (c.parent ->> 'sequence')::bigint AS sequence
            FROM workflow_runs c
            WHERE c.parent IS NOT NULL AND c.parent ->> 'run_id' = r.run_id
            UNION ALL
            SELECT 'continue_as_new', r.workflow_id, r.continued_to_run_id, NULL
            WHERE r.continued_to_run_id IS NOT NULL AND r.closed_reason = 'continued'
        ) l
    )
FROM workflow_runs r
JOIN workflow_run_summaries s ON s.run_id = r.run_id
JOIN workflow_instances i ON i.namespace = r.namespace AND i.workflow_id = r.workflow_id
WHERE r.run_id = $1;
