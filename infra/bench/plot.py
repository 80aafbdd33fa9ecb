"""Cost against the size of the fleet as a picture: `python -m infra.bench.plot SWEEPS.json OUT.svg`.

Runs in the peers' environment, which has matplotlib.
"""

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
# Text as text and nothing that differs between two runs of the same figures.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "gpumeter", "font.size": 10})

from matplotlib import pyplot as plt  # noqa: E402 the backend is chosen first


def draw(sweeps: Path, out: Path) -> None:
    """CPU seconds a million samples and peak memory over GPUs."""
    rows = [row for row in json.loads(sweeps.read_text()) if row["varies"] == "gpus"]
    gpus = [row["gpus"] for row in rows]
    figure, cost = plt.subplots(figsize=(7, 3.6))
    seconds = [row["cpu_s_per_million_samples"] for row in rows]
    cost.plot(gpus, seconds, "o-", color="tab:blue")
    room = (0, 1.15 * max(seconds))
    cost.set(xscale="log", xlabel="GPUs, 10 processes each", ylabel="CPU s a million samples", ylim=room)
    cost.yaxis.label.set_color("tab:blue")
    memory = cost.twinx()
    gib = [row["peak_mib"] / 1024 for row in rows]
    memory.plot(gpus, gib, "s--", color="tab:orange")
    memory.set(ylabel="peak memory, GiB", ylim=(0, 1.15 * max(gib)))
    memory.yaxis.label.set_color("tab:orange")
    cost.set_xticks(gpus, [f"{count:,}" for count in gpus], minor=False)
    cost.grid(visible=True, axis="y", alpha=0.3)
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
