"""Identifiers that tell what they belong to."""

from __future__ import annotations

import pytest

from dw_core.ids import attempt_id, run_of, task_id, ulid

RUN = ulid(1, bytes(10))


@pytest.mark.parametrize(
    ("identifier", "run_id"),
    [(task_id(RUN, 3), RUN), (attempt_id(RUN, 1, 2), RUN), (RUN, None), ("", None), ("nothing", None)],
)
def test_a_derived_id_names_its_run(identifier: str, run_id: str | None) -> None:
    assert run_of(identifier) == run_id
