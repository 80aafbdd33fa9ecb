"""Public traces as loads: GenTD26 duty cycles (CSV, also in .tar.gz) and openb pod lists (CSV, also .gz).

A trace brings its own fleet: pods are packed on time-sliced GPUs, several on each, and its times are moved so that it
begins at the start of the simulation. Tested in tests/unit/infra/sim/test_traces.py.
"""

import csv
import gzip
import io
import tarfile
import zlib
from pathlib import Path

from .model import SimCluster
from .traces_gentd import gentd_cluster
from .traces_openb import openb_cluster
from .workload import Workload


class TraceError(ValueError):
    """A trace file cannot be used; the text says which, why and what is expected."""


GENTD_COLUMNS = {"value", "timestamp_anon", "container_ip"}
OPENB_COLUMNS = {"name", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time"}


def load_trace(
    path: str, *, cluster: str, seed: int, start_us: int, hours: float | None
) -> tuple[SimCluster, Workload]:
    """Cluster and loads of a trace; the format is known by its header. TraceError for anything else."""
    text = read_table(Path(path))
    header = set(next(csv.reader([text.partition("\n")[0].strip()]), []))
    try:
        if header >= GENTD_COLUMNS:
            memory = _memory_beside(Path(path))
            return gentd_cluster(text, memory, cluster=cluster, seed=seed, start_us=start_us, hours=hours)
        if header >= OPENB_COLUMNS:
            return openb_cluster(text, cluster=cluster, seed=seed, start_us=start_us, hours=hours)
    except (ValueError, KeyError, TypeError) as error:
        raise TraceError(f"trace {path}: {error}") from error
    raise TraceError(
        f"trace {path}: header {', '.join(sorted(header))} is of neither format; expected GenTD26 duty cycles "
        f"({', '.join(sorted(GENTD_COLUMNS))}) or an openb pod list ({', '.join(sorted(OPENB_COLUMNS))})"
    )


def read_table(path: Path) -> str:
    """Text of a CSV file, plain, .gz or the first file of a .tar.gz; TraceError where it cannot be read."""
    try:
        if path.name.endswith((".tar.gz", ".tgz")):
            with tarfile.open(path) as archive:
                for member in archive:
                    stream = archive.extractfile(member) if member.isfile() else None
                    if stream is not None:
                        return io.TextIOWrapper(stream, "utf-8").read()
            raise TraceError(f"trace {path}: no file in the archive")
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, zlib.error, tarfile.TarError, UnicodeDecodeError) as error:
        raise TraceError(f"trace {path}: cannot be read: {error}") from error


def _memory_beside(path: Path) -> str | None:
    """The memory file that belongs to a duty-cycle file, where it lies beside it."""
    beside = path.with_name(path.name.replace("gpu_duty_cycle", "gpu_memory_used_bytes"))
    return read_table(beside) if beside != path and beside.exists() else None
