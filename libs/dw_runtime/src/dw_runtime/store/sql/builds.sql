-- name: set_drain
-- What an operator wants of a build cohort: $1 namespace, $2 queue, $3 build id or '' for the unversioned cohort, $4 active
-- or draining. The first drain fixes its time.
INSERT INTO build_id_rollouts AS r (namespace, task_queue, build_id, drain_intent, drained_at)
VALUES ($1, $2, $3, $4, CASE WHEN $4 = 'draining' THEN dw_now() END)
ON CONFLICT (namespace, task_queue, build_id) DO UPDATE SET
    drain_intent = excluded.drain_intent,
    drained_at = CASE WHEN excluded.drain_intent = 'draining' THEN COALESCE(r.drained_at, excluded.drained_at) END
RETURNING row_to_json(r)::text;

-- name: demote_build
-- Have no build selected for new runs of queue $2 in namespace $1 but $3, if that is it; '' is the unversioned cohort.
UPDATE build_id_rollouts r SET is_selected = false, rolled_back_at = dw_now()
WHERE r.namespace = $1 AND r.task_queue = $2 AND r.is_selected AND r.build_id <> $3;

-- name: promote_build
-- Have new runs of queue $2 in namespace $1 pinned to build $3; '' is the unversioned cohort. Repeating changes nothing.
INSERT INTO build_id_rollouts AS r (namespace, task_queue, build_id, drain_intent, promoted_at, is_selected)
VALUES ($1, $2, $3, 'active', dw_now(), true)
ON CONFLICT (namespace, task_queue, build_id) DO UPDATE SET
    is_selected = true, rolled_back_at = NULL,
    promoted_at = CASE WHEN r.is_selected THEN r.promoted_at ELSE excluded.promoted_at END
RETURNING row_to_json(r)::text;

-- name: read_routes
-- What operators want of the builds of queues, and the workers of those queues: $1 a JSON array of {namespace, queue}, $2
-- seconds of silence after which a worker counts as gone. Queues without such an intent have no row.
SELECT json_agg(q)
FROM (
    SELECT k.namespace, k.queue, i.intents,
           (
               SELECT COALESCE(json_agg(w), '[]')
               FROM (
                   SELECT w.build_id, count(*) FILTER (WHERE w.is_live) AS live, count(*) FILTER (WHERE NOT w.is_live) AS stale
                   FROM (
                       SELECT NULLIF(w.build_id, '') AS build_id,
                              w.last_heartbeat_at > dw_now() - make_interval(secs => $2) AS is_live
                       FROM worker_registrations w
                       WHERE w.namespace = k.namespace AND w.task_queue = k.queue
                   ) w
                   GROUP BY w.build_id
               ) w
           ) AS cohorts
    FROM json_to_recordset($1::json) AS k(namespace text, queue text)
    CROSS JOIN LATERAL (
        SELECT json_agg(json_build_object(
            'build_id', NULLIF(r.build_id, ''), 'is_draining', r.drain_intent = 'draining', 'is_selected', r.is_selected
        )) AS intents
        FROM build_id_rollouts r
        WHERE r.namespace = k.namespace AND r.task_queue = k.queue
    ) i
    WHERE i.intents IS NOT NULL
) q;

-- name: list_builds
-- The build cohorts of a queue, with workers or an intent: $1 namespace, $2 queue, $3 seconds of silence after which a
-- worker counts as gone.
WITH workers AS MATERIALIZED (
    SELECT COALESCE(w.build_id, '') AS build_id, w.runtime, w.sdk_version, w.registered_at, w.last_heartbeat_at,
           w.workflow_definition_fingerprints AS fingerprints,
           w.last_heartbeat_at > dw_now() - make_interval(secs => $3) AS is_live
    FROM worker_registrations w
    WHERE w.namespace = $1 AND w.task_queue = $2
),
intents AS MATERIALIZED (
    SELECT r.build_id, r.drain_intent, r.drained_at, r.promoted_at, r.rolled_back_at, r.is_selected
    FROM build_id_rollouts r
    WHERE r.namespace = $1 AND r.task_queue = $2
),
cohorts AS (
    SELECT w.build_id FROM workers w UNION SELECT i.build_id FROM intents i
)
SELECT NULLIF(c.build_id, '') AS build_id,
       COALESCE(max(i.drain_intent), 'active') AS drain_intent,
       max(i.drained_at) AS drained_at, max(i.promoted_at) AS promoted_at, max(i.rolled_back_at) AS rolled_back_at,
       COALESCE(bool_or(i.is_selected), false) AS is_selected,
       count(*) FILTER (WHERE w.is_live)::integer AS live,
       count(*) FILTER (WHERE NOT w.is_live)::integer AS stale,
       COALESCE(array_agg(DISTINCT w.runtime) FILTER (WHERE w.runtime IS NOT NULL), '{}') AS runtimes,
       COALESCE(array_agg(DISTINCT w.sdk_version) FILTER (WHERE w.sdk_version IS NOT NULL), '{}') AS sdk_versions,
       max(w.last_heartbeat_at) AS last_heartbeat_at,
       min(w.registered_at) AS first_seen_at,
       COALESCE(json_agg(w.fingerprints) FILTER (WHERE w.fingerprints IS NOT NULL), '[]')::text AS fingerprints
FROM cohorts c
LEFT JOIN workers w ON w.build_id = c.build_id
LEFT JOIN intents i ON i.build_id = c.build_id
GROUP BY c.build_id;
