"""The truth of a node and what other methods reported, in one process without an agent."""

import io
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from infra.sim.clock import PipeLink
from infra.sim.holders import Holder
from infra.sim.node_process import SimulatedNode, run_node
from infra.sim.scenario import load_cluster

START_US = 1_795_000_000_000_000 // 60_000_000 * 60_000_000


class Idler:
    """An agent that only waits."""

    def __init__(self, clock: Any, where: dict[str, str]) -> None:
        self.clock = clock
        self.where = where

    def run(self) -> None:
        """Waits until told to stop."""
        while self.clock.wait_until_us(self.clock.monotonic_us() + 5_000_000):
            assert Path(self.where["proc_path"], "1/stat").exists()

    def flush(self) -> None:
        """Nothing to do."""


def rows_of(tmp_path: Path, scenario: str, minutes: float) -> list[dict[str, Any]]:
    """Truth rows of the first node after so many minutes."""
    cluster, workload = load_cluster(scenario, start_us=START_US)
    steps = [START_US + round(minutes * 60_000_000) * part // 10 for part in range(1, 11)]
    commands = "".join(json.dumps({"advance_to_us": step}) + "\n" for step in steps)
    node = SimulatedNode(cluster, workload, cluster.nodes[0].name, tmp_path / "n", tmp_path)
    try:
        run_node(node, PipeLink(io.StringIO(commands), io.StringIO()), Idler, live=False)
    finally:
        node.close()
    return [json.loads(line) for line in (tmp_path / f"truth-{node.node.name}.jsonl").read_text().splitlines()]


def by_pod(rows: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Sums of every microsecond column, by pod name."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        for name, value in row.items():
            if name.endswith("_us") and name != "window_start_us":
                found[row["pod_name"]][name] += value
    return found


def test_truth_of_a_window_is_the_busy_time_of_its_engine(tmp_path: Path) -> None:
    """used_us over all holders of a GPU and window is the engine's exact busy time, in a part window too."""
    rows = rows_of(tmp_path, "host-process", 5.5)
    cluster, workload = load_cluster("host-process", start_us=START_US)
    from infra.sim.world import engines_of

    timeline = engines_of(cluster, cluster.nodes[0], workload)[0].timeline
    windows = sorted({row["window_start_us"] for row in rows})
    assert [start - START_US for start in windows] == [n * 60_000_000 for n in range(6)]
    for start_us in windows:
        used = sum(row["used_us"] for row in rows if row["window_start_us"] == start_us)
        assert used == timeline.busy_us(start_us, min(start_us + 60_000_000, START_US + 330_000_000)).sum() > 0


def test_usual_methods_show_their_known_faults(tmp_path: Path) -> None:
    """Copies add up to more than the device, and who asks for nothing pays nothing in a bill by request."""
    found = by_pod(rows_of(tmp_path, "unrequested", 12))
    tenant, sneaky = found["tenant"], found["sneaky"]
    assert sneaky["requested_us"] == sneaky["whole_device_us"] == 0 < sneaky["used_us"]
    assert tenant["whole_device_us"] == tenant["held_us"] == 720_000_000
    assert tenant["gauge_copied_us"] + sneaky["gauge_copied_us"] > 1.6 * (tenant["used_us"] + sneaky["used_us"])
    assert tenant["max_request_usage_us"] >= tenant["held_us"]
    assert tenant["last_smutil_us"] == pytest.approx(tenant["used_us"], rel=0.1)


def test_short_pods_are_missed_by_scrapes(tmp_path: Path) -> None:
    """Pods of four seconds between two scrapes get nothing from methods that look every 30 s."""
    found = by_pod(rows_of(tmp_path, "short-pods", 5))
    short = [value for name, value in found.items() if name.startswith("short-")]
    assert len(short) >= 9 and all(value["used_us"] > 2_500_000 for value in short)
    assert sum(value["gauge_copied_us"] for value in short) == 0


def test_resident_time_counts_overlapping_contexts_once() -> None:
    """Two processes of a container at once are one time of residence."""
    lives = ((10, 30), (20, 50), (60, None))
    holder = Holder("ns", "p", "u", "c", "id", (0, None), 2, 4, None, lives, frozenset())  # type: ignore[arg-type]
    assert [holder.resident_us(0, 100), holder.resident_us(25, 70), holder.requested_us(0, 100)] == [80, 35, 50]
