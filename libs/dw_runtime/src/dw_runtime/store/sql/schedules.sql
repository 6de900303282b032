-- name: lock_schedule
-- One schedule of namespace $1, locked; also a deleted one.
SELECT row_to_json(s)::text FROM workflow_schedules s WHERE s.namespace = $1 AND s.schedule_id = $2 FOR UPDATE;

-- name: lock_schedules
-- The schedules in $1 ({namespace, schedule_id}), locked in key order.
SELECT row_to_json(s)::text
FROM (SELECT DISTINCT k.* FROM json_to_recordset($1::json) AS k(namespace text, schedule_id text)) k
JOIN workflow_schedules s ON s.namespace = k.namespace AND s.schedule_id = k.schedule_id
ORDER BY s.namespace, s.schedule_id
FOR UPDATE OF s;

-- name: lock_due_schedules
-- At most $1 schedules that are due, the longest overdue first, and at most $1 that hold fires back while no run of
-- theirs is open any more, all locked. What another process has locked is left to it, so that replicas look at once.
WITH due AS MATERIALIZED (
    SELECT s.*
    FROM workflow_schedules s
    WHERE s.status = 'active' AND s.next_fire_at <= (SELECT dw_now())
    ORDER BY s.next_fire_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
),
buffered AS MATERIALIZED (
    SELECT s.*
    FROM workflow_schedules s
    LEFT JOIN workflow_instances i ON i.namespace = s.namespace AND i.workflow_id = s.latest_workflow_instance_id
    LEFT JOIN workflow_runs r ON r.run_id = i.current_run_id
    WHERE s.status = 'active' AND json_array_length(s.buffered_actions) > 0
      AND (r.run_id IS NULL OR r.closed_at IS NOT NULL)
      AND NOT EXISTS (SELECT 1 FROM workflow_schedule_fires f WHERE f.schedule_ulid = s.schedule_ulid)
    LIMIT $1
    FOR UPDATE OF s SKIP LOCKED
)
SELECT row_to_json(d)::text FROM due d
UNION ALL
SELECT row_to_json(b)::text
FROM buffered b
WHERE NOT EXISTS (SELECT 1 FROM due d WHERE d.namespace = b.namespace AND d.schedule_id = b.schedule_id);

-- name: next_schedule
-- In how many seconds the next schedule is due; no row without one.
SELECT EXTRACT(EPOCH FROM s.next_fire_at - dw_now())::float8
FROM workflow_schedules s
WHERE s.status = 'active' AND s.next_fire_at IS NOT NULL
ORDER BY s.next_fire_at
LIMIT 1;

-- name: read_schedule_states
-- Of the locked schedules in $1 ({namespace, schedule_id}): the time, whether the run started last is open, and their
-- fires under way.
SELECT s.namespace, s.schedule_id, dw_now(),
       EXISTS (
           SELECT 1
           FROM workflow_instances i
           JOIN workflow_runs r ON r.run_id = i.current_run_id
           WHERE i.namespace = s.namespace AND i.workflow_id = s.latest_workflow_instance_id AND r.closed_at IS NULL
       ),
       (
           SELECT json_agg(
               json_build_object(
                   'trigger_number', f.trigger_number, 'occurrence_at', f.occurrence_at, 'workflow_id', f.workflow_id
               ) ORDER BY f.trigger_number
           )::text
           FROM workflow_schedule_fires f
           WHERE f.schedule_ulid = s.schedule_ulid
       )
FROM json_to_recordset($1::json) AS k(namespace text, schedule_id text)
JOIN workflow_schedules s ON s.namespace = k.namespace AND s.schedule_id = k.schedule_id;

-- name: create_schedule
-- Record a new schedule, $1 a JSON object; no row when its id is taken by one that has not been deleted, or by another
-- than the locked one with the ULID $2, whose history goes on.
INSERT INTO workflow_schedules AS s
SELECT n.* FROM json_populate_record(NULL::workflow_schedules, $1::json) n
ON CONFLICT (namespace, schedule_id) DO UPDATE SET
    schedule_ulid = excluded.schedule_ulid, status = excluded.status, spec = excluded.spec, action = excluded.action,
    workflow_type = excluded.workflow_type, task_queue = excluded.task_queue,
    overlap_policy = excluded.overlap_policy, jitter_seconds = excluded.jitter_seconds, max_runs = excluded.max_runs,
    memo = excluded.memo, search_attributes = excluded.search_attributes, note = excluded.note,
    fires_count = excluded.fires_count, failures_count = excluded.failures_count,
    skipped_trigger_count = excluded.skipped_trigger_count, last_skip_reason = excluded.last_skip_reason,
    last_skipped_at = excluded.last_skipped_at, last_fired_at = excluded.last_fired_at,
    latest_workflow_instance_id = excluded.latest_workflow_instance_id,
    latest_trigger_number = excluded.latest_trigger_number, next_occurrence_at = excluded.next_occurrence_at,
    next_cron_expression = excluded.next_cron_expression, next_fire_at = excluded.next_fire_at,
    paused_at = excluded.paused_at, deleted_at = excluded.deleted_at, recent_actions = excluded.recent_actions,
    buffered_actions = excluded.buffered_actions, last_event_sequence = excluded.last_event_sequence,
    last_trigger_number = excluded.last_trigger_number, created_at = excluded.created_at,
    updated_at = excluded.updated_at
WHERE s.status = 'deleted' AND s.schedule_ulid = $2
RETURNING s.schedule_id;

-- name: save_schedules
-- Write the after images of locked schedules.
UPDATE workflow_schedules s SET
    status = n.status, spec = n.spec, action = n.action, workflow_type = n.workflow_type, task_queue = n.task_queue,
    overlap_policy = n.overlap_policy, jitter_seconds = n.jitter_seconds, max_runs = n.max_runs, memo = n.memo,
    search_attributes = n.search_attributes, note = n.note, fires_count = n.fires_count,
    failures_count = n.failures_count, skipped_trigger_count = n.skipped_trigger_count,
    last_skip_reason = n.last_skip_reason, last_skipped_at = n.last_skipped_at, last_fired_at = n.last_fired_at,
    latest_workflow_instance_id = n.latest_workflow_instance_id, latest_trigger_number = n.latest_trigger_number,
    next_occurrence_at = n.next_occurrence_at, next_cron_expression = n.next_cron_expression,
    next_fire_at = n.next_fire_at, paused_at = n.paused_at, deleted_at = n.deleted_at,
    recent_actions = n.recent_actions, buffered_actions = n.buffered_actions,
    last_event_sequence = n.last_event_sequence, last_trigger_number = n.last_trigger_number,
    updated_at = n.updated_at
FROM json_populate_recordset(NULL::workflow_schedules, $1::json) n
WHERE s.namespace = n.namespace AND s.schedule_id = n.schedule_id;

-- name: record_schedule_events
-- Append to the history of schedules.
INSERT INTO workflow_schedule_events
SELECT n.* FROM json_populate_recordset(NULL::workflow_schedule_events, $1::json) n;

-- name: order_fires
-- Record new fires; one that its orderer carries out itself ($2 seconds) is left alone by everybody else.
INSERT INTO workflow_schedule_fires
SELECT n.namespace, n.schedule_id, n.schedule_ulid, n.trigger_number, n.occurrence_at, n.kind, n.cron_expression,
       n.timezone, n.overlap_policy, n.effective_overlap_policy, n.workflow_id, n.run_id, n.action, n.memo,
       n.search_attributes, n.ends, n.ends_workflow_id, n.lease_owner,
       n.due_at + make_interval(secs => CASE WHEN n.lease_owner IS NULL THEN 0 ELSE $2::float8 END), n.created_at
FROM json_populate_recordset(NULL::workflow_schedule_fires, $1::json) n;

-- name: lease_fires
-- Take at most $2 fires that nobody carries out, for $1 and $3 seconds. One that ends another run waits for those of
-- its schedule that were ordered before.
WITH due AS MATERIALIZED (
    SELECT f.schedule_ulid, f.trigger_number
    FROM workflow_schedule_fires f
    WHERE f.due_at <= (SELECT dw_now())
      AND (
          f.ends IS NULL
          OR NOT EXISTS (
              SELECT 1 FROM workflow_schedule_fires e
              WHERE e.schedule_ulid = f.schedule_ulid AND e.trigger_number < f.trigger_number
          )
      )
    ORDER BY f.due_at
    LIMIT $2
    FOR UPDATE OF f SKIP LOCKED
)
UPDATE workflow_schedule_fires f SET lease_owner = $1, due_at = dw_now() + make_interval(secs => $3::float8)
FROM due d
WHERE f.schedule_ulid = d.schedule_ulid AND f.trigger_number = d.trigger_number
RETURNING row_to_json(f)::text;

-- name: forget_fires
-- Remove fires that have been carried out, $1 ({schedule_ulid, trigger_number}), of locked schedules; gives back those
-- that were still there.
DELETE FROM workflow_schedule_fires f
USING json_to_recordset($1::json) AS k(schedule_ulid text, trigger_number bigint)
WHERE f.schedule_ulid = k.schedule_ulid AND f.trigger_number = k.trigger_number
RETURNING f.schedule_ulid, f.trigger_number;

-- name: read_clock
-- The time of the database.
SELECT dw_now();

-- name: describe_schedule
-- One schedule of namespace $1 that has not been deleted.
SELECT row_to_json(s)::text
FROM workflow_schedules s
WHERE s.namespace = $1 AND s.schedule_id = $2 AND s.status <> 'deleted';

-- name: list_schedules
-- A page of the schedules of namespace $1, the newest first: behind the one created at $2 with id $3, at most $4.
-- $5 id, $6 status, $7 task queue, $8 note or null, $9 a JSON object of search attributes or null.
SELECT row_to_json(s)::text
FROM workflow_schedules s
WHERE s.namespace = $1 AND s.status <> 'deleted'
  AND s.created_at <= $2 AND (s.created_at < $2 OR s.schedule_id > $3)
  AND ($5::text IS NULL OR s.schedule_id = $5) AND ($6::text IS NULL OR s.status = $6)
  AND ($7::text IS NULL OR s.task_queue = $7) AND ($8::text IS NULL OR s.note = $8)
  AND ($9::jsonb IS NULL OR s.search_attributes @> $9)
ORDER BY s.created_at DESC, s.schedule_id
LIMIT $4;

-- name: list_typed_schedules
-- The same of one workflow type, $10.
SELECT row_to_json(s)::text
FROM workflow_schedules s
WHERE s.namespace = $1 AND s.workflow_type = $10 AND s.status <> 'deleted'
  AND s.created_at <= $2 AND (s.created_at < $2 OR s.schedule_id > $3)
  AND ($5::text IS NULL OR s.schedule_id = $5) AND ($6::text IS NULL OR s.status = $6)
  AND ($7::text IS NULL OR s.task_queue = $7) AND ($8::text IS NULL OR s.note = $8)
  AND ($9::jsonb IS NULL OR s.search_attributes @> $9)
ORDER BY s.created_at DESC, s.schedule_id
LIMIT $4;

-- name: read_schedule_history
-- Entries of a schedule's history behind sequence $3, at most $4; one row of nulls when there is such a schedule, also
-- a deleted one, without any.
SELECT row_to_json(e)::text
FROM (SELECT 1 FROM workflow_schedules s WHERE s.namespace = $1 AND s.schedule_id = $2) known
LEFT JOIN LATERAL (
    SELECT e.*
    FROM workflow_schedule_events e
    WHERE e.namespace = $1 AND e.schedule_id = $2 AND e.sequence > $3
    ORDER BY e.sequence
    LIMIT $4
) e ON true
ORDER BY e.sequence;

-- name: read_secret
-- A secret that all processes share.
SELECT s.secret FROM server_secrets s WHERE s.name = $1;

-- name: read_schedule_counts
-- What the schedules of every namespace come to, as one JSON object: at most $1 active and $1 paused ones are looked at;
-- one that is due for more than $2 seconds has been missed.
WITH clock AS MATERIALIZED (SELECT dw_now() AS now),
active AS MATERIALIZED (
    SELECT s.next_fire_at, s.fires_count, s.failures_count
    FROM workflow_schedules s WHERE s.status = 'active' ORDER BY s.next_fire_at LIMIT $1::integer
),
paused AS MATERIALIZED (
    SELECT s.fires_count, s.failures_count
    FROM workflow_schedules s WHERE s.status = 'paused' ORDER BY s.paused_at LIMIT $1::integer
),
missed AS (
    SELECT a.next_fire_at FROM active a, clock c WHERE a.next_fire_at < c.now - make_interval(secs => $2::float8)
)
SELECT json_build_object(
    'now', (SELECT now FROM clock),
    'active', (SELECT count(*) FROM active),
    'paused', (SELECT count(*) FROM paused),
    'missed', (SELECT count(*) FROM missed),
    'oldest_overdue_at', (SELECT min(m.next_fire_at) FROM missed m),
    'fires_total', (SELECT COALESCE(sum(k.fires_count), 0) FROM (TABLE paused UNION ALL SELECT a.fires_count, a.failures_count FROM active a) k),
    'failures_total', (SELECT COALESCE(sum(k.failures_count), 0) FROM (TABLE paused UNION ALL SELECT a.fires_count, a.failures_count FROM active a) k)
)::text;

-- name: prune_schedule_events
-- Remove at most $1 entries of schedule histories, and deleted schedules, that are older than what their namespace
-- keeps of closed runs. The entries that say what an existing schedule is stay.
WITH expired AS MATERIALIZED (
    SELECT e.namespace, e.schedule_id, e.sequence
    FROM workflow_namespaces n
    CROSS JOIN LATERAL (
        SELECT e.namespace, e.schedule_id, e.sequence
        FROM workflow_schedule_events e
        LEFT JOIN workflow_schedules s ON s.namespace = e.namespace AND s.schedule_id = e.schedule_id
        WHERE e.namespace = n.name
          AND e.recorded_at <= (SELECT dw_now()) - make_interval(days => n.retention_days)
          AND (
              e.event_type IN ('ScheduleTriggered', 'ScheduleTriggerSkipped')
              OR s.schedule_id IS NULL OR s.status = 'deleted'
          )
        ORDER BY e.recorded_at
        LIMIT $1::integer
    ) e
    LIMIT $1::integer
),
pruned AS (
    DELETE FROM workflow_schedule_events d
    USING expired e
    WHERE d.namespace = e.namespace AND d.schedule_id = e.schedule_id AND d.sequence = e.sequence
    RETURNING 1
),
dead AS MATERIALIZED (
    SELECT s.namespace, s.schedule_id
    FROM workflow_namespaces n
    CROSS JOIN LATERAL (
        SELECT s.namespace, s.schedule_id
        FROM workflow_schedules s
        WHERE s.namespace = n.name AND s.status = 'deleted'
          AND s.deleted_at <= (SELECT dw_now()) - make_interval(days => n.retention_days)
        LIMIT $1::integer
    ) s
    LIMIT $1::integer
),
buried AS (
    DELETE FROM workflow_schedules d
    USING dead e
    WHERE d.namespace = e.namespace AND d.schedule_id = e.schedule_id AND d.status = 'deleted'
)
SELECT count(*) FROM pruned;
