"""What a GPU's readings say becomes flags on its rows; energy without time is not lost."""

from schemas.samples import MPS_LIST
from stream_jobs.core.close import close_windows
from stream_jobs.core.settings import Source
from stream_jobs.core.window import DeviceFacts, NodeWindow
from stream_jobs.decode import Reading, decode_reading
from tests.unit.stream_jobs.test_decode import columns


def rows_of(device: dict[str, object], process: dict[str, object]) -> dict[str, dict[str, object]]:
    """Rows by holder of a window with one reading."""
    reading = Reading("b", 1, 1, 0, *decode_reading(columns(device, process)))
    window = NodeWindow("c", "n", 0, 60_000_000, 0, (1, 1, 1), [DeviceFacts("GPU-1", "T")], [reading], [], [])
    return {row["holder"]: row for row in close_windows([window], Source(0)).to_pylist()}


def test_mps_and_mig_are_flags_on_every_row() -> None:
    """A process in the MPS list, and a device in MIG mode, mark the GPU's rows."""
    rows = rows_of({"mig_mode": 1}, {"lists": MPS_LIST})
    assert rows
    assert all({"mig", "mps"} <= set(row["flags"]) for row in rows.values())


def test_energy_of_an_empty_span_is_unobserved() -> None:
    """A reading without a new sample still read energy: it goes to unobserved, in the window of the reading."""
    rows = rows_of({"span_start_us": 10_000_000, "energy_end_mj": 777}, {})
    assert (rows["unobserved"]["energy_mj"], rows["unobserved"]["charged_us"]) == (777, 60_000_000)


def test_energy_of_a_trusted_span_adds_up() -> None:
    """The energy of an observed reading is divided among its rows without loss."""
    rows = rows_of({"energy_end_mj": 1001}, {})
    assert sum(row["energy_mj"] or 0 for row in rows.values()) == 1001
