"""Reading a partition again past Faust, on a real Kafka: every record between two offsets, in order, and no other."""

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from stream_jobs.errors import Retry
from stream_jobs.rereader import Rereader

pytestmark = pytest.mark.needs_broker
FILLED, EMPTY = "rereader-filled", "rereader-empty"
RECORDS = 5_000


@pytest.fixture(scope="module")
def filled(kafka: str) -> str:
    """Bootstrap servers of a broker with a topic of 5,000 records, then two of a transaction with its marker."""
    admin = AdminClient({"bootstrap.servers": kafka})
    for created in admin.create_topics([NewTopic(FILLED, 1, 1), NewTopic(EMPTY, 1, 1)]).values():
        created.result(20)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": "rereader", "linger.ms": 20})
    producer.init_transactions(20)
    producer.begin_transaction()
    for number in range(RECORDS):
        producer.produce(FILLED, str(number).encode(), headers=[("n", str(number).encode())])
        producer.poll(0)
    producer.commit_transaction(20)
    producer.begin_transaction()
    for number in range(2):
        producer.produce(FILLED, str(RECORDS + 1 + number).encode())
    producer.commit_transaction(20)
    return kafka


def _read(bootstrap: str, first: dict[str, int], last: dict[str, int]) -> list[tuple[str, int, bytes]]:
    reader, found = Rereader(bootstrap, 0, 7, first, last), []
    try:
        while not reader.is_done:
            found += reader.take()
    finally:
        reader.close()
    assert all(message.partition == 0 and message.generation == 7 for message in found)
    return [(message.topic, message.record.offset, message.record.payload) for message in found]


@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, RECORDS), (1_234, 4_321), (4_999, RECORDS)])
def test_records_between_two_offsets_come_in_order(filled: str, first: int, last: int) -> None:
    """All of [first, last) and nothing else, also where one topic has nothing to read again."""
    found = _read(filled, {FILLED: first, EMPTY: 0}, {FILLED: last, EMPTY: 0})
    assert found == [(FILLED, offset, str(offset).encode()) for offset in range(first, last)]


@pytest.mark.parametrize("last", [RECORDS + 1, RECORDS + 3, RECORDS + 4])
def test_the_marker_of_a_transaction_is_no_record_and_no_end(filled: str, last: int) -> None:
    """A range that ends at, behind or beyond offsets that no consumer is given comes to its end."""
    found = _read(filled, {FILLED: RECORDS - 1}, {FILLED: last})
    wanted = [RECORDS - 1, *(offset for offset in (RECORDS + 1, RECORDS + 2) if offset < last)]
    assert [offset for _, offset, _ in found] == wanted


def test_nothing_to_read_again_is_done_at_once(filled: str) -> None:
    """Where a lane stands where its progress is there is nothing to take."""
    assert _read(filled, {FILLED: 10}, {FILLED: 10}) == []


def test_records_that_are_deleted_are_no_silence(filled: str) -> None:
    """A range whose beginning the log does not have any more is refused; reading on behind it would lose records."""
    admin = AdminClient({"bootstrap.servers": filled})
    for deleted in admin.delete_records([TopicPartition(FILLED, 0, 100)]).values():
        deleted.result(20)
    with pytest.raises(Retry, match="partition 0 cannot be read again"):
        _read(filled, {FILLED: 50}, {FILLED: 200})
