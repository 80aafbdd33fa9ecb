"""What the worker changes in Faust, without a broker."""

import asyncio
from collections.abc import AsyncIterator
from unittest import mock

from faust.transport.drivers.aiokafka import Consumer
from faust.types import TP
from faust.types.tuples import ConsumerMessage

from stream_jobs.faust_app import FaustShell
from stream_jobs.faust_parts import FetchingConsumer
from stream_jobs.settings import WorkerSettings


async def _nothing(*_: object) -> None:
    return None


def test_consumer_throws_nothing_away() -> None:
    """Faust's mark of what it handed on stays unset, so that it gives again what it is sent back to."""

    async def mark() -> tuple[type, object]:
        consumer = FaustShell(WorkerSettings(), _nothing, _nothing).app.consumer
        place = TP("gpu-samples", 0)
        consumer._read_offset[place] = 9
        return type(consumer), consumer._read_offset[place]

    assert asyncio.run(mark()) == (FetchingConsumer, None)


def _message(topic: str, offset: int, generation: int) -> ConsumerMessage:
    place = TP(topic, 0)
    return ConsumerMessage(topic, 0, offset, 1.5, 1, None, None, b"x", None, tp=place, generation_id=generation)


def _handed_on(generations: list[int], now: int) -> list[tuple[str, list[int]]]:
    """(topic, offsets) of what a consumer hands on of two topics' messages while the group is in a generation."""

    async def fetched(self: object, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        for offset, generation in enumerate(generations):
            for topic in ("gpu-samples", "pod-events"):
                message = _message(topic, offset, generation)
                yield message.tp, message

    async def hand_on() -> list[tuple[str, list[int]]]:
        consumer = FaustShell(WorkerSettings(), _nothing, _nothing).app.consumer
        consumer.flow_active = True
        with (
            mock.patch.object(Consumer, "getmany", fetched),
            mock.patch.object(type(consumer.app), "consumer_generation_id", now, create=True),
        ):
            return [(tp.topic, [m.offset for m in message.messages]) async for tp, message in consumer.getmany(1.0)]

    return asyncio.run(hand_on())


def test_messages_of_a_fetch_are_handed_on_together() -> None:
    """Each partition's messages of a fetch come as one, all of them and in order."""
    assert _handed_on([7, 7, 7], now=7) == [("gpu-samples", [0, 1, 2]), ("pod-events", [0, 1, 2])]
    assert _handed_on([], now=7) == []


def test_messages_of_a_generation_that_is_over_are_not_handed_on() -> None:
    """What was fetched before the group moved on is left out: it comes again to whoever has the partition now."""
    assert _handed_on([6, 6], now=7) == []
