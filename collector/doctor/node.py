"""All checks of a node, in the order in which a person would put things right. Builds the agent's readers once.

Tested in tests/unit/collector/test_doctor.py.
"""

from collections.abc import Callable

from collector.answers import DeviceAnswer
from collector.driver import Driver
from collector.kubelet import Kubelet
from collector.procfs import ProcFs
from collector.settings import AgentSettings, leave_mps_enumeration, mps_enumeration, usable_settings
from schemas.snapshots import Grant

from . import devices, grants, host
from .devices import ENERGY, GPUS, LIBRARY, LISTS, MEMORY, MIG, PROCESSES, SAMPLES, VERSION
from .finding import Check, Finding


def examine_node() -> list[Finding]:
    """Findings of this node, by the settings of the process's environment as far as they can be read."""
    settings, complaint = usable_settings()
    found = [host.SETTINGS.examine(lambda: host.settings_finding(complaint)), *_host(settings)]
    answers: list[DeviceAnswer] = []
    leave_mps_enumeration()
    driver = Driver()
    try:
        found.append(LIBRARY.examine(lambda: devices.library(driver, answers)))
        if found[-1].state == "ok":
            found += _devices(answers)
        return found + _kubelet(settings, driver, answers)
    finally:
        driver.close()


def _host(settings: AgentSettings) -> list[Finding]:
    proc, path = ProcFs(settings.proc_path), settings.proc_path
    checks: tuple[tuple[Check, Callable[[], Finding]], ...] = (
        (host.MPS_ENUMERATION, lambda: host.mps_enumeration(mps_enumeration())),
        (host.PID_NAMESPACE, lambda: host.pid_namespace(proc, settings.foreign_pids)),
        (host.PROC, lambda: host.process_files(proc, path)),
        (host.CGROUPS, lambda: host.cgroup_tree(settings.cgroup_path)),
        (host.SPOOL, lambda: host.spool(settings.spool_path, settings.spool_bytes, path)),
    )
    return [check.examine(look) for check, look in checks]


def _devices(answers: list[DeviceAnswer]) -> list[Finding]:
    version = VERSION.examine(devices.version)
    garbled = version.state == "fault"
    checks: tuple[tuple[Check, Callable[[], Finding]], ...] = (
        (GPUS, lambda: devices.gpus(answers)),
        (MIG, lambda: devices.mig(answers)),
        (LISTS, lambda: devices.lists(answers, garbled)),
        (SAMPLES, lambda: devices.samples(answers)),
        (PROCESSES, lambda: devices.process_utilisation(answers)),
        (MEMORY, lambda: devices.memory(answers)),
        (ENERGY, lambda: devices.energy(answers)),
    )
    return [version, *(check.examine(look) for check, look in checks)]


def _kubelet(settings: AgentSettings, driver: Driver, answers: list[DeviceAnswer]) -> list[Finding]:
    kubelet = Kubelet(settings.kubelet_socket, settings.kubelet_timeout_us / 1e6, driver.uuid_of)
    granted: list[Grant] = []
    known = {answer.gpu_uuid for answer in answers}
    found = [grants.KUBELET.examine(lambda: grants.answering(kubelet, granted))]
    if found[0].state == "ok":
        found.append(grants.GRANTS.examine(lambda: grants.granted_devices(kubelet, granted, known)))
    return found
