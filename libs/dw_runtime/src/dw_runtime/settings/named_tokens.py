"""Tokens of named principals: ``DW_PRINCIPAL_TOKENS``, for rotation, for attribution and for single namespaces."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from dw_runtime.settings.variable import SettingsError


class NamedToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry: ``namespaces`` are those open to it, all when absent."""

    token: Annotated[str, Meta(min_length=16, max_length=4096)]
    subject: Annotated[str, Meta(min_length=1, max_length=255)]
    roles: Annotated[list[Literal["worker", "operator", "admin"]], Meta(min_length=1)]
    namespaces: list[Annotated[str, Meta(min_length=1)]] | None = None

    def __repr__(self) -> str:
        return f"NamedToken(subject={self.subject!r}, token=hidden)"


def read_named_tokens(text: str) -> tuple[NamedToken, ...]:
    """The entries; raises ``SettingsError`` for what cannot be used, and never repeats a value."""
    try:
        entries = msgspec.json.decode(text, type=tuple[NamedToken, ...])
    except msgspec.ValidationError as error:
        place = re.search(r"`\$(\S*)`", str(error))
        where = f" Look at {place[1]}." if place is not None and place[1] else ""
        raise SettingsError(
            "DW_PRINCIPAL_TOKENS must be an array of objects with a token of 16 characters at least, a subject, roles "
            f"(worker, operator, admin) and, where needed, namespaces.{where}"
        ) from None
    except msgspec.DecodeError:
        raise SettingsError("DW_PRINCIPAL_TOKENS is not valid JSON.") from None
    if len({entry.token for entry in entries}) < len(entries):
        raise SettingsError("DW_PRINCIPAL_TOKENS names one token twice.")
    return entries
