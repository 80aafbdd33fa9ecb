"""The loop of the cluster watcher: every 5 s prove that the watch is up to date, publish what changed, then the clock.

Owns the order of those steps; must not know HTTP or Kafka. Laws: "now is T" is published only after an annotation
with T of the watcher's own pod came back on the pod watch and every change seen before it is acknowledged; T only
grows; while anything is away no clock is published. Nodes have no such proof (a watcher may not write them): what
came on their watch so far goes out with the tick, what comes later is a late record like any other
(tests/integration/test_watcher_on_api.py).
"""

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Protocol

from collector.clock import Clock
from collector.errors import Retry
from schemas.clock import CLOCK_PERIOD_US, ClockRecord, encode_clock
from schemas.headers import CLOCK, NODE_EVENT, POD_EVENT, Headers
from schemas.names import INPUT_TOPICS, POD_EVENTS
from schemas.pods import NodeRecord, PodRecord, encode_record
from schemas.units import US_PER_HOUR, US_PER_SECOND

from .api import Api
from .api_objects import Node, Pod
from .remember import Memory
from .settings import WatcherSettings
from .stream import Stream
from .tables import Table, node_table, pod_table

logger = logging.getLogger(__name__)
CLOCK_ANNOTATION = "gpumeter.dev/clock"
FIRST_BACKOFF_US = US_PER_SECOND
LONGEST_BACKOFF_US = 30 * US_PER_SECOND
PARTITIONS_WAIT_S = 10.0


class Outlet(Protocol):
    """The producer as the watcher needs it (collector.publish.Publisher)."""

    def produce(self, topic: str, node: str, headers: Headers, payload: bytes) -> bool:
        """Queue a message of a node; False where it was lost."""

    def produce_to(self, topic: str, partition: int, key: bytes, headers: Headers, payload: bytes) -> bool:
        """Queue a message on a partition; False where it was lost."""

    def partition_count(self, topic: str, timeout_s: float = 0) -> int | None:
        """Partitions of a topic, None where not known."""

    def flush(self, timeout_s: float) -> None:
        """Wait until all is acknowledged; Retry where it is not."""


class Pods:
    """The pod stream's sink: all pods' records, and the clock that the own pod carries."""

    def __init__(self, table: Table[Pod, PodRecord], namespace: str, name: str) -> None:
        self._table = table
        self._own = (namespace, name)
        self.echo_us = 0

    def seen(self, thing: Pod, now_us: int) -> Hashable:
        """Notes the own pod's annotation; the table does the rest."""
        if (thing.metadata.namespace, thing.metadata.name) == self._own:
            told = (thing.metadata.annotations or {}).get(CLOCK_ANNOTATION, "")
            self.echo_us = int(told) if told.isdecimal() else 0
        return self._table.seen(thing, now_us)

    def gone(self, thing: Pod, now_us: int) -> None:
        """As the table."""
        self._table.gone(thing, now_us)

    def listed(self, keys: Iterable[Hashable], now_us: int) -> None:
        """As the table."""
        self._table.listed(keys, now_us)


class Watcher:
    """One cluster's watcher; `run` until the clock says stop."""

    def __init__(
        self,
        settings: WatcherSettings,
        clock: Clock,
        api: Api,
        outlet: Outlet,
        remember: Callable[[int], Memory] = lambda now_us: Memory(),
    ) -> None:
        self._settings = settings
        self._remember: Callable[[int], Memory] | None = remember
        self._clock = clock
        self._api = api
        self._outlet = outlet
        self._own_path = f"/api/v1/namespaces/{settings.pod_namespace}/pods/{settings.pod_name}"
        self.pods = pod_table()
        self.nodes = node_table()
        self._sink = Pods(self.pods, settings.pod_namespace, settings.pod_name)
        self._pod_stream = Stream(api, "/api/v1/pods", Pod, self._sink, settings.page_size)
        self._node_stream = Stream[Node](api, "/api/v1/nodes", Node, self.nodes, settings.page_size)
        self._epoch_us = clock.monotonic_us()
        self._sequence: Counter[str] = Counter()
        self._republish_us = 0
        """From the first tick on: what is remembered may be an hour old, and the meter reads two hours back."""
        self._key = settings.clock_key.encode()
        self.asserted_us = 0
        """The newest T published."""
        self.retries = 0
        self.turned_us = self._epoch_us
        """When its loop last turned, boot-time clock."""

    def run(self) -> None:
        """Ticks every 5 s from its start, after a Retry by back-off; returns when the clock says stop."""
        due_us, backoff_us = self._epoch_us, FIRST_BACKOFF_US
        while self._clock.wait_until_us(due_us):
            self.turned_us = self._clock.monotonic_us()
            try:
                self.tick()
            except Retry as error:
                self.retries += 1
                logger.warning("no clock this time, next try in %.0f s: %s", backoff_us / US_PER_SECOND, error)
                self._pod_stream.close()
                due_us = self._clock.monotonic_us() + backoff_us
                backoff_us = min(2 * backoff_us, LONGEST_BACKOFF_US)
                continue
            backoff_us = FIRST_BACKOFF_US
            ticks = (self._clock.monotonic_us() - self._epoch_us) // CLOCK_PERIOD_US + 1
            due_us = self._epoch_us + ticks * CLOCK_PERIOD_US
        self.close()

    @property
    def lists(self) -> dict[str, int]:
        """How often pods and nodes were listed whole."""
        return {"pods": self._pod_stream.lists, "nodes": self._node_stream.lists}

    def close(self) -> None:
        """Ends the watches; a later tick opens them again where they were."""
        self._pod_stream.close()
        self._node_stream.close()

    def tick(self) -> None:
        """Everything up to now is out, then the clock says so; Retry where a step fails, and no clock was published."""
        now_us = self._clock.event_us()
        if self._remember is not None:
            self.pods.records, self.nodes.records = self._remember(now_us).living()
            self._remember = None
        self._api.merge_patch(self._own_path, {"metadata": {"annotations": {CLOCK_ANNOTATION: str(now_us)}}})
        timeout_s = self._settings.echo_timeout_us / US_PER_SECOND
        self._pod_stream.read(now_us, timeout_s, enough=lambda: self._sink.echo_us == now_us)
        if self._sink.echo_us != now_us:
            raise Retry(f"annotation {CLOCK_ANNOTATION}={now_us} of {self._own_path} not back within {timeout_s:g} s")
        self._node_stream.read(now_us)
        if now_us >= self._republish_us:
            self.pods.all_changed()
            self.nodes.all_changed()
            self._republish_us = now_us + US_PER_HOUR
        self._publish_changed()
        self._publish_clock(now_us)

    def flush(self) -> None:
        """Blocks until all is acknowledged; Retry, and everything on the way is published again, where it is not."""
        try:
            self._outlet.flush(self._settings.flush_timeout_us / US_PER_SECOND)
        except Retry:
            self.pods.doubtful()
            self.nodes.doubtful()
            raise
        self.pods.acknowledged()
        self.nodes.acknowledged()

    def _publish_changed(self) -> None:
        pods, nodes = self.pods.take_changed(), self.nodes.take_changed()
        queued = [self._publish(POD_EVENT, pod.node, pod) for pod in pods]
        queued += [self._publish(NODE_EVENT, node.name, node) for node in nodes]
        if not all(queued):
            self.pods.doubtful()
            self.nodes.doubtful()
            raise Retry(f"queue of the producer is full: {queued.count(False)} pod and node records wait")
        if queued:
            self.flush()

    def _publish(self, record: str, node: str, content: PodRecord | NodeRecord) -> bool:
        headers = self._headers(record, node, POD_EVENTS)
        return self._outlet.produce(POD_EVENTS, node, headers, encode_record(content))

    def _publish_clock(self, now_us: int) -> None:
        if now_us <= self.asserted_us:
            raise Retry(
                f"clock went back to {now_us}, asserted is {self.asserted_us}; waiting until it has passed that"
            )
        record = ClockRecord(cluster=self._settings.cluster, now_us=now_us)
        for topic in INPUT_TOPICS:
            count = self._outlet.partition_count(topic, PARTITIONS_WAIT_S)
            if count is None:
                raise Retry(f"partition count of topic {topic} is not known; is the broker there, is the topic made?")
            for partition in range(count):
                payload = encode_clock(record, self._key, topic, partition)
                key = self._settings.cluster.encode()
                if not self._outlet.produce_to(topic, partition, key, self._headers(CLOCK, "", topic), payload):
                    raise Retry(f"queue of the producer is full: clock {now_us} not on {topic}/{partition}")
        self.flush()
        self.asserted_us = now_us

    def _headers(self, record: str, node: str, topic: str) -> Headers:
        self._sequence[topic] += 1
        return Headers(
            record=record,
            cluster=self._settings.cluster,
            node=node,
            boot_id=f"watcher/{self._settings.pod_namespace}/{self._settings.pod_name}",
            epoch_us=self._epoch_us,
            seq=self._sequence[topic],
        )
