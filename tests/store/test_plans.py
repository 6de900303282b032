"""Every statement of the store is explained on a large database; none scans a growing table."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from dw_runtime.store.database import SESSION_OPTIONS
from dw_runtime.store.migrate import expand
from dw_runtime.store.statements import statements
from dw_runtime.store.surface import inspected_relations
from tests.harness.databases import temporary_database

SEED = Path(__file__).with_name("seed.sql")

GROWING = frozenset(
    (
        "workflow_instances",
        "workflow_runs",
        "workflow_run_summaries",
        "workflow_history_events",
        "workflow_tasks",
        "workflow_task_receipts",
        "activity_executions",
        "activity_attempts",
        "workflow_parallel_groups",
        "workflow_version_markers",
        "workflow_inbox",
        "audit_entries",
        "workflow_commands",
        "workflow_query_tasks",
        "workflow_timers",
        "workflow_updates",
        "workflow_child_calls",
        "workflow_deliveries",
        "workflow_service_calls",
        "workflow_service_waiters",
        "workflow_message_streams",
        "workflow_stream_messages",
        "workflow_output_streams",
        "workflow_output_items",
        "worker_sessions",
        "external_payloads",
        "external_payload_objects",
        "external_payload_uses",
        "workflow_schedules",
        "workflow_schedule_events",
        "workflow_schedule_fires",
        "workflow_search_attributes",
    )
)
BOUNDED = frozenset(
    (
        "workflow_namespaces",
        "worker_registrations",
        "build_id_rollouts",
        "service_leases",
        "schema_migrations",
        "workflow_search_attribute_types",
        "task_queue_shares",
        "task_dispatch_counters",
        "workflow_service_endpoints",
        "workflow_services",
        "workflow_service_operations",
        "server_secrets",
    )
)
"""Tables whose size does not follow the number of workflows."""
BOUNDED_WALKS = {
    "prune_audit": {"audit_entries_pkey"},
    "read_schedule_counts": {"workflow_schedules_due", "workflow_schedules_paused"},
    "next_schedule": {"workflow_schedules_due"},
    "read_task_pressure": {"workflow_tasks_ready", "workflow_tasks_sweep", "workflow_tasks_owner"},
    "sample_queues": {"workflow_tasks_ready", "workflow_tasks_leased"},
    "sample_delays": {
        *("workflow_tasks_sweep", "workflow_runs_blocked"),
        *("workflow_timers_due", "workflow_schedules_due", "workflow_schedule_fires_due"),
    },
}
"""Statements that read an index from its start and stop at a limit."""
SMALL_INDEXES = {"workflow_query_tasks_owner", "workflow_schedules_buffered", "worker_sessions_open"}
"""Indexes of what is held only; reading one whole costs next to nothing."""
LEASED = {"workflow_tasks_owner", "workflow_tasks_leased"}
"""What is leased is little when a database is new."""
RARE = {
    "claim_queries",
    "end_service_calls",
    "export_run",
    "forget_stale_workers",
    "link_service_calls",
    "move_service_calls",
    "pick_shared_tasks",
    "prune_schedule_events",
    "read_members",
    "read_redriven",
    "read_schedule_states",
    "renew_sessions",
    "retry_service_call",
    "take_answers",
}
"""Statements of rare transactions, or over what is held: an early plan may walk an index until the first ANALYZE."""
RUN_ID = "1".zfill(26)
NEW_ID = "Z" * 26
KEYS = json.dumps([RUN_ID])
QUEUE = {"namespace": "seed-1", "kind": 1, "queue": "queue-1"}
RUN = {
    "run_id": RUN_ID,
    "namespace": "seed-1",
    "workflow_id": "w-1",
    "run_number": 1,
    "workflow_type": "type-1",
    "queue": "queue-1",
    "priority": 5,
    "fairness_weight": 1,
    "status": "waiting",
    "started_at": "2026-01-01T00:00:00Z",
    "last_progress_at": "2026-01-01T00:00:00Z",
    "last_history_sequence": 9,
    "history_bytes": 9,
    "next_workflow_sequence": 9,
    "next_task_number": 9,
    "next_command_sequence": 9,
    "last_wake_sequence": 9,
    "consumed_wake_sequence": 9,
    "open_activity_count": 0,
    "open_timer_count": 0,
    "open_child_count": 0,
    "pending_signal_count": 0,
    "open_wait": {"sequence": 9},
    "selected_waits": [],
    "task_failure_count": 0,
    "replay_blocked": False,
}
OWNER = {"lease_owner": "worker-1", "polls": 10, "leases_max": 100, "capabilities": [], "sessions_max": 9}
TASK = QUEUE | {
    "run_id": RUN_ID,
    "task_number": 3,
    "position": 0,
    "slots": 10,
    "owners": [OWNER],
    "types": None,
    "page_size": 100,
}
CAPS = {
    "queue_leases_max": 10,
    "namespace_leases_max": 99,
    "queue_dispatches_max": 99,
    "budget_group": "g",
}
POINT = {"run_id": RUN_ID, "task_number": 2, "sequence": 1, "attempt": 1}
TIMER = {"run_id": RUN_ID, "sequence": 99, "kind": "timer", "status": "pending", "delay_seconds": 1}
UPDATE = {"update_id": RUN_ID, "command_id": RUN_ID, "run_id": RUN_ID, "update_name": "set", "status": "accepted"}
CHILD = {"run_id": RUN_ID, "sequence": 99, "child_run_id": NEW_ID, "current_run_id": NEW_ID, "status": "started"}
DELIVERY = {"run_id": RUN_ID, "kind": "child_closed", "sequence": 1, "body": {}, "created_at": "2026-01-01T00:00:00Z"}
OPERATION = {"namespace": "seed-1", "endpoint_name": "e", "service_name": "s-1", "operation_name": "o"}
NAMES = tuple(OPERATION.values())
CALL = {"service_call_id": RUN_ID, "caller_namespace": "seed-1", "idempotency_key": "key-1"}
STREAM = {"namespace": "seed-1", "workflow_id": "w-1", "stream_name": "in"}
OUTPUT = {"run_id": RUN_ID, "stream_name": "out"}
SESSION = {
    "namespace": "seed-1",
    "session_id": "session-1",
    "requirements": [],
    "lease_seconds": 60,
    "ttl_seconds": 60,
    "max_concurrent_activities": 1,
    "create_if_missing": True,
    "allow_reacquire_after_failure": True,
    "status": "active",
    "lease_owner": "worker-1",
    **dict.fromkeys(
        ("lease_expires_at", "ttl_expires_at", "last_heartbeat_at", "created_at", "updated_at"), "2026-01-01T00:00:00Z"
    ),
}
KEYS_OF_RUNS = json.dumps([{"run_id": RUN_ID}])
VALUE = {"run_id": RUN_ID, "name": "New", "ordinal": 0, "text_value": "x"}
GROUP = {"run_id": RUN_ID, "base_sequence": 1, "change_id": "change"}


SCHEDULE = {"namespace": "seed-1", "schedule_id": "s-1"}
SCHEDULES = json.dumps([SCHEDULE])
QUERY = {"query_task_id": NEW_ID, "kind": 2, "namespace": "seed-1", "queue": "queue-1", "run_id": RUN_ID}
CLAIMANT = {"lease_owner": "worker-1", "poll_request_id": "poll-1", "lease_seconds": 60}


def rows(*values: dict[str, Any]) -> str:
    return json.dumps(values)


SAMPLES: dict[str, tuple[Any, ...]] = {
    "advance": (
        rows({"run_id": RUN_ID, "sequence": 99, "event_type": "X", "body": "{}"}),
        *(rows(value) for value in (RUN, POINT, TASK, TASK, POINT, POINT, POINT, POINT)),
        rows({"command_id": NEW_ID}),
    ),
    "start_runs": (rows(RUN | {"run_id": NEW_ID, "arguments": "", "memo": {}}),),
    "open_timers": (rows(TIMER),),
    "end_timers": (rows(TIMER),),
    "sample_queues": (101, 1000, 5),
    "sample_delays": (1000,),
    "find_due_timers": ("timers", "me", 5, 2, 500),
    "open_updates": (rows(UPDATE | {"update_id": NEW_ID, "command_id": NEW_ID}),),
    "settle_updates": (rows(UPDATE),),
    "read_updates": (KEYS,),
    "open_child_calls": (rows(CHILD),),
    "move_child_calls": (rows(CHILD),),
    "leave_deliveries": (rows(DELIVERY),),
    "take_deliveries": (rows(DELIVERY | {"ordinal": 1}),),
    "read_services": (rows(OPERATION), rows(OPERATION | CALL), rows(CALL)),
    "open_service_calls": (rows(OPERATION | CALL),),
    "find_operation": NAMES,
    "admit_service_call": (rows(OPERATION | CALL),),
    "add_service_waiters": (rows(CALL | {"run_id": RUN_ID, "sequence": 1}),),
    "link_service_calls": (rows(CALL | {"linked_workflow_id": "w-1", "linked_run_id": RUN_ID}),),
    "move_service_calls": (rows({"from_run_id": RUN_ID, "to_run_id": NEW_ID}),),
    "end_service_calls": (rows(CALL | {"linked_run_id": RUN_ID, "status": "failed", "outcome": "timed_out"}),),
    "lease_service_calls": ("me", 64, 15, 30),
    "retry_service_call": (RUN_ID, "me", 1, 1, "[]"),
    "forget_service_calls": (500,),
    "describe_service_call": (RUN_ID,),
    "find_service_call": (*NAMES, "seed-1", "key-1"),
    "closed_service_calls": (KEYS,),
    "list_service_endpoints": NAMES[:1],
    "describe_service_endpoint": NAMES[:2],
    "create_service_endpoint": (json.dumps(OPERATION),),
    "update_service_endpoint": (*NAMES[:2], "{}"),
    "delete_service_endpoint": NAMES[:2],
    "list_services": NAMES[:2],
    "describe_service": NAMES[:3],
    "create_service": (json.dumps(OPERATION),),
    "update_service": (*NAMES[:3], "{}"),
    "delete_service": NAMES[:3],
    "list_service_operations": NAMES[:3],
    "describe_service_operation": NAMES,
    "create_service_operation": (json.dumps(OPERATION),),
    "update_service_operation": (json.dumps(OPERATION),),
    "delete_service_operation": NAMES,
    "open_groups": (rows(GROUP),),
    "count_groups": (rows(GROUP),),
    "record_markers": (rows(GROUP),),
    "acknowledge_attempts": (rows(POINT | {"cancellation": {}}),),
    "find_blocked": ("seed-1", "queue-1", "build-1", 200),
    "read_metadata": (rows({"run_id": RUN_ID}), json.dumps(["seed-1"])),
    "write_metadata": (rows({"run_id": RUN_ID, "memo": {}, "search_attributes": {}}),),
    "fix_attribute_types": (rows({"namespace": "seed-1", "name": "New", "type": "int"}),),
    "read_streams": (
        rows({"run_id": RUN_ID, "unconsumed": True}, STREAM | {"unconsumed": False, "message_id": "m1"}),
        60,
    ),
    "write_streams": (rows(STREAM | {"last_position": 1, "cursor_position": 0, "duplicate_count": 0}),),
    "record_messages": (rows(STREAM | {"position": 9, "message_id": "new", "arguments": ""}),),
    "describe_streams": ("seed-1", "w-1", "in"),
    "read_outputs": (KEYS, rows(OUTPUT | {"idempotency_key": "k"})),
    "write_outputs": (rows(OUTPUT | {"status": "open", "total_items": 1, "pending_items": 1}),),
    "append_outputs": (rows(OUTPUT | {"item_offset": 99, "origin": "workflow"}),),
    "describe_outputs": ("seed-1", "w-1", RUN_ID, "out"),
    "read_output_items": (RUN_ID, "out", 0, 100),
    "find_output_news": (rows(OUTPUT | {"key": "k", "from": 0}),),
    "drop_expired_outputs": (50,),
    "empty_inboxes": (KEYS,),
    "fill_inboxes": (rows({"run_id": RUN_ID, "event_type": "X", "payload": "{}"}),),
    "lock_instances": (rows(RUN),),
    "lock_runs": (rows({"run_id": RUN_ID}, {"namespace": "seed-1", "workflow_id": "w-1"}),),
    "read_related": (
        rows(
            {"run_id": RUN_ID, "inbox": True, "closing": True, "deliveries": True, "details": True, "contract": True},
            {"namespace": "seed-1", "workflow_id": "w-1"},
        ),
        rows(POINT),
        rows(GROUP),
        rows(GROUP),
        rows({"lease_owner": "worker-1", "poll_request_id": "poll-1"}),
        rows({"namespace": "seed-1", "workflow_id": "w-1", "request_id": "r-1"}),
        rows(POINT),
        rows({"run_id": RUN_ID, "update_id": RUN_ID}),
        rows({"namespace": "seed-1", "queue": "queue-1", "workflow_type": "type-1", "build_id": None}),
        "60",
    ),
    "read_pages": (rows({"run_id": RUN_ID, "up_to": 6, "page_size": 100}),),
    "read_settled": (rows(POINT),),
    "read_redriven": (rows({"run_id": NEW_ID, "source": RUN_ID, "first": 1, "last": 3}),),
    "read_members": (rows(GROUP), rows({"run_id": RUN_ID, "first": 1, "last": 3})),
    "read_attempt_sessions": (rows(POINT),),
    "renew_sessions": (rows(SESSION),),
    "save_sessions": (rows(SESSION),),
    "lock_session": ("seed-1", "session-1"),
    "find_session": ("seed-1", "session-1"),
    "read_holder": ("seed-1", "worker-1", 30, "session-1"),
    "lose_sessions": (30, 200),
    "forget_sessions": (2_592_000, 500),
    "pick_tasks": (rows(TASK),),
    "lock_queues": (json.dumps(["claims/seed-1/ACTIVITY"]),),
    "pick_shared_tasks": (rows(TASK | CAPS | {"is_sessioned": True}),),
    "charge_shares": (rows(TASK | {"share": "a", "priority": 5, "began_at": 1, "ends_at": 2}),),
    "count_dispatches": (rows(QUEUE | {"scope": "namespace", "dispatched": 1}),),
    "forget_counters": (),
    "find_polled": (rows(TASK | {"lease_owner": "worker-1", "poll_request_id": "poll-1"}),),
    "read_history_page": (RUN_ID, 0, 6, 100),
    "look_around": (rows(QUEUE), rows({"lease_owner": "worker-1", "poll_request_id": "poll-1"})),
    "read_task": (RUN_ID, 11),
    "read_query_target": ("seed-1", "w-1", None, 60),
    "admit_query": (json.dumps(QUERY), 30, 180, 1024),
    "take_answers": (KEYS,),
    "end_query": (RUN_ID,),
    "claim_queries": (rows(TASK | {"claimants": [CLAIMANT]}), 0.5),
    "renew_polled_queries": (rows(TASK | CLAIMANT),),
    "release_query": (RUN_ID, 1, "worker-1"),
    "lock_query": (RUN_ID, "seed-1", 2),
    "read_validators": ("seed-1", "queue-1", "type-1", 60),
    "settle_query": (RUN_ID, 2, "answer", None),
    "reoffer_queries_of": (rows({"namespace": "seed-1", "worker_id": "worker-1"}),),
    "sweep_queries": (200, 60),
    "drop_lease": ("sweeps", "me"),
    "find_due": ("sweeps", "me", 5, 25, False),
    "lock_worker": ("seed-1", "worker-1"),
    "save_worker": (json.dumps({"namespace": "seed-1", "worker_id": "worker-1"}),),
    "beat_worker": ("seed-1", "worker-1", None, None, None),
    "touch_workers": (rows({"namespace": "seed-1", "worker_id": "worker-1"}), 3),
    "forget_stale_workers": (604_800, 500),
    "forget_worker": ("seed-1", "worker-1"),
    "leased_runs": ("seed-1", "worker-1"),
    "try_migration_lock": (),
    "set_lock_timeout": ("5000",),
    "read_applied": (),
    "record_migration": ("0001_foundation", "expand", "checksum"),
    "find_missing_relations": (inspected_relations(),),
    "read_readiness": (inspected_relations(), "default", 60, None),
    "ensure_namespace": ("default", "text", 30),
    "namespace_exists": ("default",),
    "list_namespaces": (),
    "describe_namespace": ("default",),
    "describe_run": ("seed-1", "w-1", None, 60),
    "list_instance_runs": ("seed-1", "w-1", 60, 0, 201),
    "set_drain": ("seed-1", "queue-1", "", "draining"),
    "list_builds": ("seed-1", "queue-1", 60),
    "describe_activity": ("seed-1", "w-1", "type-1"),
    "list_activities": ("seed-1", "type-1", "running", "infinity", "", 51),
    "find_runs": (
        "seed-1",
        "recent",
        "{type-1}",
        "{1}",
        "infinity",
        "",
        "-infinity",
        "{}",
        500,
        51,
        "Customer",
        "1",
        "2",
    ),
    "show_runs": (KEYS, 60),
    "index_attributes": (KEYS_OF_RUNS, rows(VALUE)),
    "lock_namespace": ("seed-1",),
    "register_attribute": ("seed-1", "Customer", "keyword", 100),
    "forget_attribute": ("seed-1", "Customer"),
    "read_run_history": ("seed-1", "w-1", RUN_ID, 0, 100),
    "find_expired": ("seed-1", 100),
    "judge_runs": ("seed-1", KEYS),
    "prune_runs": (500, None, None, False, 200_000),
    "list_workers": ("seed-1", None, 60, None, 1000),
    "list_queues": ("seed-1", "", 1000),
    "measure_queues": ("seed-1", '["queue-1"]', 60, 3, 10_000),
    "measure_namespace": ("seed-1", 10_000),
    "list_leases": ("seed-1", "queue-1", 1000),
    "list_shares": ("seed-1", "queue-1", 1000, 10_000),
    "count_priorities": ("seed-1", "queue-1", 10_000),
    "count_sessions": ("seed-1",),
    "list_sessions": ("seed-1", 60, None, 1000),
    "demote_build": ("seed-1", "queue-1", "b"),
    "promote_build": ("seed-1", "queue-1", "b"),
    "read_routes": (json.dumps([{"namespace": "seed-1", "queue": "queue-1"}]), 60),
    "find_expired_activities": ("seed-1", 100, 10_000),
    "find_activities": ("seed-1", rows({"run_id": RUN_ID, "sequence": 1})),
    "begin_repair_pass": ("repair-pass:seed-1", "operator", 5.0, True),
    "find_repair_candidates": ("seed-1", 3.0, 25, 10_000, None, None, None),
    "diagnose_run": (RUN_ID, 25, 10, 200, 4096, 60),
    "diagnose_cancellation": (RUN_ID, 25),
    "observe_run": (RUN_ID, 25, 51, NEW_ID),
    "read_observed_history": (RUN_ID, 0, 100, 200),
    "list_nexus_operations": (RUN_ID, 50),
    "count_workers": ("seed-1", "queue-1", 60),
    "read_operator_counts": ("seed-1", 10_000, 8000, 4_194_304, 160),
    "list_attribute_types": ("seed-1",),
    "begin_audit": ("{}",),
    "record_audit": (
        json.dumps([{"entry_id": NEW_ID, "namespace": "seed-1", "command": "c", "target": "t", "outcome": "accepted"}]),
    ),
    "list_audit": (100, "", "~", None, None, None, None, None),
    "list_namespace_audit": (100, "", "~", None, None, None, None, None, "seed-1"),
    "list_target_audit": (100, "", "~", None, None, None, None, None, "seed-1", "w-1"),
    "prune_audit": (5000, 90),
    "create_namespace": ("new", None, 30),
    "update_namespace": ("seed-1", "{}"),
    "close_namespace": ("seed-1",),
    "purge_service_calls": ("seed-1", 500),
    "purge_namespace": ("seed-1",),
    "purge_schedule_events": ("seed-1", 5000),
    "is_namespace_doomed": ("seed-1",),
    "list_active_namespaces": ('["seed-1"]',),
    "list_doomed_namespaces": (60,),
    "reopen_deleted_namespace": ("seed-1",),
    "forget_namespace": ("seed-1",),
    "measure_run": ("seed-1", "w-1", RUN_ID),
    "export_run": (RUN_ID,),
    "run_exists": ("seed-1", "w-1", RUN_ID),
    "read_task_pressure": (3, 60, 10_000),
    "read_fleet": ("seed-1", 60, None, 100),
    "read_drains": (60, 10_000),
    "set_external_storage": ("seed-1", "{}"),
    "keep_payload": (NEW_ID, "seed-1", "avro", "9", "a", "file:///a", None),
    "find_payload": (RUN_ID, "seed-1", 3600),
    "check_payloads": (KEYS, "seed-1", 3600),
    "use_payloads": (rows({"run_id": RUN_ID, "reference_id": RUN_ID, "namespace": "seed-1"}),),
    "find_unused_payloads": ("seed-1", 3600, 100),
    "review_payloads": (None, 3600, 500),
    "doom_objects": (500, 600),
    "forget_objects": (json.dumps(["file:///a"]),),
    "lock_schedule": ("seed-1", "s-1"),
    "lock_schedules": (SCHEDULES,),
    "lock_due_schedules": (250,),
    "next_schedule": (),
    "read_schedule_states": (SCHEDULES,),
    "create_schedule": (json.dumps(SCHEDULE), ""),
    "save_schedules": (rows(SCHEDULE),),
    "record_schedule_events": (rows(SCHEDULE | {"sequence": 9}),),
    "order_fires": (rows(SCHEDULE | {"trigger_number": 9}), 30),
    "lease_fires": ("me", 250, 30),
    "forget_fires": (rows({"schedule_ulid": RUN_ID, "trigger_number": 2}),),
    "read_clock": (),
    "describe_schedule": ("seed-1", "s-1"),
    "list_schedules": ("seed-1", "infinity", "", 51, None, None, None, None, None),
    "list_typed_schedules": ("seed-1", "infinity", "", 51, None, None, None, None, None, "type-1"),
    "read_schedule_history": ("seed-1", "s-1", 0, 100),
    "read_secret": ("page-tokens",),
    "read_schedule_counts": (10_000, 2),
    "prune_schedule_events": (5000,),
}
"""Parameters of each statement; a statement that is not here fails its test."""


@pytest.fixture(scope="module")
def seeded(postgres_url: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection to the large database."""
    with temporary_database(postgres_url) as url:
        with ThreadPoolExecutor(1) as thread:  # an event loop may be running in this one
            thread.submit(asyncio.run, expand(url)).result()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(SEED.read_bytes())
        with psycopg.connect(url, autocommit=True, prepare_threshold=None, options=SESSION_OPTIONS) as connection:
            # The server forbids what is checked here; the planner has to find the index by itself.
            connection.execute("SET enable_seqscan = on")
            yield connection


@pytest.fixture(scope="module")
def fresh(postgres_url: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection, as the server makes it, to a database that has just been set up and knows nothing of its tables."""
    with temporary_database(postgres_url) as url:
        with ThreadPoolExecutor(1) as thread:  # an event loop may be running in this one
            thread.submit(asyncio.run, expand(url)).result()
        with psycopg.connect(url, autocommit=True, prepare_threshold=None, options=SESSION_OPTIONS) as connection:
            yield connection


def explain(connection: psycopg.Connection[tuple[Any, ...]], name: str) -> list[dict[str, Any]]:
    """Every node of the generic plan of a statement."""
    assert name in SAMPLES, f"give sample parameters for the statement {name}"
    values = [sql.Literal(value) for value in SAMPLES[name]]
    arguments = sql.SQL("({})").format(sql.SQL(", ").join(values)) if values else sql.SQL("")
    connection.execute("DEALLOCATE ALL")
    connection.execute(f"PREPARE explained AS {statements()[name]}".encode())
    row = connection.execute(sql.SQL("EXPLAIN (FORMAT JSON) EXECUTE explained{}").format(arguments)).fetchone()
    assert row is not None
    nodes: list[dict[str, Any]] = []
    pending = [row[0][0]["Plan"]]
    while pending:
        node = pending.pop()
        nodes.append(node)
        pending += node.get("Plans", [])
    return nodes


@pytest.mark.parametrize("name", sorted(statements()))
def test_no_statement_scans_a_growing_table(seeded: psycopg.Connection[tuple[Any, ...]], name: str) -> None:
    nodes = [node for node in explain(seeded, name) if node.get("Relation Name") in GROWING]
    assert [node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"] == []
    assert whole_walks(nodes) - SMALL_INDEXES <= BOUNDED_WALKS.get(name, set())


@pytest.mark.parametrize("name", sorted(statements().keys() - RARE))
def test_no_frequent_statement_walks_a_whole_index_because_its_plan_was_made_early(
    fresh: psycopg.Connection[tuple[Any, ...]], name: str
) -> None:
    """A plan lives as long as its connection or until the next ANALYZE, while the tables under it fill."""
    nodes = [node for node in explain(fresh, name) if node.get("Relation Name") in GROWING]
    assert whole_walks(nodes) - SMALL_INDEXES - LEASED <= BOUNDED_WALKS.get(name, set())


def whole_walks(nodes: list[dict[str, Any]]) -> set[str]:
    """The indexes that a plan reads from end to end."""
    return {node["Index Name"] for node in nodes if "Index Name" in node and "Index Cond" not in node}


def test_the_claim_walks_the_ready_index_in_its_order(seeded: psycopg.Connection[tuple[Any, ...]]) -> None:
    nodes = explain(seeded, "pick_tasks")
    locks = [node["Plans"][0] for node in nodes if node["Node Type"] == "LockRows"]
    walks = [(node["Node Type"], node["Index Name"]) for node in locks if of_tasks(node)]
    assert walks == [("Index Scan", "workflow_tasks_ready")]


def of_tasks(node: dict[str, Any]) -> bool:
    """Whether a node reads the open tasks."""
    return node.get("Relation Name") == "workflow_tasks"


def test_a_shared_claim_reads_the_head_of_each_share_from_an_index(
    seeded: psycopg.Connection[tuple[Any, ...]],
) -> None:
    nodes = explain(seeded, "pick_shared_tasks")
    heads = [node for node in nodes if node.get("Index Name") == "workflow_tasks_shared"]
    assert len(heads) >= 3
    assert all(node["Index Cond"].startswith("((namespace = ") for node in heads)
    limits = [child for node in nodes if node["Node Type"] == "Limit" for child in node["Plans"] if of_tasks(child)]
    assert {node["Index Name"] for node in limits} == {
        "workflow_tasks_shared",
        "workflow_tasks_ready",
        "workflow_tasks_sessions",
    }


def test_the_query_claim_walks_its_ready_index_in_its_order(seeded: psycopg.Connection[tuple[Any, ...]]) -> None:
    (lock,) = [node for node in explain(seeded, "claim_queries") if node["Node Type"] == "LockRows"]
    (walk,) = lock["Plans"]
    assert (walk["Node Type"], walk["Index Name"]) == ("Index Scan", "workflow_query_tasks_ready")


def test_a_listing_reads_every_index_in_the_order_of_its_page(seeded: psycopg.Connection[tuple[Any, ...]]) -> None:
    nodes = explain(seeded, "find_runs")
    below = [child for node in nodes if node["Node Type"] == "Limit" for child in node["Plans"]]
    below += [child for node in below if node["Node Type"] == "Result" for child in node.get("Plans", [])]
    walks = {node["Index Name"] for node in below if node["Node Type"] in ("Index Scan", "Index Only Scan")}
    assert walks == {
        *(f"workflow_run_summaries_{name}" for name in ("recent", "type", "bucket", "instance", "queue", "build")),
        *(f"workflow_search_attributes_{name}" for name in ("text", "number")),
    }


def test_samples_name_statements_that_exist() -> None:
    assert SAMPLES.keys() <= statements().keys()


def test_every_table_is_known_to_grow_or_to_be_bounded(seeded: psycopg.Connection[tuple[Any, ...]]) -> None:
    found = seeded.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
    assert {name for (name,) in found} == GROWING | BOUNDED
