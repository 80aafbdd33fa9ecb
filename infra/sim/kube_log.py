"""The store behind the simulated API server: objects, and every change to them under one growing version.

Owns versions, history and its loss; must not know HTTP. Laws: a list is of one version, also in chunks; a watch from
a version gives every later change once and in order, or 410; a re-created name is a new object
(tests/contracts/test_kube_api.py).
"""

import threading
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from infra.sim.kube_objects import Json

FIRST_VERSION = 1000


class Expired(Exception):
    """The history, or the list's token, that was asked for is gone: 410."""


class Entry(NamedTuple):
    """A change as a watch tells it."""

    version: int
    resource: str
    line: bytes


def key_of(content: Json) -> str:
    """Name of an object within its resource."""
    meta = content["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}"


class KubeLog:
    """Objects and their history; safe for many threads."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.version = FIRST_VERSION
        self._oldest = FIRST_VERSION
        self._entries: list[Entry] = []
        self._objects: dict[str, dict[str, Json]] = {"pods": {}, "nodes": {}}
        self._chunks: dict[str, tuple[int, list[Json]]] = {}

    def put(self, type_: str, resource: str, content: Json) -> Json:
        """Applies a change under the next version; the object as it is then."""
        with self.changed:
            self.version += 1
            objects, key = self._objects[resource], key_of(content)
            meta = {**content["metadata"], "resourceVersion": str(self.version)}
            stored = {**content, "metadata": meta}
            if type_ == "DELETED":
                objects.pop(key, None)
            else:
                objects[key] = stored
            line = msgspec.json.encode({"type": type_, "object": stored}) + b"\n"
            self._entries.append(Entry(self.version, resource, line))
            self.changed.notify_all()
            return stored

    def get(self, resource: str, key: str) -> Json | None:
        """An object as it is now."""
        with self.changed:
            return self._objects[resource].get(key)

    def first_chunk(self, resource: str, limit: int) -> tuple[int, list[Json], str]:
        """Version, objects and the token of the next chunk ('' at the end)."""
        with self.changed:
            return self._chunk(self.version, list(self._objects[resource].values()), limit)

    def next_chunk(self, token: str, limit: int) -> tuple[int, list[Json], str]:
        """The chunk of a token; Expired where it is not known any more."""
        with self.changed:
            kept = self._chunks.pop(token, None)
            if kept is None:
                raise Expired("The provided continue parameter is too old")
            return self._chunk(*kept, limit)

    def _chunk(self, version: int, objects: list[Json], limit: int) -> tuple[int, list[Json], str]:
        if not limit or len(objects) <= limit:
            return version, objects, ""
        token = f"{version}-{len(self._chunks)}-{len(objects)}"
        self._chunks[token] = (version, objects[limit:])
        return version, objects[:limit], token

    def forget_tokens(self) -> None:
        """Tokens of lists become too old, as after five minutes."""
        with self.changed:
            self._chunks.clear()

    def forget_history(self) -> None:
        """What was before now can no longer be watched from."""
        with self.changed:
            self._oldest = self.version
            self._entries.clear()

    def after(self, version: int, resource: str) -> Iterator[Entry]:
        """Entries of a resource above a version; Expired where they are gone. Call it holding `changed`."""
        if version < self._oldest:
            raise Expired(f"too old resource version: {version} ({self._oldest})")
        first = version - self._oldest
        return (entry for entry in self._entries[first:] if entry.resource == resource)
