-- Child workflows, continue-as-new, selections, and what runs do to each other.

ALTER TABLE workflow_runs
    ADD COLUMN open_child_count integer NOT NULL DEFAULT 0 CHECK (open_child_count >= 0),
    ADD COLUMN selected_waits json NOT NULL DEFAULT '[]',
    ADD COLUMN parent json,
    ADD COLUMN continued_to_run_id text COLLATE "C";
ALTER TABLE workflow_parallel_groups ADD COLUMN selection json;
CREATE INDEX workflow_runs_parent ON workflow_runs ((parent ->> 'run_id') COLLATE "C") WHERE parent IS NOT NULL;
CREATE INDEX workflow_runs_successor ON workflow_runs (continued_to_run_id) WHERE continued_to_run_id IS NOT NULL;

-- One per workflow sequence of the parent; current_run_id follows retries and continuations.
CREATE TABLE workflow_child_calls (
    run_id text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL CHECK (sequence > 0),
    child_workflow_id text COLLATE "C" NOT NULL,
    child_run_id text COLLATE "C" NOT NULL,
    current_run_id text COLLATE "C" NOT NULL,
    workflow_type text COLLATE "C" NOT NULL,
    status text NOT NULL CHECK (status IN ('started', 'completed', 'failed', 'cancelled', 'terminated', 'abandoned')),
    parent_close_policy text NOT NULL,
    cancellation_policy text,
    retry_policy json,
    execution_timeout_seconds bigint,
    run_timeout_seconds bigint,
    parallel_group_path json,
    group_base bigint,
    started_at timestamptz NOT NULL,
    closed_at timestamptz,
    PRIMARY KEY (run_id, sequence),
    CHECK ((closed_at IS NULL) = (status = 'started'))
) WITH (fillfactor = 85);
CREATE INDEX workflow_child_calls_open ON workflow_child_calls (run_id, sequence) WHERE closed_at IS NULL;

-- What one run has done to another: written with the cause, taken under the lock of the run it is for.
CREATE TABLE workflow_deliveries (
    run_id text COLLATE "C" NOT NULL,
    ordinal bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL CHECK (kind IN ('child_closed', 'child_continued', 'parent_closed', 'cancellation')),
    sequence bigint NOT NULL,
    body json NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, ordinal)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);
CREATE INDEX workflow_deliveries_age ON workflow_deliveries (created_at);

-- One row per child run, and per run that continued as new.
CREATE VIEW workflow_links AS
SELECT r.parent ->> 'run_id' AS parent_run_id, (r.parent ->> 'sequence')::bigint AS sequence,
       r.run_id AS child_run_id, 'child_workflow' AS link_type, r.namespace,
       r.parent ->> 'workflow_id' AS parent_workflow_id, r.workflow_id AS child_workflow_id, true AS is_primary_parent,
       r.started_at AS created_at
FROM workflow_runs r
WHERE r.parent IS NOT NULL
UNION ALL
SELECT r.run_id, r.next_workflow_sequence, r.continued_to_run_id, 'continue_as_new', r.namespace, r.workflow_id,
       r.workflow_id, false, r.closed_at
FROM workflow_runs r
WHERE r.continued_to_run_id IS NOT NULL AND r.closed_reason = 'continued';

CREATE VIEW workflow_run_lineage_entries AS
SELECT l.parent_run_id AS run_id, 'child' AS direction, l.link_type, l.sequence,
       l.child_workflow_id AS related_workflow_id, l.child_run_id AS related_run_id
FROM workflow_links l
UNION ALL
SELECT l.child_run_id, 'parent', l.link_type, l.sequence, l.parent_workflow_id, l.parent_run_id
FROM workflow_links l;

CREATE VIEW workflow_child_projection_repairs AS
SELECT c.run_id AS parent_run_id, c.sequence, c.current_run_id AS child_run_id, 'child_run_missing' AS repair_reason
FROM workflow_child_calls c
WHERE c.closed_at IS NULL AND NOT EXISTS (SELECT 1 FROM workflow_runs r WHERE r.run_id = c.current_run_id);

CREATE OR REPLACE VIEW workflow_run_waits AS
SELECT a.run_id, 'activity' AS wait_kind, a.sequence, a.activity_type AS target, a.scheduled_at AS opened_at,
       NULL::timestamptz AS deadline_at
FROM activity_executions a
WHERE a.closed_at IS NULL
UNION ALL
SELECT t.run_id, t.kind, t.sequence, NULL, t.created_at, t.fire_at
FROM workflow_timers t
WHERE t.status = 'pending'
UNION ALL
SELECT c.run_id, 'child', c.sequence, c.workflow_type, c.started_at, NULL
FROM workflow_child_calls c
WHERE c.closed_at IS NULL
UNION ALL
SELECT r.run_id, 'condition', (r.open_wait ->> 'sequence')::bigint, r.open_wait ->> 'key',
       (r.open_wait ->> 'opened_at')::timestamptz, (r.open_wait ->> 'fire_at')::timestamptz
FROM workflow_runs r
WHERE r.open_wait IS NOT NULL AND r.closed_at IS NULL
UNION ALL
SELECT k.run_id, 'workflow_task', k.task_number, k.task_type, k.created_at, k.lease_expires_at
FROM workflow_tasks k
WHERE k.kind = 0;
