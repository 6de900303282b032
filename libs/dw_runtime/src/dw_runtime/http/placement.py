"""Where this process stands in the topology, as far as the shell needs to know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Placement(Protocol):
    """The running shape, process class and topology roles of this node (topology §1.2)."""

    @property
    def shape(self) -> str: ...

    @property
    def process_class(self) -> str: ...

    @property
    def roles(self) -> Sequence[str]: ...
