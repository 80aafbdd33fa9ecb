"""The bench's log on a real broker, metered by a real worker process."""

from pathlib import Path

import pytest

from infra.bench.errors import BenchError
from infra.bench.fleet_log import messages
from infra.bench.kafka_log import broker, fill, records_in
from infra.bench.shape import FleetShape
from infra.bench.workers import Run, Work, meter_log
from schemas.names import GPU_SAMPLES, GPU_USAGE

pytestmark = pytest.mark.needs_broker
SHAPE = FleetShape(nodes=12, windows=2, partitions=2)


@pytest.mark.slow
def test_worker_over_a_filled_log_is_measured_when_every_record_is_metered(tmp_path: Path) -> None:
    """The outcome comes once every window is closed and every record taken; one record more, and there is none."""
    with broker(tmp_path, partitions=SHAPE.partitions) as bootstrap:
        filled = fill(bootstrap, messages(SHAPE))
        assert records_in(bootstrap, GPU_SAMPLES) == SHAPE.messages + 2 * (SHAPE.seconds // 5 + 1 + 1)
        work = Work(filled.messages, SHAPE.windows_in_all(60, 10), SHAPE.rows, SHAPE)
        outcome = meter_log(bootstrap, work, Run(), tmp_path / "logs")
        assert outcome.samples == SHAPE.rows
        assert outcome.shape["node_windows"] == 24
        assert outcome.cpu_s > 0 and outcome.start_cpu_s > 0 and outcome.peak_mib > 50
        assert records_in(bootstrap, GPU_USAGE) > 0
        with pytest.raises(BenchError, match=f"of {filled.messages + 1}"):
            meter_log(bootstrap, work._replace(records=work.records + 1), Run(limit_s=15.0), tmp_path / "logs")
