"""Grants over time: from container lives, from snapshots alone, and how later grants end earlier ones."""

from schemas.pods import ContainerRecord, PodRecord, Run
from schemas.snapshots import DeviceSlots, Grant, Snapshot
from stream_jobs.core.grants import GrantLists, segments, tenures
from stream_jobs.core.identity import Directory


def pod(uid: str, name: str, started_us: int, finished_us: int | None = None) -> PodRecord:
    """A pod with one container that ran once."""
    run = Run(container_id=uid * 8, started_us=started_us, finished_us=finished_us)
    container = ContainerRecord(name="main", requests={"nvidia.com/gpu": 1}, runs=[run])
    return PodRecord(
        uid=uid,
        namespace="ns",
        name=name,
        node="n",
        created_us=started_us,
        deleted_us=finished_us,
        containers=[container],
    )


def snapshot(taken_us: int, *grants: tuple[str, str], status: str = "ok") -> Snapshot:
    """A snapshot with (slot, pod name) grants of GPU-1."""
    granted = [
        Grant(gpu_uuid="GPU-1", slot=slot, resource="r", namespace="ns", pod_name=name, container_name="main")
        for slot, name in grants
    ]
    slots = [DeviceSlots(gpu_uuid="GPU-1", slots=4)]
    return Snapshot(
        mapping_seq=taken_us, taken_us=taken_us, processes=[], grants=granted, slots=slots, grants_status=status
    )


def held(snapshots: list[Snapshot], pods: list[PodRecord]) -> list[tuple[str, str, int, int]]:
    """(slot, holder, start, end) of every tenure."""
    found = tenures(snapshots, Directory(pods))
    return sorted((t.slot, t.holder.id, t.start_us, min(t.end_us, 999)) for t in found)


def test_grant_lives_as_long_as_its_container() -> None:
    """A pair seen once is held from the container's start to its end, though snapshots came later or stayed away."""
    assert held([snapshot(50, ("s", "a"))], [pod("A", "a", 10, 80)]) == [("s", "A/main", 10, 80)]


def test_grant_of_an_unknown_pod_lives_between_its_snapshots() -> None:
    """Without a pod event only what the snapshots themselves show is held, under the name."""
    shown = [snapshot(10, ("s", "a")), snapshot(40, ("s", "a"))]
    assert held(shown, []) == [("s", "ns/a/main", 10, 40)]


def test_stale_grant_ends_where_the_slot_is_granted_anew() -> None:
    """A pod that still runs for the API loses the slot when a later container gets it."""
    shown = [snapshot(20, ("s", "a")), snapshot(60, ("s", "b"))]
    assert held(shown, [pod("A", "a", 10), pod("B", "b", 50)]) == [("s", "A/main", 10, 50), ("s", "B/main", 50, 999)]


def test_recreated_name_gives_each_life_its_own_time() -> None:
    """The same name on the same slot is two holders: the old pod up to its deletion, the new one from its creation."""
    shown = [snapshot(20, ("s", "web")), snapshot(60, ("s", "web"))]
    lives = [pod("A", "web", 10, 40), pod("B", "web", 45)]
    assert held(shown, lives) == [("s", "A/main", 10, 40), ("s", "B/main", 45, 999)]


def test_unavailable_kubelet_is_no_evidence() -> None:
    """A snapshot whose grants are not fresh grants nothing."""
    assert held([snapshot(20, ("s", "a"), status="unavailable")], [pod("A", "a", 10)]) == []


def test_segments_cover_the_window_and_count_slots() -> None:
    """The window is cut where grants change, without gap, and two slots of one holder count two."""
    shown = [snapshot(20, ("s1", "a"), ("s2", "a"), ("s3", "b"))]
    parts = segments(tenures(shown, Directory([pod("A", "a", 0, 70), pod("B", "b", 30)])), 4, 10, 100)
    assert [(p.start_us, p.end_us, [(h.id, n) for h, n in p.held]) for p in parts] == [
        (10, 30, [("A/main", 2)]),
        (30, 70, [("A/main", 2), ("B/main", 1)]),
        (70, 100, [("B/main", 1)]),
    ]


def test_slots_are_never_fewer_than_were_granted() -> None:
    """The newest word of the kubelet counts, the label where there is none, and at least what was seen granted."""
    said = [snapshot(1), snapshot(2, ("s1", "a"), ("s2", "b"))]
    assert GrantLists.of(said, 9).slots_by_device() == {"GPU-1": 4}
    unsaid = [Snapshot(mapping_seq=3, taken_us=3, processes=[], grants=said[1].grants, slots=[])]
    assert GrantLists.of(unsaid, 1).slots_by_device() == {"GPU-1": 2}
    assert GrantLists.of(unsaid, 8).slots_by_device() == {"GPU-1": 8}
