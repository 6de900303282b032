-- name: set_external_storage
-- Replace the storage policy of a namespace: $1 its name, $2 the policy as JSON.
UPDATE workflow_namespaces n SET external_payload_storage = $2::jsonb, updated_at = dw_now()
WHERE n.name = $1 AND n.status = 'active'
RETURNING row_to_json(n)::text;

-- name: keep_payload
-- Have a namespace ($2) keep a payload: $1 a new reference id, $3 codec, $4 size in bytes, $5 SHA-256, $6 the address of
-- its object, $7 the disk or null. A payload that it keeps already is looked at anew, and its reference given. No row
-- when the object is being deleted. Whoever asks for it locks payloads before objects.
WITH kept AS (
    INSERT INTO external_payloads AS p
        (reference_id, namespace, codec, size_bytes, sha256, object_uri, created_at, review_at)
    SELECT $1, $2, $3, $4::bigint, $5, $6, clock.now, clock.now FROM (SELECT dw_now() AS now OFFSET 0) clock
    ON CONFLICT (object_uri, namespace) WHERE namespace <> '' DO UPDATE SET review_at = excluded.review_at
    RETURNING p.reference_id, p.object_uri
),
objects AS (
    INSERT INTO external_payload_objects AS o (object_uri, disk)
    SELECT k.object_uri, $7 FROM kept k
    ON CONFLICT (object_uri) DO UPDATE SET review_at = NULL, disk = excluded.disk WHERE NOT o.is_doomed
    RETURNING o.object_uri
)
SELECT k.reference_id FROM kept k JOIN objects o ON o.object_uri = k.object_uri;

-- name: find_payload
-- A payload that namespace $2 keeps or one of its runs uses: $1 its id. One that nobody has used within $3 seconds has
-- expired.
SELECT p.codec, p.size_bytes, p.sha256, p.object_uri, o.disk,
       p.review_at < dw_now() - make_interval(secs => $3)
           AND NOT EXISTS (SELECT 1 FROM external_payload_uses u WHERE u.reference_id = p.reference_id)
FROM external_payloads p
JOIN external_payload_objects o ON o.object_uri = p.object_uri
WHERE p.reference_id = $1
  AND (p.namespace = $2 OR EXISTS (
      SELECT 1 FROM external_payload_uses u WHERE u.reference_id = p.reference_id AND u.namespace = $2
  ));

-- name: check_payloads
-- What namespace $2 may name of the payloads in $1, a JSON array of ids, with the same rule as above; those that have not
-- been looked at for a while are looked at anew, so that they are there when the request that names them is done.
WITH named AS MATERIALIZED (
    SELECT p.reference_id, p.codec, p.size_bytes, p.sha256, p.review_at,
           COALESCE(p.review_at < dw_now() - make_interval(secs => $3), false)
               AND NOT EXISTS (SELECT 1 FROM external_payload_uses u WHERE u.reference_id = p.reference_id)
               AS is_expired
    FROM json_array_elements_text($1::json) AS k(reference_id)
    JOIN external_payloads p ON p.reference_id = k.reference_id
    WHERE p.namespace = $2 OR EXISTS (
        SELECT 1 FROM external_payload_uses u WHERE u.reference_id = p.reference_id AND u.namespace = $2
    )
),
stale AS MATERIALIZED (
    SELECT p.reference_id
    FROM named n
    JOIN external_payloads p ON p.reference_id = n.reference_id
    WHERE NOT n.is_expired AND (p.review_at IS NULL OR p.review_at < dw_now() - make_interval(secs => $3 / 2.0))
    ORDER BY p.reference_id
    FOR UPDATE OF p
),
touched AS (
    UPDATE external_payloads p SET review_at = dw_now() FROM stale s WHERE p.reference_id = s.reference_id
)
SELECT n.reference_id, n.codec, n.size_bytes, n.sha256, n.is_expired FROM named n;

-- name: use_payloads
-- Record which runs name which payloads.
INSERT INTO external_payload_uses (run_id, reference_id, namespace)
SELECT DISTINCT n.run_id, n.reference_id, n.namespace
FROM json_to_recordset($1::json) AS n(run_id text, reference_id text, namespace text)
JOIN external_payloads p ON p.reference_id = n.reference_id
ON CONFLICT (run_id, reference_id) DO NOTHING;

-- name: find_unused_payloads
-- The first $3 payloads of namespace $1 that nobody has used within $2 seconds, the oldest first.
SELECT p.reference_id, p.size_bytes, p.created_at
FROM external_payloads p
WHERE p.review_at < (SELECT dw_now()) - make_interval(secs => $2) AND p.namespace = $1
  AND NOT EXISTS (SELECT 1 FROM external_payload_uses u WHERE u.reference_id = p.reference_id)
ORDER BY p.review_at
LIMIT $3;

-- name: review_payloads
-- Look at no more than $3 payloads, of namespace $1 or of all when it is null, that have waited for it $2 seconds: those
-- that are used stay, the others go. What somebody else holds is left to another pass. Gives the ids of those that have
-- gone.
WITH due AS MATERIALIZED (
    SELECT p.reference_id
    FROM external_payloads p
    WHERE p.review_at < (SELECT dw_now()) - make_interval(secs => $2) AND ($1::text IS NULL OR p.namespace = $1)
    ORDER BY p.review_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
),
judged AS MATERIALIZED (
    SELECT d.reference_id,
           EXISTS (SELECT 1 FROM external_payload_uses u WHERE u.reference_id = d.reference_id) AS is_used
    FROM due d
),
staying AS (
    UPDATE external_payloads p SET review_at = NULL FROM judged j WHERE j.is_used AND p.reference_id = j.reference_id
),
gone AS (
    DELETE FROM external_payloads p USING judged j
    WHERE NOT j.is_used AND p.reference_id = j.reference_id
    RETURNING p.reference_id, p.object_uri
),
objects AS (
    UPDATE external_payload_objects o SET review_at = dw_now()
    FROM (SELECT DISTINCT g.object_uri FROM gone g) g
    WHERE o.object_uri = g.object_uri AND NOT o.is_doomed
)
SELECT g.reference_id FROM gone g;

-- name: doom_objects
-- Take no more than $1 objects that no payload claims any more, to be deleted; from then on nobody can keep them. One that
-- somebody took $2 seconds ago and has not deleted is taken again.
WITH due AS MATERIALIZED (
    SELECT o.object_uri
    FROM external_payload_objects o
    WHERE o.review_at IS NOT NULL AND o.review_at <= (SELECT dw_now())
      AND (NOT o.is_doomed OR o.review_at < dw_now() - make_interval(secs => $2))
    ORDER BY o.review_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
),
judged AS MATERIALIZED (
    SELECT d.object_uri, EXISTS (SELECT 1 FROM external_payloads p WHERE p.object_uri = d.object_uri) AS is_claimed
    FROM due d
),
moved AS (
    UPDATE external_payload_objects o SET
        is_doomed = NOT j.is_claimed, review_at = CASE WHEN j.is_claimed THEN NULL ELSE dw_now() END
    FROM judged j
    WHERE o.object_uri = j.object_uri
    RETURNING o.object_uri, o.disk, o.is_doomed
)
SELECT m.object_uri, m.disk FROM moved m WHERE m.is_doomed;

-- name: forget_objects
-- Forget objects that have been deleted: $1 is a JSON array of their addresses.
DELETE FROM external_payload_objects o
USING json_array_elements_text($1::json) AS k(object_uri)
WHERE o.object_uri = k.object_uri AND o.is_doomed;
