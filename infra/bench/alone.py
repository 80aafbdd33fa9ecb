"""The core alone and decoding alone: `python -m infra.bench.alone core|decode --nodes N`; the outcome is the last line.

Records are made in memory, in the order of the log and in rounds like a worker's; only the meter's own work is timed.
"""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from infra.bench.errors import BenchError
from infra.bench.fleet_log import Sent, messages
from infra.bench.outcome import Outcome, encode
from infra.bench.shape import SECOND_US, FleetShape
from infra.bench.usage import Stopwatch, own_peak_mib
from schemas.headers import READING
from schemas.names import GPU_SAMPLES
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from stream_jobs.decode import decode_block
from stream_jobs.runtime import settle

ROUND_MESSAGES, ROUND_RECORDS = 256, 4_096
"""Of a round: readings, and records in all; a fleet's pods come before its first reading."""
_READING = ("record", READING.encode())
Round = dict[str, list[LogRecord]]


def rounds(sent: Iterator[Sent]) -> Iterator[Round]:
    """The records of a log by topic, a round's worth at a time."""
    offsets: Counter[str] = Counter()
    of_round: Round = defaultdict(list)
    for message in sent:
        record = LogRecord(offsets[message.topic], message.at_us, message.headers, message.payload)
        offsets[message.topic] += 1
        of_round[message.topic].append(record)
        if len(of_round[GPU_SAMPLES]) >= ROUND_MESSAGES or sum(map(len, of_round.values())) >= ROUND_RECORDS:
            yield of_round
            of_round = defaultdict(list)
    yield of_round


def core(shape: FleetShape) -> Outcome:
    """The meter of one partition over a whole log, closing what can be closed after each round."""
    settings = MeterSettings(
        window_us=shape.window_s * SECOND_US, lateness_us=shape.lateness_s * SECOND_US, simulated_time=True
    )
    meter, watch, refused = PartitionMeter(settings, Source(0)), Stopwatch(), 0
    for of_round in rounds(messages(shape)):
        with watch.running():
            for topic, records in sorted(of_round.items()):
                refused += len(meter.feed(topic, records))
            while meter.close_ready() is not None:
                pass
    wanted = shape.windows_in_all(shape.window_s, shape.lateness_s)
    if meter.counts["windows"] != wanted or refused or meter.counts["violations"]:
        raise BenchError(f"core: {meter.counts['windows']} windows closed of {wanted}, {refused} refused")
    return _outcome("core", shape, watch)


def decode(shape: FleetShape) -> Outcome:
    """Decoding and checking of the readings, the limit of what any meter of this log can do."""
    watch, rows = Stopwatch(), 0
    for of_round in rounds(messages(shape)):
        payloads = [record.payload for record in of_round[GPU_SAMPLES] if _READING in record.headers]
        with watch.running():
            block, _ = decode_block(payloads)
        rows += int(block.process_rows.sum())
        del block
    if rows != shape.rows:
        raise BenchError(f"decode: {rows} rows of {shape.rows}")
    return _outcome("decode", shape, watch)


PROGRAMS: dict[str, Callable[[FleetShape], Outcome]] = {"core": core, "decode": decode}


def _outcome(name: str, shape: FleetShape, watch: Stopwatch) -> Outcome:
    return Outcome(
        name=name,
        samples=shape.rows,
        cpu_s=watch.cpu_s,
        wall_s=watch.wall_s,
        peak_mib=own_peak_mib(),
        shape={"gpus": shape.gpus, "window_s": shape.window_s, "lateness_s": shape.lateness_s, "pods": shape.pods},
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one program and prints its outcome."""
    parser = argparse.ArgumentParser(prog="infra.bench.alone", description=__doc__)
    parser.add_argument("program", choices=sorted(PROGRAMS))
    parser.add_argument("--nodes", type=int, default=250)
    parser.add_argument("--windows", type=int, default=1)
    parser.add_argument("--window-s", type=int, default=60)
    parser.add_argument("--lateness-s", type=int, default=10)
    parser.add_argument("--pods", type=int, default=2)
    options = vars(parser.parse_args(argv))
    settle()
    outcome = PROGRAMS[options.pop("program")](FleetShape(partitions=1, **options))
    sys.stdout.write(encode(outcome) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
