-- Listings: search attributes as rows that are found in the order of a listing, and archived runs.

-- One row for each value of an attribute. text_value: keywords, texts, items of lists, true and false; number_value:
-- numbers, and times as microseconds since 1970. Every index ends in the order of listings.
CREATE TABLE workflow_search_attributes (
    run_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    ordinal integer NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    text_value text COLLATE "C",
    number_value numeric,
    started_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, name, ordinal),
    CHECK (text_value IS NOT NULL OR number_value IS NOT NULL)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX workflow_search_attributes_text
    ON workflow_search_attributes (namespace, name, text_value, started_at DESC, run_id DESC) WHERE text_value IS NOT NULL;
CREATE INDEX workflow_search_attributes_number
    ON workflow_search_attributes (namespace, name, number_value, started_at DESC, run_id DESC)
    WHERE number_value IS NOT NULL;

-- registered_at is null for a type that only the use by workflows has fixed.
ALTER TABLE workflow_search_attribute_types ADD COLUMN registered_at timestamptz;

-- An archived run is kept for good. archive says since when, by which command and why.
ALTER TABLE workflow_runs ADD COLUMN archive json;
ALTER TABLE workflow_run_summaries ADD COLUMN archived_at timestamptz;

-- What is there already is found by its attributes as well.
INSERT INTO workflow_search_attributes (run_id, name, ordinal, namespace, text_value, number_value, started_at)
SELECT s.run_id, a.key, v.ordinal - 1, s.namespace, CASE WHEN f.is_number THEN NULL ELSE f.text END,
       CASE
           WHEN f.is_number THEN f.text::numeric
           WHEN s.search_attribute_types ->> a.key = 'datetime' THEN extract(epoch FROM f.text::timestamptz) * 1000000
       END,
       s.started_at
FROM workflow_run_summaries s
CROSS JOIN LATERAL jsonb_each(s.search_attributes) a
CROSS JOIN LATERAL jsonb_array_elements(
    CASE jsonb_typeof(a.value) WHEN 'array' THEN a.value ELSE jsonb_build_array(a.value) END
) WITH ORDINALITY v(value, ordinal)
CROSS JOIN LATERAL (SELECT jsonb_typeof(v.value) = 'number' AS is_number, v.value #>> '{}' AS text) f
WHERE s.search_attributes <> '{}' AND f.text IS NOT NULL
ON CONFLICT (run_id, name, ordinal) DO NOTHING;
