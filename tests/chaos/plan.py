"""What a seed means: the settings, the fleet, and which fault hits whom when. Equal seeds give equal plans."""

import random
from dataclasses import dataclass

PARTITIONS = 4
BROKERS = 3
PRODUCE_S = 13.0
_FIRST_FAULT_S, _LAST_FAULT_S = 2.0, 13.0

KINDS = {
    "worker kill": (4, 0.2, 5.0),
    "worker pause": (3, 1.0, 10.0),
    "worker end": (1, 0.1, 2.0),
    "sink kill": (2, 0.1, 3.0),
    "sink pause": (1, 0.5, 4.0),
    "producer kill": (2, 0.1, 1.0),
    "producer pause": (1, 0.5, 3.0),
    "broker kill": (3, 0.3, 5.0),
    "broker pause": (2, 0.5, 6.0),
    "net cut": (2, 0.2, 4.0),
    "net stall": (1, 0.5, 5.0),
    "net drop": (2, 0.0, 0.0),
}
"""Kind of fault to its weight, and its shortest and longest time in seconds.

A pause is SIGSTOP and SIGCONT; `net` is a broker's proxy: cut off, holding bytes back, or its connections closed once.
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: from `at_s` for `for_s` seconds, on number `target` of its kind."""

    at_s: float
    for_s: float
    kind: str
    target: int

    @property
    def subject(self) -> str:
        """What it hits: `worker 1`, `broker 0`; a broker's network counts as the broker."""
        return f"{self.kind.split()[0].replace('net', 'broker')} {self.target}"

    def __str__(self) -> str:
        return f"{self.at_s:.1f} s {self.kind} {self.target} for {self.for_s:.1f} s"


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a seed decides, the messages apart; `static` says which workers have a slot of their own."""

    seed: int
    window_s: int
    lateness_s: int
    nodes: int
    progress_s: float
    static: tuple[bool, ...]
    faults: tuple[Fault, ...]


def make_plan(seed: int) -> Plan:
    """The plan of a seed."""
    rng = random.Random(f"plan {seed}")
    static = tuple(rng.random() < 0.5 for _ in range(rng.choice([2, 2, 3])))
    return Plan(
        seed=seed,
        window_s=rng.choice([15, 20, 30, 60]),
        lateness_s=rng.choice([0, 5, 15, 40]),
        nodes=rng.choice([5, 6, 7]),
        progress_s=rng.choice([0.3, 1.0, 3.0]),
        static=static,
        faults=tuple(_faults(rng, len(static))),
    )


def _faults(rng: random.Random, workers: int) -> list[Fault]:
    faults: list[Fault] = []
    busy_until_s: dict[str, float] = {}
    for at_s in sorted(rng.uniform(_FIRST_FAULT_S, _LAST_FAULT_S) for _ in range(rng.randrange(6, 12))):
        kind = rng.choices(list(KINDS), [weight for weight, _, _ in KINDS.values()])[0]
        _, shortest_s, longest_s = KINDS[kind]
        target = rng.randrange({"worker": workers, "broker": BROKERS, "net": BROKERS}.get(kind.split()[0], 1))
        fault = Fault(at_s, rng.uniform(shortest_s, longest_s), kind, target)
        # Mostly one broker at a time; now and then two, when nothing can be acknowledged for a while.
        brokers = [s for name, s in busy_until_s.items() if name.startswith("broker")]
        crowded = fault.subject.startswith("broker") and max(brokers, default=0.0) > at_s and rng.random() < 0.7
        if busy_until_s.get(fault.subject, 0.0) > at_s or crowded:
            continue
        busy_until_s[fault.subject] = at_s + fault.for_s + 0.2
        faults.append(fault)
    return faults
