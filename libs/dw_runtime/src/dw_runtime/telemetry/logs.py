"""structlog and the standard library's logging, both as one JSON object per line."""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

import msgspec
import structlog

from dw_runtime.telemetry.context import add_context

_QUIET_LOGGERS = ("hypercorn.error", "hypercorn.access", "asyncio", "psycopg", "psycopg.pool")


def configure_logs(level: str = "info", stream: TextIO | None = None, **constant: str) -> None:
    """Send every log of this process to ``stream`` (standard error by default) as JSON lines.

    ``level`` is debug, info, warning or error, in any case; ``constant`` members go on every line (``process_class``).
    Raises ``ValueError`` for another level. Call it once per process, before the first request.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"unknown log level {level!r}")

    def add_constant(logger: Any, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {**constant, **event}

    shared: list[structlog.typing.Processor] = [
        add_context,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                add_constant,
                structlog.processors.JSONRenderer(serializer=_to_json),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for name in _QUIET_LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(max(number, logging.WARNING))


def _to_json(event: Any, **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()
