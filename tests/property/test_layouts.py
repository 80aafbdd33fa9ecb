"""A node's remembered layout gives the rows of one made anew, whatever changes from window to window."""

import random
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.pods import ContainerRecord, NodeRecord, PodRecord, Run
from schemas.samples import DEVICE_DEFAULTS
from schemas.snapshots import DeviceSlots, Grant, ProcessIdentity, Snapshot
from stream_jobs.core import layouts
from stream_jobs.core.close import close_windows
from stream_jobs.core.identity import Directory
from stream_jobs.core.sharing import shared_snapshot
from stream_jobs.core.window import DeviceFacts, NodeWindow, SeenSnapshot
from stream_jobs.decode import DEVICE_SCHEMA, PROCESS_SCHEMA, Reading
from tests.property.drive import SOURCE

SECOND, WINDOW_US = 1_000_000, 60_000_000
GPUS = ["GPU-0", "GPU-1"]
CHANGES = ("nothing", "nothing", "owner", "process", "swap", "grant", "pod", "label", "device", "missing")


class _Node:
    """A node whose processes, grants, pods, label and devices may change from one window to the next."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.pids = {gpu: [10 + 10 * n + i for i in range(3)] for n, gpu in enumerate(GPUS)}
        self.owner = {pid: pid % 3 for pids in self.pids.values() for pid in pids}
        self.granted = [(gpu, slot, slot) for gpu in GPUS for slot in range(2)]
        self.pods = [self._pod(n) for n in range(4)]
        self.replicas, self.gpus, self.last, self.seen = 2, list(GPUS), None, []

    def _pod(self, n: int, deleted_us: int | None = None) -> PodRecord:
        run = Run(container_id=f"{n:064x}", started_us=-SECOND, finished_us=deleted_us)
        container = ContainerRecord(name="main", requests={"g": 1}, runs=[run])
        return PodRecord(
            uid=f"u{n}", namespace="ns", name=f"p{n}", node="n", containers=[container], deleted_us=deleted_us
        )

    def change(self, what: str, at_us: int) -> None:
        """One change, as of a time."""
        gpu = self.rng.choice(GPUS)
        if what == "owner":
            self.owner[self.rng.choice(sorted(self.owner))] = self.rng.randrange(5)
        elif what == "process":
            self.pids[gpu] = [*self.pids[gpu], 100 + self.rng.randrange(50)][-self.rng.randrange(1, 5) :]
            self.pids[gpu] = sorted(set(self.pids[gpu]))
            self.owner |= {pid: self.owner.get(pid, 3) for pid in self.pids[gpu]}
        elif what == "swap":
            self.pids[gpu] = sorted({*self.pids[gpu][:-1], self.rng.randrange(1, 9)})
        elif what == "grant":
            self.granted = [(gpu, slot, self.rng.randrange(4)) for gpu in GPUS for slot in range(self.rng.randrange(3))]
        elif what == "pod":
            n = self.rng.randrange(4)
            self.pods = [self._pod(n, at_us + 7 * SECOND) if pod.uid == f"u{n}" else pod for pod in self.pods]
        elif what == "label":
            self.replicas = self.rng.randrange(1, 5)
        elif what == "device":
            self.gpus = self.gpus[:1] if len(self.gpus) > 1 else list(GPUS)

    def window(self, number: int, missing: bool) -> NodeWindow:
        """The window of a minute with four readings a GPU; its snapshot may be missing."""
        start_us = number * WINDOW_US
        processes = [
            ProcessIdentity(pid=pid, start_ticks=5, kind="container", pod_uid=f"u{n}", container_id=f"{n:064x}")
            for pid, n in sorted(self.owner.items())
        ]
        grants = [
            Grant(gpu_uuid=gpu, slot=f"{gpu}::{slot}", resource="g", namespace="ns", pod_name=f"p{pod}",
                  container_name="main")
            for gpu, slot, pod in self.granted
        ]  # fmt: skip
        slots = [DeviceSlots(gpu_uuid=gpu, slots=2) for gpu in GPUS]
        if not missing:
            told = Snapshot(mapping_seq=number, taken_us=start_us, processes=processes, grants=grants, slots=slots)
            self.last = shared_snapshot(told, self.last)
            self.seen = [*self.seen, SeenSnapshot(number, ("b", 1), self.last)]
        readings = [self._reading(number, start_us + part * 15 * SECOND, part) for part in range(4)]
        record = NodeRecord(name="n", labels={"nvidia.com/gpu.replicas": str(self.replicas)})
        devices = [DeviceFacts(gpu, "T") for gpu in self.gpus]
        return NodeWindow(
            "c", "n", start_us, start_us + WINDOW_US, 0, (1, 1, 1), devices, readings, self.seen, self.pods, record,
            ["b"],
        )  # fmt: skip

    def _reading(self, seq: int, start_us: int, part: int) -> Reading:
        device = {name: np.zeros(len(self.gpus), np.int64) for name in DEVICE_SCHEMA.names}
        device |= {"gpu_uuid": np.array(self.gpus, object), "gpu_model": np.array(["T"] * len(self.gpus), object)}
        device |= {name: np.array([value] * len(self.gpus)) for name, value in DEVICE_DEFAULTS.items()}
        device["span_start_us"] += start_us
        device["span_end_us"] += start_us + 15 * SECOND
        device["read_us"] += start_us + 15 * SECOND - 1
        device["sample_count"] += 90
        device["sample_sum_points"] += 4_000
        device["energy_end_mj"] += 999_983
        device["mapping_seq"] += seq
        rows = [(row, pid) for row, gpu in enumerate(self.gpus) for pid in self.pids[gpu]]
        process = {name: np.zeros(len(rows), np.int64) for name in PROCESS_SCHEMA.names}
        process["device_row"] += np.array([row for row, _ in rows], np.int64)
        process["pid"] += np.array([pid for _, pid in rows], np.int64)
        process |= {"start_ticks": process["pid"] * 0 + 5, "lists": process["pid"] * 0 + 1}
        process["sm_util_points"] += process["pid"] % 7
        return Reading("b", 1, 4 * seq + part, 4 * seq + part, device, process)


def _rows(seed: int, changes: list[str]) -> tuple[list[list[dict]], int]:
    """Rows of each window in turn, and how often a remembered layout served."""
    node, served, out = _Node(seed), 0, []
    known: dict[tuple[int, ...], Directory] = {}
    fits = layouts.fits

    def counted(asked: object) -> object:
        nonlocal served
        found = fits(asked)
        served += found is not None
        return found

    with mock.patch.object(layouts, "fits", counted):
        for number, what in enumerate(["nothing", "nothing", *changes]):
            node.change(what, number * WINDOW_US)
            window = node.window(number, what == "missing")
            pods = window.pods
            directory = known.setdefault(tuple(map(id, pods)), Directory(pods))
            out.append(close_windows([window], SOURCE, lambda _, directory=directory: directory).to_pylist())
    return out, served


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.sampled_from(CHANGES), max_size=10))
def test_remembered_layouts_give_the_rows_of_new_ones(seed: int, changes: list[str]) -> None:
    """Where something changed a layout is made anew, and where nothing did the remembered one serves."""
    remembered, served = _rows(seed, changes)
    assert served > 0
    with mock.patch.object(layouts, "fits", lambda node: None):
        assert _rows(seed, changes)[0] == remembered
