"""What the kubelet granted, and whether that is known now.

Asks the kubelet through its port; keeps the last known grants, which go out again only with the word that says they
are not fresh. Law: an empty answer just after the kubelet's socket was made anew, or at the first question, does not
mean that nothing is granted; it is believed when it lasts 5 s (tests/unit/collector/test_grants.py).
"""

import logging
import os
from collections.abc import Callable
from typing import Protocol

from schemas.snapshots import DeviceSlots, Grant

from .errors import Retry

logger = logging.getLogger(__name__)
OK, UNAVAILABLE, EMPTY_AFTER_RESTART = "ok", "unavailable", "empty_after_restart"
DOUBT_US = 5_000_000
AGAIN_US = 2_000_000
SLOTS_EVERY_US = 60_000_000


class GrantSource(Protocol):
    """The kubelet as the agent sees it; both raise Retry where it does not answer."""

    def grants(self) -> list[Grant]:
        """Slots granted now."""

    def slots(self) -> list[DeviceSlots]:
        """Slots that can be granted of each device."""


def socket_identity(path: str) -> tuple[int, int] | None:
    """What changes when a socket is made anew; None: it is not there."""
    try:
        found = os.stat(path)  # noqa: PTH116 beside os.open in the same loop
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


class Grants:
    """Grants and slots as last known, with their status; times are of the boot-time clock."""

    def __init__(self, source: GrantSource, identity: Callable[[], object], period_us: int) -> None:
        self._source = source
        self._identity = identity
        self._period_us = period_us
        self._socket: object = None
        self._doubt_until_us: int | None = None
        self._slots_due_us: int | None = None
        self.grants: list[Grant] = []
        self.slots: list[DeviceSlots] = []
        self.status = UNAVAILABLE

    def ask(self, now_us: int) -> int:
        """Asks the kubelet; when to ask again."""
        socket = self._identity()
        if socket != self._socket:
            self._socket, self._doubt_until_us, self._slots_due_us = socket, now_us + DOUBT_US, None
        try:
            grants = self._source.grants()
        except Retry as error:
            if self.status != UNAVAILABLE:
                logger.warning("kubelet away, the last known grants go on as such: %s", error)
            self.status = UNAVAILABLE
            return now_us + self._period_us
        if self._slots_due_us is None or now_us >= self._slots_due_us:
            self._ask_slots(now_us)
        doubtful = self._doubt_until_us is not None and now_us < self._doubt_until_us
        if not grants and doubtful:
            self.status = EMPTY_AFTER_RESTART
            return now_us + min(AGAIN_US, self._period_us)
        self._doubt_until_us = None
        self.grants, self.status = grants, OK
        return now_us + self._period_us

    def _ask_slots(self, now_us: int) -> None:
        """Asks how many slots each device has; a kubelet that does not say leaves the last answer and the grants."""
        try:
            self.slots = self._source.slots()
            self._slots_due_us = now_us + SLOTS_EVERY_US
        except Retry as error:
            logger.warning("kubelet gave grants but not what it can grant, the last known slots stand: %s", error)
