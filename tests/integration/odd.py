"""Writes messages with a header whose name is not UTF-8, as a producer in another language may."""

import asyncio
from unittest.mock import patch

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka.producer import message_accumulator  # type: ignore[import-untyped]
from aiokafka.producer import producer as aiokafka_producer
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy  # type: ignore[import-untyped]

ODD = b"\xff\xfe\x80"
READ_AS = "\ufffd\ufffd\ufffd"
"""What becomes of the name ODD in a first reading."""


class _Odd(str):
    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return ODD


def publish_odd(bootstrap: str, topic: str, partition: int, headers: list[tuple[str, bytes]], payload: bytes) -> int:
    """Sends one message with some headers and then one named ODD; its offset."""
    return asyncio.run(_publish(bootstrap, topic, partition, [*headers, (_Odd("odd"), b"v")], payload))


async def _publish(bootstrap: str, topic: str, partition: int, headers: list[tuple[str, bytes]], payload: bytes) -> int:
    name, builder = "DefaultRecordBatchBuilder", _DefaultRecordBatchBuilderPy
    with patch.object(message_accumulator, name, builder), patch.object(aiokafka_producer, name, builder):
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
        await producer.start()
        try:
            sent = await producer.send_and_wait(topic, payload, key=b"k", partition=partition, headers=headers)
        finally:
            await producer.stop()
    return int(sent.offset)
