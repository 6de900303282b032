"""The Prometheus text of one process."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Metric, generate_latest

METRICS_CONTENT_TYPE = CONTENT_TYPE_LATEST


class Exposition:
    """Renders ``registry``, with the label ``process`` on every series when several processes share the port.

    Processes that share a listening port answer scrapes in turn, each with its own numbers. ``process`` (the index of
    the process, 0 to N-1) keeps their series apart, so that counters never seem to jump; sum over it in queries.
    """

    def __init__(self, registry: CollectorRegistry, process_index: int | None = None) -> None:
        self._source = registry
        self._process_index = process_index

    def collect(self) -> Iterator[Metric]:
        """The metric families of the registry, labelled."""
        for family in self._source.collect():
            if self._process_index is not None:
                process = str(self._process_index)
                family.samples = [
                    sample._replace(labels={**sample.labels, "process": process}) for sample in family.samples
                ]
            yield family

    def text(self) -> bytes:
        """The exposition format that Prometheus scrapes."""
        if self._process_index is None:
            return generate_latest(self._source)
        labelled = CollectorRegistry()
        labelled.register(self)
        return generate_latest(labelled)
