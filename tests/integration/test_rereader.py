"""Reading a partition again past Faust, on a real Kafka: every record between two offsets, in order, and no other."""

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from stream_jobs.errors import Retry
from stream_jobs.lane import Received
from stream_jobs.part_reader import PartReader
from stream_jobs.rereader import Rereader
from tests.integration import odd

pytestmark = pytest.mark.needs_broker
FILLED, EMPTY, ODD_TOPIC = "rereader-filled", "rereader-empty", "rereader-odd"
RECORDS = 5_000
PLAIN = 100
"""So many calls of a method, and Python calls it another way: without looking whether it failed."""


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


def _taken(reader: Rereader) -> list[Received]:
    found: list[Received] = []
    try:
        while not reader.is_done:
            found += reader.take()
    finally:
        reader.close()
    return found


def _read(bootstrap: str, first: dict[str, int], last: dict[str, int]) -> list[tuple[str, int, bytes]]:
    found = _taken(Rereader(bootstrap, 0, 7, first, last))
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


def test_a_header_name_that_is_no_text_reads_as_it_did_the_first_time(kafka: str) -> None:
    """Messages that confluent-kafka gives no headers of come as Faust's client gave them, their neighbours too."""
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(ODD_TOPIC, 1, 1)])[ODD_TOPIC].result(20)
    producer = Producer({"bootstrap.servers": kafka})
    strange = {PLAIN + 1, PLAIN + 2, PLAIN + 4}
    for number in range(PLAIN + 5):
        if number in strange:
            producer.flush(20)
            assert odd.publish_odd(kafka, ODD_TOPIC, 0, [("a", b"1"), ("a", b"2")], str(number).encode()) == number
        else:
            producer.produce(ODD_TOPIC, str(number).encode(), headers=[("a", b"1"), ("b", None)])
    producer.flush(20)
    plain, replaced = [("a", b"1"), ("b", b"")], [("a", b"1"), ("a", b"2"), (odd.READ_AS, b"v")]
    wanted = [(n, replaced if n in strange else plain, str(n).encode()) for n in range(PLAIN + 5)]
    again = [message.record for message in _taken(Rereader(kafka, 0, 7, {ODD_TOPIC: 0}, {ODD_TOPIC: PLAIN + 5}))]
    parts, to = PartReader(kafka).read(0, ODD_TOPIC, 0, PLAIN + 5)
    assert to == PLAIN + 5
    for records in (again, parts):
        assert [(record.offset, record.headers, record.payload) for record in records] == wanted
