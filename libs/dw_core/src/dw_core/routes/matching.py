"""Finding a route by method and path: a dict for fixed paths, a segment trie for the others.

Built once from the catalogue; a look-up costs one dict access, or one step per path segment. A fixed segment is tried
before a parameter and the search comes back from it, so a workflow may be called ``import``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from urllib.parse import unquote

import msgspec

from dw_core.routes.route import Route


class Matched(msgspec.Struct, frozen=True):
    """The route of a request and its decoded path parameters, by name."""

    route: Route
    params: Mapping[str, str]


class NotFound(msgspec.Struct, frozen=True):
    """No route of the catalogue has this path."""


class MethodNotAllowed(msgspec.Struct, frozen=True):
    """The path exists with other methods: ``allowed``, sorted."""

    allowed: tuple[str, ...]


_NOT_FOUND = NotFound()
_NO_PARAMS: Mapping[str, str] = MappingProxyType({})


class _Node:
    """One segment position of the trie; ``leaves`` are the routes whose path ends here, by method."""

    __slots__ = ("leaves", "parameter", "segments")

    def __init__(self) -> None:
        self.segments: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.leaves: dict[str, tuple[Route, tuple[str, ...]]] = {}


class Table:
    """A look-up table over ``routes``; raises ``ValueError`` when two of them share method and path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._fixed: dict[str, dict[str, Matched]] = {}
        self._root = _Node()
        for entry in routes:
            if "{" in entry.path:
                self._add_parameterised(entry)
            else:
                methods = self._fixed.setdefault(entry.path, {})
                _refuse_duplicate(methods, entry)
                methods[entry.method] = Matched(entry, _NO_PARAMS)

    def _add_parameterised(self, entry: Route) -> None:
        node, names = self._root, []
        for segment in entry.path[1:].split("/"):
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.segments.setdefault(segment, _Node())
        _refuse_duplicate(node.leaves, entry)
        node.leaves[entry.method] = (entry, tuple(names))

    def match(self, method: str, path: str) -> Matched | NotFound | MethodNotAllowed:
        """The route for ``method`` and the still encoded ``path``; see ``dw_core.routes.catalogue.match``."""
        if method == "HEAD":
            method = "GET"
        fixed = self._fixed.get(path)
        if fixed is not None:
            found = fixed.get(method)
            if found is not None:
                return found
        allowed = set(fixed or ())
        leaf = _walk(self._root, path[1:].split("/"), 0, (), method, allowed) if path.startswith("/") else None
        if leaf is None:
            return MethodNotAllowed(tuple(sorted(allowed))) if allowed else _NOT_FOUND
        (entry, names), values = leaf
        if "%" in path:
            try:
                values = tuple(unquote(value, errors="strict") for value in values)
            except UnicodeDecodeError:
                return _NOT_FOUND
        return Matched(entry, dict(zip(names, values, strict=True)))


def _refuse_duplicate(methods: Mapping[str, object], entry: Route) -> None:
    if entry.method in methods:
        raise ValueError(f"two routes answer {entry.method} {entry.path}")


def _walk(
    node: _Node, segments: list[str], index: int, values: tuple[str, ...], method: str, allowed: set[str]
) -> tuple[tuple[Route, tuple[str, ...]], tuple[str, ...]] | None:
    """The leaf for ``method`` below ``node`` with its raw parameter values; fills ``allowed`` with other methods."""
    if index == len(segments):
        leaf = node.leaves.get(method)
        if leaf is None:
            allowed.update(node.leaves)
            return None
        return leaf, values
    segment = segments[index]
    child = node.segments.get(segment)
    if child is not None:
        found = _walk(child, segments, index + 1, values, method, allowed)
        if found is not None:
            return found
    if node.parameter is not None and segment:
        return _walk(node.parameter, segments, index + 1, (*values, segment), method, allowed)
    return None
