"""How a peer measures itself: CPU from its first sample to its last, and its outcome as one line.

Standard library only, since peers run in an environment of their own.
"""

import json
import sys
import time
from typing import Any

from infra.bench.usage import own_cpu_s, own_peak_mib


class Watch:
    """Begins at the first sample; what went before is start-up and does not count."""

    def __init__(self, name: str, samples: int) -> None:
        self.name, self.samples = name, samples
        self._begun: tuple[float, float] | None = None
        self._ended: tuple[float, float] | None = None

    def begin(self) -> None:
        """Now the first sample comes; only the first call counts."""
        if self._begun is None:
            self._begun = own_cpu_s(), time.monotonic()

    def end(self) -> None:
        """Now the last sample is done."""
        self._ended = own_cpu_s(), time.monotonic()

    def report(self, **more: Any) -> None:
        """Writes the outcome as one line."""
        (cpu_s, wall_s), (end_cpu_s, end_wall_s) = self._begun or (0.0, 0.0), self._ended or (0.0, 0.0)
        outcome = {
            "name": self.name,
            "samples": self.samples,
            "cpu_s": end_cpu_s - cpu_s,
            "wall_s": end_wall_s - wall_s,
            "start_cpu_s": cpu_s,
            "peak_mib": own_peak_mib(),
            "shape": more,
        }
        sys.stdout.write("\n" + json.dumps(outcome) + "\n")
        sys.stdout.flush()
