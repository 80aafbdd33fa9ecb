"""Ctrl-C, TERM and a kill of the demo in mid-run: no process is left."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from infra.broker.state import running_pids

MARK = "GPUMETER_TEST_MARK"
_INHERIT = """
import os, signal, sys
signal.signal(signal.SIGINT, getattr(signal, sys.argv[1]))
os.execv(sys.argv[2], sys.argv[2:])
"""


def _marked(mark: str) -> list[str]:
    """Command lines of the processes that inherited the mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
        except OSError:
            continue
    return found


def _started(folder: Path, mark: str, inherited: str = "SIG_DFL") -> "subprocess.Popen[bytes]":
    """A demo of 20 hours whose simulation has begun; `inherited`: what it finds INT set to."""
    argv = [sys.executable, "-m", "infra.cli.main", "demo", "--hours", "20", "--out", str(folder)]
    argv = [sys.executable, "-c", _INHERIT, inherited, *argv]
    with (folder / "said").open("wb") as said:
        demo = subprocess.Popen(argv, stdout=said, stderr=said, env={**os.environ, MARK: mark}, start_new_session=True)
    deadline = time.monotonic() + 90
    while not list(folder.glob("simulation/truth-*.jsonl")) and demo.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    return demo


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "code", "inherited"),
    [
        (signal.SIGINT, 130, "SIG_DFL"),
        # What `command &` gets from a shell without job control, so also from a script that starts these tests so.
        (signal.SIGINT, 130, "SIG_IGN"),
        (signal.SIGTERM, 130, "SIG_DFL"),
        (signal.SIGKILL, -9, "SIG_DFL"),
    ],
)
def test_demo_interrupted_leaves_no_process(sent: signal.Signals, code: int, inherited: str, tmp_path: Path) -> None:
    """A demo ended in the middle of its simulation leaves nothing running."""
    mark = uuid.uuid4().hex
    demo = _started(tmp_path, mark, inherited)
    try:
        assert demo.poll() is None, (tmp_path / "said").read_text()
        assert len(_marked(mark)) >= 5
        demo.send_signal(sent)
        assert demo.wait(60) == code, (tmp_path / "said").read_text()
    finally:
        demo.kill()
    deadline = time.monotonic() + 10
    while _marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _marked(mark) == []


@pytest.mark.slow
def test_demo_says_that_its_broker_died(tmp_path: Path) -> None:
    """A broker killed in mid-run ends the demo with code 4 and words about the broker, and nothing is left running."""
    mark = uuid.uuid4().hex
    demo = _started(tmp_path, mark)
    try:
        (broker,) = running_pids(tmp_path / "kafka")
        os.kill(broker, signal.SIGKILL)
        assert demo.wait(90) == 4, (tmp_path / "said").read_text()
    finally:
        demo.kill()
    assert "the broker ended by itself" in (tmp_path / "said").read_text()
    assert _marked(mark) == []
