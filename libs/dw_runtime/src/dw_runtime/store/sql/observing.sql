-- name: observe_run
-- What a run waits for and hangs together with, bounded whatever its size: $1 run, $2 open timers, children and updates,
-- $3 links to children, $4 run of the parent or null. Gives pending timers, open calls of children, open updates, links to
-- children with their own outcomes, and the run of the parent; a run that was pruned is null.
SELECT
    (
        SELECT COALESCE(json_agg(t ORDER BY t.sequence), '[]')::text
        FROM (
            SELECT m.* FROM workflow_timers m WHERE m.run_id = $1 AND m.status = 'pending'
            ORDER BY m.sequence LIMIT $2::integer
        ) t
    ),
    (
        SELECT COALESCE(json_agg(c ORDER BY c.sequence), '[]')::text
        FROM (
            SELECT h.* FROM workflow_child_calls h WHERE h.run_id = $1 AND h.closed_at IS NULL
            ORDER BY h.sequence LIMIT $2::integer
        ) c
    ),
    (
        SELECT COALESCE(json_agg(json_build_object(
            'update_id', u.update_id, 'update_name', u.update_name, 'accepted_at', u.accepted_at
        ) ORDER BY u.command_sequence), '[]')::text
        FROM (
            SELECT o.* FROM workflow_updates o WHERE o.run_id = $1 AND o.closed_at IS NULL
            ORDER BY o.command_sequence LIMIT $2::integer
        ) u
    ),
    (
        SELECT COALESCE(json_agg(json_build_object(
            'call', l, 'status', r.status, 'closed_reason', r.closed_reason, 'closed_at', r.closed_at
        ) ORDER BY l.sequence), '[]')::text
        FROM (
            SELECT h.* FROM workflow_child_calls h WHERE h.run_id = $1 ORDER BY h.sequence LIMIT $3::integer
        ) l
        LEFT JOIN workflow_runs r ON r.run_id = l.current_run_id
    ),
    (
        SELECT json_build_object('status', r.status, 'closed_reason', r.closed_reason, 'closed_at', r.closed_at)::text
        FROM workflow_runs r WHERE r.run_id = $4
    );

-- name: read_observed_history
-- A page of the history of run $1: $2 after sequence, $3 the last sequence that counts, $4 events.
SELECT dw_history_page(r.run_id, $2::bigint, $3::bigint, $4::integer) FROM workflow_runs r WHERE r.run_id = $1;

-- name: list_nexus_operations
-- The service calls that the code of run $1 has made, the newest first: at most $2. Their ids begin with that of the run.
SELECT row_to_json(c)::text
FROM workflow_service_calls c
WHERE c.service_call_id >= $1 || '.v' AND c.service_call_id < $1 || '.w'
ORDER BY length(c.service_call_id) DESC, c.service_call_id DESC
LIMIT $2;
