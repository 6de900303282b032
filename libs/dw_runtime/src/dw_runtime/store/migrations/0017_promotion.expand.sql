-- The build that new runs of a queue are pinned to, when an operator has promoted one.
ALTER TABLE build_id_rollouts
    ADD COLUMN promoted_at timestamptz,
    ADD COLUMN rolled_back_at timestamptz,
    ADD COLUMN is_selected boolean NOT NULL DEFAULT false;
CREATE UNIQUE INDEX build_id_rollouts_selected ON build_id_rollouts (namespace, task_queue) WHERE is_selected;

-- The first queue name of a namespace behind another that has workers, open tasks or an intent about a build.
CREATE FUNCTION dw_next_queue(of_namespace text, behind text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT LEAST(
        (
            SELECT t.queue FROM workflow_tasks t
            WHERE t.namespace = of_namespace AND t.state = 0 AND t.queue > behind ORDER BY t.queue LIMIT 1
        ),
        (
            SELECT t.queue FROM workflow_tasks t
            WHERE t.namespace = of_namespace AND t.state = 1 AND t.kind = 0 AND t.queue > behind ORDER BY t.queue LIMIT 1
        ),
        (
            SELECT t.queue FROM workflow_tasks t
            WHERE t.namespace = of_namespace AND t.state = 1 AND t.kind = 1 AND t.queue > behind ORDER BY t.queue LIMIT 1
        ),
        (
            SELECT w.task_queue FROM worker_registrations w
            WHERE w.namespace = of_namespace AND w.task_queue > behind ORDER BY w.task_queue LIMIT 1
        ),
        (
            SELECT r.task_queue FROM build_id_rollouts r
            WHERE r.namespace = of_namespace AND r.task_queue > behind ORDER BY r.task_queue LIMIT 1
        )
    )
$$;
