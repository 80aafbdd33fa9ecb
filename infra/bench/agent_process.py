"""The node agent as it runs on a node, over the replayed driver; says at its end how long the driver took.

Usage: python -m infra.bench.agent_process GPUS.json SPENT.json, settings in the environment. GPUS.json is a list of
{"uuid": ..., "pids": [...]}.
"""

import sys
from pathlib import Path

import msgspec

from collector import nvml
from collector.cli import main
from infra.bench.replay import ReplayGpu, ReplayLibrary


def run(gpus: Path, spent: Path) -> int:
    """The agent until SIGTERM; its exit code."""
    library = ReplayLibrary([ReplayGpu(gpu["uuid"], gpu["pids"]) for gpu in msgspec.json.decode(gpus.read_bytes())])
    nvml.use(library)
    code = main(["--log-level", "warning"])
    spent.write_bytes(msgspec.json.encode({"spent_ns": library.spent_ns}))
    return code


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), Path(sys.argv[2])))
