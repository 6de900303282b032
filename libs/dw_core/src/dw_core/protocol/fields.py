"""Field types shared by the request structs: bounded strings, positive integers, patterns."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from dw_core.limits import SECONDS_MAX

Name255 = Annotated[str, Meta(min_length=1, max_length=255)]
"""A required, non-empty name of at most 255 characters."""

Text = Annotated[str, Meta(min_length=1)]
"""A required, non-empty text without an upper bound of its own (the body limit bounds it)."""

Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
"""An integer of at least 1 that fits an integer column: attempts, slots."""

Seconds = Annotated[int, Meta(ge=1, le=SECONDS_MAX)]
"""A timeout in whole seconds."""

Count = Annotated[int, Meta(ge=0)]
"""An integer of at least 0."""

PageSize = Annotated[int, Meta(ge=1, le=1000)]
"""Events per history page (worker-plane §7.1)."""

HeartbeatSeconds = Annotated[int, Meta(ge=1, le=3600)]
"""Seconds between two worker heartbeats (worker-plane §6.1)."""

WorkflowId = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[a-zA-Z0-9._:-]+\Z")]
"""A workflow id chosen by a client (control-plane §12)."""

StreamName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{1,128}\Z")]
"""A message stream (worker-plane §8.8)."""
