"""Field paths and sentences made from a decoder's complaint."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from dw_runtime.http.validation import explain


class Command(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(pattern="^[a-z]+$")]
    delay_seconds: Annotated[int, msgspec.Meta(ge=0)] = 0
    labels: dict[str, int] = {}
    factor: int | float | None = None
    policy: Literal["keep", "drop"] | None = None


class Body(msgspec.Struct):
    commands: list[Command]
    names: dict[Annotated[str, msgspec.Meta(max_length=2)], Any] = {}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{}", {"commands": ["The commands field is required."]}),
        (b"[]", {"body": ["must be an object"]}),
        (b'{"commands":[{}]}', {"commands.0.name": ["The name field is required."]}),
        (b'{"commands":[{"name":"A"}]}', {"commands.0.name": ["must have the form [a-z]+"]}),
        (
            b'{"commands":[{"name":"a"},{"name":"a","delay_seconds":-1}]}',
            {"commands.1.delay_seconds": ["must be an integer of at least 0"]},
        ),
        (b'{"commands":[{"name":"a","delay_seconds":1.5}]}', {"commands.0.delay_seconds": ["must be an integer"]}),
        (b'{"commands":[{"name":"a","labels":{"x":"y"}}]}', {"commands.0.labels.*": ["must be an integer"]}),
        (b'{"commands":[{"name":"a","factor":"y"}]}', {"commands.0.factor": ["must be an integer or a number"]}),
        (
            b'{"commands":[{"name":"a","policy":"x"}]}',
            {"commands.0.policy": ["must be one of drop, keep, not 'x'"]},
        ),
        (b'{"commands":null}', {"commands": ["must be a list"]}),
        (b'{"commands":[],"names":{"abc":1}}', {"names": ["each name must have at most 2 characters"]}),
    ],
)
def test_a_wrong_field_is_named_by_its_dotted_path(body: bytes, expected: dict[str, list[str]]) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.json.decode(body, type=Body)
    assert explain(str(refused.value), Body) == expected
