"""Requests about the storage of external payloads (control-plane §16.3, §16.4, §22)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from dw_core.limits import STORAGE_TEST_LARGE_BYTES, STORAGE_TEST_SMALL_BYTES
from dw_core.payloads.policy import Driver, StorageConfig


class ExternalStorageSet(msgspec.Struct, frozen=True, kw_only=True):
    """``PUT /api/namespaces/{namespace}/external-storage``: the policy as a whole; a null member counts as absent."""

    driver: Driver
    enabled: bool | None = None
    threshold_bytes: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    config: StorageConfig | None = None


class StorageTest(msgspec.Struct, frozen=True, kw_only=True):
    """``POST /api/storage/test``: how many bytes are written, read back and deleted."""

    driver: Driver | None = None
    small_payload_bytes: Annotated[int, Meta(ge=1, le=1_048_576)] = STORAGE_TEST_SMALL_BYTES
    large_payload_bytes: Annotated[int, Meta(ge=1, le=16_777_216)] = STORAGE_TEST_LARGE_BYTES


class PayloadCleanupPass(msgspec.Struct, frozen=True, kw_only=True):
    """``POST /api/system/external-payload-cleanup/pass``: at most ``limit`` payloads."""

    limit: Annotated[int, Meta(ge=1, le=500)] | None = None
