"""Lets aiokafka read on where a header's name is not UTF-8.

aiokafka refuses the whole batch, so a single such message, which any producer may write, would end every worker at the
same place for ever. Here its batch is read again by aiokafka's own Python reader with the odd bytes replaced; what the
message means is then judged like any other. confluent-kafka gives no header of such a message, so readers of that kind
ask here. Law: its neighbours in the batch come through, each once (tests/unit/stream_jobs/test_odd_headers.py).
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]
from aiokafka.consumer import fetcher  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]
from aiokafka.record.default_records import _DefaultRecordBatchPy  # type: ignore[import-untyped]
from aiokafka.record.memory_records import MemoryRecords, _MemoryRecordsPy  # type: ignore[import-untyped]

from .errors import Retry

_ANSWER_S = 30.0


class _KeptRecords(MemoryRecords):  # type: ignore[misc]
    """Records that can be read a second time."""

    def __init__(self, raw: bytes) -> None:
        super().__init__(raw)
        self.raw = raw


class _Buffer(bytearray):
    """Bytes whose parts are decoded with what is no text replaced."""

    def __getitem__(self, at: Any) -> Any:
        part = super().__getitem__(at)
        return _Buffer(part) if isinstance(part, bytearray) else part

    def decode(self, encoding: str = "utf-8", errors: str = "replace") -> str:
        return super().decode(encoding, errors)


class _Batch(_DefaultRecordBatchPy):  # type: ignore[misc]
    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        self._buffer: bytearray = _Buffer(self._buffer)


class _Records(_MemoryRecordsPy):  # type: ignore[misc]
    def next_batch(self) -> _Batch:
        raw = self._next_slice
        self._cache_next()
        return _Batch(raw)


class _Partition(fetcher.PartitionRecords):  # type: ignore[misc]
    def __next__(self) -> Any:
        try:
            return super().__next__()
        except UnicodeDecodeError:
            # `next_fetch_offset` stands at the odd message, so what came before it is passed over.
            self._records: Any = _Records(self._records.raw)
            self._records_iterator = self._unpack_records()
            return super().__next__()


def tolerate_odd_headers() -> None:
    """Makes the aiokafka of this process tolerant; doing it twice changes nothing."""
    fetcher.MemoryRecords, fetcher.PartitionRecords = _KeptRecords, _Partition


def read_headers(
    bootstrap_servers: str, topic: str, partition: int, offsets: Sequence[int]
) -> dict[int, list[tuple[str, bytes]]]:
    """Headers of messages by offset, odd names replaced as in every first reading; Retry where the broker is away.

    Blocking, in a thread without an event loop of its own.
    """
    tolerate_odd_headers()
    try:
        return asyncio.run(_read_headers(bootstrap_servers, TopicPartition(topic, partition), offsets))
    except (KafkaError, TimeoutError) as error:
        raise Retry(f"headers of {topic}/{partition} cannot be read again: {error!r}") from error


async def _read_headers(servers: str, place: Any, offsets: Sequence[int]) -> dict[int, list[tuple[str, bytes]]]:
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False, auto_offset_reset="none")
    found: dict[int, list[tuple[str, bytes]]] = {}
    await consumer.start()
    try:
        consumer.assign([place])
        at = -1
        for offset in offsets:
            if offset != at:
                consumer.seek(place, offset)
            message = await asyncio.wait_for(consumer.getone(place), _ANSWER_S)
            at = message.offset + 1
            found[message.offset] = [(name, value or b"") for name, value in message.headers]
    finally:
        await consumer.stop()
    if missing := set(offsets) - found.keys():
        raise Retry(f"{place.topic}/{place.partition}: offset {min(missing)} left the log while it was read again")
    return found
