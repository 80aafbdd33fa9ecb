"""A fleet in real time: its log sent message by message at its own pace, and where and when each was appended.

Owns a thread that sends. The records of a window's close are found again by their offsets.
"""

import threading
import time
from collections import defaultdict
from functools import partial
from typing import NamedTuple

from infra.bench.errors import BenchError
from infra.bench.fleet_log import messages
from infra.bench.kafka_log import NODE_BY_NODE, Sender, producer_of
from infra.bench.shape import FleetShape
from schemas.headers import READING, decode_headers
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS

_LATE_US = 2_000_000


class Reading(NamedTuple):
    """A reading message as it was appended; it is complete up to `complete_us` of event time."""

    node: str
    complete_us: int
    append_us: int


class Appended:
    """Append time of every record by place, and the readings among them; written by the sender's thread."""

    def __init__(self) -> None:
        self.append_us: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
        self.node_at: dict[tuple[int, int], str] = {}
        """(partition, offset) of gpu-samples to the node whose reading it is."""
        self.readings: list[Reading] = []

    def note(self, topic: str, partition: int, node: str, complete_us: int, offset: int, append_us: int) -> None:
        """A record was acknowledged."""
        self.append_us[topic, partition][offset] = append_us
        if node:
            self.node_at[partition, offset] = node
            self.readings.append(Reading(node, complete_us, append_us))

    def closing_us(self, node: str, partition: int, cuts: tuple[int, int, int]) -> int:
        """When the last of the three records was appended that let a window with these cuts close.

        In gpu-samples it is the node's own message just below the cut, else the clock record at it; in the other
        topics the clock record at the cut.
        """
        samples, mappings, events = cuts
        at = samples - 1 if self.node_at.get((partition, samples - 1)) == node else samples
        return max(
            self.append_us[GPU_SAMPLES, partition][at],
            self.append_us[POD_MAPPINGS, partition][mappings],
            self.append_us[POD_EVENTS, partition][events],
        )


class SteadyFleet:
    """Sends a fleet's log in real time from `start` until its end."""

    def __init__(self, bootstrap: str, shape: FleetShape, *, late_us: int = _LATE_US) -> None:
        self.appended = Appended()
        self._shape, self._late_us = shape, late_us
        self._sender = Sender(bootstrap, nodes=NODE_BY_NODE, watcher={"linger.ms": 5})
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)
        self._failure: BaseException | None = None
        self.latest_us = 0
        """How far behind its own pace it was at most, the first seconds apart."""

    def start(self) -> None:
        """Begins to send."""
        self._thread.start()

    def check(self) -> bool:
        """Whether it still sends; BenchError where it failed or could not keep its pace."""
        if self._failure is not None:
            raise BenchError(f"the fleet could not send: {self._failure}") from self._failure
        if self.latest_us > self._late_us:
            raise BenchError(f"the fleet fell {self.latest_us / 1e6:.1f} s behind its pace: this machine is too small")
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            for sent in messages(self._shape):
                due_us = self._shape.start_us + sent.at_us
                while (early_us := due_us - time.time_ns() // 1000) > 0:
                    self._sender.poll(min(early_us / 1e6, 0.02))
                if sent.at_us > 10_000_000:
                    self.latest_us = max(self.latest_us, -early_us)
                headers = decode_headers(sent.headers)
                node = headers.node if headers.record == READING else ""
                told = partial(self.appended.note, sent.topic, sent.partition, node, headers.complete_to_us)
                self._sender.put(producer_of(sent), sent, told)
            self._sender.finish()
        except BaseException as error:  # noqa: BLE001 whatever it is, `check` raises it where it is waited for
            self._failure = error
