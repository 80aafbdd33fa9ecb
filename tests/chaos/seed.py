"""Runs one seed: fresh topics, processes, messages and faults; then waits until all is done, and checks."""

import shutil
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.front.place import live_front, status_of
from schemas.usage import ALL_COLUMNS, KEY_COLUMNS
from stream_jobs.core.settings import MeterSettings
from stream_jobs.ledger import open_ledger
from tests.chaos import checker
from tests.chaos.cluster import Cluster
from tests.chaos.nemesis import Nemesis
from tests.chaos.plan import Plan, make_plan
from tests.chaos.read_back import Key, Row, UsageLog, input_logs, progress_records, refused_places
from tests.chaos.site import EXIT_OUTSIDE, Site
from tests.chaos.story import lost_numbers, story_of

EDGE_CLUSTER = "edge"
_AT_WORK = '"event": "status"'
_PATIENCE_S = 240.0
_QUIET_S = 90.0
"""Longer than it takes a worker to find that it reads nothing, to end, to start and to catch up."""
_STEP_S = 0.05
_COLUMNS = [*(column.name for column in ALL_COLUMNS), "out_offset"]


@dataclass(slots=True)
class Result:
    """What a seed gave."""

    seed: int
    break_name: str = ""
    faults: Counter[str] = field(default_factory=Counter)
    windows: int = 0
    windows_again: int = 0
    """Windows that were published more than once, as a restart reads them again."""
    revisions: int = 0
    """Windows that late records changed, once for each minute that did."""
    rows: int = 0
    copies: int = 0
    restarts: int = 0
    """Processes that ended by themselves because the outside was away."""
    crashes: list[str] = field(default_factory=list)
    """Processes that ended by a signal that nobody sent."""
    story: Counter[str] = field(default_factory=Counter)
    """What the input log holds besides records in order."""
    seconds: float = 0.0
    differences: list[str] = field(default_factory=list)

    def line(self) -> str:
        """One line for people."""
        faults = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        return (
            f"seed {self.seed}{self.break_name and f' with {self.break_name}'}: differences {len(self.differences)}, "
            f"windows {self.windows} (again {self.windows_again}), revisions {self.revisions}, "
            f"rows {self.rows} (copies {self.copies}), restarts {self.restarts}, crashes {len(self.crashes)}, "
            f"{self.seconds:.0f} s, faults {self.faults.total()}: {faults}"
        )


def run_seed(seed: int, cluster: Cluster, folder: Path, break_name: str = "") -> Result:
    """Result of a seed; its logs and ledger stay in `folder` where something differs."""
    plan, began_s = make_plan(seed), time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    settings = MeterSettings(
        window_us=plan.window_s * 1_000_000, lateness_us=plan.lateness_s * 1_000_000, simulated_time=True
    )
    result = Result(seed, break_name)
    cluster.fresh_topics()
    with Site(plan, cluster.bootstrap, folder, break_name) as site:
        result.faults = _disturb(plan, site, cluster)
        found = site.end_edge()
        logs = input_logs(cluster.bootstrap)
        expected = checker.expected_of(logs, settings)
        usage = UsageLog(cluster.bootstrap)
        try:
            found += _wait_for_rows(site, usage, expected) + _end_workers(site)
            usage.read_to_end()
            found += _wait_for_sink(site, usage)
            ledger = _ledger(site, found)
        finally:
            usage.close()
        found += site.defects()
        result.restarts = sum(code == EXIT_OUTSIDE for slot in site.slots for code in slot.codes)
        result.crashes = site.crashes()
        records = progress_records(cluster.bootstrap, site.group)
        found += checker.differences(expected, usage.copies, ledger, records)
        found += checker.compare_letters(expected, refused_places(cluster.bootstrap))
    found += lost_numbers(logs, EDGE_CLUSTER)
    result.differences, result.story = found, story_of(logs)
    _count(result, expected, usage)
    result.seconds = time.monotonic() - began_s
    if not found and not result.crashes:
        shutil.rmtree(folder)
    return result


def _disturb(plan: Plan, site: Site, cluster: Cluster) -> Counter[str]:
    """Lets the faults happen while messages are sent; returns when all are sent and everything is whole again."""
    nemesis = Nemesis(plan.faults, site, cluster)
    deadline = time.monotonic() + _PATIENCE_S
    while not (nemesis.is_done and site.producer.done):
        nemesis.step()
        site.tend()
        if site.pace():
            nemesis.hold(_STEP_S)
        assert time.monotonic() < deadline, f"the producer does not come to its end: {site.producer.tail()}"
        time.sleep(_STEP_S)
    site.heal()
    cluster.wait_whole()
    return nemesis.counts


def _wait_for_rows(site: Site, usage: UsageLog, expected: checker.Expected) -> list[str]:
    """Returns when every expected row is published, or why that does not come."""
    deadline = time.monotonic() + _PATIENCE_S
    places, quiet_since_s = dict(usage.next_offsets), time.monotonic()
    while not usage.copies.keys() >= expected.keys:
        usage.read(0.1)
        site.tend()
        if usage.next_offsets != places:
            places, quiet_since_s = dict(usage.next_offsets), time.monotonic()
        if site.defects() or time.monotonic() > min(deadline, quiet_since_s + _QUIET_S):
            tails = "".join(f"\n--- {worker.log}\n{worker.tail()}" for worker in site.workers)
            return [f"not all rows came; nothing more came for a while, or there is a defect{tails}"]
    return []


def _end_workers(site: Site) -> list[str]:
    for worker in site.workers:
        worker.tell_end()
    codes = {worker.name: (worker.end(), _AT_WORK in worker.log.read_text()) for worker in site.workers}
    # One that was started again a moment before does not take SIGTERM yet, and has nothing to lose.
    return [
        f"{name} ended with {code} on SIGTERM"
        for name, (code, works) in codes.items()
        if code not in (0, EXIT_OUTSIDE) and (works or code != -signal.SIGTERM)
    ]


def _wait_for_sink(site: Site, usage: UsageLog) -> list[str]:
    """Returns when all that is published is in the ledger, or why not."""
    wanted = {str(partition): offset for partition, offset in usage.next_offsets.items()}
    deadline = time.monotonic() + _PATIENCE_S
    while (status := _status(site)).get("next_offsets") != wanted:
        site.tend()
        if time.monotonic() > deadline:
            return [f"the sink stands at {status}, gpu-usage ends at {wanted}\n{site.sink.tail()}"]
        time.sleep(_STEP_S)
    return []


def _status(site: Site) -> dict[str, Any]:
    url = live_front(site.ledger)
    return (status_of(url) if url else None) or {}


def _ledger(site: Site, found: list[str]) -> dict[Key, Row]:
    """Rows of the ledger, asked while its sink still runs; notes what its own check of conservation says."""
    url = live_front(site.ledger)
    if url is None:
        found.append(f"the sink does not answer\n{site.sink.tail()}")
        return {}
    ledger = open_ledger(url=url)
    try:
        names, rows = ledger.table(f"SELECT {', '.join(_COLUMNS)} FROM usage_ledger FINAL")
        found += [f"conservation_violations: {row}" for row in ledger.query("SELECT * FROM conservation_violations")]
    finally:
        ledger.close()
    code = site.sink.end()
    found += [f"sink ended with {code} on SIGTERM"] if code else []
    by_name = [dict(zip(names, row, strict=True)) for row in rows]
    return {tuple(row[name] for name in KEY_COLUMNS): row for row in by_name}


def _count(result: Result, expected: checker.Expected, usage: UsageLog) -> None:
    again = {(key[0], key[1], key[4]) for key, copies in usage.copies.items() if len(copies) > 1}
    result.windows, result.windows_again = len(expected.windows), len(again)
    result.revisions = len(expected.revisions)
    result.rows, result.copies = len(usage.copies), sum(map(len, usage.copies.values()))
