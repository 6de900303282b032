-- name: lock_worker
-- The stored registration of a worker, locked, and the time.
SELECT dw_now(), (
    SELECT row_to_json(w) FROM (
        SELECT * FROM worker_registrations WHERE namespace = $1 AND worker_id = $2 FOR UPDATE
    ) w
)::text;

-- name: save_worker
-- Store a registration; tells whether its cohort is draining.
WITH saved AS (
    INSERT INTO worker_registrations AS w
    SELECT n.* FROM json_populate_record(NULL::worker_registrations, $1::json) n
    ON CONFLICT (namespace, worker_id) DO UPDATE SET
        task_queue = excluded.task_queue, build_id = excluded.build_id, runtime = excluded.runtime,
        sdk_version = excluded.sdk_version, supported_workflow_types = excluded.supported_workflow_types,
        supported_activity_types = excluded.supported_activity_types, capabilities = excluded.capabilities,
        capability_manifest = excluded.capability_manifest,
        workflow_definition_fingerprints = excluded.workflow_definition_fingerprints,
        workflow_command_contracts = excluded.workflow_command_contracts,
        max_concurrent_workflow_tasks = excluded.max_concurrent_workflow_tasks,
        max_concurrent_activity_tasks = excluded.max_concurrent_activity_tasks,
        max_concurrent_worker_sessions = excluded.max_concurrent_worker_sessions,
        task_slots = excluded.task_slots, process_metrics = excluded.process_metrics,
        heartbeat_interval_seconds = excluded.heartbeat_interval_seconds,
        registered_at = excluded.registered_at, last_heartbeat_at = excluded.last_heartbeat_at
    RETURNING w.namespace, w.task_queue, w.build_id
)
SELECT EXISTS (
    SELECT 1
    FROM build_id_rollouts d
    WHERE d.namespace = s.namespace AND d.task_queue = s.task_queue AND d.build_id = COALESCE(s.build_id, '')
      AND d.drain_intent = 'draining'
)
FROM saved s;

-- name: beat_worker
-- A worker's own heartbeat: absent facts keep what was stored.
UPDATE worker_registrations w SET
    last_heartbeat_at = dw_now(),
    task_slots = COALESCE($3::json, w.task_slots),
    process_metrics = COALESCE($4::json, w.process_metrics),
    heartbeat_interval_seconds = COALESCE($5::integer, w.heartbeat_interval_seconds)
WHERE w.namespace = $1 AND w.worker_id = $2
RETURNING w.last_heartbeat_at, w.heartbeat_interval_seconds, EXISTS (
    SELECT 1
    FROM build_id_rollouts d
    WHERE d.namespace = w.namespace AND d.task_queue = w.task_queue AND d.build_id = COALESCE(w.build_id, '')
      AND d.drain_intent = 'draining'
);

-- name: touch_workers
-- Polls are signs of life: refresh the present ones of these workers at most every few seconds and return what is known
-- of all of them now. $1 is a JSON array of {namespace, worker_id, is_present}, $2 the age in seconds from which the
-- stored time is refreshed.
WITH named AS (
    SELECT * FROM json_to_recordset($1::json) AS n(namespace text, worker_id text, is_present boolean)
),
-- One that is locked is being refreshed by another process just now.
present AS MATERIALIZED (
    SELECT w.namespace, w.worker_id
    FROM named n
    JOIN worker_registrations w USING (namespace, worker_id)
    WHERE n.is_present AND w.last_heartbeat_at < dw_now() - make_interval(secs => $2)
    FOR NO KEY UPDATE OF w SKIP LOCKED
),
touched AS (
    UPDATE worker_registrations w SET last_heartbeat_at = dw_now()
    FROM present p
    WHERE w.namespace = p.namespace AND w.worker_id = p.worker_id
)
SELECT row_to_json(found)::text
FROM (
    SELECT w.*, d.drain_intent IS NOT DISTINCT FROM 'draining' AS is_draining
    FROM named n
    JOIN worker_registrations w USING (namespace, worker_id)
    LEFT JOIN build_id_rollouts d
        ON d.namespace = w.namespace AND d.task_queue = w.task_queue AND d.build_id = COALESCE(w.build_id, '')
) found;

-- name: forget_worker
-- Remove a registration.
DELETE FROM worker_registrations w WHERE w.namespace = $1 AND w.worker_id = $2 RETURNING w.worker_id;

-- name: leased_runs
-- The runs whose workflow task this worker holds.
SELECT t.run_id FROM workflow_tasks t WHERE t.namespace = $1 AND t.lease_owner = $2 AND t.state = 1 AND t.kind = 0;

-- name: forget_stale_workers
-- Remove at most $2 registrations of workers that have been silent for $1 seconds and hold no lease.
DELETE FROM worker_registrations w
USING (
    SELECT s.namespace, s.worker_id
    FROM worker_registrations s
    WHERE s.last_heartbeat_at < dw_now() - make_interval(secs => $1)
      AND NOT EXISTS (
          SELECT 1
          FROM workflow_tasks t
          WHERE t.lease_owner = s.worker_id AND t.state = 1 AND t.namespace = s.namespace
      )
    LIMIT $2
    FOR UPDATE OF s SKIP LOCKED
) stale
WHERE w.namespace = stale.namespace AND w.worker_id = stale.worker_id
RETURNING w.worker_id;
