"""What can go wrong with an external payload."""

from __future__ import annotations


class StorageAway(Exception):
    """The storage did not do what it was asked; the same may succeed later."""


class NoDriver(Exception):
    """A policy names a driver, a disk or a place that this server has not been given."""


class ObjectMissing(Exception):
    """There is no object at the address."""


class ObjectAltered(Exception):
    """The bytes of an object are not those that its reference promises."""
