-- Memo and search attributes that workflows change, cooperative cancellation, repair of blocked runs.

-- memo stays what JSON can show; memo_blob is the truth once a workflow has updated it.
ALTER TABLE workflow_run_summaries ADD COLUMN memo_blob text, ADD COLUMN search_attribute_types json;

-- A search attribute keeps the type of its first typed use for the life of its namespace.
CREATE TABLE workflow_search_attribute_types (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    type text NOT NULL,
    PRIMARY KEY (namespace, name)
);

-- cancellation is the run's cooperative request; blocked_build_id is the build that could not replay a blocked run.
ALTER TABLE workflow_runs
    ADD COLUMN cancellation json,
    ADD COLUMN cleanup_deadline_at timestamptz,
    ADD COLUMN blocked_build_id text COLLATE "C";
CREATE INDEX workflow_runs_cleanup ON workflow_runs (cleanup_deadline_at)
    WHERE closed_at IS NULL AND cleanup_deadline_at IS NOT NULL;
CREATE INDEX workflow_runs_blocked ON workflow_runs (namespace, queue, run_id) WHERE closed_at IS NULL AND replay_blocked;

-- needs_cooperation: only a worker that understands cancellation requests may take the task; is_cooperative: its
-- holder does; is_cancel_requested: the holder of an activity should stop. Null is false.
ALTER TABLE workflow_tasks
    ADD COLUMN needs_cooperation boolean,
    ADD COLUMN is_cooperative boolean,
    ADD COLUMN is_cancel_requested boolean;

-- What is known of the callback of an attempt that was told to stop.
ALTER TABLE activity_attempts ADD COLUMN cancellation json;
