"""Composition root of the node agent: builds every part once and puts them together. Decides nothing else."""

import logging
from functools import partial
from pathlib import Path

from .agent import Agent, Sources
from .clock import Clock
from .containers import Containers
from .driver import Driver
from .errors import Stop
from .grants import Grants, socket_identity
from .kubelet import Kubelet
from .metrics import AgentMetrics, serve_agent
from .procfs import INIT_PID_NAMESPACE, ProcFs
from .publish import Outlet, Publisher
from .roster import Roster
from .settings import AgentSettings, leave_mps_enumeration, shown
from .spool import FLIGHT_BYTES, Spool

logger = logging.getLogger(__name__)


def build_agent(settings: AgentSettings, clock: Clock, outlet: Outlet | None = None) -> Agent:
    """The agent of one node, with a spool of its own where no outlet is given; Stop where it must not run."""
    logger.info("settings %s", shown(settings))
    proc = ProcFs(settings.proc_path)
    _check_pid_namespace(proc, settings)
    leave_mps_enumeration()
    driver = Driver()
    kubelet = Kubelet(settings.kubelet_socket, settings.kubelet_timeout_us / 1e6, driver.uuid_of)
    sources = Sources(
        driver,
        Roster(proc, Containers(settings.cgroup_path)),
        Grants(kubelet, partial(socket_identity, settings.kubelet_socket), settings.grants_period_us),
        proc.boot_id(),
    )
    outlet = outlet or _spool(settings, clock)
    metrics = AgentMetrics(outlet if isinstance(outlet, Spool) else None)
    serve_agent(settings.metrics_address, settings.metrics_port, metrics, clock)
    return Agent(settings, clock, sources, outlet, metrics)


def _spool(settings: AgentSettings, clock: Clock) -> Spool:
    publisher = Publisher(
        settings.cluster,
        settings.bootstrap_servers,
        options=settings.kafka_options,
        queue_bytes=8 * FLIGHT_BYTES,
        client_id=f"gpumeter-{settings.node}",
    )
    path = Path(settings.spool_path) if settings.spool_path else None
    return Spool(publisher, clock, path, limit_bytes=settings.spool_bytes, memory_bytes=settings.queue_bytes)


def _check_pid_namespace(proc: ProcFs, settings: AgentSettings) -> None:
    """NVML names host processes; with another namespace's /proc they would be taken for strangers or for others."""
    namespace = proc.pid_namespace()
    if namespace in ("", INIT_PID_NAMESPACE) or settings.foreign_pids:
        return
    raise Stop(
        f"{settings.proc_path} shows pid namespace {namespace}, not the host's ({INIT_PID_NAMESPACE}); pids are "
        "NVML's, so nothing is metered. Run with hostPID: true; on a nested node set GPUMETER_FOREIGN_PIDS=true."
    )
