import io
from pathlib import Path

import pytest
from rich.console import Console

from infra.demo.plan import Plan
from infra.demo.run import Demo


def test_demo_asks_at_each_step_whether_it_is_to_end(tmp_path: Path) -> None:
    """What every step and wait calls asks for an interrupt too, so that one which Python dropped is not lost."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    demo = Demo(Plan(out=tmp_path), Console(file=io.StringIO()), interrupted)
    with pytest.raises(KeyboardInterrupt):
        demo._check()
