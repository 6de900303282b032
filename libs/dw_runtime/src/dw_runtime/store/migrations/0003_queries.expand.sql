-- Query tasks: questions to workers about a run. Never part of a history, so a crash of Postgres may lose them.

-- Caller and worker meet here. state: 0 waiting, 1 leased, 2 answered, 3 failed by its worker, 4 given up by its caller.
-- The claim's order comes from the ready index alone; caller names the process that waits for the answer.
CREATE UNLOGGED TABLE workflow_query_tasks (
    query_task_id text COLLATE "C" PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    workflow_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    workflow_type text COLLATE "C" NOT NULL,
    compatibility text COLLATE "C",
    query_name text NOT NULL,
    arguments text NOT NULL,
    caller text NOT NULL,
    state smallint NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
    attempt integer NOT NULL DEFAULT 0,
    lease_owner text COLLATE "C",
    lease_expires_at timestamptz,
    poll_request_id text COLLATE "C",
    admitted_at timestamptz NOT NULL,
    deadline_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    answer text,
    failure json,
    CHECK ((state = 1) = (lease_owner IS NOT NULL)),
    CHECK ((state = 1) = (lease_expires_at IS NOT NULL)),
    CHECK ((state = 2) = (answer IS NOT NULL)),
    CHECK ((state = 3) = (failure IS NOT NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX workflow_query_tasks_ready ON workflow_query_tasks (namespace, queue, admitted_at, query_task_id)
    WHERE state = 0;
CREATE INDEX workflow_query_tasks_owner ON workflow_query_tasks (lease_owner, poll_request_id) WHERE state = 1;
CREATE INDEX workflow_query_tasks_expiry ON workflow_query_tasks (expires_at);
