"""Windows under changing rules, against walking through them one by one."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from schemas.rules import Rule, decode_rule, encode_rule
from stream_jobs.core.calendar import LEAD_US, Calendar, Change, calendar_of

SIZES = st.sampled_from([15, 20, 30, 60])
RULES = st.tuples(SIZES, st.sampled_from([0, 10, 60, 90, 600]))


@st.composite
def calendars(draw: st.DrawFn) -> Calendar:
    """Up to four rules; each begins at a start of the windows before and of its own."""
    rules = [Change(0, *draw(RULES))]
    for _ in range(draw(st.integers(0, 3))):
        rules.append(Change(rules[-1].effective_us + 60 * draw(st.integers(1, 20)), *draw(RULES)))
    return Calendar(tuple(rules))


def walk(calendar: Calendar, end: int) -> list[tuple[int, int, int]]:
    """(start, end, due) of every window from 0 on: due is never before the window's before."""
    found, start, due = [], 0, 0
    while start < end:
        rule = [r for r in calendar.rules if r.effective_us <= start][-1]
        due = max(due, start + rule.window_us + rule.lateness_us)
        found.append((start, start + rule.window_us, due))
        start += rule.window_us
    return found


@given(calendars(), st.integers(0, 6000))
def test_calendar_is_the_walk_through_its_windows(calendar: Calendar, time: int) -> None:
    """Start, end, due time and what is due at a time are those of a walk; windows touch each other."""
    windows = walk(calendar, 9000)
    assert all(a[1] == b[0] for a, b in pairwise(windows))
    assert calendar.start_of(time) == next(start for start, end, _ in windows if start <= time < end)
    for start, end, due in windows:
        assert (calendar.end_of(start), calendar.due_us(start)) == (end, due)
        assert start % calendar.unit_us == due % calendar.unit_us == 0
    is_due = [start for start, _, due in windows if due <= time]
    assert [start for start, *_ in windows if start < calendar.due_before(time)] == is_due
    first = calendar.start_of(time)
    assert list(calendar.starts(first, 7000)) == [start for start, *_ in windows if first <= start < 7000]


S = 1_000_000
FIRST = Change(0, 60 * S, 120 * S)


def test_changes_count_by_the_log_alone() -> None:
    """A change that is told too late, on no window start, out of order or out of bounds is refused with its reason."""
    good = Change(7200 * S, 30 * S, 60 * S)
    told = [
        (0, Change(LEAD_US - 60 * S, 60 * S, 0)),
        (0, Change(7210 * S, 30 * S, 0)),
        (0, Change(7200 * S, 7 * S, 0)),
        (0, Change(7200 * S, 60 * S, -S)),
        (0, good),
        (0, Change(7200 * S, 60 * S, 0)),
        (0, Change(7260 * S, 3600 * S, 0)),
    ]
    calendar, refused = calendar_of(FIRST, told)
    assert calendar.rules == (FIRST, good)
    assert [fault.split(":")[0].split(",")[0] for fault in refused] == [
        "effective at 540000000 us",
        "effective at 7210000000 us",
        "window of 7000000 us",
        "lateness of -1000000 us",
        "effective at 7200000000 us",
        "effective at 7260000000 us",
    ]


def test_rule_record_comes_back_as_it_was() -> None:
    """What is told is what is read."""
    rule = Rule(effective_us=7200 * S, window_us=30 * S, lateness_us=0, note="why")
    assert decode_rule(encode_rule(rule)) == rule
