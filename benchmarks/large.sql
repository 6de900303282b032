-- A large installation: :runs runs numbered from :first on, the newest one minute old, one every five seconds. One in
-- a hundred is open, one in thirty-three of the first ones belongs to the workflow id busy (at most 30,000), types are
-- skewed over 200 names, and three in ten have search attributes.
SET synchronous_commit = off;

INSERT INTO workflow_search_attribute_types (namespace, name, type, registered_at)
VALUES ('default', 'CustomerId', 'keyword', now()), ('default', 'Region', 'keyword', now()),
       ('default', 'Amount', 'float', now()), ('default', 'IsVip', 'bool', now())
ON CONFLICT DO NOTHING;

CREATE TEMP TABLE plan AS
SELECT n, lpad(n::text, 26, '0') AS run_id,
       CASE WHEN first = 0 AND n % 33 = 0 AND n / 33 <= 30000 THEN 'busy' ELSE 'order-' || n END AS workflow_id,
       CASE WHEN first = 0 AND n % 33 = 0 AND n / 33 <= 30000 THEN n / 33 ELSE 1 END AS run_number,
       'type-' || floor(200 * power(random(), 3)) AS workflow_type, 'queue-' || n % 10 AS queue,
       CASE WHEN n % 100 = 50 THEN 'waiting' WHEN n % 25 = 0 THEN 'failed' WHEN n % 101 = 0 THEN 'cancelled'
            ELSE 'completed' END AS status,
       now() - interval '1 minute' - (first + runs - n) * interval '5 seconds' AS started_at, random() AS chance
FROM (SELECT :first AS first, :runs AS runs) r, generate_series(first + 1, first + runs) n;

INSERT INTO workflow_runs (
    run_id, namespace, workflow_id, run_number, workflow_type, queue, priority, fairness_weight, status, closed_reason,
    started_at, closed_at, last_progress_at, last_history_sequence, history_bytes, next_workflow_sequence,
    next_task_number, next_command_sequence, last_wake_sequence, consumed_wake_sequence, open_activity_count,
    open_timer_count, pending_signal_count, task_failure_count, replay_blocked
)
SELECT run_id, 'default', workflow_id, run_number, workflow_type, queue, 5, 1, status,
       CASE WHEN status <> 'waiting' THEN status END, started_at,
       CASE WHEN status <> 'waiting' THEN started_at + interval '10 seconds' END, started_at, 8, 2400, 2, 4, 2, 1, 1, 0,
       0, 0, 0, false
FROM plan ORDER BY n;

INSERT INTO workflow_instances
SELECT 'default', workflow_id, max(run_id), count(*) FROM plan GROUP BY workflow_id ORDER BY max(n);

INSERT INTO workflow_run_summaries (
    run_id, namespace, workflow_id, workflow_type, queue, status_bucket, started_at, closed_at, memo, search_attributes,
    arguments, output
)
SELECT run_id, 'default', workflow_id, workflow_type, queue,
       CASE status WHEN 'waiting' THEN 'running' WHEN 'completed' THEN 'completed' ELSE 'failed' END, started_at,
       CASE WHEN status <> 'waiting' THEN started_at + interval '10 seconds' END, '{"source": "seed"}',
       CASE WHEN n % 10 < 3 THEN jsonb_build_object(
           'CustomerId', 'c' || n % 20011, 'Region', CASE WHEN chance < 0.5 THEN 'eu' ELSE 'us' END,
           'Amount', round(chance::numeric * 10000, 2), 'IsVip', n % 1000 = 1
       ) ELSE '{}' END,
       ':blob', ':blob'
FROM plan ORDER BY n;

INSERT INTO workflow_search_attributes (run_id, name, ordinal, namespace, text_value, number_value, started_at)
SELECT p.run_id, v.name, 0, 'default', v.text_value, v.number_value, p.started_at
FROM plan p, LATERAL (VALUES
    ('CustomerId', 'c' || n % 20011, NULL::numeric), ('Region', CASE WHEN chance < 0.5 THEN 'eu' ELSE 'us' END, NULL),
    ('Amount', NULL, round(chance::numeric * 10000, 2)), ('IsVip', (n % 1000 = 1)::text, NULL)
) v(name, text_value, number_value)
WHERE n % 10 < 3
ORDER BY n;

INSERT INTO workflow_history_events
SELECT run_id, s, 'ActivityScheduled', '{"sequence":' || s || ',"event_type":"ActivityScheduled","payload":{"text":"' || repeat('x', 250) || '"}}'
FROM plan, generate_series(1, 8) s
ORDER BY n;

INSERT INTO workflow_task_receipts
SELECT run_id, s, 1, 'worker-1', 'completed', NULL, started_at FROM plan, generate_series(1, 2) s ORDER BY n;

INSERT INTO activity_executions
SELECT run_id, 1, 'step', queue, 'completed', ':blob', false, '{}', '{}', NULL, NULL, NULL, 1, started_at, started_at
FROM plan ORDER BY n;

INSERT INTO activity_attempts
SELECT run_id, 1, 1, 2, 'completed', 'worker-1', NULL, started_at, started_at FROM plan ORDER BY n;

INSERT INTO workflow_commands (
    command_id, namespace, workflow_id, run_id, command_sequence, command_type, target_scope, status, source
)
SELECT run_id, 'default', workflow_id, run_id, 1, 'start', 'instance', 'accepted', 'control_plane' FROM plan ORDER BY n;

DROP TABLE plan;
