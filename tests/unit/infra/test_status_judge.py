"""What `gpumeter status` calls wrong."""

from typing import Any

import pytest

from infra.broker.lag import Place, Standing
from infra.status.judge import Bounds, Groups, findings, numbers_of
from infra.status.process import ProcessState
from schemas.health import judge
from schemas.names import DEAD_LETTERS, GPU_SAMPLES, GPU_USAGE, POD_EVENTS, POD_MAPPINGS

NOW_US = 1_790_000_000_000_000
GROUPS = Groups("gpumeter", "gpumeter-sink")


def _place(topic: str, **given: Any) -> Place:
    base = {"start": 0, "end": 100, "newest_us": NOW_US - 5_000_000, "committed": 90, "since": 80}
    return Place(topic=topic, partition=0, **(base | given))


def _standing(**changed: Place) -> Standing:
    places = {
        "samples": _place(GPU_SAMPLES), "mappings": _place(POD_MAPPINGS, committed=3), "events": _place(POD_EVENTS),
        "usage": _place(GPU_USAGE), "letters": _place(DEAD_LETTERS, committed=None, since=100),
    }  # fmt: skip
    return Standing(1, list((places | changed).values()), {"gpumeter": 2, "gpumeter-sink": 0}, [])


def _find(standing: Standing, ledger: dict[str, Any] | None = None, *processes: ProcessState) -> list[str]:
    return findings(standing, ledger, processes, GROUPS, Bounds(), NOW_US)


def test_healthy_pipeline_has_no_finding() -> None:
    """Fresh inputs, a worker, progress and ledger within their bounds, letters of long ago: nothing is wrong."""
    ready = ProcessState("h:1", judge("worker", 0.1, []), {})
    assert _find(_standing(), {"state": "running"}, ready) == []


@pytest.mark.parametrize(
    ("name", "place", "word"),
    [
        ("events", _place(POD_EVENTS, newest_us=NOW_US - 61_000_000), "nothing came for 61 s"),
        ("events", _place(POD_EVENTS, newest_us=None), "nothing ever came"),
        ("samples", _place(GPU_SAMPLES, committed=79), "progress is more than 900 s behind"),
        ("samples", _place(GPU_SAMPLES, committed=None), "progress is more than 900 s behind"),
        ("usage", _place(GPU_USAGE, committed=79), "21 messages are not in the ledger"),
        ("usage", _place(GPU_USAGE, committed=None, start=40), "60 messages are not in the ledger"),
        ("letters", _place(DEAD_LETTERS, since=97), "3 dead letters in the last hour"),
    ],
)
def test_each_fault_of_the_log_is_named(name: str, place: Place, word: str) -> None:
    """A silent input, progress or ledger beyond its bound, fresh dead letters: one finding each, and no other."""
    found = _find(_standing(**{name: place}))
    assert len(found) == 1
    assert word in found[0]
    assert place.topic in found[0] or place.topic == DEAD_LETTERS


def test_missing_worker_topic_and_ledger_are_named() -> None:
    """No member in the group, a topic that is not there, a ledger that waits: each is a finding."""
    standing = _standing()._replace(members={"gpumeter": 0}, missing=[GPU_USAGE])
    found = _find(standing, {"state": "waiting: ClickHouse is away"})
    assert [word for word in ("gpu-usage is not there", "no worker is in group", "waiting: ClickHouse") if
            any(word in each for each in found)] == ["gpu-usage is not there", "no worker is in group",
                                                     "waiting: ClickHouse"]  # fmt: skip
    assert len(found) == 3


def test_processes_that_are_away_stuck_behind_or_wrong_are_named() -> None:
    """No answer, an unhealthy loop, a reason against readiness, a broken law: one finding each, with the address."""
    broken = {"gpumeter_worker_conservation_violations_total": {("0",): 2.0}}
    states = [
        ProcessState("h:1", None, {}, "refused"),
        ProcessState("h:2", judge("sink", 999.0, []), {}),
        ProcessState("h:3", judge("worker", 0.1, ["3 records to read again"]), {}),
        ProcessState("h:4", judge("worker", 0.1, []), broken),
        ProcessState("h:5", judge("worker", 0.1, []), {"gpumeter_worker_watchers_away": {("0",): 0.0, ("3",): 1.0}}),
    ]
    found = _find(_standing(), None, *states)
    assert [f"h:{i}" in each for i, each in enumerate(found, 1)] == [True] * 5
    words = ("does not answer", "not healthy", "3 records", "2 conservation", "watcher is away")
    assert "partitions 3" in found[-1]
    for word, each in zip(words, found, strict=True):
        assert word in each


def test_numbers_of_a_partition_leave_unknown_null() -> None:
    """Without a commit there is no lag, without a record no age; both are null, not 0."""
    shown = numbers_of(_place(GPU_USAGE, committed=None, newest_us=None), NOW_US)
    assert (shown["lag_records"], shown["newest_age_s"]) == (None, None)
    assert numbers_of(_place(GPU_USAGE), NOW_US)["lag_records"] == 10
