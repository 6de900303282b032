"""Objects: reading, writing and deleting bytes by key, in a folder or a bucket."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from obstore.exceptions import BaseError
from obstore.store import ObjectStore

from dw_runtime.payloads.errors import ObjectAltered, ObjectMissing, StorageAway


class Objects:
    """One folder or bucket. ``folder`` is set for a folder, whose links are not followed out of it."""

    def __init__(self, store: ObjectStore, folder: Path | None, timeout_seconds: float) -> None:
        self._store = store
        self._folder = folder
        self._timeout = timeout_seconds

    async def put(self, key: str, data: bytes) -> None:
        """Write an object whole, also over one that is there; raises :class:`StorageAway`."""
        async with self._operation(key):
            await self._store.put_async(key, data)

    async def get(self, key: str, *, size_bytes: int, sha256: str) -> bytes:
        """The bytes of an object, verified.

        Raises :class:`ObjectMissing`, :class:`ObjectAltered` or :class:`StorageAway`.
        """
        async with self._operation(key):
            found = await self._store.get_async(key)
            if found.meta["size"] != size_bytes:
                raise ObjectAltered(f"The object has {found.meta['size']} bytes instead of {size_bytes}.")
            data = bytes(await found.bytes_async())
        if not await asyncio.to_thread(is_intact, data, size_bytes, sha256):
            raise ObjectAltered("The object has other bytes than its reference promises.")
        return data

    async def delete(self, key: str) -> None:
        """Remove an object; that it is not there is as good. Raises :class:`StorageAway`."""
        try:
            async with self._operation(key):
                await self._store.delete_async(key)
        except ObjectMissing:
            return

    @asynccontextmanager
    async def _operation(self, key: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout):
                if self._folder is not None:
                    await asyncio.to_thread(_require_inside, self._folder, key)
                yield
        except FileNotFoundError as missing:
            raise ObjectMissing("There is no such object.") from missing
        except (BaseError, OSError) as error:
            raise StorageAway(f"The storage failed: {type(error).__name__}.") from error


def is_intact(data: bytes, size_bytes: int, sha256: str) -> bool:
    """Whether bytes are those that a reference promises."""
    return len(data) == size_bytes and hashlib.sha256(data).hexdigest() == sha256


def _require_inside(folder: Path, key: str) -> None:
    """Raise ``FileNotFoundError`` for a key that a link leads out of the folder."""
    root = folder.resolve()
    if not (root / key).resolve().is_relative_to(root):
        raise FileNotFoundError(key)
