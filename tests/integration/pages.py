"""Asks the metrics ports of processes, and runs the command line, for tests."""

import json
import subprocess
import sys
import time
from typing import Any

from infra.status.process import ProcessState, ask
from tests.integration.harness import wait_until


def wait_ready(port: int, explain: Any, timeout_s: float = 40.0) -> ProcessState:
    """State of the process once it says that it is ready."""
    wait_until(lambda: is_ready(port), timeout_s, lambda: f"{ask(f'127.0.0.1:{port}')} {explain()}")
    return ask(f"127.0.0.1:{port}")


def is_ready(port: int) -> bool:
    """Whether it answers and says that it is ready."""
    health = ask(f"127.0.0.1:{port}").health
    return health is not None and health.ready


def reasons_until_ready(port: int, explain: Any, timeout_s: float = 40.0) -> list[str]:
    """Every reason that it gave until it was ready, asked as fast as it answers."""
    reasons: list[str] = []
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        health = ask(f"127.0.0.1:{port}").health
        if health is not None and health.ready:
            return reasons
        reasons += health.reasons if health is not None else []
    raise AssertionError(f"not ready within {timeout_s} s: {reasons[-3:]} {explain()}")


def total(state: ProcessState, name: str) -> float:
    """Sum of a metric over its labels; KeyError where it is not shown."""
    return sum(state.numbers[name].values())


def gpumeter(*arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command line."""
    command = [sys.executable, "-m", "infra.cli.main", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    return done.returncode, done.stdout, done.stderr


def gpumeter_json(*arguments: str) -> tuple[int, Any]:
    """Exit code and the JSON that was printed."""
    code, out, errors = gpumeter(*arguments, "--json")
    assert out, errors
    return code, json.loads(out)
