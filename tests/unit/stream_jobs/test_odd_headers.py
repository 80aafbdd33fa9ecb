"""A header whose name is not UTF-8 stops nobody."""

import pytest
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import TopicPartition

from stream_jobs.odd_headers import tolerate_odd_headers
from stream_jobs.usage_reader import _usage_message

MARK = b"ODD"


def _batch(first: int, names: list[str]) -> bytes:
    """A batch of messages with one header each; its name MARK becomes bytes that are no text."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=1 << 20,
    )  # fmt: skip
    for number, name in enumerate(names):
        builder.append(number, timestamp=1, key=None, value=str(first + number).encode(), headers=[(name, b"v")])
    raw = bytearray(builder.build().replace(MARK, b"\xff\xfe\x80"))
    raw[0:8] = first.to_bytes(8, "big")
    return bytes(raw)


def _read(raw: bytes, first: int) -> list[tuple[int, bytes, str]]:
    records = fetcher.PartitionRecords(
        TopicPartition("t", 0), fetcher.MemoryRecords(raw), [], first, None, None, False, fetcher.READ_UNCOMMITTED
    )
    return [(record.offset, record.value, record.headers[0][0]) for record in records]


@pytest.mark.parametrize("first", [0, 2])
def test_neighbours_of_an_odd_header_come_through_once(first: int) -> None:
    """Every message of the batch and of the next one comes once, from the place asked for, the odd name replaced."""
    tolerate_odd_headers()
    raw = _batch(0, ["a", MARK.decode(), "c", MARK.decode()]) + _batch(4, ["e"])
    names = ["a", "\ufffd\ufffd\ufffd", "c", "\ufffd\ufffd\ufffd", "e"]
    assert _read(raw, first) == [(i, str(i).encode(), names[i]) for i in range(first, 5)]


class _Message:
    def topic(self) -> str:
        return "gpu-usage"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return 2, 5

    def value(self) -> bytes:
        return b"v"

    def headers(self) -> None:
        raise SystemError("returned a result with an exception set")


def test_sink_reads_a_message_without_its_unreadable_headers() -> None:
    """Headers that confluent-kafka cannot give are left out, so that the message becomes a dead letter."""
    message = _usage_message(_Message())  # type: ignore[arg-type]
    assert (message.offset, message.headers, message.payload) == (7, [], b"v")
