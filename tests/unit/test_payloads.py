"""The Value codec and its envelopes: golden vectors, malformed frames, JSON rules."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import fastavro.schema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dw_core.limits import PAYLOAD_DEPTH_MAX
from dw_core.payloads.codec import (
    EMPTY_LIST_BLOB,
    NULL_BLOB,
    SCHEMA,
    decode,
    decode_blob,
    encode,
    encode_blob,
    from_json,
    to_json,
)
from dw_core.payloads.envelope import (
    bare,
    envelope,
    inline_json,
    is_envelope,
    payload_of,
    read_envelope,
    read_input,
)
from dw_core.payloads.errors import PayloadError
from dw_core.payloads.fingerprint import blob_fingerprint
from dw_core.payloads.frame import FINGERPRINT, HEADER, check_frame
from dw_core.payloads.references import is_external, reference_of, stored

GOLDEN = json.loads((Path(__file__).parent / "data" / "avro-value-v1-golden.json").read_text())
COMPOSITE: dict[str, Any] = {
    "array": [None, True, 7, 7.0, b"\x00\xff", "text"],
    "map": {"a": 1, "b": [False]},
    "map_empty": {},
    "map_key_0": {"0": "zero"},
    "map_keys_0_1": {"0": "zero", "1": "one"},
    "nested": {"items": [{"enabled": True}, b"bytes", -2.5]},
}


def value_of(case: dict[str, Any]) -> Any:
    match case["kind"]:
        case "null":
            return None
        case "boolean" | "string":
            return case["value"]
        case "long":
            return int(case["value"])
        case "double":
            return float(case["value"])
        case "bytes":
            return base64.b64decode(case["value_base64"])
    return COMPOSITE[case["name"]]


def exactly(value: Any) -> str:
    """A text that tells 7 from 7.0, 0.0 from -0.0 and True from 1, whatever the order of map entries."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{exactly(item)}" for key, item in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(exactly(item) for item in value) + "]"
    return repr(value)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["name"])
def test_every_golden_vector_encodes_and_decodes(case: dict[str, Any]) -> None:
    check_frame(case["wire_base64"])
    decoded = decode_blob(case["wire_base64"])
    assert exactly(decoded) == exactly(value_of(case))
    assert encode_blob(decoded) == case["wire_base64"]


def test_map_entries_may_come_in_any_order() -> None:
    for case in GOLDEN["alternate_map_orders"]:
        first, second = (decode_blob(blob) for blob in case["wire_base64"])
        assert first == second
        for blob in case["wire_base64"]:
            assert encode_blob(decode_blob(blob)) == blob


@pytest.mark.parametrize("case", GOLDEN["malformed_frames"], ids=lambda case: case["name"])
def test_every_malformed_frame_is_refused_with_its_reason(case: dict[str, Any]) -> None:
    for read in (check_frame, decode_blob, read_envelope):
        with pytest.raises(PayloadError) as refused:
            read(case["wire_base64"])
        assert refused.value.reason == case["error"]


def test_the_fingerprint_is_that_of_the_schema() -> None:
    canonical = fastavro.schema.to_parsing_canonical_form(SCHEMA)
    rabin = fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")
    assert rabin == FINGERPRINT.hex()
    assert GOLDEN["fingerprint"] == FINGERPRINT.hex()


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.binary(max_size=20)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_every_value_survives_a_round_trip(value: Any) -> None:
    blob = encode_blob(value)
    check_frame(blob)
    assert exactly(decode_blob(blob)) == exactly(value)


@given(VALUES, st.data())
def test_no_prefix_and_no_extension_of_a_frame_is_a_frame(value: Any, data: st.DataObject) -> None:
    frame = encode(value)
    cut = data.draw(st.integers(0, len(frame) - 1))
    for broken in (frame[:cut], frame + b"\x00"):
        with pytest.raises(PayloadError):
            decode(broken)


@given(st.binary(max_size=40))
def test_arbitrary_bytes_after_the_header_are_decoded_or_refused_but_never_crash(datum: bytes) -> None:
    try:
        value = decode(HEADER + datum)
    except PayloadError:
        return
    assert exactly(decode(encode(value))) == exactly(value)


def test_blocks_may_be_split_and_may_carry_their_size() -> None:
    assert decode(HEADER + bytes([0x0C, 0x02, 0x04, 0x02, 0x02, 0x04, 0x04, 0x00])) == [1, 2]
    sized = bytes([0x0C, 0x03, 0x08, 0x04, 0x02, 0x04, 0x04, 0x00])
    assert decode(HEADER + sized) == [1, 2]


@pytest.mark.parametrize(
    ("datum", "why"),
    [
        (b"\x0c\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a count beyond the bytes"),
        (b"\x0a\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a length beyond the bytes"),
        (b"\x0a\x01", "a negative length"),
        (b"\x04" + b"\xff" * 10 + b"\x01", "an integer of more than 64 bits"),
        (b"\x04" + b"\xff" * 9 + b"\x02", "an integer of 65 bits"),
        (b"\x02\x02", "a boolean of 2"),
        (b"\x01", "a negative union branch"),
    ],
)
def test_a_hostile_datum_is_refused(datum: bytes, why: str) -> None:
    with pytest.raises(PayloadError) as refused:
        decode(HEADER + datum)
    assert refused.value.reason == "invalid_payload_framing", why


def nested(levels: int) -> Any:
    value: Any = None
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_is_bounded_in_both_directions() -> None:
    assert decode(encode(nested(PAYLOAD_DEPTH_MAX))) == nested(PAYLOAD_DEPTH_MAX)
    with pytest.raises(PayloadError, match="nested deeper"):
        encode(nested(PAYLOAD_DEPTH_MAX + 1))
    deep = HEADER + b"\x0c\x02" * 100_000
    with pytest.raises(PayloadError, match="nested deeper"):
        decode(deep)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (2**63, "integer_overflow"),
        (-(2**63) - 1, "integer_overflow"),
        (math.inf, "non_finite_float"),
        (math.nan, "non_finite_float"),
        ({1: "x"}, "invalid_map_key"),
        ((1, 2), "unsupported_value_type"),
        ({"when": {1, 2}}, "unsupported_value_type"),
    ],
)
def test_what_the_schema_cannot_say_is_refused_and_not_converted(value: Any, reason: str) -> None:
    with pytest.raises(PayloadError) as refused:
        encode(value)
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", 7), ("7.0", 7.0), ("7e0", 7.0), ("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)],
)
def test_json_integers_stay_integers_and_other_numbers_stay_doubles(text: str, value: Any) -> None:
    decoded = decode_blob(from_json(msgspec.json.decode(text)))
    assert exactly(decoded) == exactly(value)


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "18446744073709551615"])
def test_a_json_integer_outside_64_bits_is_refused(text: str) -> None:
    with pytest.raises(PayloadError) as refused:
        from_json(msgspec.json.decode(f"[{text}]"))
    assert refused.value.reason == "integer_overflow"


def test_json_shows_a_value_unless_it_holds_bytes() -> None:
    assert to_json(encode_blob({"a": [1, 2.5, "x"]})) == {"a": [1, 2.5, "x"]}
    assert to_json(encode_blob({"a": [b"x"]})) is None


def test_an_envelope_keeps_its_bytes() -> None:
    blob = GOLDEN["alternate_map_orders"][0]["wire_base64"][1]
    assert read_envelope(envelope(blob)) == blob
    assert read_envelope(blob) == blob
    assert read_envelope(None) is None
    assert read_input(envelope(blob)) == blob


@pytest.mark.parametrize(
    ("value", "reason", "field"),
    [
        ({"codec": "json", "blob": NULL_BLOB}, "unsupported_payload_codec", "codec"),
        ({"codec": None, "blob": NULL_BLOB}, "unsupported_payload_codec", "codec"),
        ({"codec": "avro"}, "invalid_payload_framing", ""),
        ({"codec": "avro", "blob": None}, "invalid_payload_framing", "blob"),
        ({"codec": "avro", "blob": "%%%"}, "invalid_payload_framing", "blob"),
        ({"codec": "avro", "blob": NULL_BLOB, "more": 1}, "invalid_payload_framing", ""),
        ({"codec": "avro", "external_storage": {}}, "external_payload_unsupported", "external_storage"),
        ({"codec": "avro", "external_payload": {}}, "external_payload_unsupported", "external_payload"),
        ({"blob": NULL_BLOB}, "invalid_payload_framing", ""),
        (7, "invalid_payload_framing", ""),
    ],
)
def test_an_envelope_that_is_not_ours_is_refused(value: Any, reason: str, field: str) -> None:
    with pytest.raises(PayloadError) as refused:
        read_envelope(value)
    assert (refused.value.reason, refused.value.field) == (reason, field)
    assert list(refused.value.at("input").errors) == [f"input.{field}" if field else "input"]


def test_a_bare_string_takes_the_codec_beside_it() -> None:
    with pytest.raises(PayloadError) as refused:
        read_envelope(NULL_BLOB, default_codec="json")
    assert refused.value.reason == "unsupported_payload_codec"


def test_an_input_becomes_an_argument_list() -> None:
    assert read_input(None) == EMPTY_LIST_BLOB == "wwHioz3/VYAiNwwA"
    assert decode_blob(read_input([1, "a"])) == [1, "a"]
    assert decode_blob(read_input({"second": 2, "first": 1})) == [2, 1]
    assert decode_blob(read_input({"codec": "avro", "other": 1})) == ["avro", 1]


RUNTIME: dict[str, Any] = {
    "codec": "avro",
    "external_payload": {
        "schema": "durable-workflow.v2.runtime-external-payload-reference.v1",
        "reference_id": "ep_01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "codec": "avro",
        "size_bytes": len(NULL_BLOB),
        "sha256": hashlib.sha256(NULL_BLOB.encode()).hexdigest(),
    },
}
DIRECT: dict[str, Any] = {
    "codec": "avro",
    "external_storage": {
        "schema": "durable-workflow.v2.external-payload-reference.v1",
        "uri": "s3://bucket/prefix/avro/ab/abcd",
        "sha256": "0" * 64,
        "size_bytes": 7,
        "codec": "avro",
    },
}
EXPIRING: dict[str, Any] = {
    "codec": "avro",
    "external_storage": DIRECT["external_storage"] | {"expires_at": "2026-12-01T00:00:00Z"},
}


@pytest.mark.parametrize("given", [RUNTIME, DIRECT, EXPIRING])
def test_a_reference_stands_wherever_a_blob_does(given: dict[str, Any]) -> None:
    payload = read_envelope(given)
    assert payload is not None and is_external(payload) and not is_external(NULL_BLOB)
    assert envelope(payload) == bare(payload) == given
    assert payload_of(bare(payload)) == payload
    assert read_input(given) == payload
    assert inline_json(payload) is None
    reference = reference_of(payload)
    assert reference is not None and stored(reference) == payload
    assert (bare(NULL_BLOB), payload_of(bare(NULL_BLOB)), reference_of(NULL_BLOB)) == (NULL_BLOB, NULL_BLOB, None)
    with pytest.raises(PayloadError):
        read_envelope(given, takes_references=False)


def test_a_payload_has_one_fingerprint_wherever_its_bytes_lie() -> None:
    payload = read_envelope(RUNTIME)
    assert payload is not None
    assert blob_fingerprint(payload) == blob_fingerprint(NULL_BLOB)


@pytest.mark.parametrize("value", [{"codec": "avro"}, "text", 7, True, {"codec": "avro", "external_storage": {}}])
def test_an_input_of_another_shape_is_refused(value: Any) -> None:
    with pytest.raises(PayloadError):
        read_input(value)


def test_only_an_exact_pair_is_an_envelope() -> None:
    assert is_envelope({"codec": "x", "blob": "y"})
    assert not is_envelope({"codec": "x", "blob": "y", "z": 1})
    assert not is_envelope([])
