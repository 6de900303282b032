-- name: find_runs
-- The next runs of a listing, newest first, that come from one index and meet one alternative of a query: $1 namespace,
-- $2 which index, $3 its texts, $4 its numbers, $5 and $6 the position behind which to look, $7 the earliest start,
-- $8 the conditions as a JSON object, $9 how many runs to look at and $10 how many to give back. $11 is the name of the
-- attribute, and $12 and $13 are bounds, for the index that needs them. Exactly one branch runs. Returns how many runs
-- were looked at, the position of the last one, and the positions of those that meet the conditions.
WITH asked AS MATERIALIZED (
    SELECT a.*
    FROM json_to_record($8::json) AS a(
        workflow_type_in text[], workflow_type_not text[], workflow_id_in text[], workflow_id_not text[],
        run_id_in text[], run_id_not text[], queue_in text[], queue_not text[], compatibility_in text[],
        compatibility_not text[], statuses text[], started_low timestamptz, started_has_low boolean,
        started_high timestamptz, started_has_high boolean, not_started timestamptz[], closed_low timestamptz,
        closed_has_low boolean, closed_high timestamptz, closed_has_high boolean, not_closed timestamptz[],
        attributes json, substring text
    )
),
conditions AS MATERIALIZED (
    SELECT c.*
    FROM asked a, json_to_recordset(a.attributes) AS c(
        name text, texts text[], numbers numeric[], low numeric, has_low boolean, high numeric, has_high boolean,
        is_negative boolean
    )
),
candidates AS MATERIALIZED (
    (
        SELECT s.started_at, s.run_id FROM workflow_run_summaries s
        WHERE $2 = 'recent' AND s.namespace = $1 AND (s.started_at, s.run_id) < ($5::timestamptz, $6::text)
          AND s.started_at >= $7::timestamptz
        ORDER BY s.started_at DESC, s.run_id DESC LIMIT $9::integer
    )
    UNION ALL
    (
        SELECT x.started_at, x.run_id
        FROM unnest($3::text[]) v CROSS JOIN LATERAL (
            SELECT s.started_at, s.run_id FROM workflow_run_summaries s
            WHERE s.namespace = $1 AND s.status_bucket = v AND (s.started_at, s.run_id) < ($5::timestamptz, $6::text)
              AND s.started_at >= $7::timestamptz
            ORDER BY s.started_at DESC, s.run_id DESC LIMIT $9::integer
        ) x
        WHERE $2 = 'bucket'
        ORDER BY x.started_at DESC, x.run_id DESC LIMIT $9::integer
    )
    UNION ALL
    (
        SELECT x.started_at, x.run_id
        FROM unnest($3::text[]) v CROSS JOIN LATERAL (
            SELECT s.started_at, s.run_id FROM workflow_run_summaries s
            WHERE s.namespace = $1 AND s.workflow_type = v AND (s.started_at, s.run_id) < ($5::timestamptz, $6::text)
              AND s.started_at >= $7::timestamptz
            ORDER BY s.started_at DESC, s.run_id DESC LIMIT $9::integer
        ) x
        WHERE $2 = 'workflow_type'
        ORDER BY x.started_at DESC, x.run_id DESC LIMIT $9::integer
    )
    UNION ALL
    (
        SELECT x.started_at, x.run_id
        FROM unnest($3::text[]) v CROSS JOIN LATERAL (
            SELECT s.started_at, s.run_id FROM workflow_run_summaries s
            WHERE s.namespace = $1 AND s.workflow_id = v AND (s.started_at, s.run_id) < ($5::timestamptz, $6::text)
              AND s.started_at >= $7::timestamptz
            ORDER BY s.started_at DESC, s.run_id DESC LIMIT $9::integer
        ) x
        WHERE $2 = 'workflow_id'
        ORDER BY x.started_at DESC, x.run_id DESC LIMIT $9::integer
    )
    UNION ALL
    (
        SELECT s.started_at, s.run_id
        FROM unnest($3::text[]) v JOIN workflow_run_summaries s ON s.run_id = v
        WHERE $2 = 'run_id' AND s.namespace = $1 AND (s.started_at, s.run_id) < ($5::timestamptz, $6::text)
          AND s.started_at >= $7::timestamptz
        ORDER BY s.started_at DESC, s.run_id DESC LIMIT $9::integer
    )
    UNION ALL
    (
        SELECT x.started_at, x.run_id
        FROM unnest($3::text[]) v CROSS JOIN LATERAL (
            SELECT s.started_at, s.run_id FROM workflow_run_summaries s
            WHERE s.namespace = $1 AND s.queue = v AND (s.started_at, s.run_id) < ($5::timestamptz, $6::text)
              AND s.started_at >= $7::timestamptz
            ORDER BY s.started_at DESC, s.run_id DESC LIMIT $9::integer
        ) x
        WHERE $2 = 'queue'
        ORDER BY x.started_at DESC, x.run_id DESC LIMIT $9::integer
    )
    UNION ALL
    (
        SELECT x.started_at, x.run_id
        FROM unnest($3::text[]) v CROSS JOIN LATERAL (
            SELECT s.started_at, s.run_id FROM workflow_run_summaries s
            WHERE s.namespace = $1 AND s.compatibility = v AND (s.started_at, s.run_id) < ($5::timestamptz, $6::text)
              AND s.started_at >= $7::timestamptz
            ORDER BY s.started_at DESC, s.run_id DESC LIMIT $9::integer
        ) x
        WHERE $2 = 'compatibility'
        ORDER BY x.started_at DESC, x.run_id DESC LIMIT $9::integer
    )
    UNION ALL
    (
        SELECT DISTINCT x.started_at, x.run_id
        FROM unnest($3::text[]) v CROSS JOIN LATERAL (
            SELECT w.started_at, w.run_id FROM workflow_search_attributes w
            WHERE w.namespace = $1 AND w.name = $11::text AND w.text_value = v
              AND (w.started_at, w.run_id) < ($5::timestamptz, $6::text) AND w.started_at >= $7::timestamptz
            ORDER BY w.started_at DESC, w.run_id DESC LIMIT $9::integer
        ) x
        WHERE $2 = 'text'
        ORDER BY x.started_at DESC, x.run_id DESC LIMIT $9::integer
    )
    UNION ALL
    (
        SELECT x.started_at, x.run_id
        FROM unnest($4::numeric[]) v CROSS JOIN LATERAL (
            SELECT w.started_at, w.run_id FROM workflow_search_attributes w
            WHERE w.namespace = $1 AND w.name = $11::text AND w.number_value = v
              AND (w.started_at, w.run_id) < ($5::timestamptz, $6::text) AND w.started_at >= $7::timestamptz
            ORDER BY w.started_at DESC, w.run_id DESC LIMIT $9::integer
        ) x
        WHERE $2 = 'number'
        ORDER BY x.started_at DESC, x.run_id DESC LIMIT $9::integer
    )
    UNION ALL
    (
        SELECT x.started_at, x.run_id
        FROM (
            SELECT w.started_at, w.run_id FROM workflow_search_attributes w
            WHERE $2 = 'range' AND w.namespace = $1 AND w.name = $11::text AND w.number_value BETWEEN $12::numeric AND $13::numeric
              AND (w.started_at, w.run_id) < ($5::timestamptz, $6::text) AND w.started_at >= $7::timestamptz
            LIMIT $9::integer
        ) x
        ORDER BY x.started_at DESC, x.run_id DESC
    )
),
matches AS MATERIALIZED (
    SELECT c.started_at, c.run_id
    FROM candidates c
    JOIN workflow_run_summaries s ON s.run_id = c.run_id
    JOIN workflow_runs r ON r.run_id = c.run_id
    CROSS JOIN asked a
    WHERE (a.workflow_type_in IS NULL OR s.workflow_type = ANY (a.workflow_type_in))
      AND (a.workflow_type_not IS NULL OR s.workflow_type <> ALL (a.workflow_type_not))
      AND (a.workflow_id_in IS NULL OR s.workflow_id = ANY (a.workflow_id_in))
      AND (a.workflow_id_not IS NULL OR s.workflow_id <> ALL (a.workflow_id_not))
      AND (a.run_id_in IS NULL OR s.run_id = ANY (a.run_id_in))
      AND (a.run_id_not IS NULL OR s.run_id <> ALL (a.run_id_not))
      AND (a.queue_in IS NULL OR s.queue = ANY (a.queue_in))
      AND (a.queue_not IS NULL OR s.queue <> ALL (a.queue_not))
      AND (a.compatibility_in IS NULL OR s.compatibility = ANY (a.compatibility_in))
      AND (a.compatibility_not IS NULL OR s.compatibility <> ALL (a.compatibility_not))
      AND (a.statuses IS NULL OR r.status = ANY (a.statuses))
      AND (a.started_low IS NULL OR s.started_at > a.started_low OR a.started_has_low AND s.started_at = a.started_low)
      AND (a.started_high IS NULL OR s.started_at < a.started_high OR a.started_has_high AND s.started_at = a.started_high)
      AND (a.not_started IS NULL OR s.started_at <> ALL (a.not_started))
      AND (a.closed_low IS NULL OR s.closed_at > a.closed_low OR a.closed_has_low AND s.closed_at = a.closed_low)
      AND (a.closed_high IS NULL OR s.closed_at < a.closed_high OR a.closed_has_high AND s.closed_at = a.closed_high)
      AND (a.not_closed IS NULL OR s.closed_at <> ALL (a.not_closed))
      AND (
          a.substring IS NULL OR position(lower(a.substring) IN lower(s.workflow_id)) > 0
          OR position(lower(a.substring) IN lower(s.business_key)) > 0
      )
      AND NOT EXISTS (
          SELECT 1
          FROM conditions q
          CROSS JOIN LATERAL (
              SELECT count(*) AS values, count(*) FILTER (
                  WHERE (q.texts IS NULL OR w.text_value = ANY (q.texts))
                    AND (q.numbers IS NULL OR w.number_value = ANY (q.numbers))
                    AND (q.low IS NULL OR w.number_value > q.low OR q.has_low AND w.number_value = q.low)
                    AND (q.high IS NULL OR w.number_value < q.high OR q.has_high AND w.number_value = q.high)
              ) AS hits
              FROM workflow_search_attributes w
              WHERE w.run_id = c.run_id AND w.name = q.name
                AND CASE WHEN q.texts IS NULL THEN w.number_value IS NOT NULL ELSE w.text_value IS NOT NULL END
          ) f
          WHERE f.values = 0 OR (f.hits > 0) = q.is_negative
      )
    ORDER BY c.started_at DESC, c.run_id DESC
    LIMIT $10::integer
)
SELECT
    (SELECT count(*) FROM candidates),
    (SELECT json_build_array(c.started_at, c.run_id)::text FROM candidates c ORDER BY c.started_at, c.run_id LIMIT 1),
    (
        SELECT json_agg(json_build_array(m.started_at, m.run_id) ORDER BY m.started_at DESC, m.run_id DESC)::text
        FROM matches m
    );

-- name: show_runs
-- The rows of a listing, newest first: $1 a JSON array of run ids, $2 seconds of worker silence.
SELECT row_to_json(s)::text, r.status, dw_is_supported(s.namespace, s.queue, s.compatibility, $2::integer)
FROM json_array_elements_text($1::json) AS k(run_id)
JOIN workflow_run_summaries s ON s.run_id = k.run_id
JOIN workflow_runs r ON r.run_id = k.run_id
ORDER BY s.started_at DESC, s.run_id DESC;

-- name: index_attributes
-- Write by which values runs are found: $1 a JSON array of {run_id}, all whose attributes are now those of $2, a JSON
-- array of values. Their summaries are there already.
WITH fresh AS MATERIALIZED (
    SELECT n.*
    FROM json_to_recordset($2::json) AS n(run_id text, name text, ordinal integer, text_value text, number_value numeric)
),
gone AS (
    DELETE FROM workflow_search_attributes w
    USING json_to_recordset($1::json) AS k(run_id text)
    WHERE w.run_id = k.run_id AND NOT EXISTS (
        SELECT 1 FROM fresh n WHERE n.run_id = w.run_id AND n.name = w.name AND n.ordinal = w.ordinal
    )
)
INSERT INTO workflow_search_attributes AS w
    (run_id, name, ordinal, namespace, text_value, number_value, started_at)
SELECT n.run_id, n.name, n.ordinal, s.namespace, n.text_value, n.number_value, s.started_at
FROM fresh n
JOIN workflow_run_summaries s ON s.run_id = n.run_id
ON CONFLICT (run_id, name, ordinal) DO UPDATE
SET text_value = excluded.text_value, number_value = excluded.number_value
WHERE (w.text_value, w.number_value) IS DISTINCT FROM (excluded.text_value, excluded.number_value);

-- name: list_attribute_types
-- The search attributes of namespace $1: name, type, and whether an operator has registered it.
SELECT t.name, t.type, t.registered_at IS NOT NULL FROM workflow_search_attribute_types t WHERE t.namespace = $1
ORDER BY t.name;

-- name: register_attribute
-- Register a search attribute: $1 namespace, $2 name, $3 type, $4 the most a namespace may have. A name that runs have
-- values of keeps its type. No row when it is registered already, keeps another type or would be one too many; the
-- namespace is locked, so that two that come at once are counted one after the other.
WITH locked AS MATERIALIZED (
    SELECT n.name FROM workflow_namespaces n WHERE n.name = $1 FOR NO KEY UPDATE
),
known AS MATERIALIZED (
    SELECT t.type, t.registered_at IS NOT NULL AS is_registered,
           t.type <> $3 AND EXISTS (
               (
                   SELECT 1 FROM workflow_search_attributes w
                   WHERE w.namespace = $1 AND w.name = $2 AND w.text_value IS NOT NULL
                   ORDER BY w.text_value LIMIT 1
               )
               UNION ALL
               (
                   SELECT 1 FROM workflow_search_attributes w
                   WHERE w.namespace = $1 AND w.name = $2 AND w.number_value IS NOT NULL
                   ORDER BY w.number_value LIMIT 1
               )
           ) AS is_typed
    FROM locked l
    JOIN workflow_search_attribute_types t ON t.namespace = l.name AND t.name = $2
),
allowed AS MATERIALIZED (
    SELECT l.name
    FROM locked l
    LEFT JOIN known k ON true
    WHERE NOT COALESCE(k.is_registered OR k.is_typed, false) AND (
        k.type IS NOT NULL
        OR (SELECT count(*) FROM workflow_search_attribute_types t WHERE t.namespace = l.name) < $4::integer
    )
)
INSERT INTO workflow_search_attribute_types (namespace, name, type, registered_at)
SELECT a.name, $2, $3, dw_now() FROM allowed a
ON CONFLICT (namespace, name) DO UPDATE SET type = excluded.type, registered_at = excluded.registered_at
RETURNING type;

-- name: forget_attribute
-- Take back the registration of a search attribute: $1 namespace, $2 name. Values stay, and with them the type.
WITH used AS MATERIALIZED (
    SELECT EXISTS (
        (
            SELECT 1 FROM workflow_search_attributes w
            WHERE w.namespace = $1 AND w.name = $2 AND w.text_value IS NOT NULL
            ORDER BY w.text_value LIMIT 1
        )
        UNION ALL
        (
            SELECT 1 FROM workflow_search_attributes w
            WHERE w.namespace = $1 AND w.name = $2 AND w.number_value IS NOT NULL
            ORDER BY w.number_value LIMIT 1
        )
    ) AS is_used
),
kept AS (
    UPDATE workflow_search_attribute_types t SET registered_at = NULL
    FROM used u
    WHERE u.is_used AND t.namespace = $1 AND t.name = $2 AND t.registered_at IS NOT NULL
    RETURNING t.name
),
gone AS (
    DELETE FROM workflow_search_attribute_types t
    USING used u
    WHERE NOT u.is_used AND t.namespace = $1 AND t.name = $2 AND t.registered_at IS NOT NULL
    RETURNING t.name
)
SELECT name FROM kept UNION ALL SELECT name FROM gone;
