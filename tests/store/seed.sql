-- A large database made by Postgres itself: 50,000 open tasks, 240,000 events, 40,000 runs in ten namespaces.

SET synchronous_commit = off;

CREATE FUNCTION pg_temp.run_id(n bigint) RETURNS text LANGUAGE sql IMMUTABLE RETURN lpad(n::text, 26, '0');

INSERT INTO workflow_namespaces (name, retention_days, created_at, updated_at)
SELECT 'seed-' || n, 30, now(), now() FROM generate_series(0, 9) n;

INSERT INTO workflow_instances
SELECT 'seed-' || n % 10, 'w-' || n, pg_temp.run_id(n), 1 FROM generate_series(1, 40000) n;

INSERT INTO workflow_runs (
    run_id, namespace, workflow_id, run_number, workflow_type, queue, compatibility, priority, fairness_key,
    fairness_weight, status, closed_reason, started_at, closed_at, execution_deadline_at, run_deadline_at,
    last_progress_at, last_history_sequence, history_bytes, next_workflow_sequence, next_task_number,
    next_command_sequence, last_wake_sequence, consumed_wake_sequence, open_activity_count, open_timer_count,
    pending_signal_count, open_wait, task_failure_count, replay_blocked, cleanup_deadline_at
)
SELECT pg_temp.run_id(n), 'seed-' || n % 10, 'w-' || n, 1, 'type-' || n % 7, 'queue-' || n % 5, NULL, 5, NULL, 1,
       CASE WHEN n % 4 = 0 THEN 'waiting' ELSE 'completed' END,
       CASE WHEN n % 4 = 0 THEN NULL ELSE 'completed' END,
       now() - n * interval '1 second', CASE WHEN n % 4 = 0 THEN NULL ELSE now() END,
       NULL, CASE WHEN n % 2 = 0 THEN now() + n * interval '1 second' END,
       now(), 6, 1000, 2, 3, 1, 1, 1, CASE WHEN n % 4 = 0 THEN 1 ELSE 0 END, 0, 0, NULL, 0, n % 40 = 0,
       CASE WHEN n % 20 = 0 THEN now() + n * interval '1 second' END
FROM generate_series(1, 40000) n;

INSERT INTO workflow_run_summaries
SELECT r.run_id, r.namespace, r.workflow_id, r.workflow_type, r.queue, NULL, NULL,
       CASE WHEN r.closed_at IS NULL THEN 'running' ELSE 'completed' END, r.started_at, r.closed_at, '{}', '{}',
       NULL, 600, 'arguments', NULL
FROM workflow_runs r;

INSERT INTO workflow_search_attributes
SELECT s.run_id, 'Customer', 0, s.namespace, 'c' || s.workflow_id, length(s.workflow_id), s.started_at
FROM workflow_run_summaries s;

INSERT INTO workflow_history_events
SELECT pg_temp.run_id(n), s, 'ActivityScheduled',
       '{"recorded_at":"2026-01-01T00:00:00.000000Z","payload":{}}'
FROM generate_series(1, 40000) n, generate_series(1, 6) s;

INSERT INTO workflow_tasks
SELECT pg_temp.run_id(n % 40000 + 1), 10 + n, 1, 'seed-' || n % 10, 'queue-' || n % 5, 'type-' || n % 7, NULL, 5,
       NULL, 1, state, now() - interval '1 minute', now() - interval '1 minute', state, 0,
       CASE WHEN state = 1 THEN 'worker-' || n % 50 END, CASE WHEN state = 1 THEN now() END,
       CASE WHEN state = 1 THEN now() + interval '5 minutes' END,
       CASE WHEN state = 1 THEN 'poll-' || n END, 0, NULL, n % 9 + 1, NULL, NULL, NULL, NULL, NULL, NULL,
       CASE WHEN state = 1 THEN now() + interval '5 minutes' END
FROM generate_series(1, 40000) n, LATERAL (SELECT (n % 2)::smallint AS state) s;

INSERT INTO workflow_tasks
SELECT pg_temp.run_id(n * 4), 1, 0, 'seed-' || n * 4 % 10, 'queue-' || n * 4 % 5, 'type-' || n * 4 % 7, NULL, 5,
       NULL, 1, 0, now(), now(), 0, 0, NULL, NULL, NULL, NULL, 0, '{}', 0, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL
FROM generate_series(1, 10000) n;

INSERT INTO workflow_task_receipts
SELECT pg_temp.run_id(n), 2, 1, 'worker-1', 'completed', NULL, now() FROM generate_series(1, 40000) n;

INSERT INTO activity_executions
SELECT pg_temp.run_id(n), s, 'type', 'queue', 'completed', 'arguments', false, '{}', '{}', NULL, NULL, NULL, 1,
       now(), now()
FROM generate_series(1, 40000) n, generate_series(1, 2) s;

INSERT INTO activity_attempts
SELECT a.run_id, a.sequence, 1, 1, 'completed', 'worker-1', NULL, now(), now() FROM activity_executions a;

INSERT INTO workflow_child_calls
SELECT pg_temp.run_id(n), 4, 'child-' || n, pg_temp.run_id(n + 1), pg_temp.run_id(n + 1), 'type',
       CASE WHEN n % 4 = 0 THEN 'started' ELSE 'completed' END, 'abandon', NULL, NULL, NULL, NULL, NULL, NULL, now(),
       CASE WHEN n % 4 = 0 THEN NULL ELSE now() END
FROM generate_series(1, 40000) n;

INSERT INTO workflow_deliveries (run_id, kind, sequence, body, created_at)
SELECT pg_temp.run_id(n), 'child_closed', 4, '{}', now() FROM generate_series(1, 20000) n;

INSERT INTO workflow_timers
SELECT pg_temp.run_id(n), 3, 'timer', CASE WHEN n % 4 = 0 THEN 'pending' ELSE 'fired' END, n, now(),
       now() + n * interval '1 second', now() + n * interval '1 second',
       CASE WHEN n % 4 = 0 THEN NULL ELSE now() END, NULL, NULL, NULL
FROM generate_series(1, 40000) n;

INSERT INTO workflow_updates (update_id, command_id, run_id, update_name, status, command_sequence, arguments,
                              accepted_at, closed_at)
SELECT pg_temp.run_id(n), pg_temp.run_id(n), pg_temp.run_id(n), 'set',
       CASE WHEN n % 50 = 0 THEN 'accepted' ELSE 'completed' END, 2, 'arguments', now(),
       CASE WHEN n % 50 = 0 THEN NULL ELSE now() END
FROM generate_series(1, 40000) n;

INSERT INTO workflow_parallel_groups
SELECT pg_temp.run_id(n), 1, 2, 1, '[]' FROM generate_series(1, 40000) n;

INSERT INTO workflow_version_markers
SELECT pg_temp.run_id(n), 'change', 1 FROM generate_series(1, 40000) n;

INSERT INTO workflow_inbox (run_id, event_type, payload)
SELECT pg_temp.run_id(n), 'SignalReceived', '{}' FROM generate_series(1, 40000) n;

INSERT INTO workflow_commands (command_id, namespace, workflow_id, run_id, command_sequence, command_type,
                               target_scope, status, source)
SELECT pg_temp.run_id(n), 'seed-' || n % 10, 'w-' || n, pg_temp.run_id(n), 1, 'start', 'instance', 'accepted',
       'control_plane'
FROM generate_series(1, 40000) n;

INSERT INTO audit_entries (entry_id, recorded_at, namespace, subject, role, command, target, outcome)
SELECT pg_temp.run_id(n), '2026-01-01Z', 'seed-' || n % 10, 'operator', 'operator', 'workflow_start', 'w-' || n, 'accepted'
FROM generate_series(1, 40000) n;

INSERT INTO workflow_query_tasks
SELECT pg_temp.run_id(n), 'seed-' || n % 10, 'queue-' || n % 5, 'w-' || n, pg_temp.run_id(n), 'type-' || n % 7, NULL,
       'status', 'arguments', 'caller', state, state, CASE WHEN state = 1 THEN 'worker-' || n % 50 END,
       CASE WHEN state = 1 THEN now() + interval '1 minute' END, CASE WHEN state = 1 THEN 'poll-' || n END,
       now(), now() + interval '30 seconds', now() + n * interval '1 second', CASE WHEN state = 2 THEN 'answer' END, NULL
FROM generate_series(1, 40000) n,
     LATERAL (SELECT (CASE WHEN n % 400 = 0 THEN 1 WHEN n % 4 = 1 THEN 0 ELSE 2 END)::smallint AS state) s;

INSERT INTO workflow_message_streams (namespace, workflow_id, stream_name, last_position, cursor_position)
SELECT 'seed-' || n % 10, 'w-' || n, 'in', 2, 1 FROM generate_series(1, 40000) n;

INSERT INTO workflow_stream_messages
SELECT 'seed-' || n % 10, 'w-' || n, 'in', position, 'm' || position, 'fingerprint', 'arguments', pg_temp.run_id(n),
       pg_temp.run_id(n), position, now()
FROM generate_series(1, 40000) n, generate_series(1, 2) position;

INSERT INTO workflow_output_streams (run_id, stream_name, status, total_items, pending_items, opened_at, closed_at,
                                     expires_at)
SELECT pg_temp.run_id(n), 'out', CASE WHEN n % 2 = 0 THEN 'open' ELSE 'closed' END, 2, 2, now(),
       CASE WHEN n % 2 = 0 THEN NULL ELSE now() END,
       CASE WHEN n % 2 = 0 THEN NULL ELSE now() + n * interval '1 second' END
FROM generate_series(1, 40000) n;

INSERT INTO workflow_output_items (run_id, stream_name, item_offset, idempotency_key, origin, payload, emitted_at)
SELECT pg_temp.run_id(n), 'out', item, 'key-' || item, 'workflow', 'payload', now()
FROM generate_series(1, 40000) n, generate_series(0, 1) item;

INSERT INTO worker_registrations
SELECT 'seed-' || n % 10, 'worker-' || n, 'queue-' || n % 5, 'build-' || n % 3, 'python', '1', '{}', '{}', '{}',
       '{}', '{}', '{}', 1, 1, 1, NULL, NULL, 10, now(), now()
FROM generate_series(1, 500) n;

INSERT INTO workflow_service_calls (
    service_call_id, namespace, endpoint_name, service_name, operation_name, operation_mode, wait_for, binding_kind,
    policies, options, request_payload, status, outcome, attempts, attempt_count, caller_namespace, idempotency_key,
    linked_run_id, due_at, accepted_at, closed_at
)
SELECT pg_temp.run_id(n), 'seed-' || n % 10, 'e', 's-' || n % 40, 'o', 'sync', 'completed', 'start_workflow', '{}', '{}', '',
       CASE WHEN is_open THEN 'started' ELSE 'completed' END, 'completed', '[]', 1, 'seed-1', 'key-' || n,
       CASE WHEN is_open THEN pg_temp.run_id(n) END, CASE WHEN is_open THEN now() + n * interval '1 second' END, now(),
       CASE WHEN is_open THEN NULL ELSE now() END
FROM generate_series(1, 40000) n, LATERAL (SELECT n % 4 = 1 AS is_open) s;

INSERT INTO workflow_service_waiters
SELECT pg_temp.run_id(n), pg_temp.run_id(n), 1 FROM generate_series(1, 40000) n WHERE n % 4 = 1;

INSERT INTO workflow_search_attribute_types
SELECT 'seed-' || n % 10, 'Attribute' || n, 'keyword' FROM generate_series(1, 500) n;

INSERT INTO build_id_rollouts VALUES ('seed-1', 'queue-1', 'build-1', 'draining', now());

INSERT INTO worker_sessions
SELECT 'seed-' || n % 10, 'session-' || n, NULL, NULL, '[]', 60, 600, 1, true, true,
       CASE WHEN n % 50 = 0 THEN 'active' ELSE 'closed' END, 'worker-' || n % 500, now() + interval '1 minute',
       now() + interval '10 minutes', NULL, now(), now(), now(), CASE WHEN n % 50 <> 0 THEN now() END
FROM generate_series(1, 40000) n;

INSERT INTO external_payload_objects
SELECT 'file:///payloads/' || n, NULL, CASE WHEN n % 100 = 0 THEN now() END, n % 200 = 0 FROM generate_series(1, 40000) n;
INSERT INTO external_payloads
SELECT pg_temp.run_id(n), 'seed-' || n % 10, 'avro', 9, 'a', 'file:///payloads/' || n, now(),
       CASE WHEN n % 20 = 0 THEN now() - interval '1 day' END
FROM generate_series(1, 40000) n;
INSERT INTO external_payload_uses
SELECT pg_temp.run_id(n), pg_temp.run_id(n - n % 2 + 1), 'seed-' || n % 10 FROM generate_series(1, 40000) n;

UPDATE workflow_tasks SET session_id = 'session-' || task_number, worker_session = '{"requirements": []}'
WHERE kind = 1 AND task_number % 20 = 0;

INSERT INTO workflow_schedules (
    namespace, schedule_id, schedule_ulid, status, spec, action, workflow_type, task_queue, overlap_policy,
    jitter_seconds, memo, search_attributes, fires_count, failures_count, skipped_trigger_count,
    latest_workflow_instance_id, latest_trigger_number, next_occurrence_at, next_fire_at, paused_at, deleted_at,
    recent_actions, buffered_actions, last_event_sequence, last_trigger_number, created_at, updated_at
)
SELECT 'seed-' || n % 10, 's-' || n, pg_temp.run_id(n), status, '{}', '{}', 'type-' || n % 7, 'queue-' || n % 5, 'skip', 0,
       '{}', '{}', 0, 0, 0, 'w-' || n, 1, CASE WHEN status = 'active' THEN now() + n * interval '1 second' END,
       CASE WHEN status = 'active' THEN now() + n * interval '1 second' END,
       CASE WHEN status = 'paused' THEN now() END, CASE WHEN status = 'deleted' THEN now() END, '[]',
       CASE WHEN n % 400 = 0 THEN '[{}]' ELSE '[]' END::json, 1, 1, now() - n * interval '1 second', now()
FROM generate_series(1, 40000) n,
     LATERAL (SELECT CASE WHEN n % 8 = 1 THEN 'paused' WHEN n % 8 = 3 THEN 'deleted' ELSE 'active' END AS status) s;

INSERT INTO workflow_schedule_events
SELECT 'seed-' || n % 10, 's-' || n, sequence, 'e', 'ScheduleTriggered', '{}', NULL, NULL, now()
FROM generate_series(1, 40000) n, generate_series(1, 2) sequence;

INSERT INTO workflow_schedule_fires (
    namespace, schedule_id, schedule_ulid, trigger_number, occurrence_at, kind, timezone, overlap_policy,
    effective_overlap_policy, workflow_id, run_id, action, memo, search_attributes, due_at, created_at
)
SELECT 'seed-' || n % 10, 's-' || n, pg_temp.run_id(n), 2, now(), 'scheduled', 'UTC', 'skip', 'skip', 'w', 'r', '{}',
       '{}', '{}', now() + n * interval '1 second', now()
FROM generate_series(1, 40000) n;

ANALYZE;
