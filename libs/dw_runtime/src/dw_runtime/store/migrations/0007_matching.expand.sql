-- Fair shares of a queue, and what admission counts.

-- Ready tasks with a fairness key. Queues without such keys have nothing in it.
CREATE INDEX workflow_tasks_shared ON workflow_tasks
    (namespace, queue, kind, priority, fairness_key, available_at, run_id, task_number)
    WHERE state = 0 AND fairness_key IS NOT NULL;
CREATE INDEX workflow_tasks_leased ON workflow_tasks (namespace, kind, queue) WHERE state = 1;

-- Virtual time of the shares of one priority of one queue: began_at is the start of a share's newest grant, ends_at its
-- end; the newest start is the queue's own time. Tasks without a key have the share ''. A crash of Postgres may lose
-- it: then all shares begin anew as equals.
CREATE UNLOGGED TABLE task_queue_shares (
    namespace text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    kind smallint NOT NULL,
    priority smallint NOT NULL,
    share text COLLATE "C" NOT NULL,
    began_at bigint NOT NULL,
    ends_at bigint NOT NULL CHECK (ends_at > began_at),
    granted_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, queue, kind, priority, share)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);

-- Leases granted in each calendar minute (UTC), per queue, namespace or budget group; kept only where there is a budget.
CREATE UNLOGGED TABLE task_dispatch_counters (
    namespace text COLLATE "C" NOT NULL,
    kind smallint NOT NULL,
    scope text COLLATE "C" NOT NULL,
    minute timestamptz NOT NULL,
    dispatched integer NOT NULL CHECK (dispatched > 0),
    PRIMARY KEY (namespace, kind, scope, minute)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);

-- Sticky execution: the worker that keeps a run's history, and for how long a task waits for it.
ALTER TABLE workflow_runs ADD COLUMN sticky_worker text COLLATE "C", ADD COLUMN sticky_until timestamptz;
ALTER TABLE workflow_tasks ADD COLUMN reserved_for text COLLATE "C", ADD COLUMN reserved_until timestamptz;
