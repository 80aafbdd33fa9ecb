"""One close of thousands of GPUs: conservation does not end where the numbers get large."""

import numpy as np

from schemas.samples import DEVICE_DEFAULTS
from stream_jobs.core.close import close_windows
from stream_jobs.core.window import DeviceFacts, NodeWindow
from stream_jobs.decode import DEVICE_SCHEMA, PROCESS_SCHEMA, Reading
from tests.property.drive import SOURCE

START_US, WINDOW_US = 1_790_000_040_000_000, 60_000_000


def _reading(gpus: list[str], start_us: int) -> Reading:
    size = len(gpus)
    device = {name: np.zeros(size, np.int64) for name in DEVICE_SCHEMA.names}
    device |= {"gpu_uuid": np.array(gpus, object), "gpu_model": np.array(["T"] * size, object)}
    device |= {name: np.array([value] * size) for name, value in DEVICE_DEFAULTS.items()}
    device["span_start_us"] += start_us + 5_000_000
    device["span_end_us"] += start_us + 10_000_000
    device["read_us"] += start_us + 10_000_000
    device["sample_count"] += 30
    process = {name: np.zeros(0, np.int64) for name in PROCESS_SCHEMA.names}
    return Reading("boot", 1, 1, 0, device, process)


def test_a_close_of_6000_gpus_conserves() -> None:
    """500 windows of 12 GPUs in one call, as when a worker catches up, add up like one window of one GPU."""
    gpus = [f"GPU-{i:02d}" for i in range(12)]
    devices = [DeviceFacts(gpu, "T") for gpu in gpus]
    windows = [
        NodeWindow("c", "n", at, at + WINDOW_US, 0, (1, 0, 0), devices, [_reading(gpus, at)], [], [], None, ["boot"])
        for at in range(START_US, START_US + 500 * WINDOW_US, WINDOW_US)
    ]
    table = close_windows(windows, SOURCE)
    kinds, charged = table["holder_kind"].to_pylist(), table["charged_us"].to_pylist()
    assert "violation" not in kinds
    assert sorted(set(zip(kinds, charged, strict=True))) == [("unallocated", 5_000_000), ("unobserved", 55_000_000)]
