"""The version of the installed server."""

from __future__ import annotations

from importlib.metadata import version


def server_version() -> str:
    """The version of the workspace packages, which are released together."""
    return version("dw-runtime")
