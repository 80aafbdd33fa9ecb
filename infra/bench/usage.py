"""What a process has used: CPU seconds and memory, as the kernel counts them."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Usage(NamedTuple):
    """What a process has used so far."""

    cpu_s: float
    rss_mib: float
    peak_mib: float


def usage_of(pid: int) -> Usage:
    """CPU seconds of a process and its children that have ended, and its memory."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu_s = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return Usage(cpu_s, int(status["VmRSS"].split()[0]) / 1024, int(status["VmHWM"].split()[0]) / 1024)


@dataclass(slots=True)
class Stopwatch:
    """CPU and wall seconds of this process between `begin` and `end`, its threads and ended children included."""

    cpu_s: float = 0.0
    wall_s: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Counts while the block runs."""
        cpu_s, wall_s = own_cpu_s(), time.monotonic()
        try:
            yield
        finally:
            self.cpu_s += own_cpu_s() - cpu_s
            self.wall_s += time.monotonic() - wall_s


def own_cpu_s() -> float:
    """CPU seconds of this process, all its threads, and its children that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def own_peak_mib() -> float:
    """Most memory that this process had so far."""
    return usage_of(os.getpid()).peak_mib
