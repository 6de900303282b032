"""Where accepted updates stand."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dw_core.engine.update_rows import Update
from dw_runtime.store.database import Database

_decode = msgspec.json.Decoder(Update).decode
_encode = msgspec.json.Encoder().encode


class UpdateReads:
    """Reads updates by id. Always from the primary: what is asked for has just been written."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def one(self, update_id: str) -> Update:
        """An accepted update; it is kept as long as its run."""
        return (await self._read([update_id]))[0]

    async def settled(self, update_ids: Sequence[str]) -> list[tuple[str, Update]]:
        """Those of the named updates that are completed or failed."""
        return [(u.update_id, u) for u in await self._read(update_ids) if u.closed_at is not None]

    async def _read(self, update_ids: Sequence[str]) -> list[Update]:
        named = _encode(list(update_ids)).decode()
        return [_decode(text) for _, text in await self._database.rows("read_updates", named)]
