-- Updates that wait for a worker, and the command contract that a run declared at its start.

ALTER TABLE workflow_runs
    ADD COLUMN newest_signal json,
    ADD COLUMN open_update_count integer NOT NULL DEFAULT 0 CHECK (open_update_count >= 0);

ALTER TABLE workflow_run_summaries ADD COLUMN command_contract json;

-- queued_behind is the command of a signal that comes first; caller names the process that waits for the outcome.
ALTER TABLE workflow_updates
    ADD COLUMN target_scope text NOT NULL DEFAULT 'instance',
    ADD COLUMN queued_behind text,
    ADD COLUMN caller text,
    ADD CHECK ((closed_at IS NULL) = (status = 'accepted'));
CREATE INDEX workflow_updates_open ON workflow_updates (run_id, command_sequence) WHERE closed_at IS NULL;

-- Validations of updates are asked for like queries (kind 2); theirs is kind 3, and they name the update.
ALTER TABLE workflow_query_tasks
    ADD COLUMN kind smallint NOT NULL DEFAULT 2 CHECK (kind IN (2, 3)),
    ADD COLUMN update_id text COLLATE "C";
DROP INDEX workflow_query_tasks_ready;
CREATE INDEX workflow_query_tasks_ready ON workflow_query_tasks (namespace, queue, kind, admitted_at, query_task_id)
    WHERE state = 0;
