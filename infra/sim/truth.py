"""The truth of one node, window by window, beside what the usual methods reported, as JSON lines.

Law: used_us of all rows of a (GPU, window) is the exact busy time of its engine
(tests/unit/infra/sim/test_truth.py).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from .engine import Engine
from .holders import Holder
from .observers import Observers
from .timeline import Ints

WINDOW_US = 60_000_000


class TruthRow(msgspec.Struct, frozen=True, kw_only=True):
    """A holder on a GPU in a window; the last four are methods a to d. The host is pod_name `host` without a uid."""

    node: str
    gpu_uuid: str
    namespace: str
    pod_name: str
    pod_uid: str
    container_name: str
    window_start_us: int
    used_us: int
    held_us: int
    resident_us: int
    requested_us: int
    gauge_copied_us: int
    last_smutil_us: int
    max_request_usage_us: int
    whole_device_us: int


class Truth:
    """Writes a node's rows as its windows end."""

    def __init__(
        self,
        path: Path,
        node: str,
        engines: Sequence[Engine],
        holders: Mapping[str, Sequence[Holder]],
        observers: Observers,
        start_us: int,
    ) -> None:
        self._node = node
        self._engines = engines
        self._holders = holders
        self._observers = observers
        self._reached_us = start_us
        self._out = path.open("wb")
        self._encoder = msgspec.json.Encoder()

    def window_ended(self, now_us: int) -> None:
        """Writes the window that ends now; the part of it before the simulation began is not in it."""
        if now_us <= self._reached_us:
            return
        gauge_us, last_us = self._observers.take()
        for engine in self._engines:
            busy_us = engine.timeline.busy_us(self._reached_us, now_us)
            for number, holder in enumerate(self._holders[engine.gpu.uuid]):
                key = (engine.gpu.uuid, number)
                seen = gauge_us.get(key, 0), last_us.get(key, 0)
                if holder.touches(self._reached_us, now_us) or any(seen):
                    row = self._row(engine, holder, busy_us, seen, now_us)
                    self._out.write(self._encoder.encode(row) + b"\n")
        self._reached_us = now_us

    def finish(self, now_us: int) -> None:
        """Writes what is left of the last window and closes the file."""
        self.window_ended(now_us)
        self._out.close()

    def _row(self, engine: Engine, holder: Holder, busy_us: Ints, seen_us: tuple[int, int], now_us: int) -> TruthRow:
        start_us = self._reached_us
        requested_us = holder.requested_us(start_us, now_us)
        return TruthRow(
            node=self._node,
            gpu_uuid=engine.gpu.uuid,
            namespace=holder.namespace,
            pod_name=holder.pod_name,
            pod_uid=holder.pod_uid,
            container_name=holder.container_name,
            window_start_us=start_us // WINDOW_US * WINDOW_US,
            used_us=int(busy_us[holder.lanes].sum()),
            held_us=requested_us,
            resident_us=holder.resident_us(start_us, now_us),
            requested_us=requested_us,
            gauge_copied_us=seen_us[0],
            last_smutil_us=seen_us[1],
            max_request_usage_us=max(requested_us, seen_us[0]),
            whole_device_us=holder.whole_device_us(start_us, now_us),
        )
