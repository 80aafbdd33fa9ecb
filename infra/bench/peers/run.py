"""Runs one peer over a topic of samples on a fresh broker, and believes it only if its sums are right."""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from infra.bench.errors import BenchError
from infra.bench.kafka_log import broker, fill_plain, make_topic, read_whole
from infra.bench.outcome import Outcome, decode
from infra.bench.peers.samples import PARTITIONS, SAMPLES, SUMS, Sums, found, samples, samples_in_all, shape_of, truth
from infra.broker.child import end, spawn
from infra.broker.install import ensure_jars, java_library
from infra.demo.services import log_tail

_LIMIT_S = 600.0
_HERE = Path(__file__).parent
FAUST_EVENT, FLINK = "faust_event", "flink"
MODULES = {FAUST_EVENT: "faust_event", "quixstreams": "quix", "bytewax": "waxed", FLINK: "flink"}
"""Name of a peer to its program beside this file."""


class Places(NamedTuple):
    """Where things are: for brokers, for logs, and the Python of the peers' environment."""

    folder: Path | None
    logs: Path
    peer_python: str


def run_peer(name: str, nodes: int, places: Places) -> Outcome:
    """Outcome of a peer over whole nodes; BenchError where it fails, takes too long or finds other sums."""
    shape = shape_of(nodes)
    with broker(places.folder, partitions=None) as bootstrap:
        for topic in (SAMPLES, SUMS):
            make_topic(bootstrap, topic, PARTITIONS)
        fill_plain(bootstrap, SAMPLES, samples(shape))
        with TemporaryDirectory(prefix="gpumeter-peer-", dir=places.folder) as scratch:
            outcome = _run(name, [bootstrap, str(samples_in_all(shape))], places, scratch)
        told = outcome.shape if name == FAUST_EVENT else {}
        sums = (
            Sums(told["count"], told["points"])
            if told
            else found(m.value() or b"" for m in read_whole(bootstrap, SUMS))
        )
    if sums != truth(shape):
        raise BenchError(f"{name}: found {sums} in the first window, the samples say {truth(shape)}")
    facts = {"gpus": shape.gpus, "window_s": shape.window_s, "pods": shape.pods}
    return Outcome(**{field: getattr(outcome, field) for field in outcome.__struct_fields__} | {"shape": facts})


def _run(name: str, arguments: list[str], places: Places, scratch: str) -> Outcome:
    python = sys.executable if name == FAUST_EVENT else places.peer_python
    if name == FLINK:
        arguments = [*arguments, str(java_library()), ensure_jars("flink", _HERE / "flink_jars"), scratch]
    places.logs.mkdir(parents=True, exist_ok=True)
    log = places.logs / f"peer-{name}.log"
    log.unlink(missing_ok=True)
    process = spawn([str(Path(python).absolute()), "-m", f"infra.bench.peers.{MODULES[name]}", *arguments], log=log)
    deadline = time.monotonic() + _LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    code = end(process, patience_s=1.0)
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith('{"name"')]
    if code or not lines:
        raise BenchError(f"{name} ended with exit code {code} and no outcome within {_LIMIT_S:g} s. {log_tail(log)}")
    return decode(lines[-1])
