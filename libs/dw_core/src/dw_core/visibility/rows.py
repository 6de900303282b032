"""The rows by which runs are found by their search attributes: one for each value of each attribute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from dw_core.metadata.attributes import search_number, search_texts


class SearchRow(msgspec.Struct, frozen=True, kw_only=True):
    """One value; ``ordinal`` counts those of one attribute. A text, a number, or a time, which is both."""

    run_id: str
    name: str
    ordinal: int
    text_value: str | None
    number_value: int | float | None


def search_rows(run_id: str, attributes: Mapping[str, Any], types: Mapping[str, str] | None) -> Iterator[SearchRow]:
    """The rows of a run's attributes; one without a known type is found by what its JSON value is."""
    for name, value in attributes.items():
        number = search_number(value, (types or {}).get(name))
        texts: list[str | None] = [*search_texts(value)]
        for ordinal, text in enumerate(texts or ([] if number is None else [None])):
            yield SearchRow(run_id=run_id, name=name, ordinal=ordinal, text_value=text, number_value=number)
