-- name: ensure_namespace
-- Create a namespace unless it exists: $1 name, $2 description, $3 retention in days.
INSERT INTO workflow_namespaces (name, description, retention_days, created_at, updated_at)
SELECT $1, $2, $3, clock.now, clock.now FROM (SELECT dw_now() AS now OFFSET 0) clock
ON CONFLICT (name) DO NOTHING;

-- name: namespace_exists
-- Whether a namespace takes requests.
SELECT EXISTS (SELECT 1 FROM workflow_namespaces n WHERE n.name = $1 AND n.status = 'active');

-- name: list_namespaces
-- Every namespace by name.
SELECT row_to_json(n)::text FROM workflow_namespaces n WHERE n.status = 'active' ORDER BY n.name;

-- name: describe_namespace
-- One namespace.
SELECT row_to_json(n)::text FROM workflow_namespaces n WHERE n.name = $1 AND n.status = 'active';

-- name: create_namespace
-- Add a namespace, also one that has been deleted: $1 name, $2 description, $3 retention in days. No row when the name is
-- taken, or when its former content is still being removed.
INSERT INTO workflow_namespaces AS n (name, description, retention_days, created_at, updated_at)
SELECT $1, $2, $3, clock.now, clock.now FROM (SELECT dw_now() AS now OFFSET 0) clock
ON CONFLICT (name) DO UPDATE SET
    description = excluded.description, retention_days = excluded.retention_days, status = 'active',
    external_payload_storage = NULL, created_at = excluded.created_at, updated_at = excluded.updated_at
WHERE n.status = 'deleted'
RETURNING row_to_json(n)::text;

-- name: update_namespace
-- Change a namespace: $1 its name, $2 a JSON object of the members to change.
UPDATE workflow_namespaces n SET
    description = CASE WHEN p.patch ? 'description' THEN p.patch ->> 'description' ELSE n.description END,
    retention_days = COALESCE((p.patch ->> 'retention_days')::integer, n.retention_days),
    updated_at = dw_now()
FROM (SELECT $2::jsonb AS patch) p
WHERE n.name = $1 AND n.status = 'active'
RETURNING row_to_json(n)::text;

-- name: close_namespace
-- Have a namespace take no more requests, so that its content can be removed: $1 its name.
UPDATE workflow_namespaces n SET status = 'deleting', updated_at = dw_now()
WHERE n.name = $1 AND n.status IN ('active', 'deleting')
RETURNING n.name;

-- name: purge_service_calls
-- Remove at most $2 service calls of a namespace that is being deleted, with those who wait for them.
WITH doomed AS MATERIALIZED (
    SELECT c.service_call_id
    FROM workflow_namespaces n
    JOIN workflow_service_operations o ON o.namespace = n.name
    JOIN workflow_service_calls c
        ON c.namespace = o.namespace AND c.endpoint_name = o.endpoint_name AND c.service_name = o.service_name
        AND c.operation_name = o.operation_name
    WHERE n.name = $1 AND n.status = 'deleting'
    LIMIT $2
    FOR UPDATE OF c SKIP LOCKED
),
waiters AS (
    DELETE FROM workflow_service_waiters w USING doomed d WHERE w.service_call_id = d.service_call_id
)
DELETE FROM workflow_service_calls c USING doomed d WHERE c.service_call_id = d.service_call_id RETURNING 1;

-- name: purge_namespace
-- Remove what is left of a namespace that is being deleted, when its runs and service calls have gone: $1 its name.
WITH doomed AS MATERIALIZED (
    SELECT n.name FROM workflow_namespaces n WHERE n.name = $1 AND n.status = 'deleting'
      AND NOT EXISTS (SELECT 1 FROM workflow_run_summaries s WHERE s.namespace = n.name)
      AND NOT EXISTS (SELECT 1 FROM workflow_service_calls c WHERE c.namespace = n.name)
    FOR UPDATE
),
workers AS (DELETE FROM worker_registrations w USING doomed d WHERE w.namespace = d.name RETURNING 1),
sessions AS (DELETE FROM worker_sessions w USING doomed d WHERE w.namespace = d.name RETURNING 1),
builds AS (DELETE FROM build_id_rollouts b USING doomed d WHERE b.namespace = d.name RETURNING 1),
attributes AS (DELETE FROM workflow_search_attribute_types a USING doomed d WHERE a.namespace = d.name RETURNING 1),
operations AS (DELETE FROM workflow_service_operations o USING doomed d WHERE o.namespace = d.name RETURNING 1),
services AS (DELETE FROM workflow_services s USING doomed d WHERE s.namespace = d.name RETURNING 1),
endpoints AS (DELETE FROM workflow_service_endpoints e USING doomed d WHERE e.namespace = d.name RETURNING 1),
payloads AS (
    DELETE FROM external_payloads p USING doomed d
    WHERE p.namespace = d.name
      AND NOT EXISTS (SELECT 1 FROM external_payload_uses u WHERE u.reference_id = p.reference_id)
    RETURNING p.object_uri
),
-- What runs of other namespaces have been given is nobody's, and goes with its last use.
orphans AS (
    UPDATE external_payloads p SET namespace = '' FROM doomed d
    WHERE p.namespace = d.name
      AND EXISTS (SELECT 1 FROM external_payload_uses u WHERE u.reference_id = p.reference_id)
),
objects AS (
    UPDATE external_payload_objects o SET review_at = dw_now()
    FROM payloads p
    WHERE o.object_uri = p.object_uri AND NOT o.is_doomed
),
schedules AS (DELETE FROM workflow_schedules s USING doomed d WHERE s.namespace = d.name RETURNING 1),
schedule_events AS (DELETE FROM workflow_schedule_events e USING doomed d WHERE e.namespace = d.name),
schedule_fires AS (
    DELETE FROM workflow_schedule_fires f USING workflow_schedules s, doomed d
    WHERE s.namespace = d.name AND f.schedule_ulid = s.schedule_ulid
),
shares AS (DELETE FROM task_queue_shares s USING doomed d WHERE s.namespace = d.name),
counters AS (DELETE FROM task_dispatch_counters c USING doomed d WHERE c.namespace = d.name),
closed AS (
    UPDATE workflow_namespaces n SET status = 'deleted', updated_at = dw_now()
    FROM doomed d
    WHERE n.name = d.name
)
SELECT json_build_object(
    'workers', (SELECT count(*) FROM workers), 'worker_sessions', (SELECT count(*) FROM sessions),
    'build_ids', (SELECT count(*) FROM builds), 'search_attributes', (SELECT count(*) FROM attributes),
    'schedules', (SELECT count(*) FROM schedules), 'service_operations', (SELECT count(*) FROM operations),
    'services', (SELECT count(*) FROM services), 'service_endpoints', (SELECT count(*) FROM endpoints),
    'external_payloads', (SELECT count(*) FROM payloads)
)::text
FROM doomed;

-- name: list_doomed_namespaces
-- Namespaces whose content is being removed, and those deleted longer ago than a process may take requests for one it
-- still knows ($1 seconds): what such requests have left behind goes as well.
SELECT n.name, n.status
FROM workflow_namespaces n
WHERE n.status = 'deleting' OR n.status = 'deleted' AND n.updated_at < dw_now() - make_interval(secs => $1);

-- name: reopen_deleted_namespace
-- Look once more through a namespace that has been deleted: $1 its name.
UPDATE workflow_namespaces n SET status = 'deleting' WHERE n.name = $1 AND n.status = 'deleted' RETURNING n.name;

-- name: forget_namespace
-- Forget a namespace that has been deleted: $1 its name.
DELETE FROM workflow_namespaces n WHERE n.name = $1 AND n.status = 'deleted' RETURNING n.name;
