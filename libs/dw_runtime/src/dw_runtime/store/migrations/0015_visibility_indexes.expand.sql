-- no transaction
-- Indexes of large tables, built while the tables are written to; each ends in the order of listings. And settings that
-- bound what deleted rows leave behind.
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
-- then
-- What retention removes is taken up again soon, so that the tables stay as large as what they hold at one time.
ALTER TABLE workflow_history_events SET (autovacuum_vacuum_scale_factor = 0.02)
-- then
ALTER TABLE workflow_task_receipts SET (autovacuum_vacuum_scale_factor = 0.02)
-- then
ALTER TABLE activity_executions SET (autovacuum_vacuum_scale_factor = 0.02)
-- then
ALTER TABLE activity_attempts SET (autovacuum_vacuum_scale_factor = 0.02)
-- then
ALTER TABLE workflow_commands SET (autovacuum_vacuum_scale_factor = 0.02)
-- then
ALTER TABLE workflow_run_summaries SET (autovacuum_vacuum_scale_factor = 0.02)
