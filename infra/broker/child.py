"""Starts processes that cannot outlive their owner.

Laws: when the owner dies, also by kill -9, the kernel kills the child (tests/integration/test_kafka_broker.py); an end
takes a bounded time, whatever the child does (tests/unit/infra/test_child.py).
Note: the kernel watches the *thread* that started the child, so start from a thread that lives as long as the owner.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

KILLED_S = 5.0

_BIND = """
import ctypes, os, signal, sys
ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def bound_to_owner(argv: Sequence[str]) -> list[str]:
    """Argv (argv[0] a path) of a process that the kernel kills when this thread ends."""
    return [sys.executable, "-S", "-E", "-c", _BIND, str(os.getpid()), *argv]


def spawn(argv: Sequence[str], *, log: Path, bound: bool = True) -> subprocess.Popen[bytes]:
    """Process of argv (argv[0] a path) in its own session, output to `log`; `bound`: it dies with this thread."""
    with log.open("ab") as file:
        return subprocess.Popen(
            bound_to_owner(argv) if bound else list(argv),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes], *, patience_s: float) -> int:
    """Exit status after SIGTERM and, when it has not ended within `patience_s`, SIGKILL."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        return process.wait(patience_s)
    except subprocess.TimeoutExpired:
        return kill(process)


def kill(process: subprocess.Popen[bytes]) -> int:
    """Exit status after SIGKILL; after 5 s it is taken for granted.

    A wait without bound might never return: a signal that comes inside `Popen.poll` leaves its lock taken for good,
    and a child may sit in the kernel.
    """
    process.kill()
    try:
        return process.wait(KILLED_S)
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL
