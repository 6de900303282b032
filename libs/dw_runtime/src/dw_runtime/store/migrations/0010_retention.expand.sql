-- What retention looks at: the closed runs of a namespace, the oldest first.
CREATE INDEX workflow_run_summaries_closed ON workflow_run_summaries (namespace, closed_at, run_id)
    WHERE closed_at IS NOT NULL;
