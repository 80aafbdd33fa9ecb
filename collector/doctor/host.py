"""Checks of what the node's system and the pod's own configuration give the agent. Reads; changes nothing.

Reads /proc and cgroups only through the agent's own readers, so what they cannot see is not seen here either.
Tested in tests/unit/collector/test_doctor.py.
"""

import os
import shutil
import tempfile
from pathlib import Path

from collector.containers import V1_HIERARCHIES, Containers
from collector.procfs import INIT_PID_NAMESPACE, ProcFs

from .finding import Check, Finding

SETTINGS = Check(
    "settings",
    "the agent ends at start with code 2: this node has no readings, its GPU time is unobserved",
    "Correct the GPUMETER_ variables that are listed; `gpumeter collector --help` explains each.",
)
MPS_ENUMERATION = Check(
    "mps enumeration",
    "none in the agent, which unsets it at start; under it other NVML tools see no physical GPUs and most calls fail",
    "Remove NVML_MPS_DEVICE_ENUMERATION from the environment.",
)
PID_NAMESPACE = Check(
    "pid namespace",
    "NVML's pids are the host's: here they name nobody or somebody else, so use goes to no pod or to a wrong one",
    "Set hostPID: true in the pod's spec.",
)
PROC = Check(
    "proc",
    "processes cannot be traced to containers: their use is unattributed, or the agent does not start",
    "Mount the host's /proc, without hidepid, at GPUMETER_PROC_PATH.",
)
CGROUPS = Check(
    "cgroups",
    "no process is known before the driver names it: short-lived ones are unattributed",
    "Mount the host's /sys/fs/cgroup, not the container's own, at GPUMETER_CGROUP_PATH.",
)
SPOOL = Check(
    "spool",
    "unsent readings are in memory only: while the broker is away, a restart loses them, told as a gap",
    "Mount a hostPath that the agent may write at GPUMETER_SPOOL_PATH.",
)
PASSING = frozenset({"tmpfs", "ramfs", "overlay", "aufs"})
"""File systems that do not outlive the container or the boot."""


def settings_finding(complaint: str) -> Finding:
    """Whether the environment can be used; `complaint` is what the agent would say, empty where it would start."""
    return SETTINGS.fault(complaint) if complaint else SETTINGS.ok("every GPUMETER_ variable is known and readable")


def mps_enumeration(value: str | None) -> Finding:
    """Whether the environment makes NVML's handles something else than GPUs."""
    if value is None:
        return MPS_ENUMERATION.ok("NVML_MPS_DEVICE_ENUMERATION is not set")
    return MPS_ENUMERATION.warning(f"NVML_MPS_DEVICE_ENUMERATION={value!r} is set")


def pid_namespace(proc: ProcFs, foreign_pids: bool) -> Finding:
    """Whether the agent sees the pids that NVML speaks of."""
    namespace = proc.pid_namespace()
    if namespace == INIT_PID_NAMESPACE:
        return PID_NAMESPACE.ok(f"the host's, {namespace}")
    if not namespace:
        return PID_NAMESPACE.warning("this /proc does not show the agent's own namespace", "", PROC.fix)
    seen = f"{namespace}, not the host's ({INIT_PID_NAMESPACE})"
    if foreign_pids:
        return PID_NAMESPACE.warning(f"{seen}; the agent runs all the same (GPUMETER_FOREIGN_PIDS)")
    return PID_NAMESPACE.fault(seen, "the agent refuses to start: nothing of this node is metered")


def process_files(proc: ProcFs, path: str) -> Finding:
    """Whether boot id, start times and cgroups of processes can be read, by the example of process 1."""
    try:
        boot, ticks, cgroup = proc.boot_id(), proc.start_ticks(1), proc.cgroup(1)
    except OSError as error:
        return PROC.fault(f"{error.filename or path}: {error.strerror}")
    missing = [name for name, value in (("stat", ticks), ("cgroup", cgroup)) if value is None]
    if missing:
        return PROC.fault(f"{path}/1 has no {' and no '.join(missing)}: not a whole /proc, or mounted with hidepid")
    return PROC.ok(f"{path} is readable, boot {boot}")


def cgroup_version(path: str) -> str:
    """`v2`, `v1`, `hybrid`, or nothing where this is no cgroup file system."""
    if Path(path, "cgroup.controllers").exists():
        return "v2"
    if not any(Path(path, name).is_dir() for name in V1_HIERARCHIES):
        return ""
    return "hybrid" if Path(path, "unified", "cgroup.controllers").exists() else "v1"


def cgroup_tree(path: str) -> Finding:
    """Whether the cgroup tree is there and names containers in a form that is known."""
    version = cgroup_version(path)
    if not version:
        return CGROUPS.fault(f"{path} is {'no cgroup file system' if Path(path).is_dir() else 'not there'}")
    changes = Containers(path).scan()
    if not changes.new_containers:
        return CGROUPS.fault(f"{path} is {version} and not one group in it has the form of a container")
    pods = {identity.pod_uid for _, identity in changes.arrived if identity.pod_uid}
    seen = f"{path} is {version}: {changes.new_containers} containers, {len(changes.arrived)} processes"
    if not pods:
        return CGROUPS.warning(
            f"{seen}, none of them of a pod",
            "pods are found by container id alone, if at all; else their use is the host's",
            "Look whether pods run on this node; if so, report how their /proc/PID/cgroup names them.",
        )
    return CGROUPS.ok(f"{seen}, {len(pods)} pods")


def spool(path: str, limit_bytes: int, proc_path: str) -> Finding:
    """Whether unsent messages can be kept on a disk that outlives the agent; writes a file without a name."""
    if not path:
        return SPOOL.warning("GPUMETER_SPOOL_PATH is empty: memory only")
    there = next(place for place in (Path(path), *Path(path).absolute().parents) if place.exists())
    if not there.is_dir():
        return SPOOL.fault(f"{there} is not a directory")
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"1")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return SPOOL.fault(f"{there} cannot be written: {error.strerror}")
    free = shutil.disk_usage(there).free
    seen = f"{there} is writable" if there == Path(path) else f"{path} can be made in {there}"
    if free < limit_bytes:
        return SPOOL.warning(
            f"{seen}, but has {free >> 20} MiB free of the {limit_bytes >> 20} that the spool may take",
            "the spool holds a shorter outage of the broker than it was set for",
            "Free the disk, or lower GPUMETER_SPOOL_BYTES.",
        )
    kind = file_system_of(there.resolve(), _mounts(proc_path))
    if kind in PASSING:
        return SPOOL.warning(f"{seen}, but is {kind}: it is gone with the container or the boot")
    return SPOOL.ok(f"{seen}, {kind or 'of unknown file system'}, {free >> 20} MiB free")


def file_system_of(path: Path, mounts: str) -> str:
    """Type of the file system that holds an absolute path, by the text of /proc/self/mounts; empty: not told."""
    rows = [line.split() for line in mounts.splitlines()]
    places = [(row[1].replace("\\040", " "), row[2]) for row in rows if len(row) > 2]
    holding = [(place, kind) for place, kind in places if path.is_relative_to(place)]
    return max(reversed(holding), key=lambda one: len(one[0]), default=("", ""))[1]


def _mounts(proc_path: str) -> str:
    """Text of the agent's own mounts; empty where this /proc does not show it, of which PROC speaks."""
    try:
        return Path(proc_path, "self/mounts").read_text("utf-8", "replace")
    except OSError:
        return ""
