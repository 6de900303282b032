-- name: read_metadata
-- Memo and search attributes of the runs in $1, a JSON array of {run_id}, and the attribute types that the namespaces
-- in $2, a JSON array of names, have fixed; each as one JSON array.
SELECT
    (
        SELECT json_agg(m)
        FROM (
            SELECT s.run_id, s.memo, s.memo_blob, s.search_attributes, s.search_attribute_types
            FROM json_to_recordset($1::json) AS k(run_id text)
            JOIN workflow_run_summaries s USING (run_id)
        ) m
    ),
    (
        SELECT json_agg(t)
        FROM json_array_elements_text($2::json) AS k(namespace)
        JOIN workflow_search_attribute_types t USING (namespace)
    );

-- name: write_metadata
-- Write what workflows have made of memo and search attributes.
UPDATE workflow_run_summaries s SET
    memo = n.memo, memo_blob = n.memo_blob, search_attributes = n.search_attributes,
    search_attribute_types = n.search_attribute_types
FROM json_to_recordset($1::json) AS n(
    run_id text, memo jsonb, memo_blob text, search_attributes jsonb, search_attribute_types json
)
WHERE s.run_id = n.run_id;

-- name: fix_attribute_types
-- Fix the types of search attributes at their first typed use. Two first uses that meet collide; the one that comes
-- second is decided again and sees the first.
INSERT INTO workflow_search_attribute_types (namespace, name, type)
SELECT n.namespace, n.name, n.type FROM json_populate_recordset(NULL::workflow_search_attribute_types, $1::json) n;
