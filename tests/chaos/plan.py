"""What a seed means: the settings, the fleet, and which fault hits whom when. Equal seeds give equal plans."""

import random
from dataclasses import dataclass

PARTITIONS = 4
BROKERS = 3
PRODUCE_S = 16.0
_FIRST_FAULT_S, _LAST_FAULT_S = 0.5, 15.0

KINDS = {
    "worker kill": (5, 0.2, 3.0),
    "worker pause": (4, 1.0, 11.0),
    "worker end": (1, 0.1, 2.0),
    "sink kill": (2, 0.1, 3.0),
    "sink pause": (1, 0.5, 4.0),
    "producer kill": (2, 0.1, 1.0),
    "producer pause": (1, 0.5, 3.0),
    "broker kill": (3, 0.3, 5.0),
    "broker pause": (2, 0.5, 6.0),
    "broker restart": (1, 2.0, 5.0),
    "net cut": (2, 0.2, 4.0),
    "net stall": (1, 0.5, 5.0),
    "net drop": (2, 0.0, 0.0),
    "net away": (1, 1.0, 4.0),
    "agent kill": (4, 0.1, 2.0),
    "agent pause": (2, 0.3, 2.0),
    "agent full": (2, 1.0, 5.0),
    "watcher kill": (3, 0.1, 3.0),
    "watcher pause": (2, 0.5, 5.0),
}
"""Kind of fault to its weight, and its shortest and longest time in seconds.

A pause is SIGSTOP and SIGCONT; `net` is a broker's proxy: cut off, holding bytes back, its connections closed once, or
all brokers cut off at once (away). An agent's disk is full where no file of its process may grow beyond 4 KiB.
"""
EDGE_EVERY = 3
"""Every so many seeds the real node agents and the real watcher run too."""
_OF_EDGE = ("agent", "watcher")
AGENTS = 2


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: from `at_s` for `for_s` seconds, on number `target` of its kind."""

    at_s: float
    for_s: float
    kind: str
    target: int

    @property
    def subject(self) -> str:
        """What it hits: `worker 1`, `broker 0`; a broker's network counts as the broker, a disk is one of its own."""
        if self.kind == "agent full":
            return f"disk {self.target}"
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
    edge: bool
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
        edge=seed % EDGE_EVERY == 0,
        faults=tuple(_faults(rng, len(static), seed % EDGE_EVERY == 0)),
    )


def _faults(rng: random.Random, workers: int, edge: bool) -> list[Fault]:
    weights = {kind: w for kind, (w, _, _) in KINDS.items() if edge or not kind.startswith(_OF_EDGE)}
    many = {"worker": workers, "broker": BROKERS, "net": BROKERS, "agent": AGENTS}
    faults: list[Fault] = _outage(rng) if edge else []
    busy = {fault.subject: (fault.at_s, fault.at_s + fault.for_s + 0.2) for fault in faults}
    for at_s in sorted(rng.uniform(_FIRST_FAULT_S, _LAST_FAULT_S) for _ in range(rng.randrange(7, 13))):
        kind = rng.choices(list(weights), list(weights.values()))[0]
        _, shortest_s, longest_s = KINDS[kind]
        target = 0 if kind == "net away" else rng.randrange(many.get(kind.split()[0], 1))
        fault = Fault(at_s, rng.uniform(shortest_s, longest_s), kind, target)
        of_brokers = fault.subject.startswith("broker")
        begin_s, end_s = busy.get(fault.subject, (0.0, 0.0))
        if begin_s < at_s + fault.for_s + 0.2 and at_s < end_s:
            continue
        # Mostly one broker at a time; now and then two, when nothing can be acknowledged for a while.
        brokers = [end for name, (_, end) in busy.items() if name.startswith("broker")]
        if of_brokers and max(brokers, default=0.0) > at_s and (kind == "net away" or rng.random() < 0.7):
            continue
        for name in [f"broker {n}" for n in range(BROKERS)] if kind == "net away" else [fault.subject]:
            busy[name] = (at_s, at_s + fault.for_s + 0.2)
        faults.append(fault)
    return sorted(faults, key=lambda fault: fault.at_s)


def _outage(rng: random.Random) -> list[Fault]:
    """All brokers out of reach while one agent's disk is full, and the other agent is killed over its spool."""
    at_s, target = rng.uniform(3.0, 8.0), rng.randrange(AGENTS)
    return [
        Fault(at_s, rng.uniform(2.5, 4.0), "net away", 0),
        Fault(at_s + 0.5, rng.uniform(1.0, 4.0), "agent full", target),
        Fault(at_s + 1.0, rng.uniform(0.1, 0.5), "agent kill", 1 - target),
    ]
