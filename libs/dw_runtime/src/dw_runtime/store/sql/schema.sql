-- name: try_migration_lock
-- Take the lock of migrations for this session; never waits, because a waiting statement would hold a snapshot that
-- CREATE INDEX CONCURRENTLY in the other session waits for.
SELECT pg_try_advisory_lock(7215001);

-- name: set_lock_timeout
-- Bound the wait for table locks in this session, in milliseconds as text.
SELECT set_config('lock_timeout', $1::text, false);

-- name: read_applied
-- The applied migrations with their checksums.
SELECT m.name, m.phase, m.checksum FROM schema_migrations m;

-- name: record_migration
-- Remember that a migration has been applied: $1 name, $2 phase, $3 checksum.
INSERT INTO schema_migrations (name, phase, applied_at, checksum) VALUES ($1, $2, clock_timestamp(), $3);

-- name: find_missing_relations
-- Which of the named tables and views do not exist; needs no table of ours.
SELECT n.name FROM unnest($1::text[]) AS n(name) WHERE to_regclass(n.name) IS NULL;

-- name: read_readiness
-- What readiness must know: $1 required tables and views, $2 default namespace, $3 seconds of silence after which a
-- worker counts as gone, $4 the required compatibility marker or null.
SELECT
    ARRAY(SELECT n.name FROM unnest($1::text[]) AS n(name) WHERE to_regclass(n.name) IS NULL),
    ARRAY(SELECT m.name || '.' || m.phase FROM schema_migrations m),
    EXISTS (SELECT 1 FROM workflow_namespaces n WHERE n.name = $2),
    current_setting('server_version_num')::integer,
    w.active, w.supporting
FROM (
    SELECT count(*) AS active,
           count(*) FILTER (WHERE r.build_id = $4::text) AS supporting
    FROM worker_registrations r
    WHERE $4::text IS NOT NULL AND r.last_heartbeat_at > dw_now() - make_interval(secs => $3::integer)
) w;
