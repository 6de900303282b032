-- name: read_streams
-- The message streams of the workflow ids in $1, a JSON array of {run_id, unconsumed} or {namespace, workflow_id,
-- unconsumed, stream_name, message_id}, and of their messages those that are named or, where unconsumed, all that are
-- still to be consumed, then with their arguments; each as one JSON array. The third one are the current runs of
-- workflow ids with a new message for streams that nobody has consumed of yet, whose live workers (heard of within $2
-- seconds) all lack message streams.
WITH asked AS MATERIALIZED (
    SELECT COALESCE(k.namespace, r.namespace) AS namespace, COALESCE(k.workflow_id, r.workflow_id) AS workflow_id,
           k.unconsumed, k.stream_name, k.message_id
    FROM json_to_recordset($1::json) AS k(
        run_id text, namespace text, workflow_id text, unconsumed boolean, stream_name text, message_id text
    )
    LEFT JOIN workflow_runs r ON k.workflow_id IS NULL AND r.run_id = k.run_id
),
named AS MATERIALIZED (
    SELECT a.namespace, a.workflow_id, bool_or(a.unconsumed) AS unconsumed FROM asked a GROUP BY 1, 2
),
streams AS MATERIALIZED (
    SELECT s.*, n.unconsumed FROM named n JOIN workflow_message_streams s USING (namespace, workflow_id)
),
unconsumed AS MATERIALIZED (
    SELECT m.*
    FROM streams s
    JOIN workflow_stream_messages m
        ON m.namespace = s.namespace AND m.workflow_id = s.workflow_id AND m.stream_name = s.stream_name
       AND m.position > s.cursor_position
    WHERE s.unconsumed
)
SELECT
    (SELECT json_agg(s) FROM streams s),
    (
        SELECT json_agg(m)
        FROM (
            SELECT u.* FROM unconsumed u
            UNION ALL
            SELECT m.namespace, m.workflow_id, m.stream_name, m.position, m.message_id, m.fingerprint, NULL, m.run_id,
                   m.command_id, m.command_sequence, m.accepted_at
            FROM (SELECT DISTINCT namespace, workflow_id, stream_name, message_id FROM asked) a
            JOIN workflow_stream_messages m USING (namespace, workflow_id, stream_name, message_id)
            WHERE NOT EXISTS (
                SELECT 1
                FROM unconsumed u
                WHERE u.namespace = m.namespace AND u.workflow_id = m.workflow_id AND u.stream_name = m.stream_name
                  AND u.position = m.position
            )
        ) m
    ),
    (
        SELECT json_agg(DISTINCT r.run_id)
        FROM asked a
        JOIN workflow_instances i ON i.namespace = a.namespace AND i.workflow_id = a.workflow_id
        JOIN workflow_runs r ON r.run_id = i.current_run_id
        WHERE a.message_id IS NOT NULL
          AND NOT EXISTS (
              SELECT 1
              FROM streams s
              WHERE s.namespace = a.namespace AND s.workflow_id = a.workflow_id AND s.cursor_position > 0
          )
          AND NOT (
              SELECT COALESCE(bool_or('message_streams' = ANY(w.capabilities)), true)
              FROM worker_registrations w
              WHERE w.namespace = r.namespace AND w.task_queue = r.queue
                AND (w.supported_workflow_types = '{}' OR r.workflow_type = ANY(w.supported_workflow_types))
                AND w.last_heartbeat_at > dw_now() - make_interval(secs => $2::integer)
          )
    );

-- name: write_streams
-- Write where message streams stand; new ones are created.
INSERT INTO workflow_message_streams AS s
SELECT n.* FROM json_populate_recordset(NULL::workflow_message_streams, $1::json) n
ON CONFLICT (namespace, workflow_id, stream_name) DO UPDATE SET
    last_position = excluded.last_position, cursor_position = excluded.cursor_position,
    pending_wait = excluded.pending_wait, duplicate_count = excluded.duplicate_count,
    last_input_outcome = excluded.last_input_outcome, last_input_message_id = excluded.last_input_message_id,
    last_input_at = excluded.last_input_at;

-- name: record_messages
-- Keep accepted messages.
INSERT INTO workflow_stream_messages
SELECT n.* FROM json_populate_recordset(NULL::workflow_stream_messages, $1::json) n;

-- name: describe_streams
-- The message streams of a workflow id with its current run and whether that is open: $1 namespace, $2 workflow id, $3 name or null
-- for all. One row of nulls in place of a stream when there is none; no row when there is no such workflow id.
SELECT i.current_run_id, r.closed_at IS NULL, row_to_json(s)::text
FROM workflow_instances i
JOIN workflow_runs r ON r.run_id = i.current_run_id
LEFT JOIN workflow_message_streams s
    ON s.namespace = i.namespace AND s.workflow_id = i.workflow_id AND ($3::text IS NULL OR s.stream_name = $3::text)
WHERE i.namespace = $1 AND i.workflow_id = $2
ORDER BY s.stream_name;

-- name: read_outputs
-- The output streams of the runs in $1, a JSON array of run ids, and the offsets of the items in $2 ({run_id,
-- stream_name, idempotency_key}) that are there already; each as one JSON array.
SELECT
    (
        SELECT json_agg(s)
        FROM json_array_elements_text($1::json) AS k(run_id)
        JOIN workflow_output_streams s USING (run_id)
    ),
    (
        SELECT json_agg(i)
        FROM (
            SELECT i.run_id, i.stream_name, i.idempotency_key, i.item_offset
            FROM json_to_recordset($2::json) AS k(run_id text, stream_name text, idempotency_key text)
            JOIN workflow_output_items i USING (run_id, stream_name, idempotency_key)
        ) i
    );

-- name: write_outputs
-- Write where output streams stand; new ones are created.
INSERT INTO workflow_output_streams AS s
SELECT n.* FROM json_populate_recordset(NULL::workflow_output_streams, $1::json) n
ON CONFLICT (run_id, stream_name) DO UPDATE SET
    status = excluded.status, total_items = excluded.total_items, pending_items = excluded.pending_items,
    last_appended_at = excluded.last_appended_at, closed_at = excluded.closed_at,
    error_reason = excluded.error_reason, retention_seconds = excluded.retention_seconds,
    expires_at = excluded.expires_at;

-- name: append_outputs
-- Append items to output streams.
INSERT INTO workflow_output_items
SELECT n.* FROM json_populate_recordset(NULL::workflow_output_items, $1::json) n;

-- name: describe_outputs
-- The output streams of a run: $1 namespace, $2 workflow id, $3 run id, $4 name or null for all. No row when there is no such
-- workflow id; a null first column when the run is not one of its runs, a null second one when it has no such stream.
SELECT r.run_id, row_to_json(s)::text
FROM workflow_instances i
LEFT JOIN workflow_runs r ON r.run_id = $3 AND r.namespace = i.namespace AND r.workflow_id = i.workflow_id
LEFT JOIN workflow_output_streams s ON s.run_id = r.run_id AND ($4::text IS NULL OR s.stream_name = $4::text)
WHERE i.namespace = $1 AND i.workflow_id = $2
ORDER BY s.stream_name;

-- name: read_output_items
-- A page of an output stream: $1 run id, $2 name, $3 first offset, $4 items. Items whose time is over are not shown.
SELECT row_to_json(i)::text
FROM workflow_output_streams s
JOIN workflow_output_items i ON i.run_id = s.run_id AND i.stream_name = s.stream_name
WHERE s.run_id = $1 AND s.stream_name = $2 AND (s.expires_at IS NULL OR s.expires_at > dw_now())
  AND i.run_id = $1 AND i.stream_name = $2 AND i.item_offset >= $3::bigint
ORDER BY i.item_offset
LIMIT $4::integer;

-- name: find_output_news
-- Which of the output streams in $1 ({key, run_id, stream_name, from}) have something at or behind an offset, or have ended.
SELECT k.key
FROM json_to_recordset($1::json) AS k(key text, run_id text, stream_name text, "from" bigint)
JOIN workflow_output_streams s ON s.run_id = k.run_id AND s.stream_name = k.stream_name
WHERE s.total_items > k."from" OR s.status <> 'open';

-- name: drop_expired_outputs
-- Remove the items of output streams whose time is over, of $1 streams at most. Returns how many streams there were.
WITH expired AS MATERIALIZED (
    SELECT s.run_id, s.stream_name
    FROM workflow_output_streams s
    WHERE s.pending_items > 0 AND s.expires_at <= (SELECT dw_now())
    ORDER BY s.expires_at
    LIMIT $1::integer
    FOR UPDATE SKIP LOCKED
),
dropped AS (
    DELETE FROM workflow_output_items i
    USING expired e
    WHERE i.run_id = e.run_id AND i.stream_name = e.stream_name
),
emptied AS (
    UPDATE workflow_output_streams s SET pending_items = 0
    FROM expired e
    WHERE s.run_id = e.run_id AND s.stream_name = e.stream_name
)
SELECT count(*) FROM expired;
