"""A seed of the chaos harness with its edge in the normal suite; `make chaos` runs as many as one likes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.checker import shown
from tests.chaos.cluster import Cluster
from tests.chaos.plan import make_plan
from tests.chaos.seed import run_seed

pytestmark = [pytest.mark.needs_broker, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers behind their proxies, for all seeds of this module."""
    with Cluster(tmp_path_factory.mktemp("chaos")) as cluster:
        yield cluster


@pytest.mark.parametrize("seed", [3])
def test_ledger_is_what_the_log_says(seed: int, cluster: Cluster, tmp_path: Path) -> None:
    """Whatever is killed, frozen or cut off: ledger, copies, progress and dead letters are what the oracle computes."""
    result = run_seed(seed, cluster, tmp_path / "seed")
    assert not result.differences, shown(result.differences)
    assert result.faults.total() == len(make_plan(seed).faults)
    assert result.windows > 50
