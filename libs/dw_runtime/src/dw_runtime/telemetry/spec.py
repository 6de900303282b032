"""What is said of a metric in its one home."""

from __future__ import annotations

from typing import Literal

import msgspec


class MetricSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A metric as it is documented and registered.

    ``labels`` maps each label to the values it may take, in words. ``buckets`` are the upper bounds of a histogram in
    the unit of the name.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: dict[str, str] = {}
    buckets: tuple[float, ...] = ()
