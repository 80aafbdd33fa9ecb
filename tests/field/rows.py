"""The rows of a log by arrival; in every window they add up to the GPU."""

from fractions import Fraction
from typing import Any

from schemas.headers import Headers, encode_headers
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from tests.field.gpu import SECOND, START
from tests.property.drive import drain


class Rows(list[dict[str, Any]]):
    """Rows of the ledger; `at` is a window's start in seconds after START."""

    def of(self, holder: str, at: int | None = None, gpu: str | None = None) -> "Rows":
        """Rows of a pod by name, or of a kind of holder, in a window and on a GPU."""
        return Rows(
            row
            for row in self
            if holder in (row["pod_name"], row["holder"], row["holder_kind"])
            and at in (None, row["at"])
            and gpu in (None, row["gpu_uuid"])
        )

    def sum(self, measure: str) -> int:
        """Sum of a measure; what is unknown in one of them is an error."""
        return sum(row[measure] for row in self)

    def holders(self, at: int | None = None) -> set[str]:
        """Pods by name, and other kinds, that a window has."""
        return {row["pod_name"] or row["holder_kind"] for row in self if at in (None, row["at"])}

    def flags(self) -> set[str]:
        """All flags."""
        return {flag for row in self for flag in row["flags"]}


def rows_of(log: dict[str, list[tuple[int, Headers, bytes]]]) -> Rows:
    """The newest rows of a log by arrival; every window adds up to its GPU."""
    records = {
        topic: [
            LogRecord(offset, at_us, encode_headers(headers), payload)
            for offset, (at_us, headers, payload) in enumerate(sorted(rows, key=lambda row: row[0]))
        ]
        for topic, rows in log.items()
    }
    meter, newest = PartitionMeter(MeterSettings(), Source(0)), dict[tuple[Any, ...], dict[str, Any]]()
    for topic in (GPU_SAMPLES, POD_MAPPINGS, POD_EVENTS):
        assert not meter.feed(topic, records[topic])
    tables = drain(meter, records)
    for row in sorted((row for table in tables for row in table.to_pylist()), key=lambda row: row["revision"]):
        newest[row["gpu_uuid"], row["window_start_us"], row["holder"]] = row
    rows = Rows(row | {"at": (row["window_start_us"] - START) // SECOND} for row in newest.values())
    for gpu, at in {(row["parent_uuid"], row["at"]) for row in rows}:
        mine = [row for row in rows if (row["parent_uuid"], row["at"]) == (gpu, at)]
        charged = sum(Fraction(row["charged_us"] * row["weight_slices"], row["weight_total"]) for row in mine)
        assert charged == 60 * SECOND, f"{gpu} at {at}: {charged} us of {60 * SECOND}"
        for device in {row["gpu_uuid"] for row in mine}:
            (lifetime,) = {row["lifetime_us"] for row in mine if row["gpu_uuid"] == device}
            assert lifetime == sum(row["charged_us"] for row in mine if row["gpu_uuid"] == device)
    assert not rows.of("violation")
    return rows
