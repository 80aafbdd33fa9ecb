"""Drives meters over logs: any interleaving of the topics, crashes anywhere, and what they publish."""

import random

import pyarrow as pa

from schemas.usage import INGEST_COLUMNS
from stream_jobs.core.cluster import TOPICS
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source

SETTINGS = MeterSettings(simulated_time=True)
SOURCE = Source(0, "topic-id")
INGEST = {c.name for c in INGEST_COLUMNS}


def drain(meter: PartitionMeter, log=None) -> list[pa.Table]:
    """All tables that can be closed now, and with a log the revisions that can be made."""
    tables = []
    while (table := meter.close_ready()) is not None:
        tables.append(table)
    return tables if log is None else tables + list(repairs(meter, log))


def repairs(meter: PartitionMeter, log, rng: random.Random | None = None, steps: int = 1 << 62):
    """Tables of the revisions that can be made, read in slices of any size and for no more than so many steps."""
    while steps and meter.repairs.is_due():
        steps -= 1
        part = meter.repairs.wanted()
        if part is None:
            yield meter.repairs.made()
            continue
        last = min(part.last, part.first + (rng.choice([1, 7, 100, 2000]) if rng else part.last))
        meter.repairs.take(log[part.topic][part.first : last], last)


def run(log, rng: random.Random | None = None, crashes: int = 0, forget=None, settings=SETTINGS):
    """Tables published over a whole log, fed in a random interleaving with up to `crashes` restarts from progress."""
    meter, tables, saved = PartitionMeter(settings, SOURCE), [], None
    while any(meter.position[t] < len(log[t]) for t in TOPICS):
        topic = rng.choice(TOPICS) if rng else next(t for t in TOPICS if meter.position[t] < len(log[t]))
        size = rng.choice([1, 5, 40, 200]) if rng else len(log[topic])
        at = meter.position[topic]
        meter.feed(topic, log[topic][at : at + size])
        tables += drain(meter, None if rng else log)
        if rng and rng.random() < 0.7:
            tables += repairs(meter, log, rng, rng.choice([1, 3, 1 << 62]))
        if rng and rng.random() < 0.3:
            saved = meter.progress() or saved
        if rng and crashes and rng.random() < 0.05:
            crashes -= 1
            meter = PartitionMeter(settings, SOURCE, forget(saved) if forget and saved else saved)
    return tables + drain(meter, log), meter


def content(tables):
    """{key: [row without ingest columns, ...]} of every published copy."""
    copies = {}
    for table in tables:
        for row in table.to_pylist():
            key = (row["node"], row["gpu_uuid"], row["holder"], row["window_start_us"], row["revision"])
            copies.setdefault(key, []).append({k: v for k, v in row.items() if k not in INGEST})
    return copies


MEASURES = (
    "held_us", "observed_us", "used_us", "charged_us", "energy_mj", "resident_us", "memory_byte_ms", "hot_idle_us",
)  # fmt: skip


def measures(tables):
    """First results in the oracle's form."""
    first = {key: copies[0] for key, copies in content(tables).items() if key[4] == 0}
    return {key[:4]: tuple(row[name] or 0 for name in MEASURES) for key, row in first.items()}
