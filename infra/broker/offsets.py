"""Where the ends of a topic's partitions are, for those who wait until all of it was read.

Shell around Kafka's admin interface; decides nothing. Tested in tests/integration/test_offsets.py.
"""

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from .errors import BrokerError

_TIMEOUT_S = 20.0


def end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """The next offset of each partition of a topic; BrokerError when the broker or the topic does not answer."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    try:
        partitions = admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = admin.list_offsets({TopicPartition(topic, number): latest for number in partitions})
        return {place.partition: int(future.result(_TIMEOUT_S).offset) for place, future in asked.items()}
    except KafkaException as error:
        raise BrokerError(f"broker {bootstrap}: no offsets of topic {topic}: {error.args[0].str()}") from error
