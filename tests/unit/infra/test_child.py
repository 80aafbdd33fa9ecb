import signal
import subprocess
import sys
import time

import pytest

from infra.broker import child


def test_end_is_bounded_where_the_exit_status_never_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal inside `Popen.poll` leaves its lock taken, and a wait without bound waits for ever: it is killed."""
    monkeypatch.setattr(child, "KILLED_S", 0.1)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    process._waitpid_lock.acquire()  # type: ignore[attr-defined]
    began_s = time.monotonic()
    try:
        assert child.end(process, patience_s=0.1) == -signal.SIGKILL
    finally:
        process._waitpid_lock.release()  # type: ignore[attr-defined]
    assert time.monotonic() - began_s < 5
    assert process.wait(5) == -signal.SIGTERM
