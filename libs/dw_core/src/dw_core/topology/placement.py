"""Where a process stands when it boots: its shape, class and roles, or the reason it does not start (topology §1.2)."""

from __future__ import annotations

import msgspec

from dw_core.topology.roles import EXECUTION_MODES, PROCESS_CLASSES, Role, Shape

SHAPE_VARIABLE = "DW_SERVER_TOPOLOGY_SHAPE"
CLASS_VARIABLE = "DW_SERVER_PROCESS_CLASS"
DISPATCH_VARIABLE = "DW_TASK_DISPATCH_MODE"
EXIT_CODE = 78

_STANDALONE, _SPLIT = Shape.STANDALONE_SERVER, Shape.SPLIT_CONTROL_EXECUTION
ENTRY_POINTS: dict[str, tuple[tuple[Shape, str], ...]] = {
    "api-ingress": ((_SPLIT, "control_plane_node"),),
    "matching": ((_SPLIT, "matching_node"),),
    "scheduler": ((_SPLIT, "scheduler_node"), (_STANDALONE, "scheduler_node")),
    "standalone": ((_STANDALONE, "server_http_node"),),
}
"""The pairs each entry point may run as; the first one is its default."""


class BootRefused(Exception):
    """A configuration this process must not run with: one line of text, and the exit code of the process."""

    exit_code = EXIT_CODE


class Placement(msgspec.Struct, frozen=True):
    """Where this process stands; ``roles`` are in the published order."""

    shape: Shape
    process_class: str
    roles: tuple[Role, ...]
    execution_mode: str

    @property
    def queue_wake_default(self) -> bool:
        """Whether sweeps run inside the serving processes unless configured: not in the split shape (topology §1.3)."""
        return self.shape is not Shape.SPLIT_CONTROL_EXECUTION

    def missing(self, required: tuple[str, ...]) -> tuple[str, ...]:
        """The roles of ``required`` that this node does not host, in declaration order."""
        return tuple(role for role in required if role not in self.roles)


def resolve(shape: str | None, process_class: str | None, entry_point: str, *, dispatch_mode: str = "") -> Placement:
    """Place a process, or raise :class:`BootRefused`.

    ``shape``, ``process_class`` and ``dispatch_mode`` are the settings as given; None and blank mean unset, and an
    unset value is completed from the pairs of ``entry_point`` (a key of :data:`ENTRY_POINTS`).
    """
    if dispatch_mode.strip() not in ("", "poll"):
        raise BootRefused(f"{DISPATCH_VARIABLE}={dispatch_mode!r} is not supported; the only dispatch mode is 'poll'.")
    shape, process_class = (shape or "").strip(), (process_class or "").strip()
    if shape and shape not in PROCESS_CLASSES:
        raise _refusal(shape, process_class, entry_point, "the shape is unknown")
    if shape == Shape.EMBEDDED:
        raise _refusal(shape, process_class, entry_point, "this server does not run in the embedded shape")
    if shape and process_class and process_class not in PROCESS_CLASSES[Shape(shape)]:
        raise _refusal(shape, process_class, entry_point, "the class does not belong to the shape")
    for own_shape, own_class in ENTRY_POINTS[entry_point]:
        if shape in ("", own_shape) and process_class in ("", own_class):
            roles = PROCESS_CLASSES[own_shape][own_class]
            return Placement(own_shape, own_class, roles, EXECUTION_MODES[own_shape])
    raise _refusal(shape, process_class, entry_point, "the pair contradicts the entry point")


def _refusal(shape: str, process_class: str, entry_point: str, why: str) -> BootRefused:
    own = " or ".join(f"{own_shape}/{own_class}" for own_shape, own_class in ENTRY_POINTS[entry_point])
    legal = "; ".join(f"{each}: {', '.join(PROCESS_CLASSES[each])}" for each in (_STANDALONE, _SPLIT))
    return BootRefused(
        f"{SHAPE_VARIABLE}={shape!r} with {CLASS_VARIABLE}={process_class!r} cannot run {entry_point!r}: {why}; "
        f"it runs as {own} (legal classes: {legal})."
    )
