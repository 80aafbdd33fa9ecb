from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from infra.broker.offsets import end_offsets


def test_end_offsets_count_what_was_acknowledged(kafka: str) -> None:
    """The end of each partition is the number of messages acknowledged on it, 0 where there are none."""
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic("offsets-test", 2, 1)])["offsets-test"].result(20)
    producer = Producer({"bootstrap.servers": kafka, "acks": "all"})
    for _ in range(3):
        producer.produce("offsets-test", b"x", partition=1)
    assert producer.flush(20) == 0
    assert end_offsets(kafka, "offsets-test") == {0: 0, 1: 3}
