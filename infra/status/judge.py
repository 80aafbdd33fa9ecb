"""What is behind or wrong in a pipeline, from what Kafka, the ledger and the processes said. Pure.

Law: each finding names the place, what is so and what it should be; no finding, no fault
(tests/unit/infra/test_status_judge.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from infra.broker.lag import Place, Standing
from schemas.names import DEAD_LETTERS, GPU_SAMPLES, GPU_USAGE, INPUT_TOPICS

from .process import ProcessState

HOUR_US = 3_600_000_000


class Bounds(NamedTuple):
    """What is still well: seconds without a record, seconds of progress and of ledger behind."""

    silent_s: int = 60
    progress_s: int = 900
    ledger_s: int = 60


class Groups(NamedTuple):
    """Consumer groups of worker and sink."""

    worker: str
    sink: str


def findings(
    standing: Standing,
    ledger: Mapping[str, Any] | None,
    processes: Sequence[ProcessState],
    groups: Groups,
    bounds: Bounds,
    now_us: int,
) -> list[str]:
    """Every fault, the earliest in the flow first."""
    found = [f"topic {topic} is not there; `gpumeter topics apply` makes it" for topic in standing.missing]
    for place in standing.places:
        found += _of_place(place, bounds, now_us)
    if not standing.members.get(groups.worker):
        found.append(f"no worker is in group {groups.worker}")
    found += _of_ledger(ledger)
    for process in processes:
        found += _of_process(process)
    return found


def numbers_of(place: Place, now_us: int) -> dict[str, Any]:
    """A partition as it is shown: offsets, lag in records, age of the newest record."""
    return {
        "topic": place.topic,
        "partition": place.partition,
        "records": place.end - place.start,
        "end": place.end,
        "committed": place.committed,
        "lag_records": None if place.committed is None else max(0, place.end - place.committed),
        "newest_age_s": None if place.newest_us is None else round(max(0, now_us - place.newest_us) / 1e6, 1),
    }


def _of_place(place: Place, bounds: Bounds, now_us: int) -> list[str]:
    name, found = f"{place.topic}/{place.partition}", []
    if place.topic in INPUT_TOPICS:
        age_s = None if place.newest_us is None else (now_us - place.newest_us) / 1e6
        if age_s is None or age_s > bounds.silent_s:
            since = "nothing ever came" if age_s is None else f"nothing came for {age_s:.0f} s"
            found.append(f"{name}: {since}; the watcher's clock comes every 5 s")
    # Commits on the other input topics lie two hours back by design: a window reads that far.
    if place.topic == GPU_SAMPLES and place.end > place.start and _behind(place):
        found.append(f"{name}: the worker's progress is more than {bounds.progress_s} s behind")
    if place.topic == GPU_USAGE and _behind(place):
        left = place.end - (place.start if place.committed is None else place.committed)
        found.append(f"{name}: {left} messages are not in the ledger, the oldest for more than {bounds.ledger_s} s")
    if place.topic == DEAD_LETTERS and place.since < place.end:
        count = place.end - place.since
        found.append(f"{count} dead letters in the last hour; `gpumeter dead-letters list` says why")
    return found


def _behind(place: Place) -> bool:
    committed = place.start if place.committed is None else place.committed
    return committed < min(place.since, place.end)


def _of_ledger(ledger: Mapping[str, Any] | None) -> list[str]:
    if ledger is None or ledger.get("state") == "running":
        return []
    return [f"ledger: {ledger.get('state')}"]


def _of_process(process: ProcessState) -> list[str]:
    if process.health is None:
        return [f"{process.address} does not answer: {process.trouble}"]
    name = f"{process.health.process} {process.address}"
    word = "not healthy" if not process.health.healthy else "not ready"
    found = [] if process.health.ready else [f"{name} is {word}: {'; '.join(process.health.reasons)}"]
    broken = sum(process.numbers.get("gpumeter_worker_conservation_violations_total", {}).values())
    if broken:
        found.append(f"{name}: {broken:.0f} conservation violations; the view conservation_violations has them")
    away = {labels[0] for labels, count in process.numbers.get("gpumeter_worker_watchers_away", {}).items() if count}
    if away:
        found.append(f"{name}: a watcher is away, the worker writes its clock on partitions {', '.join(sorted(away))}")
    return found
