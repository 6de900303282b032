-- The trace in which a run was started; its tasks carry it on to their workers.
ALTER TABLE workflow_runs ADD COLUMN IF NOT EXISTS trace_context json;
