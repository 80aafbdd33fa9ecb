import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infra.demo.errors import DemoError
from infra.demo.services import Services

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _wait_dead(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not _alive(pid)


def test_services_stop_leaves_no_process(tmp_path: Path) -> None:
    """After stop_all every process that was started is gone."""
    services = Services(tmp_path)
    pids = [services.start(name, SLEEPER).process.pid for name in ("one", "two")]
    services.check()
    services.stop_all()
    assert not [pid for pid in pids if _alive(pid)]


def test_services_ended_process_is_reported_with_its_log(tmp_path: Path) -> None:
    """A process that ended by itself is an error with its exit code and the end of its log."""
    services = Services(tmp_path)
    service = services.start("worker", [sys.executable, "-c", "import sys; print('no broker'); sys.exit(3)"])
    service.process.wait(10)
    with pytest.raises(DemoError, match=r"worker ended with exit code 3\.\n.*\n  no broker"):
        services.check()


def test_services_die_with_a_killed_owner(tmp_path: Path) -> None:
    """A kill -9 of the demo itself leaves none of its processes."""
    code = (
        "import sys, time; from pathlib import Path; from infra.demo.services import Services;"
        "s = Services(Path(sys.argv[1])).start('x', [sys.executable, '-c', 'import time; time.sleep(600)']);"
        "print(s.process.pid, flush=True); time.sleep(600)"
    )
    owner = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    child = int(owner.stdout.readline())
    time.sleep(0.3)
    assert _alive(child)
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait(10)
    assert _wait_dead(child)
