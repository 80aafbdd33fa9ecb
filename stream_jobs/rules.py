"""The rules of windows that a worker meters by: its own settings, and what was told on meter-settings since.

Every lane is opened with the rules as they are; when one is added, lanes are opened anew. A rule takes effect ten
minutes after it was told at the earliest, so all workers know it. Tested in tests/integration/test_rules_on_kafka.py.
"""

import asyncio
from dataclasses import replace
from typing import Any

from .clock import monotonic_s
from .core.calendar import Change, calendar_of
from .core.settings import MeterSettings
from .errors import Retry
from .log_reader import read_rules

_LOOK_S = 60.0
_UNSEEN_S = 300.0
"""While the broker is away the rules known last hold, for half of the time that a rule is told ahead."""


class Rules:
    """What holds now; `look` reads the topic again once a minute."""

    def __init__(self, bootstrap_servers: str, base: MeterSettings, logger: Any) -> None:
        self._servers, self._base, self._log = bootstrap_servers, base, logger
        self._told: list[tuple[int, Change | str]] = []
        self._looked_s = -_LOOK_S
        self._read_s: float | None = None
        self.settings = base

    async def look(self) -> bool:
        """Whether the rules are others than before; Retry if they cannot be read for too long, or not at all yet."""
        if monotonic_s() - self._looked_s < _LOOK_S:
            return False
        self._looked_s = monotonic_s()
        try:
            told = await asyncio.to_thread(read_rules, self._servers)
        except Retry as error:
            if self._read_s is None or monotonic_s() - self._read_s > _UNSEEN_S:
                raise
            self._log.warning("rules cannot be read, those known hold", reason=str(error))
            return False
        self._read_s = monotonic_s()
        if told == self._told:
            return False
        self._told = told
        first = Change(0, self._base.window_us, self._base.lateness_us)
        calendar, refused = calendar_of(first, [(at, change) for at, change in told if isinstance(change, Change)])
        for fault in [*(change for _, change in told if isinstance(change, str)), *refused]:
            self._log.warning("rule does not count", reason=fault)
        changed = calendar.rules[1:] != self.settings.changes
        self.settings = replace(self._base, changes=calendar.rules[1:])
        if changed:
            self._log.info("rules of windows", rules=[str(rule) for rule in calendar.rules])
        return changed
