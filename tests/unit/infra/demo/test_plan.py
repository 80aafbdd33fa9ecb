from pathlib import Path

import pytest

from infra.demo.errors import Busy
from infra.demo.plan import alone


def test_demo_refuses_a_directory_of_somebody_else(tmp_path: Path) -> None:
    """A directory that holds files and never held a demo is refused: a demo removes its logs, kafka and ledger."""
    (tmp_path / "logs").mkdir()
    with pytest.raises(Busy, match="logs, not made by a demo"), alone(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_demo_takes_a_new_directory_and_its_own_again(tmp_path: Path) -> None:
    """A new directory is made, and the one of an earlier demo is taken again, by one demo at a time."""
    out = tmp_path / "new" / "demo"
    with alone(out):
        (out / "logs").mkdir()
        with pytest.raises(Busy, match="another demo"), alone(out):
            pass
    with alone(out):
        assert (out / "logs").is_dir()
