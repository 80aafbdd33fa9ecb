"""Parts of a real Kafka's log, read slice by slice: every record of them, in order, and no other."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from stream_jobs import part_reader
from stream_jobs.core.contents import LogRecord
from stream_jobs.lane import LogGoneError
from stream_jobs.part_reader import PartReader

pytestmark = pytest.mark.needs_broker
TOPIC, SHORT = "parts-filled", "parts-short"
RECORDS = 5_000


@pytest.fixture(scope="module")
def filled(kafka: str) -> str:
    """Bootstrap servers of a broker with a topic of 5,000 records, a marker and a record, and one of ten."""
    admin = AdminClient({"bootstrap.servers": kafka})
    for created in admin.create_topics([NewTopic(TOPIC, 1, 1), NewTopic(SHORT, 1, 1)]).values():
        created.result(20)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": "parts", "linger.ms": 20})
    producer.init_transactions(20)
    producer.begin_transaction()
    for topic, count in ((TOPIC, RECORDS), (SHORT, 10)):
        for number in range(count):
            producer.produce(topic, str(number).encode())
            producer.poll(0)
    producer.commit_transaction(20)
    producer.begin_transaction()
    producer.produce(TOPIC, b"behind")
    producer.commit_transaction(20)
    return kafka


def _slices(reader: PartReader, topic: str, first: int, last: int) -> Iterator[list[LogRecord]]:
    while first < last:
        records, to = reader.read(0, topic, first, last)
        assert all(first <= record.offset < to for record in records) and to <= last
        yield records
        first = to


@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, RECORDS), (1_234, 4_321), (4_999, RECORDS + 1)])
def test_a_part_comes_in_slices_of_a_bounded_size(filled: str, first: int, last: int) -> None:
    """All of [first, last) and nothing else, in slices; a marker at the end is no record and no silence."""
    slices = list(_slices(PartReader(filled), TOPIC, first, last))
    assert max(map(len, slices)) <= part_reader.SLICE_MESSAGES
    records = [record for part in slices for record in part]
    wanted = range(first, min(last, RECORDS))
    assert [(record.offset, record.payload) for record in records] == [(n, str(n).encode()) for n in wanted]


def test_parts_may_take_turns(filled: str) -> None:
    """Two parts read slice by slice in turns, as two partitions do, and parts that follow one another, stay whole."""
    reader = PartReader(filled)
    one, other, found = _slices(reader, TOPIC, 100, 2_900), _slices(reader, SHORT, 2, 9), [[], []]
    for part in other:
        found[1] += [record.offset for record in part]
        found[0] += [record.offset for record in next(one)]
    found[0] += [record.offset for part in one for record in part]
    found[0] += [record.offset for part in _slices(reader, TOPIC, 2_900, 2_950) for record in part]
    assert found == [list(range(100, 2_950)), list(range(2, 9))]


def test_a_part_that_ends_at_a_marker_takes_nothing_from_the_next(filled: str) -> None:
    """What was given of the log behind a part is there for a part that begins there."""
    reader = PartReader(filled)
    parts = [(RECORDS - 1, RECORDS + 1), (RECORDS + 1, RECORDS + 2)]
    found = [[record.offset for part in _slices(reader, TOPIC, *part) for record in part] for part in parts]
    assert found == [[RECORDS - 1], [RECORDS + 1]]


def test_records_that_leave_between_two_slices_are_told(filled: str) -> None:
    """A log that loses what is still to be read says so, at the next slice."""
    reader = PartReader(filled)
    records, to = reader.read(0, TOPIC, 0, RECORDS)
    while not records:
        records, to = reader.read(0, TOPIC, to, RECORDS)
    admin = AdminClient({"bootstrap.servers": filled})
    for deleted in admin.delete_records([TopicPartition(TOPIC, 0, 4_900)]).values():
        deleted.result(20)
    with pytest.raises(LogGoneError):
        list(_slices(PartReader(filled), TOPIC, to, RECORDS))
