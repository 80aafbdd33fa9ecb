"""What the last watcher knew: the newest records of its cluster in pod-events, read once at the start.

A pod that was deleted while no watcher ran is in no list, and the API server tells only the last run of a container;
both are known only from here. Records are republished every hour, so a little more than an hour of the log holds every
object that was alive. Decides nothing about them (tests/integration/test_watcher_cli.py).
"""

import logging
import threading
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from collector.errors import Retry
from schemas.headers import NODE_EVENT, POD_EVENT, decode_headers, given_headers
from schemas.names import POD_EVENTS
from schemas.pods import NodeRecord, PodRecord, decode_node, decode_pod
from schemas.units import US_PER_HOUR

logger = logging.getLogger(__name__)
REACH_US = US_PER_HOUR + US_PER_HOUR // 12
ANSWER_S = 10.0
ATTEMPTS = 6
PAUSE_S = 0.5


class Memory:
    """Newest records by key, deleted ones left out."""

    def __init__(self) -> None:
        self.pods: dict[str, PodRecord] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.refused = 0
        """Messages that could not be read; the next list makes good for them."""

    def take(self, cluster: str, headers: Any, payload: bytes) -> None:
        """Takes a message of the topic, in the log's order."""
        try:
            told = decode_headers(headers)
            if told.cluster != cluster:
                return
            if told.record == POD_EVENT:
                pod = decode_pod(payload)
                self.pods[pod.uid] = pod
            elif told.record == NODE_EVENT:
                node = decode_node(payload)
                self.nodes[node.name] = node
        except ValueError:
            self.refused += 1

    def living(self) -> tuple[dict[str, PodRecord], dict[str, NodeRecord]]:
        """Records of what was not deleted."""
        pods = {uid: pod for uid, pod in self.pods.items() if pod.deleted_us is None}
        return pods, {name: node for name, node in self.nodes.items() if node.deleted_us is None}


def remember(cluster: str, bootstrap_servers: str, options: Mapping[str, str], now_us: int) -> Memory:
    """Records of the last hour and a little; Retry where Kafka does not answer or the topic is not there."""
    own = {"bootstrap.servers": bootstrap_servers, "group.id": "gpumeter-watcher-memory"}
    reading = {"enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "earliest"}
    consumer = Consumer({**own, **reading, **options})
    pause = threading.Event()
    try:
        # A topic made a moment ago has no leader yet; a whole back-off for that would begin every first start late.
        for _ in range(ATTEMPTS - 1):
            try:
                return _read(consumer, cluster, now_us)
            except (KafkaException, Retry):
                pause.wait(PAUSE_S)
        return _read(consumer, cluster, now_us)
    except KafkaException as error:
        raise Retry(f"{POD_EVENTS} on {bootstrap_servers} cannot be read: {error.args[0]}; will try again") from error
    finally:
        consumer.close()


def _read(consumer: Consumer, cluster: str, now_us: int) -> Memory:
    known = consumer.list_topics(POD_EVENTS, timeout=ANSWER_S).topics[POD_EVENTS]
    if known.error is not None or not known.partitions:
        raise Retry(f"topic {POD_EVENTS} is not there yet ({known.error}); will try again")
    since_ms = max(0, now_us - REACH_US) // 1000
    asked = [TopicPartition(POD_EVENTS, partition, since_ms) for partition in known.partitions]
    consumer.assign(consumer.offsets_for_times(asked, timeout=ANSWER_S))
    memory, open_partitions = Memory(), set(known.partitions)
    while open_partitions:
        message = consumer.poll(ANSWER_S)
        if message is None:
            raise Retry(f"{POD_EVENTS}: silence of {ANSWER_S:g} s from {sorted(open_partitions)}; will try again")
        error = message.error()
        if error is None:
            memory.take(cluster, given_headers(message), message.value() or b"")
        elif error.code() == KafkaError._PARTITION_EOF:
            open_partitions.discard(message.partition() or 0)
        else:
            raise KafkaException(error)
    if memory.refused:
        logger.warning("%d messages of %s could not be read and are not remembered", memory.refused, POD_EVENTS)
    return memory
