"""A simulated cluster with its API server, and an unmodified watcher whose producer keeps what it is given."""

import ssl
from collections.abc import Sequence

from collector.errors import Retry
from collector.watcher.api import Access, Api
from collector.watcher.remember import Memory
from collector.watcher.settings import WatcherSettings
from collector.watcher.watcher import Watcher
from infra.sim.kube_api import WATCHER_NAMESPACE, WATCHER_POD, KubeApi
from infra.sim.model import SimCluster, SimContainer, SimGpu, SimNode, SimPod
from schemas.clock import decode_clock
from schemas.headers import Headers
from schemas.names import POD_EVENTS
from schemas.pods import NodeRecord, PodRecord, decode_node, decode_pod

S = 1_000_000
START = 1_700_000_000 * S
NODE = SimNode("n1", START - 3600 * S, "boot", (SimGpu("GPU-a", 0, "NVIDIA H200", 1 << 37, 4),))
PARTITIONS = 2


class Recorder:
    """A producer that keeps its messages in order; `full` and `away` make it fail as a real one does."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int, Headers, bytes]] = []
        self.full = False
        self.away = False

    def produce(self, topic: str, node: str, headers: Headers, payload: bytes) -> bool:
        """Keeps the message."""
        if not self.full:
            self.sent.append((topic, -1, headers, payload))
        return not self.full

    def produce_to(self, topic: str, partition: int, key: bytes, headers: Headers, payload: bytes) -> bool:
        """Keeps the message."""
        if not self.full:
            self.sent.append((topic, partition, headers, payload))
        return not self.full

    def partition_count(self, topic: str, timeout_s: float = 0) -> int | None:
        """Always known."""
        return PARTITIONS

    def flush(self, timeout_s: float) -> None:
        """Retry while the broker is away."""
        if self.away:
            raise Retry("broker away")

    def pods(self) -> dict[str, PodRecord]:
        """Newest record of each pod, by uid."""
        return {r.uid: r for _, _, h, p in self.sent if h.record == "pod" for r in [decode_pod(p)]}

    def nodes(self) -> dict[str, NodeRecord]:
        """Newest record of each node."""
        return {r.name: r for _, _, h, p in self.sent if h.record == "node" for r in [decode_node(p)]}

    def clocks(self) -> list[int]:
        """Times asserted on pod-events, partition 0."""
        told = [(t, n, p) for t, n, h, p in self.sent if h.record == "clock"]
        return [decode_clock(p, b"k", t, n).now_us for t, n, p in told if (t, n) == (POD_EVENTS, 0)]


class HandClock:
    """A clock that goes to whatever it is asked for, up to `end_us`."""

    def __init__(self, end_us: int = START) -> None:
        self.now_us = START
        self.end_us = end_us

    def event_us(self) -> int:
        """Now."""
        return self.now_us

    def monotonic_us(self) -> int:
        """Since the start."""
        return self.now_us - START

    def wait_until_us(self, monotonic_us: int) -> bool:
        """Jumps there."""
        self.now_us = max(self.now_us, START + monotonic_us)
        return self.now_us <= self.end_us


class Site:
    """A cluster, its API server, and a watcher on it."""

    def __init__(self, pods: Sequence[SimPod] = (), tls: ssl.SSLContext | None = None, **settings: object) -> None:
        cluster = SimCluster("c", START, START + 7200 * S, (NODE,), tuple(pods))
        self.api = KubeApi(cluster, tls=tls)
        self.url = self.api.start()
        self.clock = HandClock()
        self.out = Recorder()
        self.settings = {"page_size": 3, "echo_timeout_us": 2 * S, "token_file": "", "ca_file": ""} | settings
        self.watcher = self.new_watcher()

    def new_watcher(self, memory: Memory | None = None) -> Watcher:
        """A watcher that knows nothing yet, or what is remembered from the one before."""
        own = {"pod_namespace": WATCHER_NAMESPACE, "pod_name": WATCHER_POD, "clock_key": "k"}
        values = {"cluster": "c", "bootstrap_servers": "x", "api_url": self.url, **own, **self.settings}
        settings = WatcherSettings(**values)  # type: ignore[arg-type]
        access = Access(settings.api_url, settings.token_file, settings.ca_file)
        return Watcher(settings, self.clock, Api(access), self.out, lambda now_us: memory or Memory())

    def tick(self, at_s: float) -> None:
        """The world and the watcher's clock go to START + at_s, then the watcher ticks."""
        self.clock.now_us = START + round(at_s * S)
        self.api.advance(self.clock.now_us)
        self.watcher.tick()


def pod_of(
    name: str, start_s: float, end_s: float | None, *, uid: str = "", deleted_s: float | None = None, runs: int = 1
) -> SimPod:
    """A pod of `runs` runs that share its life."""
    last_s = end_s if end_s is not None else start_s + 100 * runs
    edges = [start_s + (last_s - start_s) * i / runs for i in range(runs + 1)]
    containers = tuple(
        SimContainer(
            "main",
            f"{uid or name}-{i}".ljust(64, "0"),
            START + round(edges[i] * S),
            None if end_s is None and i == runs - 1 else START + round(edges[i + 1] * S),
            requests={"nvidia.com/gpu": 1},
        )
        for i in range(runs)
    )
    deleted_us = None if deleted_s is None else START + round(deleted_s * S)
    created_us = START + round((start_s - 1) * S)
    return SimPod(uid or f"uid-{name}", "team", name, "n1", created_us, deleted_us, containers)


TEN = tuple(pod_of(f"p{i}", -100, None) for i in range(10))
STORY = (
    pod_of("short", 11, 13, deleted_s=14),
    pod_of("restarts", 2, 62, runs=3),
    pod_of("web-0", 3, 20, uid="uid-a", deleted_s=21),
    pod_of("web-0", 23, None, uid="uid-b"),
)
