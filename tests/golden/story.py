"""Stories of one node with one GPU as a log: who says what, when it arrives, and the rows that come of it."""

import numpy as np

from schemas.clock import ClockRecord, encode_clock
from schemas.headers import Headers, encode_headers
from schemas.names import GPU_SAMPLES, INPUT_TOPICS, POD_EVENTS, POD_MAPPINGS
from schemas.pods import ContainerRecord, PodRecord, Run, encode_record
from schemas.samples import DEVICE_DEFAULTS
from schemas.snapshots import DeviceSlots, Grant, ProcessIdentity, Snapshot, encode_snapshot
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from stream_jobs.decode import DEVICE_SCHEMA, PROCESS_SCHEMA, encode_reading
from tests.property.drive import repairs

SECOND = 1_000_000
START = 1_800_000_000 * SECOND // 60_000_000 * 60_000_000
CONTAINER = "ab" * 32
UID = "11111111-0000-4000-8000-000000000001"
TEXT = ("gpu_uuid", "gpu_model", "parent_uuid")


class Story:
    """Records by arrival; all times are seconds after START. One process (pid 10) may use the GPU."""

    def __init__(self) -> None:
        self.items: dict[str, list[tuple[float, int, Headers, bytes]]] = {topic: [] for topic in INPUT_TOPICS}
        self.seq = 0

    def add(self, topic: str, at_s: float, headers: Headers, payload: bytes) -> None:
        """A record that arrives at a time."""
        self.items[topic].append((at_s, len(self.items[topic]), headers, payload))

    def clocks(self, end_s: int, *topics: str, first_s: int = 0) -> None:
        """The clock every 5 s, on all topics unless some are named."""
        for topic in topics or INPUT_TOPICS:
            for at_s in range(first_s, end_s, 5):
                payload = encode_clock(ClockRecord(cluster="c", now_us=START + at_s * SECOND), b"", topic, 0)
                self.add(topic, at_s, Headers(record="clock", cluster="c"), payload)

    def reading(
        self, start_s: int, end_s: int, arrives_s: float | None = None, *, boot: str = "b", epoch: int = 1,
        points: int = 3000, mapping: int = 1, seq: int | None = None,
    ) -> None:  # fmt: skip
        """A reading of [start, end) with 30 samples of `points` in all, all of them of pid 10."""
        self.seq += 1
        end_us = START + end_s * SECOND
        device = dict.fromkeys(DEVICE_SCHEMA.names, 0) | DEVICE_DEFAULTS | {
            "gpu_uuid": "GPU-1", "gpu_model": "T", "read_us": end_us, "span_start_us": START + start_s * SECOND,
            "span_end_us": end_us, "sample_count": 30, "sample_sum_points": points, "mapping_seq": mapping,
        }  # fmt: skip
        process = dict.fromkeys(PROCESS_SCHEMA.names, -1) | {
            "device_row": 0, "pid": 10, "start_ticks": 7, "sm_util_points": points // 30, "lists": 1,
        }  # fmt: skip
        columns = [
            {f.name: np.array([row[f.name]], object if f.name in TEXT else f.type.to_pandas_dtype()) for f in schema}
            for row, schema in ((device, DEVICE_SCHEMA), (process, PROCESS_SCHEMA))
        ]
        headers = Headers(
            record="reading", cluster="c", node="n", boot_id=boot, epoch_us=epoch,
            seq=self.seq if seq is None else seq, complete_to_us=end_us,
        )  # fmt: skip
        self.add(GPU_SAMPLES, end_s if arrives_s is None else arrives_s, headers, encode_reading(*columns))

    def snapshot(self, at_s: int, arrives_s: float | None = None, *, number: int = 1, boot: str = "b") -> None:
        """Pid 10 is in the pod's container, which holds the GPU by name."""
        identity = ProcessIdentity(pid=10, start_ticks=7, kind="container", pod_uid=UID, container_id=CONTAINER)
        grant = Grant(
            gpu_uuid="GPU-1", slot="GPU-1::0", resource="nvidia.com/gpu", namespace="ns", pod_name="p",
            container_name="main",
        )  # fmt: skip
        snapshot = Snapshot(
            mapping_seq=number, taken_us=START + at_s * SECOND, processes=[identity], grants=[grant],
            slots=[DeviceSlots(gpu_uuid="GPU-1", slots=1)],
        )  # fmt: skip
        headers = Headers(record="snapshot", cluster="c", node="n", boot_id=boot, epoch_us=1, seq=number)
        self.add(POD_MAPPINGS, at_s if arrives_s is None else arrives_s, headers, encode_snapshot(snapshot))

    def pod(self, started_s: int, arrives_s: float, finished_s: int | None = None) -> None:
        """The pod's record: its container ran from a time, until now or until it finished."""
        run = Run(
            container_id=CONTAINER, started_us=START + started_s * SECOND,
            finished_us=None if finished_s is None else START + finished_s * SECOND,
        )  # fmt: skip
        container = ContainerRecord(name="main", requests={"nvidia.com/gpu": 1}, runs=[run])
        pod = PodRecord(
            uid=UID, namespace="ns", name="p", node="n", created_us=START + started_s * SECOND,
            containers=[container], seen_us=int(START + arrives_s * SECOND),
        )  # fmt: skip
        self.add(POD_EVENTS, arrives_s, Headers(record="pod", cluster="c", node="n"), encode_record(pod))

    def log(self) -> dict[str, list[LogRecord]]:
        """Records of each topic in the order of arrival; append time is arrival."""
        return {
            topic: [
                LogRecord(offset, int(START + at * SECOND), encode_headers(headers), payload)
                for offset, (at, _, headers, payload) in enumerate(sorted(rows, key=lambda r: r[:2]))
            ]
            for topic, rows in self.items.items()
        }

    def rows(self, settings: MeterSettings | None = None) -> list[dict]:
        """Every row of the log, first results and revisions; `at` is the window's start in seconds after START."""
        log, meter = self.log(), PartitionMeter(settings or MeterSettings(), Source(0))
        tables = []
        for topic in INPUT_TOPICS:
            assert not meter.feed(topic, log[topic])
        while (table := meter.close_ready()) is not None:
            tables.append(table)
        tables += repairs(meter, log)
        return [
            row | {"at": (row["window_start_us"] - START) // SECOND} for table in tables for row in table.to_pylist()
        ]

    def newest(self, settings: MeterSettings | None = None) -> dict[tuple[int, str], dict]:
        """The newest row of each (window, holder)."""
        rows = sorted(self.rows(settings), key=lambda row: row["revision"])
        return {(row["at"], row["holder"]): row for row in rows}
