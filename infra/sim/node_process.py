"""One simulated node as a process: driver, /proc, cgroups and kubelet socket, with the unmodified node agent on them.

Led by a coordinator over stdin and stdout in lock-step (lockstep.py), or in real time with --live. Writes the node's
truth beside. The simulation and the agent share nothing but the interfaces a real node has, and the clock.
Run by itself: python -m infra.sim.node_process --help. Tested in tests/integration/test_lockstep.py.
"""

import argparse
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from collector.clock import Clock
from collector.errors import Retry

from .clock import LiveClock, LockstepClock, PipeLink, stop_when_told
from .filesystem import NodeFiles
from .holders import holders_of
from .library import Library
from .model import SimCluster, SimNode
from .observers import INTERVAL_US, Observers
from .peer_calls import install
from .podresources import PodResourcesServer
from .scenario import load_cluster
from .truth import WINDOW_US, Truth
from .workload import Workload
from .world import driver_of, engines_of, node_named

logger = logging.getLogger(__name__)
FLUSH_ATTEMPTS = 30


class Agent(Protocol):
    """What this process needs of the node agent."""

    def run(self) -> None:
        """Until the clock says stop."""

    def flush(self) -> None:
        """Until everything is acknowledged; Retry otherwise."""


AgentOf = Callable[[Clock, dict[str, str]], Agent]
"""The agent on a clock, with settings that say where this node's files and socket are."""


class SimulatedNode:
    """The node's parts; use as a context manager."""

    def __init__(self, cluster: SimCluster, workload: Workload, name: str, files: Path | None, out: Path) -> None:
        self.cluster = cluster
        self.node: SimNode = node_named(cluster, name)
        self.files = NodeFiles(cluster, self.node, files)
        self.socket = self.files.root / "kubelet.sock"
        self._workload = workload
        self._engines = engines_of(cluster, self.node, workload)
        self._now_us = cluster.start_us
        self._library: Library | None = None
        holders = {engine.gpu.uuid: holders_of(cluster, self.node, engine) for engine in self._engines}
        out.mkdir(parents=True, exist_ok=True)
        self.observers = Observers(holders)
        path = out / f"truth-{name}.jsonl"
        self.truth = Truth(path, name, self._engines, holders, self.observers, cluster.start_us)
        self._kubelet = PodResourcesServer(cluster, name, self.socket, lambda: self._now_us)

    def start(self, live: bool) -> None:
        """Puts the driver under pynvml and opens the kubelet's socket."""
        self._library = Library(driver_of(self._engines, self._workload, lambda: self._now_us, live))
        install(self._library)
        self._kubelet.start()

    def advance(self, now_us: int) -> None:
        """Brings the node to a time; raises what went wrong inside the driver's callbacks, if anything did."""
        self._now_us = now_us
        self.files.advance(now_us)
        if self._library is not None and self._library.failure is not None:
            raise RuntimeError("the simulated driver failed") from self._library.failure

    def close(self) -> None:
        """Writes the rest of the truth and removes socket and files."""
        self.truth.finish(self._now_us)
        self.observers.close()
        self._kubelet.stop()
        self.files.close()


def run_node(node: SimulatedNode, link: PipeLink, agent_of: AgentOf, *, live: bool) -> None:
    """Runs the agent on the node until the coordinator says finish."""
    node.start(live)
    clock = _clock(node, link, live)
    clock.every(INTERVAL_US, node.observers.look)
    clock.every(WINDOW_US, node.truth.window_ended)
    where = {
        "proc_path": str(node.files.proc_path),
        "cgroup_path": str(node.files.cgroup_path),
        "kubelet_socket": str(node.socket),
        "cluster": node.cluster.name,
        "node": node.node.name,
        "spool_path": "",
    }
    agent = agent_of(clock, where)
    if isinstance(clock, LockstepClock):
        clock.flush = lambda: patiently(agent.flush)
    else:
        link.reached(clock.event_us())
    agent.run()
    patiently(agent.flush)


def _clock(node: SimulatedNode, link: PipeLink, live: bool) -> LockstepClock | LiveClock:
    if live:
        return LiveClock(node.node.boot_us, stop_when_told(link), on_advance=node.advance)
    return LockstepClock(node.cluster.start_us, node.node.boot_us, link, on_advance=node.advance)


def patiently(flush: Callable[[], None]) -> None:
    """Flushes until it is done; the broker may be away for half a minute, then Retry stops the process."""
    for _ in range(FLUSH_ATTEMPTS):
        try:
            return flush()
        except Retry as error:
            logger.warning("not yet acknowledged, trying again: %s", error)
            threading.Event().wait(1)
    return flush()


def real_agent(bootstrap_servers: str, extra: Sequence[str]) -> AgentOf:
    """The agent that nodes run, publishing to a broker; `extra` are settings as NAME=VALUE."""
    from collector.app import build_agent
    from collector.settings import PREFIX, AgentSettings, settings_from

    def agent_of(clock: Clock, where: dict[str, str]) -> Agent:
        values = {"bootstrap_servers": bootstrap_servers, **where, **dict(item.split("=", 1) for item in extra)}
        return build_agent(settings_from({PREFIX + k.upper(): v for k, v in values.items()}, AgentSettings), clock)

    return agent_of


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="infra.sim.node_process", description=__doc__)
    parser.add_argument("--scenario", default="default", help="name of a shipped scenario, or a YAML file")
    parser.add_argument("--trace", help="GenTD26 duty cycles or openb pod list instead of the scenario's pods")
    parser.add_argument("--hours", type=float)
    parser.add_argument("--start-us", type=int, required=True, help="event time at which the simulation begins")
    parser.add_argument("--node", required=True)
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--out", type=Path, required=True, help="where truth-NODE.jsonl goes")
    parser.add_argument("--files", type=Path, help="where the node's /proc and cgroup trees go; default: in memory")
    parser.add_argument("--live", action="store_true", help="real time instead of lock-step")
    parser.add_argument("--agent", action="append", default=[], metavar="NAME=VALUE", help="a setting of the agent")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one node; 0 when the coordinator said finish."""
    options = _arguments(argv)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    cluster, workload = load_cluster(
        options.scenario, start_us=options.start_us, hours=options.hours, trace=options.trace
    )
    node = SimulatedNode(cluster, workload, options.node, options.files, options.out)
    try:
        run_node(node, PipeLink(), real_agent(options.bootstrap_servers, options.agent), live=options.live)
    finally:
        node.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
