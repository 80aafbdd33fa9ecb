"""The checker itself, without processes: it says nothing about a faultless run and finds each fault put in by hand."""

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from schemas.names import GPU_SAMPLES, INPUT_TOPICS
from stream_jobs.core.carry import Carry, Progress, decode_carry, encode_carry
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from stream_jobs.progress import chunk_key, encode_body, split
from tests.chaos import checker
from tests.chaos.checker import Expected
from tests.chaos.plan import PARTITIONS, make_plan
from tests.chaos.read_back import Copy, Key, Logs, ProgressRecord, Row, joined
from tests.chaos.workload import messages
from tests.property.drive import drain

SETTINGS = MeterSettings(window_us=60_000_000, lateness_us=20_000_000, simulated_time=True)
Copies = dict[Key, list[Copy]]


def _logs(seed: int) -> Logs:
    logs: Logs = {partition: {topic: [] for topic in INPUT_TOPICS} for partition in range(PARTITIONS)}
    for message in messages(make_plan(seed)):
        records = logs[message.partition][message.topic]
        records.append(LogRecord(len(records), int(message.arrival_us), message.headers, message.payload))
    return logs


@cache
def _expected(seed: int) -> Expected:
    return checker.expected_of(_logs(seed), SETTINGS)


class _Run:
    """What a faultless worker leaves behind; its clock is the number of records read."""

    def __init__(self, seed: int) -> None:
        self.expected = _expected(seed)
        self.copies: Copies = {}
        self.progress: list[ProgressRecord] = []
        for partition, log in self.expected.logs.items():
            self._meter(partition, log, random.Random(seed))
        self.ledger: dict[Key, Row] = {
            key: seen[0].row | {"out_offset": seen[0].offset} for key, seen in self.copies.items()
        }

    def _meter(self, partition: int, log: dict[str, list[LogRecord]], rng: random.Random) -> None:
        meter, now = PartitionMeter(SETTINGS, Source(partition)), 0
        while unread := [t for t in INPUT_TOPICS if meter.position[t] < len(log[t])]:
            topic = rng.choice(unread)
            meter.feed(topic, log[topic][meter.position[topic] :][:40])
            now += 1
            for row in (row for table in drain(meter, log) for row in table.to_pylist()):
                key = tuple(row[name] for name in checker.KEY_COLUMNS)
                self.copies.setdefault(key, []).append(Copy(partition, now, len(self.copies), row))
            saved = meter.progress()
            if saved is not None:
                carry = decode_carry(saved.carry)
                self.progress.append(ProgressRecord(partition, now, len(self.progress), saved.offsets, carry))

    def differences(self) -> list[str]:
        """All that the checker has to say."""
        return checker.differences(self.expected, self.copies, self.ledger, self.progress)


def test_faultless_run_has_no_differences() -> None:
    """Rows of an undisturbed meter, published once, with its own progress records: nothing to say, and not for void."""
    run = _Run(1)
    assert run.differences() == []
    assert len(run.expected.windows) > 50
    assert len(run.expected.revisions) > 10
    assert len(run.progress) > 20
    assert checker.compare_letters(run.expected, run.expected.refused) == []
    assert len(run.expected.refused) >= 12


def _some(run: _Run, **wanted: Any) -> Key:
    return next(key for key, seen in run.copies.items() if all(seen[0].row[k] == v for k, v in wanted.items()))


def _lose_a_row(run: _Run) -> None:
    del run.copies[_some(run)]


def _lose_a_row_in_the_ledger(run: _Run) -> None:
    del run.ledger[_some(run)]


def _invent_a_row(run: _Run) -> None:
    key = _some(run)
    run.copies[(*key[:3], "stranger", *key[4:])] = run.copies[key]


def _change_a_measure(run: _Run) -> None:
    run.ledger[_some(run, holder_kind="pod")]["charged_us"] += 1


def _change_a_flag(run: _Run) -> None:
    run.ledger[_some(run)]["flags"] = ["never"]


def _publish_another_copy(run: _Run) -> None:
    seen = run.copies[_some(run)]
    seen.append(Copy(seen[0].partition, 1 << 40, 1 << 40, seen[0].row | {"cut_events_offset": -1}))


def _let_the_last_copy_win(run: _Run) -> None:
    run.ledger[_some(run)]["out_offset"] += 1


def _run_ahead(run: _Run) -> None:
    record = next(record for record in run.progress if record.carry.closed_to_us)
    record.offsets[GPU_SAMPLES] = len(run.expected.logs[record.partition][GPU_SAMPLES])


def _commit_before_publishing(run: _Run) -> None:
    last = [record for record in run.progress if record.carry.closed_to_us][-1]
    run.progress.append(ProgressRecord(last.partition, 0, last.offset, last.offsets, last.carry))


def _revision(run: _Run) -> Key:
    return next(key for key, seen in run.copies.items() if key[5] and seen[0].row["charged_us"])


def _lose_a_revision(run: _Run) -> None:
    lost = _revision(run)
    for key in [key for key in run.copies if (key[1], key[4], key[5]) == (lost[1], lost[4], lost[5])]:
        del run.copies[key]


def _revise_at_another_minute(run: _Run) -> None:
    key = _revision(run)
    run.copies[(*key[:5], key[5] + 1)] = run.copies.pop(key)


def _revise_without_reason(run: _Run) -> None:
    run.copies[_revision(run)][0].row["flags"] = []


def _revise_a_measure(run: _Run) -> None:
    run.copies[_revision(run)][0].row["charged_us"] += 1


def _lose_a_difference(run: _Run) -> None:
    key = _revision(run)
    run.copies[key][0].row["d_charged_us"] += 1
    run.ledger[key]["d_charged_us"] += 1


def _look_before_publishing(run: _Run) -> None:
    last = next(r for r in reversed(run.progress) if any(h.looked_to_us for now in r.carry.now for h in now.nodes))
    run.progress.append(ProgressRecord(last.partition, 0, last.offset, last.offsets, last.carry))


def _carry_another_watermark(run: _Run) -> None:
    carried = (node for r in run.progress for c in r.carry.clusters for node in c.nodes if node.watermark_us)
    next(carried).watermark_us = 1


FAULTS: dict[str, Callable[[_Run], None]] = {
    "gpu-usage lacks": _lose_a_row,
    "the ledger lacks": _lose_a_row_in_the_ledger,
    "which the log does not decide": _invent_a_row,
    "the oracle says": _change_a_measure,
    "than an undisturbed meter": _change_a_flag,
    "copies of": _publish_another_copy,
    "the first is at": _let_the_last_copy_win,
    "still needs offset": _run_ahead,
    "were not all published before": _commit_before_publishing,
    "conservation": _change_a_measure,
    "no revision": _lose_a_revision,
    "without a late record": _revise_at_another_minute,
    "names no reason": _revise_without_reason,
    "has (": _revise_a_measure,
    "other differences than the oracle": _lose_a_difference,
    "differences of": _lose_a_difference,
    "came after it": _look_before_publishing,
    "does not carry": _carry_another_watermark,
}


@pytest.mark.parametrize("words", FAULTS)
def test_checker_finds(words: str) -> None:
    """A fault put into a faultless run by hand is found, in these words."""
    run = _Run(1)
    FAULTS[words](run)
    assert any(words in text for text in run.differences())


def test_checker_finds_lost_and_wrong_letters() -> None:
    """A dead letter that is missing, and one about a readable record, are both found."""
    run = _Run(1)
    refused = set(run.expected.refused)
    lost = refused.pop()
    found = checker.compare_letters(run.expected, refused | {(GPU_SAMPLES, 0, 1 << 40)})
    assert found == [f"no dead letter of {lost}", f"a dead letter of {(GPU_SAMPLES, 0, 1 << 40)}, which can be read"]


def test_progress_of_several_chunks_is_joined() -> None:
    """Chunks of one writer make a record when the last is there; a writer that ended between them made none."""
    carry = encode_carry(Carry(samples_offset=5, clusters=[]))
    body = encode_body(Progress(dict.fromkeys(INPUT_TOPICS, 5), carry))
    first, second = split(body, len(body) // 2 + 1)
    sent = [("torn", 0, first), ("a", 0, first), ("b", 0, first), ("a", 1, second), ("b", 1, second)]
    found = joined([_Chunk(n, *chunk) for n, chunk in enumerate(sent)], "g")
    assert [(record.offset, record.offsets[GPU_SAMPLES], record.carry) for record in found] == [
        (3, 5, decode_carry(carry)),
        (4, 5, decode_carry(carry)),
    ]


class _Chunk:
    """A message of meter-progress, as far as it is read."""

    def __init__(self, offset: int, writer: str, chunk: int, payload: bytes) -> None:
        self.offset, self.partition, self.timestamp = (lambda: offset), (lambda: 0), (lambda: (2, offset))
        self.key, self.value = (lambda: chunk_key("g", 0, 1, writer, 0, chunk)), (lambda: payload)
