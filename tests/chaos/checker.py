"""Says where a seed's ledger, copies and progress differ from what its input log alone decides. Pure.

First results and revisions are held against the slow oracle (tests/property/oracle.py, oracle_late.py), partition by
partition; whole rows against a meter that nobody disturbed. Revisions: tests/chaos/check_revisions.py.
"""

from collections import defaultdict
from dataclasses import dataclass

from schemas.names import GPU_SAMPLES, INPUT_TOPICS, POD_EVENTS, POD_MAPPINGS
from schemas.usage import KEY_COLUMNS
from stream_jobs.core.settings import MeterSettings
from tests.chaos.check_carry import compare_carry
from tests.chaos.check_revisions import MEASURES, Measures, States, Window, compare_differences, compare_revisions
from tests.chaos.read_back import Copy, Key, Logs, ProgressRecord, Row, content_of
from tests.integration.harness import metered
from tests.property.oracle import rows_of
from tests.property.oracle_late import revisions_of
from tests.property.oracle_log import NodeWalk, clock_points, parse, read_from

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Expected:
    """What the input log decides."""

    measures: Measures
    """First results, by the oracle."""
    states: dict[Window, States]
    """What late records make of a window, by the oracle."""
    rows: dict[Key, Row]
    """Whole rows of an undisturbed meter, revisions among them; holds columns that the oracle does not know."""
    refused: set[tuple[str, int, int]]
    settings: MeterSettings
    logs: Logs

    @property
    def windows(self) -> set[Window]:
        """(cluster, node, window start) of every window with rows."""
        return {(key[0], key[1], key[4]) for key in self.measures}

    @property
    def revisions(self) -> set[tuple[str, str, int, int]]:
        """(cluster, node, window start, minute) of every revision."""
        return {(key[0], key[1], *key[4:]) for key in self.rows if key[5]}

    @property
    def keys(self) -> set[Key]:
        """Keys of all rows; those of revisions as the meter has them, which `compare_revisions` holds to the oracle."""
        return self.measures.keys() | {key for key in self.rows if key[5]}


def expected_of(logs: Logs, settings: MeterSettings) -> Expected:
    """Expectations of all partitions."""
    measures: Measures = {}
    states: dict[Window, States] = {}
    refused = set()
    for partition, log in sorted(logs.items()):
        parsed = parse(log)
        clusters = {h.node: h.cluster for _, h, _ in parsed[GPU_SAMPLES] if h.record == "reading"}
        for (node, gpu, holder, window), found in rows_of(log, settings).items():
            measures[clusters[node], node, gpu, holder, window, 0] = found
        for (node, window), seen in revisions_of(log, settings).items():
            states[clusters[node], node, window] = seen
        for topic in INPUT_TOPICS:
            good = {offset for offset, _, _ in parsed[topic]}
            refused |= {(topic, partition, record.offset) for record in log[topic] if record.offset not in good}
    return Expected(measures, states, undisturbed(logs, settings), refused, settings, logs)


def undisturbed(logs: Logs, settings: MeterSettings) -> dict[Key, Row]:
    """Rows by key of a meter that reads each partition once, from its beginning to its end."""
    return {
        tuple(row[name] for name in KEY_COLUMNS): row
        for partition, log in logs.items()
        for table in metered(log, partition, settings)
        for row in table.to_pylist()
    }


def differences(
    expected: Expected, copies: dict[Key, list[Copy]], ledger: dict[Key, Row], records: list[ProgressRecord]
) -> list[str]:
    """All that copies, ledger and progress records have to answer for."""
    firsts = {key: seen[0].row for key, seen in copies.items()}
    return [
        *compare_published(expected, copies),
        *compare_revisions("gpu-usage", expected.states, firsts),
        *compare_ledger(expected, ledger, copies),
        *compare_differences(ledger),
        *compare_sums(ledger),
        *compare_progress(expected, copies, records),
    ]


def compare_published(expected: Expected, copies: dict[Key, list[Copy]]) -> list[str]:
    """Rows that are missing, extra or other than the oracle's, and copies of one key that differ."""
    found = _keys("gpu-usage", expected.keys, set(copies))
    for key, seen in copies.items():
        if len({content_of(copy.row) for copy in seen}) != 1:
            places = [f"{copy.partition}/{copy.offset}" for copy in seen]
            found.append(f"copies of {key} differ, at {', '.join(places)}: {_differing([c.row for c in seen])}")
        found += _compare_row("gpu-usage", key, seen[0].row, expected)
    return found


def compare_ledger(expected: Expected, ledger: dict[Key, Row], copies: dict[Key, list[Copy]]) -> list[str]:
    """Rows of the ledger that are missing, extra, or other than the oracle's; one that is not the first copy."""
    found = _keys("the ledger", expected.keys, set(ledger))
    for key, row in ledger.items():
        found += _compare_row("the ledger", key, row, expected)
        first = min((copy.offset for copy in copies.get(key, [])), default=None)
        if row["out_offset"] != first:
            found.append(f"the ledger has the copy at {row['out_offset']} of {key}, the first is at {first}")
    return found


def compare_sums(ledger: dict[Key, Row]) -> list[str]:
    """GPU windows whose charged time is not the lifetime, or not the observed time with `unobserved` left out."""
    charged: dict[Key, int] = defaultdict(int)
    observed: dict[Key, int] = defaultdict(int)
    said: dict[Key, set[tuple[int, int]]] = defaultdict(set)
    for key, row in ledger.items():
        place = (*key[:3], *key[4:])
        charged[place] += row["charged_us"]
        observed[place] += row["charged_us"] if row["holder_kind"] != "unobserved" else 0
        said[place].add((row["lifetime_us"], row["observed_us"]))
    return [
        f"conservation: {place} adds up to {(charged[place], observed[place])}, lifetime and observed are {lives}"
        for place, lives in said.items()
        if lives != {(charged[place], observed[place])}
    ]


def compare_progress(expected: Expected, copies: dict[Key, list[Copy]], records: list[ProgressRecord]) -> list[str]:
    """Progress records beyond what they still need, with another carry, or calling closed what was not published."""
    published: dict[Window, set[int]] = defaultdict(set)
    revised: dict[tuple[str, str], list[tuple[int, int, int]]] = defaultdict(list)
    for (cluster, node, _, _, window, minute), seen in copies.items():
        first_ms = min(copy.append_ms for copy in seen)
        if minute:
            revised[cluster, node].append((minute, window, first_ms))
        else:
            published[cluster, node, window].add(first_ms)
    parsed: dict[int, dict] = {p: parse(log) for p, log in expected.logs.items()}
    found, walks = [], dict[tuple[str, str], _Needs]()
    for partition, topics in parsed.items():
        own = [record for record in records if record.partition == partition]
        found += compare_carry(topics[GPU_SAMPLES], own, expected.settings)
    wanted = expected.windows
    for record in records:
        topics = parsed[record.partition]
        where = f"progress {record.partition}/{record.offset}"
        for cluster, node, closed_to_us in record.carry.closed_to_us:
            if (cluster, node) not in walks:
                walks[cluster, node] = _Needs(topics, cluster, node, expected.settings)
            needed = walks[cluster, node].offset(closed_to_us)
            if record.offsets[GPU_SAMPLES] > needed:
                found.append(f"{where} is at {record.offsets[GPU_SAMPLES]}, {node} still needs offset {needed}")
            for window in (w for c, n, w in wanted if (c, n) == (cluster, node) and w < closed_to_us):
                late = [ms for ms in published.get((cluster, node, window), {1 << 62}) if ms > record.append_ms]
                if late:
                    found.append(f"{where} calls {node} {window} closed, its rows were not all published before")
            for topic in (POD_MAPPINGS, POD_EVENTS):
                floor = read_from(clock_points(topics[topic], cluster), closed_to_us - expected.settings.reach_back_us)
                if record.offsets[topic] > floor:
                    found.append(f"{where} reads {topic} from {record.offsets[topic]}, {node} needs it from {floor}")
        found += _revisions_ahead(where, record, revised)
    return found


def _revisions_ahead(
    where: str, record: ProgressRecord, revised: dict[tuple[str, str], list[tuple[int, int, int]]]
) -> list[str]:
    """Minutes that a progress calls looked at, of which a revision was published only after it."""
    return [
        f"{where} has looked at {history.node} to {history.looked_to_us}, revision {minute} of {window} came after it"
        for cluster in record.carry.now
        for history in cluster.nodes
        for minute, window, first_ms in revised[cluster.cluster, history.node]
        if minute <= history.looked_to_us and first_ms > record.append_ms
    ]


class _Needs:
    """Up to where a node's windows need gpu-samples, by a walk over the whole log."""

    def __init__(self, topics: dict, cluster: str, node: str, settings: MeterSettings) -> None:
        self._window_us = settings.window_us
        self._cuts = NodeWalk(topics[GPU_SAMPLES], cluster, node, settings).cuts
        self._readings, seen = [], set()
        for offset, headers, content in topics[GPU_SAMPLES]:
            key = (headers.boot_id, headers.epoch_us, headers.seq)
            mine = headers.record == "reading" and (headers.cluster, headers.node) == (cluster, node)
            if mine and key not in seen and len(content[0]["read_us"]):
                seen.add(key)
                device = content[0]
                end_us = max(int(device["span_end_us"].max()), int(device["read_us"].max()) + 1)
                self._readings.append((offset, (end_us - 1) // self._window_us * self._window_us))

    def offset(self, closed_to_us: int) -> int:
        """Offset of the first reading that a window from `closed_to_us` on sees below its cut."""
        return min(
            (
                offset
                for offset, last_us in self._readings
                if last_us >= closed_to_us and offset < self._cuts.get(last_us, 1 << 62)
            ),
            default=1 << 62,
        )


def compare_letters(expected: Expected, refused: set[tuple[str, int, int]]) -> list[str]:
    """Records that cannot be read and are in no dead letter, and letters about readable ones."""
    return [f"no dead letter of {place}" for place in sorted(expected.refused - refused)] + [
        f"a dead letter of {place}, which can be read" for place in sorted(refused - expected.refused)
    ]


def shown(differences: list[str]) -> str:
    """The first few."""
    more = f"\n    and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
    return "".join(f"\n    {text}" for text in differences[:_SHOWN]) + more


def _keys(where: str, expected: set[Key], found: set[Key]) -> list[str]:
    return [f"{where} lacks {key}" for key in sorted(expected - found)] + [
        f"{where} has {key}, which the log does not decide" for key in sorted(found - expected)
    ]


def _compare_row(where: str, key: Key, row: Row, expected: Expected) -> list[str]:
    found = tuple(row[name] or 0 for name in MEASURES)
    wanted = expected.measures.get(key)
    if wanted is not None and found != wanted:
        return [f"{where} has {found} for {key}, the oracle says {wanted} ({', '.join(MEASURES)})"]
    whole = expected.rows.get(key)
    if key in expected.keys and (whole is None or content_of(row) != content_of(whole)):
        return [f"{where} has another row for {key} than an undisturbed meter: {_differing([row, whole or {}])}"]
    return []


def _differing(rows: list[Row]) -> str:
    names = [name for name in rows[0] if len({str(row.get(name)) for row in rows}) > 1]
    return ", ".join(f"{name} {[row.get(name) for row in rows]}" for name in names)
