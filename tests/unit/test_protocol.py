"""Versions, windows, capabilities, pages and compression."""

from __future__ import annotations

import json
import math
import zlib
from base64 import b64decode
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from dw_core.engine.commands.parse import SUPPORTED_COMMANDS
from dw_core.history.compression import choose_encoding, compress, decompress
from dw_core.history.paging import decode_page_token, encode_page_token
from dw_core.protocol.capabilities import CapabilityOptions, server_capabilities
from dw_core.protocol.describe import clamp_long_poll_timeout, describe, long_poll_semantics
from dw_core.protocol.problems import Invalid, Problem
from dw_core.protocol.timestamps import wire_time
from dw_core.protocol.versions import ACCEPTED_WORKER_VERSIONS, accepts, accepts_control_plane


def test_every_minor_up_to_ours_is_accepted() -> None:
    assert [accepts(version) for version in ACCEPTED_WORKER_VERSIONS] == list(range(21))
    assert accepts(" 1.9 ") == 9


@pytest.mark.parametrize("header", ["1", "v1.2", "1.20.0", "1.x", "0.9", "2.0", "1.21", "1.\u0662", "1.9\n1"])
def test_another_version_is_refused_and_told_what_is_supported(header: str) -> None:
    refused = accepts(header)
    assert isinstance(refused, Problem)
    assert (refused.reason, refused.status) == ("unsupported_protocol_version", 400)
    assert refused.fields["supported_version"] == "1.20"
    assert refused.fields["requested_version"] == header


@pytest.mark.parametrize("header", [None, "", "  "])
def test_a_missing_version_is_told_apart_from_a_wrong_one(header: str | None) -> None:
    refused = accepts(header)
    assert isinstance(refused, Problem)
    assert (refused.reason, refused.fields["requested_version"]) == ("missing_protocol_version", None)
    control = accepts_control_plane(header)
    assert control is not None
    assert (control.reason, control.status) == ("missing_control_plane_version", 400)


def test_the_control_plane_speaks_exactly_version_2() -> None:
    assert accepts_control_plane(" 2 ") is None
    for header in ("1", "2.0", "v2"):
        refused = accepts_control_plane(header)
        assert refused is not None
        assert refused.reason == "unsupported_control_plane_version"


@pytest.mark.parametrize(
    ("asked", "held"),
    [(None, 30), (0, 0), (0.9, 0), (1, 1), (35, 35), (35.9, 35), (60, 60), (61, 60), (1e300, 60), (math.inf, 60)],
)
def test_the_window_of_a_poll_is_clamped(asked: float | None, held: int) -> None:
    assert clamp_long_poll_timeout(asked) == held


def test_an_operator_may_choose_another_default_window() -> None:
    assert clamp_long_poll_timeout(None, default_seconds=5) == 5


@pytest.mark.parametrize("asked", [-1, -0.5, math.nan, "30", True])
def test_a_window_that_is_no_positive_number_is_invalid(asked: Any) -> None:
    with pytest.raises(Invalid) as refused:
        clamp_long_poll_timeout(asked)
    assert list(refused.value.errors) == ["timeout_seconds"]


def test_the_protocol_describes_itself() -> None:
    described = describe()
    assert described["version"] == "1.20"
    assert described["default_history_page_size"] == 500
    assert described["max_history_page_size"] == 1000
    assert described["history_compression"]["compression_threshold"] == 50
    assert "history_payload_paginated" in described["workflow_task_verbs"]
    assert "status" in described["activity_task_verbs"]
    commands = described["non_terminal_command_types"] + described["terminal_command_types"]
    assert commands == list(SUPPORTED_COMMANDS)
    assert long_poll_semantics() == {
        "default_timeout_seconds": 30,
        "min_timeout_seconds": 1,
        "max_timeout_seconds": 60,
    }


REQUIRED_CAPABILITIES = (
    "supported_workflow_task_commands",
    "workflow_task_poll_request_idempotency",
    "workflow_memo_updates",
    "message_streams",
    "typed_search_attributes",
    "condition_wait_occurrence_identity",
    "update_validation_tasks",
    "synchronous_update_validation",
    "local_activities",
    "sticky_execution",
    "worker_sessions",
    "worker_session_verbs",
)
TRAPS = (
    "query_task_authority",
    "worker_deregistration_fencing",
    "nexus_cooperative_cancellation",
    "prepared_local_activities",
)


def test_required_capabilities_are_present_and_those_with_consequences_are_absent() -> None:
    built = server_capabilities()
    assert [key for key in REQUIRED_CAPABILITIES if key not in built] == []
    assert [key for key in TRAPS if key in built] == []
    assert built["query_tasks"] is True
    assert built["runtime_external_payload_transport"] is True
    assert built["query_task_poll_request_idempotency"] is True
    assert built["sticky_execution"]["supported"] is True
    assert server_capabilities(CapabilityOptions(sticky_execution=False))["sticky_execution"]["supported"] is False
    assert built["supported_workflow_task_commands"] == list(SUPPORTED_COMMANDS)


@pytest.mark.parametrize(("timeout", "configured", "lease"), [(30, 30, 60), (30, 90, 90), (70, 70, 75)])
def test_a_query_lease_outlives_the_wait_of_its_caller(timeout: int, configured: int, lease: int) -> None:
    built = server_capabilities(CapabilityOptions(query_timeout_seconds=timeout, query_lease_seconds=configured))
    assert built["query_task_timeouts"] == {
        "control_plane_timeout_seconds": timeout,
        "lease_timeout_seconds": lease,
        "lease_grace_seconds": 5,
    }


def test_settings_show_in_the_capabilities() -> None:
    built = server_capabilities(CapabilityOptions(heartbeat_interval_seconds=3, compression=False))
    assert built["worker_status"]["heartbeat_interval_seconds"] == 3
    assert built["response_compression"] == []
    assert built["history_compression"]["supported_encodings"] == []


def events(count: int) -> list[dict[str, Any]]:
    return [{"sequence": number, "payload": {"text": "é" * 10}} for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("deflate, gzip", "gzip"),
        ("br;q=1, deflate;q=0.5", "deflate"),
        ("br", None),
        ("", None),
        (None, None),
    ],
)
def test_gzip_is_preferred_and_unknown_encodings_are_left_alone(accepted: str | None, chosen: str | None) -> None:
    assert choose_encoding(accepted) == chosen


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_more_than_fifty_events_are_compressed_and_come_back(encoding: str) -> None:
    page = {"task_id": "t", "history_events": events(51), "total_history_events": 51}
    packed = compress(page, encoding)
    assert packed["history_events"] == []
    assert packed["history_events_encoding"] == encoding
    assert decompress(packed) == page
    assert page["history_events"] != []


def test_fifty_events_stay_as_they_are() -> None:
    page = {"history_events": events(50)}
    assert compress(page, "gzip") is page
    assert compress({"history_events": events(51)}, None)["history_events"] == events(51)
    assert decompress(page) is page


def test_deflate_has_no_zlib_header_and_stored_bytes_are_not_touched() -> None:
    raw = [msgspec.Raw(b'{"z": 1,  "a":2}')] * 60
    packed = compress({"history_events": raw}, "deflate")
    text = zlib.decompress(b64decode(packed["history_events_compressed"]), -15)
    assert text.startswith(b'[{"z": 1,  "a":2},')
    assert json.loads(text) == [{"z": 1, "a": 2}] * 60


@pytest.mark.parametrize(("encoding", "packed"), [("br", "AAAA"), ("gzip", "AAAA"), ("deflate", "////"), ("gzip", "!")])
def test_a_page_that_does_not_unpack_is_an_error(encoding: str, packed: str) -> None:
    with pytest.raises(ValueError):
        decompress({"history_events_encoding": encoding, "history_events_compressed": packed})


def test_page_tokens_are_base64_of_the_sequence() -> None:
    assert encode_page_token(0) == "MA=="
    for sequence in (0, 1, 500, 50_000, 10**17):
        assert decode_page_token(encode_page_token(sequence)) == sequence


@pytest.mark.parametrize(
    "token", ["", "MA", "MA==\n", "LTE=", "MDA=", "IDE=", "eA==", "MTIzNDU2Nzg5MDEyMzQ1Njc4OTA=", "é"]
)
def test_any_other_token_is_refused(token: str) -> None:
    with pytest.raises(Problem) as refused:
        decode_page_token(token)
    assert (refused.value.reason, refused.value.status) == ("invalid_page_token", 400)


def test_times_go_out_in_utc_with_six_digits() -> None:
    assert wire_time(datetime(2026, 4, 18, 12, tzinfo=UTC)) == "2026-04-18T12:00:00.000000Z"
    east = timezone(timedelta(hours=3))
    assert wire_time(datetime(2026, 4, 18, 12, 0, 0, 5, tzinfo=east)) == "2026-04-18T09:00:00.000005Z"
    assert wire_time(None) is None
