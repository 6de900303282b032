-- name: begin_audit
-- What this transaction is about, for the audit trail: $1 is a JSON object.
SELECT set_config('dw.audit', $1, true);

-- name: record_audit
-- Record commands that change no row of their own, and refused ones: $1 is a JSON array of entries without times.
INSERT INTO audit_entries
SELECT n.entry_id, dw_now(), n.namespace, n.subject, n.role, n.auth_method, n.address, n.request_id, n.command, n.target,
       n.run_id, n.outcome, n.reason, n.before, n.after
FROM json_populate_recordset(NULL::audit_entries, $1::json) n;

-- name: list_audit
-- Entries of every namespace, the newest first: $1 at most that many, $2 and $3 the first and the last entry id that
-- count, $4 subject, $5 command and $6 outcome, $7 and $8 the first moment and the one behind the last, or null for all.
SELECT row_to_json(a)::text
FROM audit_entries a
WHERE a.entry_id >= $2 AND a.entry_id < $3
  AND ($4::text IS NULL OR a.subject = $4) AND ($5::text IS NULL OR a.command = $5)
  AND ($6::text IS NULL OR a.outcome = $6)
  AND ($7::timestamptz IS NULL OR a.recorded_at >= $7) AND ($8::timestamptz IS NULL OR a.recorded_at < $8)
ORDER BY a.entry_id DESC
LIMIT $1;

-- name: list_namespace_audit
-- The same of one namespace, $9.
SELECT row_to_json(a)::text
FROM audit_entries a
WHERE a.namespace = $9 AND a.entry_id >= $2 AND a.entry_id < $3
  AND ($4::text IS NULL OR a.subject = $4) AND ($5::text IS NULL OR a.command = $5)
  AND ($6::text IS NULL OR a.outcome = $6)
  AND ($7::timestamptz IS NULL OR a.recorded_at >= $7) AND ($8::timestamptz IS NULL OR a.recorded_at < $8)
ORDER BY a.namespace DESC, a.entry_id DESC
LIMIT $1;

-- name: list_target_audit
-- The same of one target, $10, in a namespace, $9.
SELECT row_to_json(a)::text
FROM audit_entries a
WHERE a.namespace = $9 AND a.target = $10 AND a.entry_id >= $2 AND a.entry_id < $3
  AND ($4::text IS NULL OR a.subject = $4) AND ($5::text IS NULL OR a.command = $5)
  AND ($6::text IS NULL OR a.outcome = $6)
  AND ($7::timestamptz IS NULL OR a.recorded_at >= $7) AND ($8::timestamptz IS NULL OR a.recorded_at < $8)
ORDER BY a.namespace DESC, a.target DESC, a.entry_id DESC
LIMIT $1;

-- name: prune_audit
-- Remove at most $1 entries that are older than $2 days, the oldest first; what another pass removes is left to it.
WITH expired AS MATERIALIZED (
    SELECT o.entry_id
    FROM (SELECT a.entry_id, a.recorded_at FROM audit_entries a ORDER BY a.entry_id LIMIT $1 FOR UPDATE SKIP LOCKED) o
    WHERE o.recorded_at < dw_now() - make_interval(days => $2)
)
DELETE FROM audit_entries a USING expired e WHERE a.entry_id = e.entry_id RETURNING 1;
