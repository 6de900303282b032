"""Every limit of the server: its name, its unit, its value, in one place; published in ``/api/cluster/info``.

Settings may override the values of :class:`Limits`; the constants are fixed by the protocol or by our own design.
"""

from __future__ import annotations

from typing import Any

import msgspec

PAYLOAD_DEPTH_MAX = 200
"""Levels of nested arrays and maps in one payload."""

EXTERNAL_PAYLOAD_THRESHOLD_BYTES = 262_144
"""Payloads of more bytes are kept outside the database where a namespace does not say otherwise."""

STORAGE_TEST_SMALL_BYTES = 128
STORAGE_TEST_LARGE_BYTES = 2_097_152
"""What a storage test writes when the request does not say (control-plane §16.4)."""

HISTORY_PAGE_SIZE_DEFAULT = 500
HISTORY_PAGE_SIZE_MAX = 1000
"""Events per history page (worker-plane §8.3)."""

HISTORY_PAGE_BYTES_MAX = 4_194_304
"""A history page ends with the event that reaches this many bytes, whatever number of events was asked for."""

HISTORY_COMPRESSION_THRESHOLD_EVENTS = 50
"""A page is compressed on request when it has more events than this (worker-plane §8.4)."""

LONG_POLL_DEFAULT_SECONDS = 30
LONG_POLL_MIN_SECONDS = 1
LONG_POLL_MAX_SECONDS = 60
"""The window of a long poll (worker-plane §7.2); a window of 0 is an immediate probe."""

WORKER_HEARTBEAT_INTERVAL_SECONDS = 10
WORKER_STALE_AFTER_SECONDS = 30
"""How often a worker reports, and when it no longer counts as present (worker-plane §17)."""

REGISTRATION_KEPT_SECONDS = 604_800
"""How long the registration of a silent worker is kept: until then its next poll or heartbeat revives it."""

COMMAND_CONTRACT_SILENCE_SECONDS = 60
"""A new run records the signals and updates that a worker declares, if that worker was heard of within this time."""

UPDATE_WAIT_MAX_SECONDS = 60
"""How long the caller of an update may wait for its completion (control-plane §13.3)."""

WORKER_SLOTS_DEFAULT = 100
"""Concurrent tasks of each kind a worker is assumed to take when it does not say (worker-plane §6.1)."""

WORKFLOW_ID_CHARS_MAX = 128
"""Characters of a workflow, activity or schedule id (control-plane §1.2)."""

PARALLEL_GROUP_LEAVES_MAX = 1000
"""Leaves of one parallel group (engine §3.5)."""

RETENTION_DAYS_MAX = 365
"""The longest time that a namespace keeps closed runs (control-plane §16.2)."""
SECONDS_MAX = 1_000_000_000
"""The longest timeout or back-off in whole seconds, about 31 years; a time that far ahead is still a time."""

REPLAY_BLOCKED_AFTER_FAILURES = 5
"""Consecutive replay failures after which a run is marked as blocked (engine §4.6)."""

ACTIVITY_LEASE_MAX_SECONDS = 86_400
"""The longest lease of an activity attempt: workers refuse a longer one (worker-plane §16.2)."""

STICKY_WAIT_SECONDS = 1.0
"""How long a workflow task waits for the worker that keeps its run's history before any worker may take it."""

STICKY_PAGE_EVENTS = 2
"""Events that a worker is sent of a long history it keeps: ``StartAccepted`` and ``WorkflowStarted``, which it needs to
recognise the history (engine §4.8)."""

STICKY_TTL_SECONDS_DEFAULT = 300
"""The longest time for which a run prefers the worker that keeps its history, unless it is configured."""

HEARTBEAT_EVENT_INTERVAL_SECONDS = 60
"""History keeps one heartbeat event for every such part of an attempt's life; every heartbeat renews the lease."""

HEARTBEAT_DETAILS_BYTES_MAX = 65_536
"""JSON bytes of the details of one activity heartbeat (engine §5)."""

SESSION_LEASE_SECONDS_DEFAULT = 120
SESSION_LEASE_SECONDS_MAX = 86_400
SESSION_TTL_SECONDS_DEFAULT = 1_800
SESSION_TTL_SECONDS_MAX = 2_592_000
SESSION_ACTIVITIES_DEFAULT = 1
SESSION_ACTIVITIES_MAX = 10_000
SESSION_REQUIREMENTS_MAX = 100
"""Worker sessions: lease, time to live, activities at a time, required capabilities (worker-plane §15.1)."""

SESSION_KEPT_SECONDS = 2_592_000
"""How long the record of an ended session keeps its id from being used again."""

QUERY_LEASE_MIN_SECONDS = 60
QUERY_LEASE_GRACE_SECONDS = 5
"""A query task is leased for at least the first, and for the caller's wait and the second (worker-plane §13.3)."""

QUERY_HISTORY_BYTES_MAX = 268_435_456
"""A query task carries its run's whole history; a run with more bytes of it is not asked."""

HISTORY_EXPORT_BYTES_MAX = 67_108_864
"""A run with more bytes of history is not exported in one response."""

QUERY_LEASED_RUN_WAIT_SECONDS = 0.5
"""How long a query waits for the end of its run's leased workflow task, to see what that task decides (engine §6.8)."""


MEMO_ENTRIES_MAX = 100
MEMO_VALUE_BYTES_MAX = 10_240
MEMO_TOTAL_BYTES_MAX = 65_536
"""A memo update and the memo it leads to: entries, Avro bytes of one value and of the whole (engine §2.9)."""

KEYWORD_CHARS_MAX = 255
SEARCH_TEXT_BYTES_MAX = 2_048
"""Search attribute values: characters of a keyword, bytes of a text (engine §6.5)."""

VISIBILITY_QUERY_CHARS_MAX = 2_048
VISIBILITY_TERMS_MAX = 32
VISIBILITY_ALTERNATIVES_MAX = 8
VISIBILITY_VALUES_MAX = 100
"""A visibility query: its characters, its terms, its alternatives (joined by OR), values of one list (§11)."""

VISIBILITY_SCAN_MAX = 10_000
"""Runs that one page of a listing looks at; a page may be shorter for it and still have a next one."""

LOCAL_ATTEMPTS_MAX = 100
LOCAL_HEARTBEATS_MAX = 1_000
"""What one report of a local activity may hold (engine §6.14)."""

MESSAGE_STREAMS_MAX = 100
MESSAGE_BACKLOG_MAX = 4_000
"""Message streams of one workflow id, as many as a completion can report on; and their messages that are still to be
consumed, which a run that continues as new takes over in one transaction (engine §6.15)."""

OUTPUT_STREAMS_MAX = 100
"""Output streams of one run."""

OUTPUT_APPEND_ITEMS_MAX = 500
OUTPUT_ITEMS_DEFAULT = 10_000
OUTPUT_ITEMS_MAX = 1_000_000
"""Items of one append; items an output stream keeps, unless its writer says otherwise, and at most."""

OUTPUT_PAGE_ITEMS_DEFAULT = 100
OUTPUT_PAGE_ITEMS_MAX = 500
OUTPUT_WAIT_SECONDS_MAX = 60
"""A read of an output stream: items of one page, seconds it may wait for one (control-plane §14.2)."""

OUTPUT_RETENTION_SECONDS_DEFAULT = 3_600
"""How long the items of a closed output stream are kept."""

OUTPUT_TEXT_CHARS_MAX = 191
PAYLOAD_REFERENCE_CHARS_MAX = 2_048
"""Characters of the names, keys, types and reasons of output streams; of a reference to a payload kept elsewhere."""

CLEANUP_SECONDS_DEFAULT = 600
CLEANUP_SECONDS_MAX = 3_600
"""How long a run may clean up after a cooperative cancellation request (control-plane §13.6)."""

SERVICE_NAME_CHARS_MAX = 191
SERVICE_DESCRIPTION_CHARS_MAX = 1_000
"""Names and descriptions in the service catalogue (control-plane §17.1)."""

SERVICE_ATTEMPTS_MAX = 10
SERVICE_WAIT_SECONDS_MAX = 86_400
"""How often a service call is tried, and the longest wait for one (control-plane §17.2)."""

SERVICE_LOST_ATTEMPTS_MAX = 100
"""How often a service call may be leased in vain, by dispatchers that are lost or cannot serve it."""

SERVICE_EXECUTE_WAIT_SECONDS_DEFAULT = 30
"""How long a request that executes an operation waits for its end when it does not say."""

SERVICE_REQUEST_SECONDS_DEFAULT = 30
SERVICE_REQUEST_SECONDS_MAX = 900
"""How long one request to an HTTP target may take (topology §3.3.9)."""

SERVICE_RESPONSE_BYTES_MAX = 4_194_304
SERVICE_REDIRECTS_MAX = 3
"""What is read of an HTTP target's answer, and how many redirects are followed."""

SCHEDULE_JITTER_SECONDS_MAX = 3_600
SCHEDULE_NOTE_CHARS_MAX = 1_000
SCHEDULE_TIMEZONE_CHARS_MAX = 64
SCHEDULE_QUERY_CHARS_MAX = 2_048
"""What a request about a schedule may say (control-plane §20)."""

SCHEDULE_SPEC_ENTRIES_MAX = 100
"""Cron expressions and intervals of one schedule together."""

SCHEDULE_BUFFER_MAX = 1_000
"""Fires that wait for the run of a schedule to close; further ones are skipped."""

SCHEDULE_BACKFILL_MAX = 1_000
"""Occurrences in the window of one backfill."""

SCHEDULE_PAGE_TOKEN_SECONDS = 86_400
"""How long a listing of schedules may be continued where a page has ended."""

SCHEDULE_CATCH_UP_SECONDS = 2
"""How late an occurrence may be fired when an earlier one has been fired meanwhile; one that is later was missed."""

SCHEDULE_RECENT_ACTIONS = 10
"""Fires that a schedule remembers (control-plane §20.2)."""

SCHEDULE_HISTORY_PAGE_DEFAULT = 100
SCHEDULE_HISTORY_PAGE_MAX = 500
"""Entries of one page of a schedule's history (control-plane §20.2)."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Request limits, structural limits and the history budget (topology §6.3); 0 disables a structural limit.

    Units are in the names; counts have none. ``pending_children`` is published twice because clients read two
    documents; the lower of ``max_pending_children`` and ``pending_child_count`` is what the engine enforces.
    """

    max_payload_bytes: int = 2_097_152
    max_memo_bytes: int = 262_144
    max_search_attributes: int = 100
    max_search_attribute_key_length: int = 128
    max_search_attribute_value_bytes: int = 2_048
    max_operation_name_length: int = 256
    max_pending_activities: int = 2_000
    max_pending_children: int = 2_000

    pending_activity_count: int = 2_000
    pending_child_count: int = 1_000
    pending_timer_count: int = 2_000
    pending_signal_count: int = 5_000
    pending_update_count: int = 500
    command_batch_size: int = 1_000
    payload_size_bytes: int = 2_097_152
    memo_size_bytes: int = 262_144
    search_attribute_size_bytes: int = 40_960
    history_transaction_size: int = 5_000
    warning_threshold_percent: int = 80

    continue_as_new_events: int = 10_000
    continue_as_new_size_bytes: int = 5_242_880
    continue_as_new_fan_out: int = 200
    history_warning_events: int = 8_000
    history_warning_size_bytes: int = 4_194_304
    history_warning_fan_out: int = 160
    history_events_max: int = 50_000

    external_payload_max_bytes: int = 67_108_864
    external_payload_expiry_seconds: int = 3600


_REQUEST = (
    "max_payload_bytes",
    "max_memo_bytes",
    "max_search_attributes",
    "max_search_attribute_key_length",
    "max_search_attribute_value_bytes",
    "max_operation_name_length",
    "max_pending_activities",
    "max_pending_children",
)
_STRUCTURAL = (
    "pending_activity_count",
    "pending_child_count",
    "pending_timer_count",
    "pending_signal_count",
    "pending_update_count",
    "command_batch_size",
    "payload_size_bytes",
    "memo_size_bytes",
    "search_attribute_size_bytes",
    "history_transaction_size",
    "warning_threshold_percent",
)

DEFAULT_LIMITS = Limits()


def request_limits(limits: Limits = DEFAULT_LIMITS) -> dict[str, int]:
    """The ``limits`` document of cluster info."""
    return {name: getattr(limits, name) for name in _REQUEST}


def structural_limits(limits: Limits = DEFAULT_LIMITS) -> dict[str, int]:
    """The ``structural_limits`` document of cluster info."""
    return {name: getattr(limits, name) for name in _STRUCTURAL}


def history_budget(limits: Limits = DEFAULT_LIMITS) -> dict[str, Any]:
    """The thresholds above which a worker is advised to continue as new."""
    return {
        "event_threshold": limits.continue_as_new_events,
        "size_bytes_threshold": limits.continue_as_new_size_bytes,
        "fan_out_threshold": limits.continue_as_new_fan_out,
    }


def pending_children_max(limits: Limits = DEFAULT_LIMITS) -> int:
    """The enforced bound of pending children: the lower of the two published ones, where 0 means unlimited."""
    bounds = [bound for bound in (limits.max_pending_children, limits.pending_child_count) if bound > 0]
    return min(bounds, default=0)


def pending_activities_max(limits: Limits = DEFAULT_LIMITS) -> int:
    """The enforced bound of pending activities: the lower of the two published ones, where 0 means unlimited."""
    bounds = [bound for bound in (limits.max_pending_activities, limits.pending_activity_count) if bound > 0]
    return min(bounds, default=0)
