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

CREATE INDEX workflow_run_summaries_queue ON workflow_run_summaries (namespace, queue, started_at DESC, run_id DESC);
CREATE INDEX workflow_run_summaries_build ON workflow_run_summaries (namespace, compatibility, started_at DESC, run_id DESC)
    WHERE compatibility IS NOT NULL;
CREATE INDEX workflow_run_summaries_instance ON workflow_run_summaries (namespace, workflow_id, started_at DESC, run_id DESC);

-- An archived run is kept for good. archive says since when, by which command and why.
ALTER TABLE workflow_runs ADD COLUMN archive json;
ALTER TABLE workflow_run_summaries ADD COLUMN archived_at timestamptz;
CREATE INDEX workflow_run_summaries_expiring ON workflow_run_summaries (namespace, closed_at, run_id)
    WHERE closed_at IS NOT NULL AND archived_at IS NULL;
