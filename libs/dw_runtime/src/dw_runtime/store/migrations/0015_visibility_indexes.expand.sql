-- no transaction
-- Indexes of large tables, built while the tables are written to. Each ends in the order of listings.
CREATE INDEX CONCURRENTLY IF NOT EXISTS workflow_run_summaries_queue
    ON workflow_run_summaries (namespace, queue, started_at DESC, run_id DESC)
-- then
CREATE INDEX CONCURRENTLY IF NOT EXISTS workflow_run_summaries_build
    ON workflow_run_summaries (namespace, compatibility, started_at DESC, run_id DESC) WHERE compatibility IS NOT NULL
-- then
CREATE INDEX CONCURRENTLY IF NOT EXISTS workflow_run_summaries_instance
    ON workflow_run_summaries (namespace, workflow_id, started_at DESC, run_id DESC)
-- then
CREATE INDEX CONCURRENTLY IF NOT EXISTS workflow_run_summaries_expiring
    ON workflow_run_summaries (namespace, closed_at, run_id) WHERE closed_at IS NOT NULL AND archived_at IS NULL
