"""What the usual methods would have reported, computed from the same driver through the same pynvml.

(a) the device's gauge every 30 s, copied to each pod that has a grant or a process on the device (dcgm-exporter);
(b) the last smUtil of each pid with lastSeen 0, times the interval (dcgm-exporter's and Kepler's process metrics).
Given the benefit of the doubt: they know every pod's grants and pids at the moment they look, without any delay.
(c) and (d) need no driver and are in truth.py. Tested in tests/unit/infra/sim/test_truth.py.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from .holders import Holder
from .peer_calls import PeerDevices

INTERVAL_US = 30_000_000


class Observers:
    """Both methods; microseconds by (GPU, holder number) since they were last taken."""

    def __init__(self, holders: Mapping[str, Sequence[Holder]]) -> None:
        self._holders = holders
        self._devices: PeerDevices | None = None
        self._gauge_us: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._last_us: defaultdict[tuple[str, int], int] = defaultdict(int)

    def look(self, now_us: int) -> None:
        """One scrape; a device that does not answer is skipped, as these tools do."""
        self._devices = self._devices or PeerDevices()
        for index in range(self._devices.count):
            gpu_uuid = self._devices.uuid(index)
            if gpu_uuid is not None:
                self._look_at(index, gpu_uuid, now_us)

    def _look_at(self, index: int, gpu_uuid: str, now_us: int) -> None:
        assert self._devices is not None
        gauge = self._devices.gauge_points(index)
        rows = self._devices.process_rows(index) or []
        last = {row.pid: row.sm_util_points for row in sorted(rows, key=lambda row: row.time_us)}
        for number, holder in enumerate(self._holders[gpu_uuid]):
            if holder.pod_uid and gauge is not None and holder.on_device(now_us):
                self._gauge_us[gpu_uuid, number] += gauge * INTERVAL_US // 100
            for pid in holder.pids & last.keys():
                self._last_us[gpu_uuid, number] += last[pid] * INTERVAL_US // 100

    def take(self) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        """Methods (a) and (b) since the last take."""
        taken = dict(self._gauge_us), dict(self._last_us)
        self._gauge_us.clear()
        self._last_us.clear()
        return taken

    def close(self) -> None:
        """Gives the library back."""
        if self._devices is not None:
            self._devices.close()
