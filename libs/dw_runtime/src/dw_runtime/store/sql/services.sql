-- name: list_service_endpoints
-- The endpoints of namespace $1.
SELECT row_to_json(e)::text FROM workflow_service_endpoints e WHERE e.namespace = $1 ORDER BY e.endpoint_name;

-- name: describe_service_endpoint
-- One endpoint.
SELECT row_to_json(e)::text FROM workflow_service_endpoints e WHERE e.namespace = $1 AND e.endpoint_name = $2;

-- name: create_service_endpoint
-- Add an endpoint; $1 is its row without times. No row when the name is taken.
INSERT INTO workflow_service_endpoints AS e
SELECT n.namespace, n.endpoint_name, n.id, n.description, n.metadata, clock.now, clock.now
FROM json_populate_record(NULL::workflow_service_endpoints, $1::json) n, (SELECT dw_now() AS now OFFSET 0) clock
ON CONFLICT DO NOTHING
RETURNING row_to_json(e)::text;

-- name: update_service_endpoint
-- Change an endpoint: $1 namespace, $2 name, $3 the members to change.
UPDATE workflow_service_endpoints e SET
    description = CASE WHEN n.patch::jsonb ? 'description' THEN n.patch ->> 'description' ELSE e.description END,
    metadata = CASE WHEN n.patch::jsonb ? 'metadata' THEN NULLIF((n.patch -> 'metadata')::text, 'null')::json
                    ELSE e.metadata END,
    updated_at = dw_now()
FROM (SELECT $3::json AS patch) n
WHERE e.namespace = $1 AND e.endpoint_name = $2
RETURNING row_to_json(e)::text;

-- name: delete_service_endpoint
-- Remove an endpoint that has no services.
DELETE FROM workflow_service_endpoints e
WHERE e.namespace = $1 AND e.endpoint_name = $2
  AND NOT EXISTS (
      SELECT 1 FROM workflow_services s WHERE s.namespace = e.namespace AND s.endpoint_name = e.endpoint_name
  )
RETURNING e.id;

-- name: list_services
-- The services of an endpoint.
SELECT row_to_json(s)::text FROM workflow_services s
WHERE s.namespace = $1 AND s.endpoint_name = $2 ORDER BY s.service_name;

-- name: describe_service
-- One service.
SELECT row_to_json(s)::text FROM workflow_services s
WHERE s.namespace = $1 AND s.endpoint_name = $2 AND s.service_name = $3;

-- name: create_service
-- Add a service; $1 is its row without times. No row when the name is taken.
INSERT INTO workflow_services AS s
SELECT n.namespace, n.endpoint_name, n.service_name, n.id, n.endpoint_id, n.description, n.metadata, clock.now, clock.now
FROM json_populate_record(NULL::workflow_services, $1::json) n, (SELECT dw_now() AS now OFFSET 0) clock
ON CONFLICT DO NOTHING
RETURNING row_to_json(s)::text;

-- name: update_service
-- Change a service: $1 namespace, $2 endpoint, $3 name, $4 the members to change.
UPDATE workflow_services s SET
    description = CASE WHEN n.patch::jsonb ? 'description' THEN n.patch ->> 'description' ELSE s.description END,
    metadata = CASE WHEN n.patch::jsonb ? 'metadata' THEN NULLIF((n.patch -> 'metadata')::text, 'null')::json
                    ELSE s.metadata END,
    updated_at = dw_now()
FROM (SELECT $4::json AS patch) n
WHERE s.namespace = $1 AND s.endpoint_name = $2 AND s.service_name = $3
RETURNING row_to_json(s)::text;

-- name: delete_service
-- Remove a service that has no operations.
DELETE FROM workflow_services s
WHERE s.namespace = $1 AND s.endpoint_name = $2 AND s.service_name = $3
  AND NOT EXISTS (
      SELECT 1 FROM workflow_service_operations o
      WHERE o.namespace = s.namespace AND o.endpoint_name = s.endpoint_name AND o.service_name = s.service_name
  )
RETURNING s.id;

-- name: list_service_operations
-- The operations of a service.
SELECT row_to_json(o)::text FROM workflow_service_operations o
WHERE o.namespace = $1 AND o.endpoint_name = $2 AND o.service_name = $3 ORDER BY o.operation_name;

-- name: describe_service_operation
-- One operation.
SELECT row_to_json(o)::text FROM workflow_service_operations o
WHERE o.namespace = $1 AND o.endpoint_name = $2 AND o.service_name = $3 AND o.operation_name = $4;

-- name: create_service_operation
-- Add an operation; $1 is its row without times. No row when the name is taken.
INSERT INTO workflow_service_operations AS o
SELECT n.namespace, n.endpoint_name, n.service_name, n.operation_name, n.id, n.service_id, n.operation_mode,
       n.handler_binding_kind, n.handler_target_reference, n.handler_binding, n.deadline_policy, n.idempotency_policy,
       n.cancellation_policy, n.retry_policy, n.boundary_policy, n.metadata, clock.now, clock.now
FROM json_populate_record(NULL::workflow_service_operations, $1::json) n, (SELECT dw_now() AS now OFFSET 0) clock
ON CONFLICT DO NOTHING
RETURNING row_to_json(o)::text;

-- name: update_service_operation
-- Replace what can be changed of an operation: $1 is its row as it was read, with the changes. No row when somebody else
-- has changed it in between.
UPDATE workflow_service_operations o SET
    operation_mode = n.operation_mode, handler_binding_kind = n.handler_binding_kind,
    handler_target_reference = n.handler_target_reference, handler_binding = n.handler_binding,
    deadline_policy = n.deadline_policy, idempotency_policy = n.idempotency_policy,
    cancellation_policy = n.cancellation_policy, retry_policy = n.retry_policy, boundary_policy = n.boundary_policy,
    metadata = n.metadata, updated_at = GREATEST(dw_now(), o.updated_at + interval '1 microsecond')
FROM json_populate_record(NULL::workflow_service_operations, $1::json) n
WHERE o.namespace = n.namespace AND o.endpoint_name = n.endpoint_name AND o.service_name = n.service_name
  AND o.operation_name = n.operation_name AND o.updated_at = n.updated_at
RETURNING row_to_json(o)::text;

-- name: delete_service_operation
-- Remove an operation that has never been called.
DELETE FROM workflow_service_operations o
WHERE o.namespace = $1 AND o.endpoint_name = $2 AND o.service_name = $3 AND o.operation_name = $4
  AND NOT EXISTS (
      SELECT 1 FROM workflow_service_calls c
      WHERE c.namespace = o.namespace AND c.endpoint_name = o.endpoint_name AND c.service_name = o.service_name
        AND c.operation_name = o.operation_name
  )
RETURNING o.id;
