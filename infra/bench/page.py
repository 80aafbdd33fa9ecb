"""The page of figures, made from a recorded run: tables of programs and sweeps. Pure.

Law: infra/docs/bench.md is what this makes of infra/docs/bench.json (tests/unit/infra/bench/test_page.py).
"""

import json
from collections.abc import Sequence
from typing import Any

GOAL_S, LIVE_GOAL_S = 2.0, 5.0
"""Goals for the 99th percentile: of a closed window's row, and of provisional figures."""
Rows = Sequence[dict[str, Any]]

_HEAD = """\
# What metering costs
Made by `make bench`, here on a machine of {cores} cores whose load was {load} as the runs began; do not edit. Every
program is a process of its own, measured by the kernel's count of its CPU time from where it had started up. The
broker, a real Apache Kafka 4.4, is not in it. A sample is one process on one GPU over one second.

The fleet's log holds all three input topics at the shipped cadences: readings at 1 Hz of 8 GPUs a node and 10
processes a GPU, in messages of 15 s, one message a batch as from so many nodes; a snapshot a minute; pods, nodes and
clocks. Windows of 60 s, lateness 10 s and 2 pods a GPU unless said otherwise; simulated time, 8 partitions.

"""
_PEERS = """
`worker` is `gpumeter worker`, through Faust from Kafka to gpu-usage with joins, attribution and progress. `core` is its
meter over records in memory, `decode` only their decoding. The others take the same samples as one JSON message each,
with the pod already named, and only sum points per pod and minute: `faust_event` an agent with a Table, `quixstreams`
tumbling windows with state and changelog, `bytewax` tumbling windows in memory, `flink` SQL with checkpoints every 5 s.
Each one's sums were checked. So the input differs in form, and the meter does more.

The log begins with every node and pod, which a running worker has known for long, and which the watcher publishes again
each hour. Of the CPU time to read them (measured over a log of nothing else, `standing_cpu_s` in the record) the share
that falls due in the log's time counts; `samples/s`, by the wall clock, has all of it.

"""
_SWEEPS = {
    "gpus": "Size of the fleet",
    "workers": "Workers, at 20,000 GPUs",
    "window_s": "Length of the window in seconds, at 20,000 GPUs",
    "lateness_s": "Lateness in seconds, at 20,000 GPUs",
    "pods": "Pods a GPU (of 10 processes), at 20,000 GPUs",
}


def table(rows: Rows) -> str:
    """The programs, one a line."""
    lines = [
        "| program | samples/s a core | CPU s a million | peak MiB | x faust_event | GPUs | samples |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        ratio = row["ratio_to_faust_event"]
        lines.append(
            f"| {row['name']} | {row['samples_per_s_per_core']:,} | {row['cpu_s_per_million_samples']:.3f} | "
            f"{row['peak_mib']:,.0f} | {'' if ratio is None else f'{ratio:,.1f}'} | {row['gpus']:,} | "
            f"{row['samples']:,} |"
        )
    return "\n".join(lines) + "\n"


def page(rows: Rows, sweeps: Rows) -> str:
    """The whole page."""
    loads = [row["load_1m"] for row in (*rows, *sweeps) if "load_1m" in row]
    cores = next((row["cores"] for row in (*rows, *sweeps) if "cores" in row), 0)
    head = _HEAD.format(cores=cores, load=f"{min(loads):.1f} to {max(loads):.1f}")
    parts = [head, "## Programs\n", table(rows), _PEERS]
    for varies, title in _SWEEPS.items():
        mine = [row for row in sweeps if row["varies"] == varies]
        if mine:
            parts += [f"## {title}\n", _sweep(varies, mine), "\n"]
        if mine and varies == "gpus":
            parts.append("![cost against the size of the fleet](bench.svg)\n\n")
    parts += [_latency(row) for row in sweeps if row["varies"] == "latency"]
    return "".join(parts).rstrip() + "\n"


def recorded(text: str) -> tuple[Rows, Rows]:
    """Programs and sweeps of a recorded run."""
    rows = json.loads(text)
    return [row for row in rows if "varies" not in row], [row for row in rows if "varies" in row]


def _latency(row: dict[str, Any]) -> str:
    used = row["cores"]
    lines = [
        "## Latency\n"
        f"A steady fleet of {row['nodes']:,} nodes in real time, a reading every 5 s sent at once, lateness "
        f"{row['lateness_s']} s; broker, worker,\nsink with the embedded engine and the fleet itself on the same "
        f"machine. The worker took {used['worker']:.2f} of a core, the sink {used['sink']:.2f}.\n",
        "| from | to | n | p50 s | p99 s | most s | goal p99 s |",
        "|---|---|--:|--:|--:|--:|--:|",
        _wait("append of the record that closes a window", "its row in an answer", row["window_to_row_s"], GOAL_S),
    ]
    for name, told in row["steps"].items():
        begin, _, end = name.removesuffix("_s").partition("_to_")
        lines.append(_wait(f"of it: {begin}", end, told))
    if "reading_to_live_s" in row:
        live = row["reading_to_live_s"]
        lines.append(_wait("append of a reading", "provisional figures that hold it", live, LIVE_GOAL_S))
    return "\n".join(lines) + "\n"


def _wait(begin: str, end: str, told: dict[str, Any], goal_s: float | None = None) -> str:
    n, p50, p99, most = (told[key] for key in ("n", "p50", "p99", "max"))
    return (
        f"| {begin} | {end} | {n:,} | {p50:.2f} | {p99:.2f} | {most:.2f} | {'' if goal_s is None else f'{goal_s:g}'} |"
    )


def _sweep(varies: str, rows: Rows) -> str:
    lines = [
        f"| {varies.removesuffix('_s')} | CPU s a million samples | samples/s a core | samples/s | peak MiB | windows "
        "| samples |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {row[varies]:,} | {row['cpu_s_per_million_samples']:.3f} | {row['samples_per_s_per_core']:,} | "
        f"{row['samples_per_s_wall']:,} | {row['peak_mib']:,.0f} | {row['node_windows']:,} | {row['samples']:,} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"
