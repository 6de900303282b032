"""Something that works or does not: a line when that changes, not with every attempt."""

from __future__ import annotations

from typing import Any

import structlog


class Condition:
    """Logs ``<name>.failed`` as a warning when it stops working and ``<name>.restored`` when it works again.

    It counts as working until it has failed; ``members`` go on both lines.
    """

    def __init__(self, name: str, **members: str) -> None:
        self._log = structlog.get_logger(__name__)
        self._name = name
        self._members = members
        self._failures = 0

    def failed(self, error: BaseException, **members: Any) -> None:
        """It has failed, perhaps once more."""
        self._failures += 1
        if self._failures == 1:
            self._log.warning(f"{self._name}.failed", error=type(error).__name__, **self._members, **members)

    def works(self) -> None:
        """It works, perhaps as before."""
        if self._failures:
            self._log.info(f"{self._name}.restored", failures=self._failures, **self._members)
            self._failures = 0
