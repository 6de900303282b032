-- name: find_expired
-- Closed runs of namespace $1 that are older than its retention: how many of the first $2, the cutoff, and their ids.
-- No row for an unknown namespace.
SELECT n.retention_days, dw_now() - make_interval(days => n.retention_days), count(s.run_id),
       COALESCE(json_agg(s.run_id) FILTER (WHERE s.run_id IS NOT NULL), '[]')::text
FROM workflow_namespaces n
LEFT JOIN LATERAL (
    SELECT s.run_id
    FROM workflow_run_summaries s
    WHERE s.namespace = n.name
      AND s.closed_at <= (SELECT dw_now()) - make_interval(days => n.retention_days) AND s.archived_at IS NULL
    ORDER BY s.closed_at, s.run_id
    LIMIT $2
) s ON true
WHERE n.name = $1
GROUP BY n.name;

-- name: judge_runs
-- Whether each of the runs $2 (a JSON array of ids) of namespace $1 exists, is closed, is older than its retention, and is archived.
SELECT k.run_id, r.run_id IS NOT NULL, r.closed_at IS NOT NULL,
       r.closed_at <= dw_now() - make_interval(days => n.retention_days), r.archive IS NOT NULL
FROM json_array_elements_text($2::json) AS k(run_id)
LEFT JOIN workflow_runs r ON r.run_id = k.run_id AND r.namespace = $1
LEFT JOIN workflow_namespaces n ON n.name = r.namespace;

-- name: prune_runs
-- Remove at most $1 closed runs that are older than the retention of their namespace, the oldest first, with all that
-- belongs to them, and workflow ids that have no run left. $2 is one namespace or null for all, $3 a JSON array of run
-- ids or null; with $4 true all runs of that namespace go, open ones too, if it is being deleted. What somebody else has locked is left to another pass, so that replicas may do this at once. A current
-- run is the last of its workflow id to go. Returns the ids, and how many events and tasks each has had.
WITH expired AS MATERIALIZED (
    (
        SELECT s.namespace, s.workflow_id, s.run_id
        FROM workflow_namespaces n
        CROSS JOIN LATERAL (
            SELECT s.namespace, s.workflow_id, s.run_id, s.closed_at
            FROM workflow_run_summaries s
            WHERE s.namespace = n.name
              AND s.closed_at <= (SELECT dw_now()) - make_interval(days => n.retention_days)
              AND s.archived_at IS NULL
            ORDER BY s.closed_at, s.run_id
            LIMIT $1::integer
        ) s
        WHERE $3::json IS NULL AND ($2::text IS NULL OR n.name = $2) AND NOT $4
        ORDER BY s.closed_at, s.run_id
        LIMIT $1::integer
    )
    UNION ALL
    (
        SELECT s.namespace, s.workflow_id, s.run_id
        FROM json_array_elements_text($3::json) AS k(run_id)
        JOIN workflow_run_summaries s ON s.run_id = k.run_id AND s.namespace = $2
        JOIN workflow_namespaces n ON n.name = s.namespace
        WHERE s.closed_at <= (SELECT dw_now()) - make_interval(days => n.retention_days)
        LIMIT $1::integer
    )
    UNION ALL
    (
        SELECT s.namespace, s.workflow_id, s.run_id
        FROM workflow_namespaces n
        JOIN workflow_run_summaries s ON s.namespace = n.name
        WHERE $4 AND n.name = $2 AND n.status = 'deleting'
        ORDER BY s.started_at, s.run_id
        LIMIT $1::integer
    )
),
instances AS MATERIALIZED (
    SELECT i.namespace, i.workflow_id, i.current_run_id
    FROM (SELECT DISTINCT namespace, workflow_id FROM expired) e
    JOIN workflow_instances i ON i.namespace = e.namespace AND i.workflow_id = e.workflow_id
    ORDER BY i.namespace, i.workflow_id
    FOR UPDATE OF i SKIP LOCKED
),
held AS MATERIALIZED (
    SELECT r.run_id, r.namespace, r.workflow_id, r.run_id = i.current_run_id AS is_current
    FROM instances i
    JOIN expired e ON e.namespace = i.namespace AND e.workflow_id = i.workflow_id
    JOIN workflow_runs r ON r.run_id = e.run_id
    WHERE r.closed_at IS NOT NULL AND r.archive IS NULL OR $4
    FOR UPDATE OF r SKIP LOCKED
),
chosen AS MATERIALIZED (
    SELECT h.run_id, h.namespace, h.workflow_id, h.is_current AS is_last
    FROM held h
    WHERE NOT h.is_current OR NOT EXISTS (
        SELECT 1
        FROM workflow_runs o
        WHERE o.namespace = h.namespace AND o.workflow_id = h.workflow_id
          AND NOT EXISTS (SELECT 1 FROM held x WHERE x.run_id = o.run_id)
    )
),
events AS (
    DELETE FROM workflow_history_events d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
tasks AS (
    DELETE FROM workflow_tasks d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
receipts AS (
    DELETE FROM workflow_task_receipts d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_executions AS (
    DELETE FROM activity_executions d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_attempts AS (
    DELETE FROM activity_attempts d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_parallel_groups AS (
    DELETE FROM workflow_parallel_groups d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_version_markers AS (
    DELETE FROM workflow_version_markers d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_inbox AS (
    DELETE FROM workflow_inbox d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_commands AS (
    DELETE FROM workflow_commands d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_timers AS (
    DELETE FROM workflow_timers d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_updates AS (
    DELETE FROM workflow_updates d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_child_calls AS (
    DELETE FROM workflow_child_calls d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_deliveries AS (
    DELETE FROM workflow_deliveries d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_service_waiters AS (
    DELETE FROM workflow_service_waiters d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_output_items AS (
    DELETE FROM workflow_output_items d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_output_streams AS (
    DELETE FROM workflow_output_streams d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_messages AS (
    DELETE FROM workflow_stream_messages d
    USING chosen c
    WHERE c.is_last AND d.namespace = c.namespace AND d.workflow_id = c.workflow_id
),
no_message_streams AS (
    DELETE FROM workflow_message_streams d
    USING chosen c
    WHERE c.is_last AND d.namespace = c.namespace AND d.workflow_id = c.workflow_id
),
no_payload_uses AS (
    DELETE FROM external_payload_uses d USING chosen c WHERE d.run_id = c.run_id RETURNING d.reference_id
),
unused_payloads AS MATERIALIZED (
    SELECT p.reference_id
    FROM external_payloads p
    WHERE p.reference_id IN (SELECT u.reference_id FROM no_payload_uses u)
    ORDER BY p.reference_id
    FOR UPDATE
),
reviewed_payloads AS (
    UPDATE external_payloads p SET review_at = dw_now() FROM unused_payloads u WHERE p.reference_id = u.reference_id
),
no_search_attributes AS (
    DELETE FROM workflow_search_attributes d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_run_summaries AS (
    DELETE FROM workflow_run_summaries d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_runs AS (
    DELETE FROM workflow_runs d USING chosen c WHERE d.run_id = c.run_id RETURNING d.run_id
),
no_instances AS (
    DELETE FROM workflow_instances d
    USING chosen c
    WHERE c.is_last AND d.namespace = c.namespace AND d.workflow_id = c.workflow_id
)
SELECT c.run_id, COALESCE(e.count, 0), COALESCE(t.count, 0)
FROM chosen c
LEFT JOIN (SELECT run_id, count(*) FROM events GROUP BY run_id) e ON e.run_id = c.run_id
LEFT JOIN (SELECT run_id, count(*) FROM (SELECT * FROM tasks UNION ALL SELECT * FROM receipts) b GROUP BY run_id) t
    ON t.run_id = c.run_id;
