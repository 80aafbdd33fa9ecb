"""The messages of a seed: a fleet's logs as in tests/property/workload.py, spread over partitions, and more garbage.

Deterministic: a producer process that was killed makes the same list again and goes on in the middle of it.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from schemas.clock import ClockRecord, encode_clock
from schemas.headers import CLOCK, Headers, encode_headers
from schemas.ids import message_key, partition_of
from schemas.names import GPU_SAMPLES, INPUT_TOPICS, POD_EVENTS, POD_MAPPINGS
from tests.chaos.plan import PARTITIONS, PRODUCE_S, Plan
from tests.property.workload import SECOND, START, add_node

CLUSTER = "c"
MINUTES = 7
_CLOCKS = (
    (), (), (),
    ((200, -40),),
    ((150, 90),),
    ((120, -75), (260, 0)),
    ((0, 7_200), (300, 0)),
    ((0, -7_200),),
    ((180, -3_600), (300, 0)),
)  # fmt: skip
"""How nodes' wall clocks go wrong: from which second on by how many, up to hours ahead or behind."""
_FLEET_PART = 0.55
"""Of the time of a seed, for the minutes in which there are readings."""
RUN_ON_S = 700
"""Clock beyond the last reading: the wait for silent nodes and every gap of the clock."""


class Timed(NamedTuple):
    """A message, and when in simulated time it reaches the log."""

    arrival_us: float
    number: int
    topic: str
    partition: int
    key: bytes
    headers: list[tuple[str, bytes]]
    payload: bytes


class FleetLog:
    """Collects messages; a node's go to the node's partition."""

    def __init__(self) -> None:
        self.messages: list[Timed] = []

    def add(self, topic: str, arrival_us: float, headers: Headers, payload: bytes) -> None:
        """Adds a message of a node."""
        partition = partition_of(headers.cluster, headers.node, PARTITIONS)
        key = message_key(headers.cluster, headers.node)
        self.put(topic, partition, arrival_us, encode_headers(headers), payload, key)

    def put(
        self,
        topic: str,
        partition: int,
        arrival_us: float,
        headers: list[tuple[str, bytes]],
        payload: bytes,
        key: bytes = b"?",
    ) -> None:
        """Adds any message."""
        self.messages.append(Timed(arrival_us, len(self.messages), topic, partition, key, headers, payload))


def messages(plan: Plan) -> list[Timed]:
    """All messages of a plan in order of arrival."""
    rng, log = random.Random(f"messages {plan.seed}"), FleetLog()
    end_s = MINUTES * 60
    _clocks(rng, log, end_s + RUN_ON_S)
    for number in range(plan.nodes):
        # Some fall silent for good: their windows go on by the clock alone, from the carry of what they last said.
        last_s = end_s if rng.random() < 0.7 else rng.randrange(60, 240)
        add_node(rng, log, number, last_s, late=True, reboots=True, steps=rng.choice(_CLOCKS))
    _garbage(rng, log, end_s)
    return sorted(_held_back(rng, sorted(log.messages, key=lambda m: m[:2])), key=lambda m: m.arrival_us)


def due_s(sent: Sequence[Timed]) -> list[float]:
    """When each message is sent, in seconds from the first; the fleet's own minutes get most of the time."""
    first_us, last_us, fleet_us = sent[0].arrival_us, sent[-1].arrival_us, START + (MINUTES * 60 + 30) * SECOND
    slow_s = _FLEET_PART * PRODUCE_S
    return [
        slow_s * (m.arrival_us - first_us) / (fleet_us - first_us)
        if m.arrival_us < fleet_us
        else slow_s + (PRODUCE_S - slow_s) * (m.arrival_us - fleet_us) / (last_us - fleet_us)
        for m in sent
    ]


def _held_back(rng: random.Random, sent: list[Timed]) -> list[Timed]:
    """Some partitions of some topics take nothing for minutes, and then all at once: the topics drift apart."""
    stalls: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for topic in INPUT_TOPICS:
        for partition in range(PARTITIONS):
            for first_s, last_s in ((20, MINUTES * 60), (MINUTES * 60 + 200, MINUTES * 60 + 450)):
                if rng.random() < 0.5:
                    begin_us = START + rng.randrange(first_s, last_s) * SECOND
                    stall = begin_us, begin_us + rng.randrange(30, 200) * SECOND
                    stalls.setdefault((topic, partition), []).append(stall)
    out = []
    for message in sent:
        ends = [b for a, b in stalls.get((message.topic, message.partition), []) if a <= message.arrival_us < b]
        out.append(message._replace(arrival_us=ends[0]) if ends else message)
    return out


def _clocks(rng: random.Random, log: FleetLog, end_s: int) -> None:
    outage = rng.choice([None, None, (150, 190), (200, 330)])
    for t in range(0, end_s, 5):
        if outage and outage[0] <= t < outage[1]:
            continue
        for topic in INPUT_TOPICS:
            for partition in range(PARTITIONS):
                payload = encode_clock(ClockRecord(cluster=CLUSTER, now_us=START + t * SECOND), b"", topic, partition)
                headers = encode_headers(Headers(record=CLOCK, cluster=CLUSTER))
                arrival_us = START + (t + rng.random() * 2) * SECOND
                log.put(topic, partition, arrival_us, headers, payload, CLUSTER.encode())
                if rng.random() < 0.02:
                    log.put(topic, partition, arrival_us + rng.random() * 30 * SECOND, headers, payload)


def _garbage(rng: random.Random, log: FleetLog, end_s: int) -> None:
    """Records that can never succeed, each kind on some partition: not one may stop a worker or vanish."""
    good = encode_headers(
        Headers(record="reading", cluster=CLUSTER, node="n0", boot_id="boot-a", epoch_us=1, seq=9_000)
    )
    future = encode_headers(Headers(record="reading", version=99, cluster=CLUSTER, node="n0"))
    foreign = encode_headers(Headers(record="snapshot", cluster=CLUSTER, node="n1"))
    clock = encode_headers(Headers(record=CLOCK, cluster=CLUSTER))
    kinds: list[tuple[str, list[tuple[str, bytes]], bytes]] = [
        (GPU_SAMPLES, [], b"\x00\xff no headers"),
        (GPU_SAMPLES, good, b"not arrow"),
        (GPU_SAMPLES, good, b""),
        (GPU_SAMPLES, future, b"x"),
        (POD_EVENTS, foreign, b"{}"),
        (POD_MAPPINGS, foreign, b'{"mapping_seq": "one"}'),
        (POD_MAPPINGS, clock, b"[1]"),
        (POD_MAPPINGS, [("record", b"\xff\xfe"), ("cluster", b"\xff")], b"x"),
    ]
    kinds += [(rng.choice(INPUT_TOPICS), good, rng.randbytes(rng.randrange(40))) for _ in range(4)]
    for topic, headers, payload in kinds:
        log.put(topic, rng.randrange(PARTITIONS), START + rng.randrange(end_s) * SECOND, headers, payload)
