"""Generated loads."""

import typing

import numpy as np
import pytest

from infra.sim.workload import LoadKind, generated_load

HOUR_US = 3_600_000_000


@pytest.mark.parametrize("kind", typing.get_args(LoadKind))
def test_generated_load_is_a_function_of_its_name(kind: LoadKind) -> None:
    """The same name and seed give the same demand, another name another, always between 0 and 1."""
    first, again, other = (generated_load(kind, 0.7, name, 3, 0, HOUR_US) for name in ("a", "a", "b"))
    assert (first.demand == again.demand).all() and (first.times_us == again.times_us).all()
    assert (np.diff(first.times_us) > 0).all() and first.demand.min() >= 0 and first.demand.max() <= 1
    if kind not in ("constant", "idle"):
        at = np.arange(0, HOUR_US, 1_000_000)
        values = [load.demand[np.searchsorted(load.times_us, at, side="right") - 1] for load in (first, other)]
        assert (values[0] != values[1]).any()


def test_notebook_stops_working_for_good() -> None:
    """After its active time a notebook asks for nothing."""
    load = generated_load("notebook", 0.7, "n", 1, 0, HOUR_US)
    assert load.times_us[-1] == HOUR_US and load.demand[-1] == 0.0 and load.demand.max() == 0.7
