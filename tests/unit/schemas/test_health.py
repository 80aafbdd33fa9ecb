"""What a process says of its health."""

from schemas.health import answer, decode_health, judge


def test_stuck_loop_is_neither_healthy_nor_ready() -> None:
    """A loop beyond its bound is not healthy and not ready, though nothing else speaks against it."""
    health = judge("worker", 3.5, [], longest_turn_s=3.0)
    assert (health.healthy, health.ready) == (False, False)
    assert "has not turned for 4 s" in health.reasons[0]
    assert judge("worker", 3.0, [], longest_turn_s=3.0).ready


def test_reason_against_readiness_leaves_it_healthy() -> None:
    """What keeps a process from being ready does not make it unhealthy, and is told."""
    health = judge("sink", 0.1, ["behind"])
    assert (health.healthy, health.ready, health.reasons) == (True, False, ["behind"])


def test_answers_are_200_or_503_with_the_reasons() -> None:
    """Each of the two paths answers by its own half of the truth, with all of it in the body; no other path does."""
    health = judge("sink", 0.1, ["behind"])
    healthy, ready = answer("/healthz", health), answer("/readyz", health)
    assert healthy is not None
    assert ready is not None
    assert (healthy[0], ready[0]) == (200, 503)
    assert decode_health(ready[1]) == health
    assert answer("/metrics", health) is None
