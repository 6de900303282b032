"""Exit codes and the errors that carry a sentence for the operator."""

from __future__ import annotations

EXIT_FAILURE = 1
EXIT_CONFIG = 78
"""The configuration is illegal; starting again changes nothing (topology §1.2)."""


class StartupError(Exception):
    """A process cannot start for a reason outside its code. The message is one complete sentence."""
