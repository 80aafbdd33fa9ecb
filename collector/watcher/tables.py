"""All pods, or all nodes, as seen so far, and which of them have changed since they were published.

Owns what is remembered and for how long; must not know Kafka or HTTP. Laws: every change is published at least once;
an object is forgotten only after its deletion was published and acknowledged; a list that lacks an object deletes it
(tests/unit/collector/test_watcher_tables.py).
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, Protocol, TypeVar

import msgspec

from schemas.pods import NodeRecord, PodRecord

from .api_objects import Node, Pod
from .records import node_record, pod_record

Object = TypeVar("Object", bound=Pod | Node)
Told = TypeVar("Told", bound=Pod | Node, contravariant=True)
Record = TypeVar("Record", bound=PodRecord | NodeRecord)


class Sink(Protocol[Told]):
    """What a stream of objects is given to."""

    def seen(self, thing: Told, now_us: int) -> Hashable:
        """The object is there, as told; returns its key."""

    def gone(self, thing: Told, now_us: int) -> None:
        """The object was deleted; `thing` is its last state."""

    def listed(self, keys: Iterable[Hashable], now_us: int) -> None:
        """These and no others are there."""


class Table(Generic[Object, Record]):
    """Records by key; `merge` makes the newest of what was known and what is told."""

    def __init__(
        self,
        key: Callable[[Object], str],
        merge: Callable[[Record | None, Object, int], Record],
        wanted: Callable[[Object], bool] = lambda thing: True,
    ) -> None:
        self.records: dict[str, Record] = {}
        self._key = key
        self._merge = merge
        self._wanted = wanted
        self._changed: set[str] = set()
        self._on_the_way: set[str] = set()

    def seen(self, thing: Object, now_us: int) -> str:
        """The object is there, as told; returns its key."""
        key = self._key(thing)
        if self._wanted(thing):
            self._keep(key, self._merge(self.records.get(key), thing, now_us))
        return key

    def gone(self, thing: Object, now_us: int) -> None:
        """The object was deleted; `thing` is its last state."""
        key = self.seen(thing, now_us)
        if key in self.records:
            self._delete(key, now_us)

    def listed(self, keys: Iterable[Hashable], now_us: int) -> None:
        """These and no others are there: the rest was deleted at a time nobody told, at the latest now."""
        for key in self.records.keys() - set(keys):
            self._delete(key, now_us)

    def _delete(self, key: str, now_us: int) -> None:
        if self.records[key].deleted_us is None:
            self._keep(key, msgspec.structs.replace(self.records[key], deleted_us=now_us, seen_us=now_us))

    def _keep(self, key: str, record: Record) -> None:
        if record != self.records.get(key):
            self.records[key] = record
            self._changed.add(key)

    def all_changed(self) -> None:
        """Everything is to be published again."""
        self._changed.update(self.records)

    def take_changed(self) -> list[Record]:
        """Records to be published now, in the order of their keys; they stay on the way until `acknowledged`."""
        keys = sorted(self._changed)
        self._on_the_way |= self._changed
        self._changed = set()
        return [self.records[key] for key in keys]

    def acknowledged(self) -> None:
        """All that was taken is acknowledged; what was deleted need not be remembered."""
        for key in self._on_the_way - self._changed:
            if self.records[key].deleted_us is not None:
                del self.records[key]
        self._on_the_way = set()

    def doubtful(self) -> None:
        """What was taken may be lost: it is to be published again."""
        self._changed |= self._on_the_way
        self._on_the_way = set()


def pod_table() -> Table[Pod, PodRecord]:
    """Pods that have a node, by uid."""
    return Table(lambda pod: pod.metadata.uid, pod_record, lambda pod: bool(pod.spec.node_name))


def node_table() -> Table[Node, NodeRecord]:
    """Nodes by name."""
    return Table(lambda node: node.metadata.name, node_record)
