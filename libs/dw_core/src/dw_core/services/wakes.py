"""The keys that wake who works off service calls and who waits for them; no queue has the empty namespace."""

from __future__ import annotations

from typing import Final

from dw_core.engine.rows import TaskKind
from dw_core.engine.transition import WakeKey

SERVICE_CALLS: Final = WakeKey("", TaskKind.WORKFLOW, "service-calls")
SERVICE_RESULTS: Final = WakeKey("", TaskKind.WORKFLOW, "service-results")
