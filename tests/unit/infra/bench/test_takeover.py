"""The steps of a take-over, read from the log of the worker that took over."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infra.bench.lives import Life
from infra.bench.takeover import _steps

KILLED_S = 1_790_000_000.0


def _life(path: Path, *events: tuple[float, str, dict[str, object]]) -> Life:
    lines = [
        json.dumps({"timestamp": datetime.fromtimestamp(KILLED_S + at_s, UTC).isoformat(), "event": name, **told})
        for at_s, name, told in events
    ]
    life = Life.__new__(Life)
    life.log = path
    path.write_text("\n".join(["a line that is no event", *lines]))
    return life


def test_steps_of_a_take_over_add_up(tmp_path: Path) -> None:
    """From the kill to the last partition where it was, no second is in two steps or in none; the past is left out."""
    life = _life(
        tmp_path / "worker.log",
        (-30.0, "all opened", {"seconds": 9.0}),
        (-29.0, "caught up", {}),
        (6.5, "partitions closed", {}),
        (9.0, "all opened", {"seconds": 0.5}),
        (9.2, "caught up", {}),
        (12.0, "caught up", {}),
    )
    steps = _steps(life, KILLED_S, "partitions closed")
    assert steps == pytest.approx(
        {"session timeout and the group's notice": 6.5, "join": 2.0, "progress load": 0.5, "read again": 3.0}, abs=1e-3
    )


def test_restart_that_reads_nothing_again_ends_when_it_is_open(tmp_path: Path) -> None:
    """A partition that was where it is needs no reading: the last step takes no time."""
    life = _life(tmp_path / "worker.log", (1.0, "start", {}), (4.0, "all opened", {"seconds": 1.0}))
    steps = _steps(life, KILLED_S, "start")
    assert steps == pytest.approx(
        {"process start": 1.0, "join": 2.0, "progress load": 1.0, "read again": 0.0}, abs=1e-3
    )
