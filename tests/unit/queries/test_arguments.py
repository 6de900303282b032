"""Arguments against declared parameters."""

from __future__ import annotations

from typing import Any

import pytest

from dw_core.contracts.arguments import Misfit, Parameter, bind
from dw_core.payloads.codec import decode_blob, encode_blob
from dw_core.payloads.errors import PayloadError


def parameters(*names: str) -> list[Parameter]:
    """``a`` is required, ``b=`` has the default 7, ``*c`` takes the rest."""
    return [
        Parameter(
            name=name.strip("*="),
            position=position,
            required=not name.endswith("=") and not name.startswith("*"),
            variadic=name.startswith("*"),
            default_available=name.endswith("="),
            default=7 if name.endswith("=") else None,
        )
        for position, name in enumerate(names)
    ]


@pytest.mark.parametrize(
    ("value", "declared", "bound"),
    [
        (None, None, []),
        ([1, "a"], None, [1, "a"]),
        ({"x": 1, "y": 2}, None, [1, 2]),
        (None, parameters("a="), []),
        ([1, 2, 3], parameters("a", "*rest"), [1, 2, 3]),
        ({"b": 2, "a": 1}, parameters("a", "b"), [1, 2]),
        ({"c": 3}, parameters("a=", "b=", "c"), [7, 7, 3]),
        ({"a": 1}, parameters("a", "b="), [1]),
        ({"a": 1, "rest": [2, 3]}, parameters("a", "*rest"), [1, 2, 3]),
        ({"a": 1, "rest": [2]}, parameters("a", "b=", "*rest"), [1, 7, 2]),
        ({}, parameters(), []),
        ([None], parameters("a"), [None]),
    ],
)
def test_arguments_become_a_list(value: Any, declared: list[Parameter] | None, bound: list[Any]) -> None:
    assert decode_blob(bind(value, declared)) == bound


def test_an_envelope_keeps_its_bytes() -> None:
    blob = encode_blob([1, b"\x00"])
    assert bind({"codec": "avro", "blob": blob}, parameters("a", "b")) == blob


@pytest.mark.parametrize(
    ("value", "declared", "wrong"),
    [
        ([], parameters("a", "b"), {"a", "b"}),
        ([1, 2, 3], parameters("a"), {"1", "2"}),
        ({"b": 1}, parameters("a", "b"), {"a"}),
        ({"z": 1}, parameters("a="), {"z"}),
        ({"codec": "avro", "blob": encode_blob({"x": 1, "y": 2})}, parameters("a"), {"1"}),
    ],
)
def test_what_does_not_fit_is_named(value: Any, declared: list[Parameter], wrong: set[str]) -> None:
    with pytest.raises(Misfit) as caught:
        bind(value, declared)
    assert caught.value.errors.keys() == wrong


def test_null_needs_a_type_that_takes_it() -> None:
    whole = [Parameter(name="a", required=True, type="int", allows_null=False)]
    with pytest.raises(Misfit) as caught:
        bind([None], whole)
    assert caught.value.errors == {"a": ["must not be null"]}


@pytest.mark.parametrize("value", [1, "text", {"codec": "avro"}, {"codec": "avro", "blob": encode_blob("text")}])
def test_what_is_no_argument_list_is_no_payload(value: Any) -> None:
    with pytest.raises(PayloadError):
        bind(value, None)
