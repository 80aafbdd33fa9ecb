"""The whole path on a small scenario: real broker, worker and ledger; asked in SQL and asserted non-empty."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

GPUMETER = [sys.executable, "-m", "infra.cli.main"]
ROOT = Path(__file__).resolve().parents[2]


def _gpumeter(*arguments: str, timeout_s: float = 60) -> str:
    done = subprocess.run(
        [*GPUMETER, *arguments], capture_output=True, text=True, timeout=timeout_s, cwd=ROOT, check=False
    )
    assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Directory of a finished demo of twelve simulated minutes."""
    out = tmp_path_factory.mktemp("demo")
    told = _gpumeter("demo", "--scenario", "default", "--hours", "0.2", "--out", str(out), timeout_s=240)
    assert "every window adds up" in told
    yield out


def _sql(demo: Path, query: str) -> list[dict[str, Any]]:
    rows = json.loads(_gpumeter("sql", "--json", "--directory", str(demo / "ledger"), query))
    assert isinstance(rows, list)
    return rows


def test_demo_summary_is_complete_and_not_empty(demo: Path) -> None:
    """summary.json has every promised figure, of more than nothing, and no violation."""
    summary = json.loads((demo / "summary.json").read_text())
    assert summary["windows"] >= 8 * 12
    assert summary["rows"] > summary["windows"]
    assert summary["pods"] >= 10
    assert summary["conservation_violations"] == 0
    errors = {"error_points_median", "error_points_p99", "error_points_max", "bias_points"}
    assert errors <= summary.keys()
    assert all(errors <= summary["methods"][name].keys() for name in "abcd")
    assert 0 <= summary["unattributed_pct"] < 2


def test_demo_is_nearer_to_the_truth_than_the_usual_methods(demo: Path) -> None:
    """Our bias and our worst error are below those of copied gauge, max(request, usage) and whole device."""
    summary = json.loads((demo / "summary.json").read_text())
    assert abs(summary["bias_points"]) < 0.1
    for name in "acd":
        assert summary["error_points_max"] < summary["methods"][name]["error_points_max"]


def test_demo_ledger_answers_in_sql(demo: Path) -> None:
    """The ledger left behind names pods with used time, and conserves the hardware in every window."""
    pods = _sql(demo, "SELECT pod_name, sum(used_us) AS used FROM usage_current WHERE holder_kind = 'pod' GROUP BY 1")
    assert {"chat-0", "train-llm", "sneaky"} <= {row["pod_name"] for row in pods}
    assert any(int(row["used"] or 0) > 0 for row in pods)
    sums = _sql(
        demo,
        "SELECT sum(charged_us) AS charged, any(lifetime_us) AS lifetime FROM usage_current "
        "WHERE holder_kind != 'violation' GROUP BY node, gpu_uuid, window_start_us",
    )
    assert len(sums) >= 8 * 12
    assert all(int(row["charged"]) == int(row["lifetime"]) for row in sums)


def test_demo_unrequested_use_is_seen(demo: Path) -> None:
    """A pod that asks for no GPU and uses one has used time, nothing held, and the flag."""
    rows = _sql(
        demo,
        "SELECT sum(used_us) AS used, sum(held_us) AS held, countIf(has(flags, 'unrequested')) AS flagged "
        "FROM usage_current WHERE pod_name = 'sneaky'",
    )
    assert int(rows[0]["used"]) > 0
    assert int(rows[0]["held"] or 0) == 0
    assert int(rows[0]["flagged"]) > 0


def test_demo_leaves_the_readme_queries_working(demo: Path) -> None:
    """The three queries that the demo and the README offer run and give rows."""
    from infra.demo.report import NEXT_QUERIES

    readme = (ROOT / "README.md").read_text()
    for _, query in NEXT_QUERIES:
        assert query in readme
        assert _sql(demo, query)


def test_demo_that_cannot_begin_leaves_the_last_result(demo: Path) -> None:
    """A wrong scenario or a trace that is not there costs nothing of what the last demo left."""
    for wrong in (("--scenario", "nope"), ("--trace", "nofile.csv")):
        argv = [*GPUMETER, "demo", *wrong, "--out", str(demo)]
        assert subprocess.run(argv, capture_output=True, cwd=ROOT, timeout=60, check=False).returncode == 2
    assert (demo / "summary.json").exists()
    assert _sql(demo, "SELECT count() > 0 AS there FROM usage_current") == [{"there": 1}]
