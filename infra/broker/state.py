"""What a local cluster's directory says about itself: ports, and the process ids of its brokers.

Owns kafka.json. Law: a process is ours only while its command line names our server.properties, so a reused process id
is never signalled (tests/integration/test_kafka_broker.py).
"""

import json
import os
import signal
import time
from pathlib import Path

from .properties import Ports

_FILE = "kafka.json"


def read_ports(directory: Path) -> list[Ports]:
    """Ports of the cluster's brokers; empty where no cluster was ever made."""
    path = directory / _FILE
    return [Ports(*pair) for pair in json.loads(path.read_text())["ports"]] if path.exists() else []


def write_ports(directory: Path, ports: list[Ports]) -> None:
    """Remember the ports, so that a restart has the same addresses."""
    (directory / _FILE).write_text(json.dumps({"ports": ports}))


def properties_path(directory: Path, index: int) -> Path:
    """server.properties of a broker."""
    return directory / f"broker-{index}" / "server.properties"


def running_pids(directory: Path) -> list[int]:
    """Process ids of this directory's brokers that run now, whoever started them."""
    wanted = {str(properties_path(directory.resolve(), i)) for i in range(len(read_ports(directory)))}
    return [pid for pid in _pids() if wanted.intersection(_arguments(pid))]


def stop_pids(pids: list[int], patience_s: float = 20.0) -> None:
    """Clean stop of brokers that another process started; kill -9 after `patience_s`."""
    for pid in pids:
        _signal(pid, signal.SIGTERM)
    deadline = time.monotonic() + patience_s
    while any(_arguments(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in pids:
        if _arguments(pid):
            _signal(pid, signal.SIGKILL)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
