"""A story on the cut: what arrives after a window's cut is not in it, and is in the next one."""

import numpy as np

from schemas.clock import ClockRecord, encode_clock
from schemas.headers import Headers, encode_headers
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from schemas.samples import DEVICE_DEFAULTS
from stream_jobs.core.cluster import TOPICS
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from stream_jobs.decode import DEVICE_SCHEMA, PROCESS_SCHEMA, encode_reading

SECOND = 1_000_000
START = 1_800_000_000 * SECOND


def reading(offset: int, seq: int, start_s: int, end_s: int, complete_s: int) -> LogRecord:
    """A fully busy reading of one GPU over [start, end) seconds after START."""
    values = (
        dict.fromkeys(DEVICE_SCHEMA.names, 0)
        | DEVICE_DEFAULTS
        | {
            "gpu_uuid": "GPU-1",
            "gpu_model": "T",
            "read_us": START + end_s * SECOND,
            "span_start_us": START + start_s * SECOND,
            "span_end_us": START + end_s * SECOND,
            "sample_count": 30,
            "sample_sum_points": 3000,
        }
    )
    text = ("gpu_uuid", "gpu_model", "parent_uuid")
    types = {f.name: object if f.name in text else f.type.to_pandas_dtype() for f in DEVICE_SCHEMA}
    device = {name: np.array([values[name]], types[name]) for name in DEVICE_SCHEMA.names}
    process = {f.name: np.array([], f.type.to_pandas_dtype()) for f in PROCESS_SCHEMA}
    complete = START + complete_s * SECOND
    headers = Headers(
        record="reading", cluster="c", node="n", boot_id="b", epoch_us=1, seq=seq, complete_to_us=complete
    )
    return LogRecord(offset, 0, encode_headers(headers), encode_reading(device, process))


def clock(topic: str, offset: int, at_s: int) -> LogRecord:
    """The clock at a second after START."""
    payload = encode_clock(ClockRecord(cluster="c", now_us=START + at_s * SECOND), b"", topic, 0)
    return LogRecord(offset, 0, encode_headers(Headers(record="clock", cluster="c")), payload)


def test_late_reading_counts_only_in_the_window_that_is_not_cut() -> None:
    """A reading over an edge that arrives after the first window's cut gives its second half alone."""
    samples = [
        clock(GPU_SAMPLES, 0, 0),
        reading(1, 0, 0, 5, 5),
        clock(GPU_SAMPLES, 2, 185),
        reading(3, 1, 175, 180, 180),
        reading(4, 2, 55, 65, 180),
        clock(GPU_SAMPLES, 5, 245),
        reading(6, 3, 235, 240, 240),
    ]
    others = {t: [clock(t, 0, 0), clock(t, 1, 180), clock(t, 2, 245)] for t in (POD_MAPPINGS, POD_EVENTS)}
    meter = PartitionMeter(MeterSettings(simulated_time=True), Source(0))
    for topic in TOPICS:
        meter.feed(topic, samples if topic == GPU_SAMPLES else others[topic])
    table = meter.close_ready()
    assert table is not None
    observed = {row["window_start_us"] - START: row["observed_us"] for row in table.to_pylist()}
    assert observed == {0: 5 * SECOND, 60 * SECOND: 5 * SECOND}
