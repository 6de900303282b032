-- Worker sessions: which worker runs the activities of a session.

CREATE TABLE worker_sessions (
    namespace text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    connection text,
    queue text COLLATE "C",
    requirements json NOT NULL,
    lease_seconds integer NOT NULL CHECK (lease_seconds > 0),
    ttl_seconds integer NOT NULL CHECK (ttl_seconds > 0),
    max_concurrent_activities integer NOT NULL CHECK (max_concurrent_activities > 0),
    create_if_missing boolean NOT NULL,
    allow_reacquire_after_failure boolean NOT NULL,
    status text NOT NULL CHECK (status IN ('active', 'closed', 'expired', 'failed', 'orphaned')),
    lease_owner text COLLATE "C" NOT NULL,
    lease_expires_at timestamptz NOT NULL,
    ttl_expires_at timestamptz NOT NULL,
    failure_reason text,
    last_heartbeat_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    closed_at timestamptz,
    PRIMARY KEY (namespace, session_id),
    CHECK ((closed_at IS NOT NULL) = (status = 'closed')),
    CHECK (status <> 'active' OR failure_reason IS NULL)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02);
-- No changing column but status is indexed: renewals stay on the page.
CREATE INDEX worker_sessions_open ON worker_sessions (namespace, lease_owner) WHERE closed_at IS NULL;
CREATE INDEX worker_sessions_ended ON worker_sessions (closed_at) WHERE closed_at IS NOT NULL;

-- The options are kept with the task: a claim reads them.
ALTER TABLE workflow_tasks ADD COLUMN session_id text COLLATE "C", ADD COLUMN worker_session json;
CREATE INDEX workflow_tasks_sessions ON workflow_tasks (namespace, queue, kind)
    WHERE state = 0 AND session_id IS NOT NULL;
CREATE INDEX workflow_tasks_of_session ON workflow_tasks (namespace, session_id, state) WHERE session_id IS NOT NULL;

-- Whether one of these workers ([{lease_owner, capabilities, sessions_left}]) may run an activity of a session now.
-- The decision is made again for the worker that is given the task, on the locked session.
CREATE FUNCTION dw_session_admits(
    workers json, of_namespace text, of_queue text, of_session text, options json, at timestamptz
) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT 1
        FROM json_to_recordset(workers) AS w(lease_owner text, capabilities jsonb, sessions_left bigint)
        LEFT JOIN worker_sessions s ON s.namespace = of_namespace AND s.session_id = of_session
        WHERE (options -> 'requirements')::jsonb <@ w.capabilities
          AND COALESCE(options ->> 'queue', of_queue) = of_queue
          AND CASE
              WHEN s.session_id IS NULL THEN (options ->> 'create_if_missing')::boolean AND w.sessions_left > 0
              WHEN s.closed_at IS NOT NULL OR s.ttl_expires_at <= at OR COALESCE(s.queue, of_queue) <> of_queue
                  THEN false
              WHEN (
                  SELECT count(*)
                  FROM workflow_tasks l
                  WHERE l.namespace = of_namespace AND l.session_id = of_session AND l.state = 1
                    AND l.lease_owner = w.lease_owner
              ) >= s.max_concurrent_activities THEN false
              WHEN s.status = 'active' AND s.lease_expires_at > at THEN s.lease_owner = w.lease_owner
              ELSE s.allow_reacquire_after_failure AND w.sessions_left > 0
          END
    )
$$;
