import io

import pytest
from rich.console import Console

from infra.demo.progress import Stages


def _stages() -> tuple[Stages, io.StringIO]:
    out = io.StringIO()
    return Stages(Console(file=out, width=100)), out


def test_stage_is_ticked_and_timed() -> None:
    """A stage that ends well is printed with its time and kept in `seconds`."""
    stages, out = _stages()
    with stages.stage("broker", "Apache Kafka"):
        stages.say("too soon to be said twice")
    assert "✓ Apache Kafka" in out.getvalue()
    assert "too soon" not in out.getvalue()
    assert list(stages.seconds) == ["broker"]


def test_failed_stage_is_not_ticked() -> None:
    """A stage that raises is timed, not ticked, and its error goes on."""
    stages, out = _stages()
    with pytest.raises(RuntimeError, match="away"), stages.stage("broker", "Apache Kafka"):
        raise RuntimeError("away")
    assert "✓" not in out.getvalue()
