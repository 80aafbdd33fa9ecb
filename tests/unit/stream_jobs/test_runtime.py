"""The process's memory settings change how often memory goes back and garbage is looked for, and nothing else."""

import gc
import subprocess
import sys

CHURN = """
import resource
import numpy as np
from stream_jobs.runtime import settle
if {settled}:
    settle()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    [np.ones(100_000) for _ in range(20)]
before = faults()
for _ in range(20):
    [np.ones(100_000) for _ in range(20)]
print(faults() - before)
"""


def _faults(settled: bool) -> int:
    done = subprocess.run([sys.executable, "-c", CHURN.format(settled=settled)], capture_output=True, check=True)
    return int(done.stdout)


def test_settled_process_keeps_memory_for_the_next_columns() -> None:
    """Columns made and dropped again and again cost a settled process a tenth of the page faults at most."""
    assert _faults(settled=True) * 10 < _faults(settled=False)


def test_settling_leaves_the_garbage_collector_on() -> None:
    """Cycles are still found, only less often."""
    code = "import gc; from stream_jobs.runtime import settle; settle(); print(gc.isenabled(), gc.get_threshold()[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.split()[0] == "True"
    assert int(done.stdout.split()[1]) > gc.get_threshold()[0]
