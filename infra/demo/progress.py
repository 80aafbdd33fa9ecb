"""What a person sees while the demo runs: a live line on a terminal, plain lines elsewhere.

Owns the stages' names and durations; knows nothing of the work. Tested in tests/unit/infra/demo/test_progress.py.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

PLAIN_PERIOD_S = 10.0


class Stages:
    """Named stages, each timed; `seconds` has them in order."""

    def __init__(self, console: Console) -> None:
        self.seconds: dict[str, float] = {}
        self._console = console
        self._status: Status | None = None
        self._title = ""
        self._said_s = 0.0

    @contextmanager
    def stage(self, name: str, title: str) -> Iterator[None]:
        """Times what is done inside; a stage that fails is not ticked."""
        self._title, started_s = title, time.monotonic()
        self._said_s = started_s
        self._status = self._console.status(title) if self._console.is_terminal else None
        if self._status:
            self._status.start()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - started_s, 2)
            if self._status:
                self._status.stop()
                self._status = None
        self._console.print(f"[green]✓[/green] {title} [dim]({self.seconds[name]:.1f} s)[/dim]", highlight=False)

    def say(self, text: str) -> None:
        """Where the stage stands; every 10 s where there is no terminal."""
        if self._status:
            self._status.update(f"{self._title}: {text}")
        elif time.monotonic() - self._said_s > PLAIN_PERIOD_S:
            self._said_s = time.monotonic()
            self._console.print(f"  {self._title}: {text}", highlight=False)

    def note(self, text: str) -> None:
        """A line for the person, at once."""
        self._console.print(f"  {text}", highlight=False, soft_wrap=True)
