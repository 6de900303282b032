-- name: read_updates
-- Where updates stand, without their arguments: $1 is a JSON array of update ids.
SELECT u.update_id, row_to_json(u)::text
FROM (
    SELECT u.update_id, u.command_id, u.run_id, u.update_name, u.status, u.outcome, u.command_sequence,
           u.workflow_sequence, u.result, u.failure_id, u.failure_message, u.accepted_at, u.applied_at, u.closed_at
    FROM json_array_elements_text($1::json) AS a(update_id)
    JOIN workflow_updates u ON u.update_id = a.update_id
) u;
