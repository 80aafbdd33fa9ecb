"""Messages between two rounds: bounded in number and size; the reader waits while there is no room.

Knows no topic. Tested in tests/unit/stream_jobs/test_intake.py.
"""

import asyncio

from .lane import Received


class Intake:
    """A buffer that one coroutine fills, message by message, and another takes whole."""

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages, self._max_bytes = max_messages, max_bytes
        self._messages: list[Received] = []
        self._bytes = 0
        self._room = asyncio.Event()

    def __len__(self) -> int:
        return len(self._messages)

    async def receive(self, message: Received) -> None:
        """Takes a message; waits for the next `take` where that filled it."""
        self._messages.append(message)
        self._bytes += len(message.record.payload)
        if len(self._messages) >= self._max_messages or self._bytes >= self._max_bytes:
            self._room.clear()
            await self._room.wait()

    def take(self) -> list[Received]:
        """All that is there, in the order in which it came; makes room."""
        messages, self._messages, self._bytes = self._messages, [], 0
        self._room.set()
        return messages
