-- name: ensure_namespace
-- Create a namespace unless it exists: $1 name, $2 description, $3 retention in days.
INSERT INTO workflow_namespaces (name, description, retention_days, created_at, updated_at)
SELECT $1, $2, $3, clock.now, clock.now FROM (SELECT dw_now() AS now OFFSET 0) clock
ON CONFLICT (name) DO NOTHING;

-- name: namespace_exists
-- Whether a namespace takes requests.
SELECT EXISTS (SELECT 1 FROM workflow_namespaces n WHERE n.name = $1);

-- name: list_namespaces
-- Every namespace by name.
SELECT row_to_json(n)::text FROM workflow_namespaces n ORDER BY n.name;

-- name: describe_namespace
-- One namespace.
SELECT row_to_json(n)::text FROM workflow_namespaces n WHERE n.name = $1;
