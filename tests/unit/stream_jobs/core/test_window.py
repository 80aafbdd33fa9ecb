"""What a window knows of its snapshots."""

from schemas.snapshots import Snapshot
from stream_jobs.core.window import NodeWindow, SeenSnapshot


def _window(snapshots: list[SeenSnapshot]) -> NodeWindow:
    return NodeWindow(
        cluster="c", node="n", start_us=0, end_us=60, revision=0, cuts=(9, 9, 9), devices=[], readings=[],
        snapshots=snapshots, pods=[],
    )  # fmt: skip


def test_snapshot_is_the_first_of_its_sender_and_number() -> None:
    """Of snapshots with one number the first in the log counts, each sender has its own, and unknown ones are None."""
    one, other = ("b", 1), ("b", 2)
    seen = [
        SeenSnapshot(n, s, Snapshot(mapping_seq=m, taken_us=0, processes=[], grants=[], slots=[]))
        for n, (s, m) in enumerate([(one, 7), (other, 7), (one, 7)])
    ]
    window = _window(seen)
    assert window.snapshot(one, 7) is seen[0]
    assert window.snapshot(other, 7) is seen[1]
    assert window.snapshot(one, 8) is None
    assert window.snapshot(("c", 1), 7) is None


def test_looking_up_snapshots_reads_each_once() -> None:
    """A window whose readings name as many snapshots as there are looks at each of them once, not once per name."""
    looked: list[int] = []
    plain = Snapshot(mapping_seq=0, taken_us=0, processes=[], grants=[], slots=[])

    class Counted(SeenSnapshot):
        @property
        def snapshot(self) -> Snapshot:
            looked.append(self.offset)
            return Snapshot(mapping_seq=self.offset, taken_us=0, processes=[], grants=[], slots=[])

        @snapshot.setter
        def snapshot(self, value: Snapshot) -> None:
            """Made anew when asked for."""

    window = _window([Counted(n, ("b", 1), plain) for n in range(300)])
    found = [window.snapshot(("b", 1), n) for n in range(300)]
    assert [s.offset for s in found if s] == list(range(300))
    assert len(looked) == 300
