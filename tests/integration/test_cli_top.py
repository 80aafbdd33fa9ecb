"""`gpumeter top` as a person runs it: open windows first, marked provisional, else the last closed ones."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.ledger_rows import START_US, insert, insert_live, ledger_in, live, pod, row

SO_FAR_US = 40_000_000


def _top(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "infra.cli.main", "top", "--directory", str(directory), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def _cells(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    assert done.returncode == 0, done.stderr
    return [line.replace("│", " ").split() for line in done.stdout.splitlines()]


def _json(directory: Path, *arguments: str) -> dict[str, Any]:
    return json.loads(_top(directory, "--json", *arguments).stdout)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of two closed windows and none open."""
    path = tmp_path_factory.mktemp("closed")
    with ledger_in(path) as ledger:
        insert(
            ledger,
            [
                pod("train", 0, held_us=60_000_000, used_us=30_000_000, used_variance_us2=4 * 10**12),
                pod("train", 1, held_us=60_000_000, used_us=45_000_000, used_variance_us2=12 * 10**12),
                pod("blind", 1, gpu_uuid="GPU-2", basis="allocation", flags=["grant_unknown"]),
                row(0, gpu_uuid="GPU-2"),
            ],
        )
    return path


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of one closed window of a pod that is gone, and the next one open, 40 s of it known."""
    path = tmp_path_factory.mktemp("open")
    with ledger_in(path) as ledger:
        insert(ledger, [pod("gone", 0, used_us=1)])
        big = {"held_us": 40_000_000, "charged_us": 25_000_000, "memory_byte_ms": 40_000 * 8 * 2**30}
        rows = [
            pod("small", 1, used_us=5_000_000, charged_us=15_000_000, held_us=10_000_000, namespace="other"),
            pod("big", 1, used_us=20_000_000, used_variance_us2=10**12, **big),
            row(1, gpu_uuid="GPU-2", charged_us=SO_FAR_US),
        ]
        insert_live(ledger, [live(each, SO_FAR_US) for each in rows], "t")
    return path


def test_top_once_shows_open_windows_as_provisional(opened: Path) -> None:
    """Once: the word PROVISIONAL, the figures' age, where the GPUs' time went, pods by use; nothing that is closed."""
    done = _top(opened, "--once")
    assert "PROVISIONAL" in done.stdout
    assert "min old: open windows 2026-09-21 14:15:00 to 14:15:40 UTC, 2 GPUs: used 31.2%" in done.stdout
    lines = _cells(done)
    big = ["team", "big", "GPU-1", "40.0", "20.0", "1.0", "25.0", "8.0", "100%", "sampled"]
    small = ["other", "small", "GPU-1", "10.0", "5.0", "–", "15.0", "–", "100%", "sampled"]
    assert lines.index(big) < lines.index(small)
    assert "gone" not in done.stdout


def test_top_by_and_sort(opened: Path) -> None:
    """By namespace and by GPU the pods are counted and summed; the sort decides who comes first."""
    assert ["team", "1", "40.0", "20.0", "1.0", "25.0", "8.0", "100%", "sampled"] in _cells(
        _top(opened, "--once", "--by", "namespace")
    )
    assert ["n1", "GPU-1", "2", "50.0", "25.0", "1.0", "40.0", "8.0", "100%", "sampled"] in _cells(
        _top(opened, "--once", "--by", "gpu")
    )
    for sort in ("used", "held", "charged", "memory"):
        assert [each["pod_name"] for each in _json(opened, "--sort", sort)["rows"]] == ["big", "small"]
    answer = _json(opened, "--rows", "1")
    assert (answer["provisional"], len(answer["rows"])) == (True, 1)
    assert sum(answer["parts_us"].values()) == answer["lifetime_us"] == 2 * SO_FAR_US
    assert answer["to_us"] == START_US + 60_000_000 + SO_FAR_US


def test_top_shows_closed_windows_on_demand(opened: Path) -> None:
    """--windows shows closed windows only, though some are open."""
    answer = _json(opened, "--windows", "1")
    assert (answer["provisional"], [each["pod_name"] for each in answer["rows"]]) == (False, ["gone"])


def test_top_shows_the_last_closed_windows_where_none_is_open(closed: Path) -> None:
    """Pods by use, seconds held, used ± and charged, a dash for what is not known, and where the GPUs' time went."""
    done = _top(closed)
    assert "Closed windows 2026-09-21 14:14:00 to 14:16:00 UTC, 2 GPUs" in done.stdout
    assert "PROVISIONAL" not in done.stdout
    lines = _cells(done)
    assert ["team", "train", "GPU-1", "120.0", "75.0", "4.0", "120.0", "–", "100%", "sampled"] in lines
    assert ["team", "blind", "GPU-2", "–", "–", "–", "60.0", "–", "0%", "allocation", "grant_unknown"] in lines


def test_top_in_json_and_for_one_window(closed: Path) -> None:
    """--json gives microseconds; --windows bounds what is summed; the parts add up to the lifetime."""
    answer = _json(closed, "--windows", "1")
    assert answer["from_us"] == START_US + 60_000_000
    assert [(each["pod_name"], each["used_us"]) for each in answer["rows"]] == [("train", 45_000_000), ("blind", None)]
    assert sum(answer["parts_us"].values()) == answer["lifetime_us"] == 120_000_000


def test_top_of_an_empty_ledger_says_so(tmp_path: Path) -> None:
    """A ledger without windows is no error."""
    with ledger_in(tmp_path):
        pass
    done = _top(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no windows yet" in done.stdout
    assert _json(tmp_path)["rows"] == []


def test_top_counts_instances_as_parts_of_their_gpu(tmp_path: Path) -> None:
    """A GPU that is used and one whose slices nobody has are two GPUs, half of their time used."""
    slices = {"gpu_uuid": "GPU-2/free", "parent_uuid": "GPU-2", "weight_total": 7, "lifetime_us": 420_000_000}
    with ledger_in(tmp_path) as ledger:
        insert(ledger, [pod("train", 0, used_us=60_000_000, charged_us=60_000_000)])
        insert(ledger, [row(0, **slices, charged_us=420_000_000, observed_us=420_000_000)], offset=1)
    shown = _json(tmp_path, "--windows", "1")
    parts = shown["parts_us"]
    assert (shown["gpus"], shown["lifetime_us"]) == (2, 120_000_000)
    assert (parts["used"], parts["unallocated"]) == (60_000_000, 60_000_000)
