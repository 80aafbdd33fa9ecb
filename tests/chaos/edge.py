"""The edge of some seeds: the unmodified node agent on a simulated node, and the unmodified watcher, at RATE times.

`python -m tests.chaos.edge agent BOOTSTRAP ORIGIN_NS FOLDER NODE`, `... watcher BOOTSTRAP ORIGIN_NS URL`: simulated
time began at START_US when the machine's monotonic clock showed ORIGIN_NS, and goes on whatever happens to a process.
An agent keeps its spool in the folder from life to life; the node's /proc and kubelet are made anew with each.
"""

import logging
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from collector.app import build_agent
from collector.errors import Kept, Retry, Stop
from collector.settings import AgentSettings
from collector.watcher.app import build_watcher
from collector.watcher.settings import WatcherSettings
from infra.sim.filesystem import NodeFiles
from infra.sim.kube_api import WATCHER_NAMESPACE, WATCHER_POD
from infra.sim.library import Library
from infra.sim.model import SimCluster
from infra.sim.peer_calls import install
from infra.sim.podresources import PodResourcesServer
from infra.sim.scenario import load_cluster
from infra.sim.workload import Workload
from infra.sim.world import driver_of, engines_of, node_named
from tests.property.workload import START as START_US

logger = logging.getLogger(__name__)
AT_WORK = "at work"
"""Logged once SIGTERM ends it in peace."""
RATE = 40
NODES = ("edge-0", "edge-1")
_STEP_S = 0.02
_SCENARIO = str(Path(__file__).parent / "edge.yaml")


def world() -> tuple[SimCluster, Workload]:
    """The cluster that the edge's processes live in."""
    return load_cluster(_SCENARIO, start_us=START_US)


def world_us(origin_ns: int) -> int:
    """Simulated time now."""
    return START_US + (time.monotonic_ns() - origin_ns) * RATE // 1000


class FastClock:
    """Simulated time as a clock of agent and watcher; `on_advance` is called as it goes."""

    def __init__(self, origin_ns: int, boot_us: int, on_advance: Callable[[int], None] = lambda now_us: None) -> None:
        self._origin_ns, self._boot_us, self._on_advance = origin_ns, boot_us, on_advance
        self.stop = threading.Event()
        on_advance(self.event_us())

    def event_us(self) -> int:
        """Simulated wall clock."""
        return world_us(self._origin_ns)

    def monotonic_us(self) -> int:
        """Simulated time since boot."""
        return self.event_us() - self._boot_us

    def wait_until_us(self, monotonic_us: int) -> bool:
        """Sleeps until then; False once stopped."""
        while (left_us := monotonic_us - self.monotonic_us()) > 0 and not self.stop.is_set():
            self.stop.wait(min(left_us / RATE / 1e6, _STEP_S))
        self._on_advance(self.event_us())
        return not self.stop.is_set()


def run_agent(bootstrap: str, origin_ns: int, folder: Path, name: str) -> None:
    """A node with its agent, until SIGTERM."""
    cluster, workload = world()
    node = node_named(cluster, name)
    now = [START_US]
    files = NodeFiles(cluster, node, Path(tempfile.mkdtemp(dir=folder)))
    socket = files.root / "kubelet.sock"

    def advance(now_us: int) -> None:
        now[0] = now_us
        files.advance(now_us)

    clock = FastClock(origin_ns, node.boot_us, advance)
    install(Library(driver_of(engines_of(cluster, node, workload), workload, lambda: now[0])))
    PodResourcesServer(cluster, name, socket, lambda: now[0]).start()
    settings = AgentSettings(
        cluster=cluster.name,
        node=name,
        bootstrap_servers=bootstrap,
        proc_path=str(files.proc_path),
        cgroup_path=str(files.cgroup_path),
        kubelet_socket=str(socket),
        spool_path=str(folder / f"spool-{name}"),
    )
    signal.signal(signal.SIGTERM, lambda *_: clock.stop.set())
    logger.info(AT_WORK)
    build_agent(settings, clock).run()


def run_watcher(bootstrap: str, origin_ns: int, url: str) -> None:
    """The watcher, until SIGTERM."""
    settings = WatcherSettings(
        cluster=world()[0].name,
        bootstrap_servers=bootstrap,
        pod_namespace=WATCHER_NAMESPACE,
        pod_name=WATCHER_POD,
        api_url=url,
        token_file="",
        ca_file="",
    )
    clock = FastClock(origin_ns, 0)
    signal.signal(signal.SIGTERM, lambda *_: clock.stop.set())
    logger.info(AT_WORK)
    build_watcher(settings, clock).run()


def main(argv: list[str]) -> int:
    """The exit codes of the node agent (collector/cli.py)."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    kind, bootstrap, origin_ns, *rest = argv
    try:
        if kind == "agent":
            run_agent(bootstrap, int(origin_ns), Path(rest[0]), rest[1])
        else:
            run_watcher(bootstrap, int(origin_ns), rest[0])
    except Kept as error:
        logger.warning("%s", error)
    except Retry as error:
        sys.stderr.write(f"{error}\n")
        return 3
    except Stop as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
