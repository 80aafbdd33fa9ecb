"""The figures of one measured program, as they go into build/bench.json. Pure.

CPU seconds are those of the program alone, from where it had started up; broker and filler are other processes.
"""

from typing import Any

import msgspec

from infra.bench.errors import BenchError


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a program took for so many samples; a sample is one process on one GPU over one second."""

    name: str
    samples: int
    cpu_s: float
    wall_s: float
    peak_mib: float
    start_cpu_s: float = 0.0
    """CPU seconds until it had started up; not in cpu_s."""
    load_1m: float = 0.0
    """Load of the machine as it began, so that a figure taken beside other work is known as such."""
    standing_cpu_s: float = 0.0
    """CPU seconds for reading what the log begins with; all but the share of `cpu_s` that is due was taken off it."""
    shape: dict[str, Any] = {}
    """Of the fleet and the run, whatever differs between the rows of a table."""

    @property
    def samples_per_s_per_core(self) -> float:
        """Samples in a CPU second."""
        return self.samples / self.cpu_s

    @property
    def cpu_s_per_million_samples(self) -> float:
        """CPU seconds for a million samples."""
        return self.cpu_s / self.samples * 1e6

    def without_standing(self, standing_cpu_s: float, share: float) -> "Outcome":
        """Less what it took to read the standing facts, but for the share of it that falls due in the log's time."""
        cpu_s = self.cpu_s - (1 - share) * standing_cpu_s
        if cpu_s <= 0:
            raise BenchError(
                f"{self.name}: {self.cpu_s:.1f} CPU s in all, {standing_cpu_s:.1f} for standing facts alone"
            )
        return msgspec.structs.replace(self, cpu_s=cpu_s, standing_cpu_s=standing_cpu_s)

    def row(self, faust_event: "Outcome | None" = None) -> dict[str, Any]:
        """As a row of build/bench.json; the ratio says how many times cheaper than the per-event Faust job."""
        ratio = faust_event.cpu_s_per_million_samples / self.cpu_s_per_million_samples if faust_event else None
        return {
            "name": self.name,
            "samples_per_s_per_core": round(self.samples_per_s_per_core),
            "samples_per_s_wall": round(self.samples / self.wall_s),
            "cpu_s_per_million_samples": round(self.cpu_s_per_million_samples, 4),
            "peak_mib": round(self.peak_mib, 1),
            "ratio_to_faust_event": None if ratio is None else round(ratio, 2),
            "samples": self.samples,
            "cpu_s": round(self.cpu_s, 3),
            "wall_s": round(self.wall_s, 3),
            "start_cpu_s": round(self.start_cpu_s, 3),
            "standing_cpu_s": round(self.standing_cpu_s, 3),
            "load_1m": round(self.load_1m, 2),
            **self.shape,
        }


def encode(outcome: Outcome) -> str:
    """One line."""
    return msgspec.json.encode(outcome).decode()


def decode(line: str) -> Outcome:
    """The outcome of a line; ValueError where it is none."""
    return msgspec.json.decode(line, type=Outcome)
