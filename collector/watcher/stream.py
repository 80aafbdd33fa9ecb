"""One kind of object, followed for ever: list, watch from the list's version, list again where history is gone.

Owns the version that the next watch starts from; must not know what the sink remembers. Laws: every change reaches
the sink in the server's order, or a whole new list does; versions are opaque and only handed back; a page whose list
did not come to its end deletes nothing (tests/integration/test_watcher_on_api.py, tests/property).
"""

from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any, Generic, TypeVar

import msgspec

from collector.errors import Retry

from .api import Api, Ended, Gone, Watch, failure
from .api_objects import ListMeta, Node, Pod, Status, VersionOnly, WatchEvent
from .tables import Sink

Object = TypeVar("Object", bound=Pod | Node)
WATCH_SECONDS = 290
"""The server ends a watch by itself after this; below the 5 minutes that proxies often allow."""
OPENINGS = 4
"""How often a watch that gave nothing is opened in one go before that is an error."""


class Page(msgspec.Struct, Generic[Object]):
    """A chunk of a list."""

    metadata: ListMeta
    items: list[Object] | None = None


class Stream(Generic[Object]):
    """Objects at `path`, decoded as `kind`, given to `sink`."""

    def __init__(self, api: Api, path: str, kind: type[Object], sink: Sink[Object], page_size: int) -> None:
        self._api = api
        self._path = path
        self._sink = sink
        self._page_size = page_size
        self._pages: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Page[kind])  # type: ignore[valid-type]
        self._objects = msgspec.json.Decoder(kind)
        self._events = msgspec.json.Decoder(WatchEvent)
        self.version = ""
        """Where the next watch begins; empty: with a list."""
        self._watch: Watch | None = None
        self.lists = 0

    def read(self, now_us: int, wait_s: float = 0, enough: Callable[[], bool] = lambda: False) -> None:
        """Takes what came until it is enough or nothing more comes within `wait_s`; Retry where the server is away."""
        deadline_s, openings = monotonic() + wait_s, 0
        # Without an open watch the list before it may not be whole, so what it showed is never enough.
        while self._watch is None or not enough():
            if self._watch is None:
                openings += 1
                if openings > OPENINGS:
                    raise Retry(
                        f"watch of {self._path} was opened {OPENINGS} times and gave nothing; will be tried again"
                    )
                self._open(now_us)
                continue
            try:
                line = self._watch.line(max(0.0, deadline_s - monotonic()))
                if line is None:
                    return
                self._take(line, now_us)
                openings = 0
            except Gone:
                self.close()
                self.version = ""
            except Ended:
                self.close()

    def close(self) -> None:
        """Ends the open watch; the next read goes on from the last version."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _open(self, now_us: int) -> None:
        try:
            if not self.version:
                self.version = self._list(now_us)
            query = {
                "resourceVersion": self.version,
                "allowWatchBookmarks": "true",
                "timeoutSeconds": str(WATCH_SECONDS),
            }
            self._watch = self._api.watch(self._path, query)
        except Gone:
            self.version = ""

    def _list(self, now_us: int) -> str:
        """Lists all in chunks; the list's version. Gone where the chunks' token is too old: then from the start."""
        self.lists += 1
        keys: set[Hashable] = set()
        query = {"limit": str(self._page_size)}
        while True:
            page = self._pages.decode(self._api.get(self._path, query))
            keys.update(self._sink.seen(thing, now_us) for thing in page.items or ())
            if not page.metadata.continue_:
                self._sink.listed(keys, now_us)
                return str(page.metadata.resource_version)
            query["continue"] = page.metadata.continue_

    def _take(self, line: bytes, now_us: int) -> None:
        event = self._events.decode(line)
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object, type=Status)
            error = failure(status.code, bytes(event.object), f"watch {self._path}")
            raise error if isinstance(error, Gone) else Ended(str(error))
        if event.type == "BOOKMARK":
            self.version = msgspec.json.decode(event.object, type=VersionOnly).metadata.resource_version
            return
        thing = self._objects.decode(event.object)
        if event.type == "DELETED":
            self._sink.gone(thing, now_us)
        else:
            self._sink.seen(thing, now_us)
        self.version = thing.metadata.resource_version
