"""What an input log holds besides records in order, and whether each number of a collector is there or told. Pure."""

from collections import Counter, defaultdict

from schemas.headers import CLOCK, GAP, READING
from schemas.names import GPU_SAMPLES, INPUT_TOPICS, POD_EVENTS
from schemas.samples import CLOCK_STEP
from tests.chaos.read_back import Logs
from tests.property.oracle_log import parse

Epoch = tuple[str, str, str, str, int]
"""(topic, cluster, node, boot, epoch)."""


def story_of(logs: Logs) -> Counter[str]:
    """How often each thing happened, over all partitions."""
    story: Counter[str] = Counter()
    for log in logs.values():
        parsed = parse(log)
        for topic in INPUT_TOPICS:
            story["records"] += len(log[topic])
            story["garbage"] += len(log[topic]) - len(parsed[topic])
            story += _senders(topic, parsed[topic])
        for _, headers, content in parsed[GPU_SAMPLES]:
            if headers.record == READING and len(content[0]["flags"]):
                story["clock set"] += bool(int(content[0]["flags"][0]) & CLOCK_STEP)
    return story


def _senders(topic: str, rows: list) -> Counter[str]:
    story: Counter[str] = Counter()
    seen: dict[Epoch, set[int]] = defaultdict(set)
    boots: dict[tuple[str, str], set[str]] = defaultdict(set)
    for _, headers, _ in rows:
        if headers.record == CLOCK or topic == POD_EVENTS:
            continue
        epoch = (topic, headers.cluster, headers.node, headers.boot_id, headers.epoch_us)
        if headers.record == GAP:
            story["told gaps"] += 1
        elif headers.seq in seen[epoch]:
            story["doubled"] += 1
        else:
            story["out of order"] += headers.seq < max(seen[epoch], default=0)
            seen[epoch].add(headers.seq)
        boots[headers.cluster, headers.node].add(headers.boot_id)
    if topic == GPU_SAMPLES:
        story["collector lives"] = len(seen)
        story["boots"] = sum(len(found) for found in boots.values())
    return story


def lost_numbers(logs: Logs, cluster: str) -> list[str]:
    """Sequence numbers of a cluster's collectors that neither arrived nor were told as a gap, below one that did."""
    known: dict[Epoch, set[int]] = defaultdict(set)
    for log in logs.values():
        for topic, rows in parse(log).items():
            for _, headers, content in rows if topic != POD_EVENTS else ():
                if headers.cluster != cluster or headers.record == CLOCK:
                    continue
                sender = (topic, cluster, headers.node, headers.boot_id)
                if headers.record == GAP:
                    known[*sender, content.epoch_us] |= set(range(content.first_seq, content.last_seq + 1))
                else:
                    known[*sender, headers.epoch_us].add(headers.seq)
    return [
        f"collector of {epoch}: numbers {lost[:5]} are neither there nor told"
        for epoch, numbers in known.items()
        if (lost := sorted(set(range(1, max(numbers))) - numbers))
    ]
