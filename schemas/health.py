"""What a process says at /healthz and /readyz, in the same form for each of them.

Pure: the process gives the age of its loop and what keeps it from being ready. Law: a loop that has not turned for its
bound is neither healthy nor ready, whatever else it says (tests/unit/schemas/test_health.py).
"""

from collections.abc import Sequence

import msgspec

HEALTH_PATH, READY_PATH = "/healthz", "/readyz"
LONGEST_TURN_S = 120.0
"""A loop that has not turned for so long is stuck: above every time-out of Kafka's that it may wait for."""


class Health(msgspec.Struct, frozen=True):
    """A process's word on itself; `reasons` say why it is not ready or not healthy."""

    process: str
    healthy: bool
    ready: bool
    loop_age_s: float
    reasons: list[str]


def judge(process: str, loop_age_s: float, unready: Sequence[str], longest_turn_s: float = LONGEST_TURN_S) -> Health:
    """Healthy while the loop turns within its bound; ready where, besides, nothing speaks against it."""
    healthy = loop_age_s <= longest_turn_s
    stuck = [] if healthy else [f"the loop has not turned for {loop_age_s:.0f} s, at most {longest_turn_s:g} s"]
    reasons = [*stuck, *unready]
    return Health(process, healthy, not reasons, round(loop_age_s, 3), reasons)


def answer(path: str, health: Health) -> tuple[int, bytes] | None:
    """HTTP status and JSON body for a path; None for a path that is another's."""
    good = {HEALTH_PATH: health.healthy, READY_PATH: health.ready}.get(path)
    return None if good is None else (200 if good else 503, msgspec.json.encode(health) + b"\n")


def decode_health(body: bytes) -> Health:
    """What a process answered; ValueError where that is something else."""
    return msgspec.json.decode(body, type=Health)
