"""Canonical JSON agrees, byte for byte, with what the published SDK verifies bundles by."""

from __future__ import annotations

import math
from typing import Any

import pytest
from durable_workflow import history_bundle_verify as published
from hypothesis import given
from hypothesis import strategies as st

from dw_core.history.canonical import canonical_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(VALUES)
def test_it_writes_what_the_sdk_writes(value: Any) -> None:
    bundle = {"value": value}
    try:
        expected = published._canonicalize(bundle).encode()
    except UnicodeEncodeError:
        with pytest.raises(UnicodeEncodeError):
            canonical_json(bundle)
        return
    assert canonical_json(bundle) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [1.0, 1e20, 1e-7, 123456.789]}, b'{"a":[1.0,1.0e+20,1.0e-7,123456.789],"b":1}'),
        ("a/é\U0001f600\x7f", b'"a/\\u00e9\\ud83d\\ude00\x7f"'),
    ],
)
def test_known_values(value: Any, text: bytes) -> None:
    assert canonical_json(value) == text


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_are_finite(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        canonical_json([value])
