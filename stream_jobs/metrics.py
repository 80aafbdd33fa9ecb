"""Counts of a job for Prometheus. The only importer of prometheus_client in the jobs.

Knows no meaning: whatever numbers the source gives become gauges, by partition. Served on 127.0.0.1 only.
"""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

Numbers = Mapping[int, Mapping[str, int | float]]
"""Partition to name to number."""


class _Gauges(Collector):
    def __init__(self, prefix: str, read: Callable[[], Numbers]) -> None:
        self._prefix, self._read = prefix, read

    def collect(self) -> Iterable[Metric]:
        families: dict[str, GaugeMetricFamily] = {}
        for partition, numbers in self._read().items():
            for name, value in numbers.items():
                title = f"{self._prefix}_{name}"
                family = families.setdefault(title, GaugeMetricFamily(title, name, labels=["partition"]))
                family.add_metric([str(partition)], value)
        return families.values()


def serve(port: int, prefix: str, read: Callable[[], Numbers]) -> None:
    """Answers on 127.0.0.1:port with the numbers of the moment, from a thread of its own; OSError if it is taken."""
    registry = CollectorRegistry()
    registry.register(_Gauges(prefix, read))
    start_http_server(port, addr="127.0.0.1", registry=registry)
