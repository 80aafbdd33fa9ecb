"""What the worker changes in Faust, without a broker."""

import asyncio

from faust.types import TP

from stream_jobs.faust_app import FaustShell, UnfilteredConsumer
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

    assert asyncio.run(mark()) == (UnfilteredConsumer, None)
