"""What is held of readings gives the rows that the readings themselves give."""

import random
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.core.held import Arrived, columns_of
from stream_jobs.decode import Reading
from tests.property.drive import content, run
from tests.property.workload import make_log

_HELD = Arrived.held
SEEDS = st.integers(0, 10_000)


def _unreduced(arrived: Arrived, boot_id: str, epoch_us: int, seq: int, offset: int) -> Reading:
    """The reading with its columns, as a repair makes it from the log."""
    return Reading(boot_id, epoch_us, seq, offset, *columns_of(_HELD(arrived, boot_id, epoch_us, seq, offset)))


@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_reduced_readings_give_the_rows_of_their_columns(seed: int) -> None:
    """Readings reduced as they arrive, also ones that cross windows or overlap, give the rows of unreduced ones."""
    log = make_log(seed)
    held = content(run(log, random.Random(seed))[0])
    with mock.patch.object(Arrived, "held", _unreduced):
        assert content(run(log, random.Random(seed))[0]) == held
