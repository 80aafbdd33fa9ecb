"""The rules that a worker knows, while the broker is there and while it is away."""

import asyncio

import pytest

from stream_jobs import rules
from stream_jobs.core.calendar import Change
from stream_jobs.core.settings import MeterSettings
from stream_jobs.errors import Retry
from stream_jobs.log import logger
from stream_jobs.rules import Rules

TOLD = [(0, Change(7_200_000_000, 30_000_000, 0))]


def test_rules_known_hold_while_the_broker_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker starts only with the rules read; later a broker away for minutes ends nothing, one away longer does."""
    now_s, away = [1000.0], [True]

    def read(_: str) -> list[tuple[int, Change]]:
        if away[0]:
            raise Retry("away")
        return TOLD

    monkeypatch.setattr(rules, "read_rules", read)
    monkeypatch.setattr(rules, "monotonic_s", lambda: now_s[0])
    known = Rules("nowhere", MeterSettings(), logger("test"))
    with pytest.raises(Retry):
        asyncio.run(known.look())
    now_s[0], away[0] = 1060.0, False
    assert asyncio.run(known.look()) is True
    now_s[0], away[0] = 1200.0, True
    assert asyncio.run(known.look()) is False
    assert known.settings.changes == (TOLD[0][1],)
    now_s[0] = 1400.0
    with pytest.raises(Retry):
        asyncio.run(known.look())
