"""The producer of agent and watcher; beside the watcher's memory the only importer of confluent_kafka in this folder.

Owns the bounded queue of messages that are not acknowledged yet. Never blocks its caller: where the queue is full the
message is dropped and counted, its sequence number stays used, so the gap is seen downstream. A partition is computed
from (cluster, node) and the topic's partition count; while the count is not known yet, messages wait in the same
order and under the same bound. Must not know what a message means. Tested in tests/unit/collector/test_publish.py
and, on a real broker, tests/integration/test_agent_on_kafka.py.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from schemas.headers import Headers, encode_headers
from schemas.ids import message_key, partition_of

from .clock import Deadline
from .errors import Retry

ACKNOWLEDGED, AGAIN, NEVER = "acknowledged", "again", "never"
"""What becomes of a message: it is in the log; it is not, and may be sent again; no broker will ever take it."""
Done = Callable[[str], None]
_HOPELESS = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE, KafkaError.INVALID_RECORD})

logger = logging.getLogger(__name__)
METADATA_TIMEOUT_S = 5.0


class Outlet(Protocol):
    """Where agent and watcher hand their messages; tests give a recording one."""

    def produce(self, topic: str, node: str, headers: Headers, payload: bytes) -> bool:
        """Queue a message of a node; False where the queue was full and the message is lost."""

    def poll(self) -> None:
        """Serve acknowledgements without waiting."""

    def flush(self, timeout_s: float) -> None:
        """Wait until all is acknowledged; Retry where it is not."""


class _Waiting(NamedTuple):
    topic: str
    cluster: str
    node: str
    headers: list[tuple[str, bytes]]
    payload: bytes
    done: Done | None = None


class Publisher:
    """Idempotent producer with acks=all and lz4; `options` are librdkafka's own (security, for example)."""

    def __init__(
        self,
        cluster: str,
        bootstrap_servers: str,
        *,
        options: Mapping[str, str] | None = None,
        queue_bytes: int = 16 << 20,
        client_id: str = "gpumeter",
    ) -> None:
        self.cluster = cluster
        self.acknowledged = 0
        self.dropped = 0
        self.failed = 0
        self._servers = bootstrap_servers
        self._queue_bytes = queue_bytes
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._counts: dict[str, int] = {}
        self._wanted: set[str] = set()
        self._failed_told = 0
        self._asking: threading.Thread | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "client.id": client_id,
                "acks": "all",
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 20,
                "message.timeout.ms": 0,
                "queue.buffering.max.messages": 100_000,
                "queue.buffering.max.kbytes": max(1024, queue_bytes >> 10),
                "log.connection.close": False,
                **(options or {}),
            },
            logger=logging.getLogger("collector.kafka"),
        )

    @property
    def waiting(self) -> int:
        """Messages that are not acknowledged yet."""
        return len(self._producer) + len(self._waiting)

    def produce(self, topic: str, node: str, headers: Headers, payload: bytes) -> bool:
        """Queue a message of a node on the node's partition; False where it was dropped because the queue is full."""
        return self._take(_Waiting(topic, self.cluster, node, encode_headers(headers), payload))

    def offer(self, topic: str, headers: Headers, payload: bytes, done: Done) -> None:
        """Queue a message of the node that its headers name; `done` is told its outcome, now or in a later call."""
        message = _Waiting(topic, headers.cluster, headers.node, encode_headers(headers), payload, done)
        if not self._take(message):
            done(AGAIN)

    def produce_to(self, topic: str, partition: int, key: bytes, headers: Headers, payload: bytes) -> bool:
        """Queue a message on a given partition (clock records go to every one); False where it was dropped."""
        return self._enqueue(partition, key, _Waiting(topic, self.cluster, "", encode_headers(headers), payload))

    def partition_count(self, topic: str, timeout_s: float = 0) -> int | None:
        """Partitions of a topic; waits for the broker's answer at most `timeout_s`, None where it is not known yet."""
        if topic not in self._counts:
            self._ask(topic)
            if self._asking is not None and timeout_s > 0:
                self._asking.join(timeout_s)
        return self._counts.get(topic)

    def poll(self) -> None:
        """Serve acknowledgements and send what waited for a partition count; never waits."""
        self._drain()
        self._producer.poll(0)

    def flush(self, timeout_s: float) -> None:
        """Wait until every queued message is acknowledged.

        Retry where messages are left after `timeout_s`, or a message failed for good since the last call.
        """
        deadline = Deadline(timeout_s)
        while self._waiting and deadline.left_s:
            self.partition_count(self._waiting[0].topic, deadline.left_s)
            self._drain()
        left = self.wait(deadline.left_s)
        if left:
            raise Retry(f"{left} messages not acknowledged by {self._servers} within {timeout_s:g} s; they stay queued")
        told, self._failed_told = self._failed_told, self.failed
        if self.failed > told:
            raise Retry(f"{self.failed - told} messages refused by {self._servers}; the log has the reasons")

    def wait(self, timeout_s: float) -> int:
        """Serve acknowledgements for so long, or until all is acknowledged; how many messages are not."""
        return self._producer.flush(timeout_s) + len(self._waiting)

    def _take(self, message: _Waiting) -> bool:
        self._drain()
        if self._waiting or message.topic not in self._counts:
            return self._wait(message)
        return self._hand_over(message)

    def _wait(self, message: _Waiting) -> bool:
        self._ask(message.topic)
        if self._waiting_bytes + len(message.payload) > self._queue_bytes:
            self.dropped += message.done is None
            return False
        self._waiting.append(message)
        self._waiting_bytes += len(message.payload)
        return True

    def _drain(self) -> None:
        while self._waiting and self._waiting[0].topic in self._counts:
            message = self._waiting.popleft()
            self._waiting_bytes -= len(message.payload)
            if not self._hand_over(message) and message.done is not None:
                message.done(AGAIN)
        if self._waiting:
            self._ask(self._waiting[0].topic)

    def _hand_over(self, message: _Waiting) -> bool:
        partition = partition_of(message.cluster, message.node, self._counts[message.topic])
        return self._enqueue(partition, message_key(message.cluster, message.node), message)

    def _enqueue(self, partition: int, key: bytes, message: _Waiting) -> bool:
        """Hands a message to librdkafka; False where it has no room. One that is too large is refused for good."""
        topic, payload = message.topic, message.payload
        told = partial(self._delivered, message.done)
        try:
            self._producer.produce(
                topic, payload, key=key, partition=partition, headers=list(message.headers), on_delivery=told
            )
        except BufferError:
            self.dropped += message.done is None
            return False
        except KafkaException as error:
            if error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                raise
            # Sent again it would be refused again, so it must not end the process that then starts with it anew.
            logger.error("message of %d bytes for %s is larger than Kafka takes: dropped", len(payload), topic)
            if message.done is None:
                self.dropped += 1
                return False
            message.done(NEVER)
        return True

    def _delivered(self, done: Done | None, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed += 1
            logger.error("message for %s [%s] refused: %s", message.topic(), message.partition(), error)
        if done is not None:
            done(ACKNOWLEDGED if error is None else NEVER if error.code() in _HOPELESS else AGAIN)

    def _ask(self, topic: str) -> None:
        """Ask the broker for a partition count beside the caller: one thread at a time, gone when answered."""
        self._wanted.add(topic)
        if self._asking is None or not self._asking.is_alive():
            self._asking = threading.Thread(target=self._fetch_counts, name="partition-counts", daemon=True)
            self._asking.start()

    def _fetch_counts(self) -> None:
        for topic in sorted(self._wanted):
            try:
                known = self._producer.list_topics(topic, timeout=METADATA_TIMEOUT_S).topics[topic]
            except KafkaException as error:
                logger.warning("partition count of %s not known yet, its messages wait: %s", topic, error.args[0])
                return
            if known.error is not None or not known.partitions:
                logger.warning("topic %s is not there yet, its messages wait: %s", topic, known.error)
                threading.Event().wait(1.0)
                continue
            self._counts[topic] = len(known.partitions)
            self._wanted.discard(topic)
