"""Says where revisions differ from what the oracle makes of late records. Pure.

Laws: a revision has a reason and stands on a minute of the clock; its values are the window's as of that minute, its
differences those to the minute before; all differences of a row add up to its newest values.
"""

from collections import defaultdict
from collections.abc import Mapping

from tests.chaos.read_back import Key, Row
from tests.property.drive import MEASURES
from tests.property.oracle_late import changes

Measures = dict[Key, tuple[int, ...]]
Window = tuple[str, str, int]
States = list[tuple[int, Measures, bool]]
"""A window as of each minute that shows it something late, the first result first; as `revisions_of` gives it."""
DIFFERENCES = {"d_held_us": 0, "d_used_us": 2, "d_charged_us": 3, "d_energy_mj": 4, "d_memory_byte_ms": 6}
"""Column of a difference, and which of MEASURES it is of."""
REASONS = {"late_reading", "late_snapshot", "late_pod_event"}
_NOTHING = (0,) * len(MEASURES)
_OF_GPU = 1
"""Place of observed_us, which stays with the GPU when a holder vanishes."""
Revised = dict[int, dict[tuple[str, str], Row]]
"""Minute to (GPU, holder) to row."""


def compare_revisions(where: str, states: Mapping[Window, States], rows: Mapping[Key, Row]) -> list[str]:
    """Revisions that are missing, without a reason, or other than the oracle's."""
    revised: dict[Window, Revised] = defaultdict(lambda: defaultdict(dict))
    found = []
    for (cluster, node, gpu, holder, window, minute), row in rows.items():
        if minute:
            revised[cluster, node, window][minute][gpu, holder] = row
            if not REASONS & set(row["flags"]):
                found.append(f"{where}: revision {minute} of {(node, gpu, holder, window)} names no reason")
    for place, minutes in revised.items():
        known = {minute for minute, _, _ in states.get(place, [])[1:]}
        found += [f"{where}: revision {m} of {place} without a late record" for m in sorted(minutes.keys() - known)]
    for place, seen in states.items():
        gaps = {minute: gap for minute, _, gap in seen}
        for minute, gpus, before, after in changes(seen):
            here = revised[place].get(minute, {})
            lost = gpus - {gpu for gpu, _ in here}
            found += [f"{where}: no revision {minute} of {place} for {gpu}" for gpu in sorted(lost)]
            found += _compare_minute(f"{where}: revision {minute} of {place}", here, before, after, gaps[minute])
    return found


def _compare_minute(
    where: str, rows: dict[tuple[str, str], Row], before: Measures, after: Measures, gap: bool
) -> list[str]:
    old, new = ({key[1:3]: values for key, values in side.items()} for side in (before, after))
    shown = {gpu for gpu, _ in rows}
    found = [f"{where} lacks {key}" for key in sorted(old.keys() | new.keys()) if key[0] in shown and key not in rows]
    for key, row in rows.items():
        values, was, wanted = (
            tuple(row[name] or 0 for name in MEASURES), old.get(key, _NOTHING), new.get(key, _NOTHING),
        )  # fmt: skip
        if key not in new:
            values = tuple(0 if at == _OF_GPU else value for at, value in enumerate(values))
        if values != wanted:
            found.append(f"{where} has {values} for {key}, the oracle says {wanted}")
        if wrong := [name for name, at in DIFFERENCES.items() if row[name] != wanted[at] - was[at]]:
            found.append(f"{where} has other differences than the oracle for {key}: {', '.join(wrong)}")
        if row["charged_us"] and ("spool_gap" in row["flags"]) != gap:
            found.append(f"{where} flags {row['flags']} for {key}, a gap touches it: {gap}")
    return found


def compare_differences(rows: Mapping[Key, Row]) -> list[str]:
    """Rows whose differences do not add up to their newest values."""
    newest: dict[Key, Row] = {}
    sums: dict[Key, dict[str, int]] = defaultdict(lambda: dict.fromkeys(DIFFERENCES, 0))
    for key, row in sorted(rows.items(), key=lambda item: item[0][5]):
        newest[key[:5]] = row
        for name in DIFFERENCES:
            sums[key[:5]][name] += row[name]
    return [
        f"differences of {key} add up to {total}, its newest row is of {row['revision']}"
        for key, row in newest.items()
        if (total := sums[key]) != {name: row[MEASURES[at]] or 0 for name, at in DIFFERENCES.items()}
    ]
