-- name: lock_instances
-- The instances of {namespace, workflow_id}, or of {run_id} when its run may get a successor, locked in key order.
SELECT
FROM workflow_instances i
JOIN (
    SELECT DISTINCT COALESCE(k.namespace, r.namespace) AS namespace, COALESCE(k.workflow_id, r.workflow_id) AS workflow_id
    FROM json_to_recordset($1::json) AS k(run_id text, namespace text, workflow_id text)
    LEFT JOIN workflow_runs r ON k.workflow_id IS NULL AND r.run_id = k.run_id
) named ON i.namespace = named.namespace AND i.workflow_id = named.workflow_id
ORDER BY i.namespace, i.workflow_id
FOR UPDATE OF i;

-- name: lock_runs
-- The runs a batch names, by id or as the current run of a locked instance, locked in run-id order. $1 is a JSON array
-- of {run_id} or {namespace, workflow_id}.
WITH named AS MATERIALIZED (
    SELECT DISTINCT COALESCE(k.run_id, i.current_run_id) AS run_id
    FROM json_to_recordset($1::json) AS k(run_id text, namespace text, workflow_id text)
    LEFT JOIN workflow_instances i
        ON k.run_id IS NULL AND i.namespace = k.namespace AND i.workflow_id = k.workflow_id
),
locked AS MATERIALIZED (
    SELECT r.* FROM named n JOIN workflow_runs r ON r.run_id = n.run_id ORDER BY r.run_id FOR UPDATE OF r
)
SELECT json_agg(l) FROM locked l;

-- name: read_related
-- The time after the locks, and what the decisions of a batch need beside the locked runs, each part as one JSON array.
-- $1 names runs as in lock_runs and says which need their inbox and open updates, their open activities, timers and
-- children (closing; also when their parent has closed), what other runs have left for them, the details of their start
-- and their declared contract. The last part are the request ids of the polls in $5 ({lease_owner, poll_request_id}) that
-- hold a lease: they repeat an earlier poll. $6 are the request ids of commands ({namespace, workflow_id, request_id}),
-- $7 the timers that are due ({run_id, sequence}), $8 the updates ({run_id, update_id}) whose arguments are wanted, $9 the
-- starts ({namespace, queue, workflow_type, build_id}) that may record what the newest live worker declares, $10 the seconds of
-- silence after which a worker declares nothing. OFFSET 0 has the tables read for each of the names, also by a plan that
-- was made when they were almost empty.
WITH asked AS MATERIALIZED (
    SELECT COALESCE(k.run_id, i.current_run_id) AS run_id, bool_or(k.inbox) AS inbox, bool_or(k.closing) AS closing,
           bool_or(k.deliveries) AS deliveries, bool_or(k.details) AS details, bool_or(k.contract) AS contract
    FROM json_to_recordset($1::json) AS k(
        run_id text, namespace text, workflow_id text, inbox boolean, closing boolean, deliveries boolean,
        details boolean, contract boolean
    )
    LEFT JOIN workflow_instances i
        ON k.run_id IS NULL AND i.namespace = k.namespace AND i.workflow_id = k.workflow_id
    GROUP BY 1
),
deliveries AS MATERIALIZED (
    SELECT d.* FROM asked k JOIN workflow_deliveries d ON d.run_id = k.run_id WHERE k.deliveries
),
named AS MATERIALIZED (
    SELECT k.run_id, k.inbox, k.details, k.contract, k.closing OR o.run_id IS NOT NULL AS closing
    FROM asked k
    LEFT JOIN (SELECT DISTINCT d.run_id FROM deliveries d WHERE d.kind = 'parent_closed') o ON o.run_id = k.run_id
),
points AS (
    SELECT * FROM json_to_recordset($2::json) AS p(run_id text, task_number bigint, sequence bigint)
),
tasks AS (
    SELECT t.*
    FROM named n
    CROSS JOIN LATERAL (SELECT * FROM workflow_tasks t WHERE t.run_id = n.run_id AND t.kind = 0 OFFSET 0) t
    UNION ALL
    SELECT t.*
    FROM points p
    JOIN named n ON n.run_id = p.run_id AND NOT n.closing
    CROSS JOIN LATERAL (
        SELECT * FROM workflow_tasks t
        WHERE t.run_id = p.run_id AND t.task_number = p.task_number AND t.kind = 1 OFFSET 0
    ) t
    UNION ALL
    SELECT t.*
    FROM named n
    CROSS JOIN LATERAL (SELECT * FROM workflow_tasks t WHERE t.run_id = n.run_id AND t.kind = 1 OFFSET 0) t
    WHERE n.closing
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
),
timers AS (
    SELECT t.*
    FROM json_to_recordset($7::json) AS d(run_id text, sequence bigint)
    JOIN workflow_timers t ON t.run_id = d.run_id AND t.sequence = d.sequence
    UNION ALL
    SELECT t.* FROM named n JOIN workflow_timers t ON t.run_id = n.run_id AND t.status = 'pending' WHERE n.closing
),
children AS (
    SELECT c.*
    FROM (SELECT DISTINCT run_id, sequence FROM deliveries) d
    JOIN named n ON n.run_id = d.run_id AND NOT n.closing
    JOIN workflow_child_calls c ON c.run_id = d.run_id AND c.sequence = d.sequence
    UNION ALL
    SELECT c.*
    FROM named n
    CROSS JOIN LATERAL (
        SELECT * FROM workflow_child_calls c WHERE c.run_id = n.run_id AND c.closed_at IS NULL OFFSET 0
    ) c
    WHERE n.closing
)
SELECT
    to_json(dw_now()),
    (SELECT json_agg(t) FROM tasks t),
    (SELECT json_agg(a) FROM activities a),
    (SELECT json_agg(t) FROM timers t),
    (SELECT json_agg(c) FROM children c),
    (SELECT json_agg(d ORDER BY d.ordinal) FROM deliveries d),
    (
        SELECT json_agg(
            json_build_object(
                'run_id', s.run_id, 'arguments', s.arguments, 'business_key', s.business_key, 'memo', s.memo,
                'search_attributes', s.search_attributes, 'execution_timeout_seconds', s.execution_timeout_seconds,
                'run_timeout_seconds', s.run_timeout_seconds, 'memo_blob', s.memo_blob,
                'search_attribute_types', s.search_attribute_types, 'command_contract', s.command_contract
            )
        )
        FROM named n
        JOIN workflow_run_summaries s ON s.run_id = n.run_id
        WHERE n.details
    ),
    (
        SELECT json_agg(g)
        FROM workflow_parallel_groups g
        JOIN (
            SELECT run_id, group_base AS base_sequence FROM activities WHERE group_base IS NOT NULL
            UNION
            SELECT run_id, group_base FROM timers WHERE group_base IS NOT NULL
            UNION
            SELECT run_id, group_base FROM children WHERE group_base IS NOT NULL
            UNION
            SELECT * FROM json_to_recordset($3::json) AS b(run_id text, base_sequence bigint)
        ) named USING (run_id, base_sequence)
    ),
    (
        SELECT json_agg(m)
        FROM workflow_version_markers m
        JOIN json_to_recordset($4::json) AS c(run_id text, change_id text) USING (run_id, change_id)
    ),
    (
        SELECT json_agg(
            json_build_object(
                'run_id', i.run_id, 'event_type', i.event_type, 'payload', i.payload::json, 'resume', i.resume,
                'workflow_task_id', i.workflow_task_id, 'workflow_command_id', i.workflow_command_id
            ) ORDER BY i.ordinal
        )
        FROM named n
        JOIN workflow_inbox i ON i.run_id = n.run_id
        WHERE n.inbox
    ),
    (
        SELECT json_agg(u)
        FROM (
            SELECT u.update_id, u.command_id, u.run_id, u.update_name, u.target_scope, u.status, u.command_sequence, u.queued_behind,
                   u.caller, u.service_call_id, u.accepted_at,
                   CASE WHEN w.update_id IS NOT NULL OR n.closing THEN u.arguments END AS arguments
            FROM named n
            CROSS JOIN LATERAL (
                SELECT * FROM workflow_updates u WHERE u.run_id = n.run_id AND u.closed_at IS NULL OFFSET 0
            ) u
            LEFT JOIN json_to_recordset($8::json) AS w(run_id text, update_id text)
                ON w.run_id = u.run_id AND w.update_id = u.update_id
            WHERE n.inbox
        ) u
    ),
    (
        SELECT json_agg(json_build_object('run_id', s.run_id, 'contract', s.command_contract))
        FROM named n
        JOIN workflow_run_summaries s ON s.run_id = n.run_id
        WHERE n.contract AND s.command_contract IS NOT NULL
    ),
    (
        SELECT json_agg(o)
        FROM (
            SELECT k.namespace, k.queue, k.workflow_type, k.build_id, w.contracts -> k.workflow_type AS contract
            FROM json_to_recordset($9::json) AS k(namespace text, queue text, workflow_type text, build_id text)
            CROSS JOIN LATERAL (
                SELECT w.workflow_command_contracts AS contracts
                FROM worker_registrations w
                WHERE w.namespace = k.namespace AND w.task_queue = k.queue
                  AND (k.build_id IS NULL OR w.build_id = k.build_id)
                  AND (w.supported_workflow_types = '{}' OR k.workflow_type = ANY(w.supported_workflow_types))
                  AND w.last_heartbeat_at > dw_now() - make_interval(secs => $10::integer)
                ORDER BY k.workflow_type = ANY(w.supported_workflow_types) DESC, w.registered_at DESC, w.worker_id
                LIMIT 1
            ) w
            WHERE w.contracts -> k.workflow_type IS NOT NULL
        ) o
    ),
    (
        SELECT json_agg(c)
        FROM json_to_recordset($6::json) AS k(namespace text, workflow_id text, request_id text)
        JOIN workflow_commands c USING (namespace, workflow_id, request_id)
    ),
    (
        SELECT json_agg(p.poll_request_id)
        FROM json_to_recordset($5::json) AS k(lease_owner text, poll_request_id text)
        JOIN workflow_tasks p
            ON p.lease_owner = k.lease_owner AND p.poll_request_id = k.poll_request_id AND p.state = 1
    );

-- name: read_redriven
-- For runs that follow a failed one, $1 ({run_id, source, first, last}, workflow sequences): the activities of the source
-- there, {activity_type, arguments, is_completed, result} by run and sequence. Reads once through the completions in the
-- history of the source, if any of them is wanted: few runs are redriven.
WITH activities AS MATERIALIZED (
    SELECT n.run_id, n.source, a.sequence, a.activity_type, a.arguments, a.status = 'completed' AS is_completed
    FROM json_to_recordset($1::json) AS n(run_id text, source text, first bigint, last bigint)
    JOIN activity_executions a ON a.run_id = n.source AND a.sequence BETWEEN n.first AND n.last
),
results AS MATERIALIZED (
    SELECT s.source, (e.body::json #>> '{payload,sequence}')::bigint AS sequence, e.body::json #> '{payload,result}' AS result
    FROM (SELECT DISTINCT source FROM activities WHERE is_completed) s
    JOIN workflow_history_events e ON e.run_id = s.source AND e.event_type = 'ActivityCompleted'
)
SELECT a.run_id, a.sequence,
       json_build_object('activity_type', a.activity_type, 'arguments', a.arguments, 'is_completed', a.is_completed,
                         'result', r.result)
FROM activities a
LEFT JOIN results r ON r.source = a.source AND r.sequence = a.sequence;

-- name: read_members
-- The selections in $1 ({run_id, base_sequence}) and, for members that are about to be cancelled, what lies in $2
-- ({run_id, first, last}, workflow sequences): open tasks, activities, pending timers and open children.
WITH spans AS (
    SELECT * FROM json_to_recordset($2::json) AS s(run_id text, first bigint, last bigint)
),
activities AS (
    SELECT a.run_id, a.sequence, a.activity_type, a.queue, a.status, a.has_retry_policy, a.retry_policy, a.timeouts,
           a.cancellation_policy, a.parallel_group_path, a.group_base, a.attempt_count, a.scheduled_at, a.closed_at
    FROM spans s
    JOIN activity_executions a ON a.run_id = s.run_id AND a.sequence BETWEEN s.first AND s.last
    WHERE a.closed_at IS NULL
)
SELECT
    (
        SELECT json_agg(g)
        FROM workflow_parallel_groups g
        JOIN json_to_recordset($1::json) AS b(run_id text, base_sequence bigint) USING (run_id, base_sequence)
    ),
    (
        SELECT json_agg(t)
        FROM spans s
        JOIN workflow_tasks t
            ON t.run_id = s.run_id AND t.kind = 1 AND t.activity_sequence BETWEEN s.first AND s.last
    ),
    (SELECT json_agg(a) FROM activities a),
    (
        SELECT json_agg(t)
        FROM spans s
        JOIN workflow_timers t
            ON t.run_id = s.run_id AND t.sequence BETWEEN s.first AND s.last AND t.status = 'pending'
    ),
    (
        SELECT json_agg(c)
        FROM spans s
        JOIN workflow_child_calls c
            ON c.run_id = s.run_id AND c.sequence BETWEEN s.first AND s.last AND c.closed_at IS NULL
    );

-- name: read_settled
-- The records of closed tasks and attempts, for reports that found nothing open, and the open tasks of the activities
-- they name. Looks through the open tasks of a run: late reports are rare.
WITH points AS (
    SELECT * FROM json_to_recordset($1::json) AS p(run_id text, task_number bigint, sequence bigint, attempt integer)
)
SELECT
    (SELECT json_agg(r) FROM workflow_task_receipts r JOIN points p USING (run_id, task_number)),
    (
        SELECT json_agg(a)
        FROM activity_attempts a
        JOIN points p ON a.run_id = p.run_id AND a.sequence = p.sequence AND a.attempt = p.attempt
    ),
    (
        SELECT json_agg(t)
        FROM points p
        CROSS JOIN LATERAL (
            SELECT * FROM workflow_tasks t
            WHERE t.run_id = p.run_id AND t.activity_sequence = p.sequence AND t.kind = 1 OFFSET 0
        ) t
    );
