-- name: describe_activity
-- A standalone activity: $1 namespace, $2 its id, $3 the workflow type of its run. Gives run, summary, activity, the open
-- task if any, the class it was started with, and the type of the event before the last.
SELECT row_to_json(r)::text, row_to_json(s)::text, row_to_json(a)::text, row_to_json(t)::text,
       c.payload ->> 'activity_class', e.event_type
FROM workflow_instances i
JOIN workflow_runs r ON r.run_id = i.current_run_id
JOIN workflow_run_summaries s ON s.run_id = r.run_id AND s.workflow_type = $3
JOIN activity_executions a ON a.run_id = r.run_id AND a.sequence = 1
LEFT JOIN LATERAL (
    SELECT t.* FROM workflow_tasks t WHERE t.run_id = r.run_id ORDER BY t.task_number DESC LIMIT 1
) t ON true
LEFT JOIN workflow_commands c ON c.run_id = r.run_id AND c.command_sequence = 1
LEFT JOIN workflow_history_events e ON e.run_id = r.run_id AND e.sequence = r.last_history_sequence - 1
WHERE i.namespace = $1 AND i.workflow_id = $2;

-- name: list_activities
-- A page of the standalone activities of a namespace, newest first: $1 namespace, $2 the workflow type of their runs, $3
-- status bucket or null, $4 and $5 start time and run id of the last row already listed, $6 rows. The columns of
-- describe_activity.
WITH page AS MATERIALIZED (
    SELECT s.*
    FROM workflow_run_summaries s
    WHERE s.namespace = $1 AND s.workflow_type = $2 AND (s.started_at, s.run_id) < ($4::timestamptz, $5::text)
      AND ($3::text IS NULL OR s.status_bucket = $3::text)
    ORDER BY s.started_at DESC, s.run_id DESC
    LIMIT $6::integer
)
SELECT row_to_json(r)::text, row_to_json(s)::text, row_to_json(a)::text, row_to_json(t)::text,
       c.payload ->> 'activity_class', e.event_type
FROM page s
JOIN workflow_runs r ON r.run_id = s.run_id
JOIN activity_executions a ON a.run_id = r.run_id AND a.sequence = 1
LEFT JOIN LATERAL (
    SELECT t.* FROM workflow_tasks t WHERE t.run_id = r.run_id ORDER BY t.task_number DESC LIMIT 1
) t ON true
LEFT JOIN workflow_commands c ON c.run_id = r.run_id AND c.command_sequence = 1
LEFT JOIN workflow_history_events e ON e.run_id = r.run_id AND e.sequence = r.last_history_sequence - 1
ORDER BY s.started_at DESC, s.run_id DESC;
