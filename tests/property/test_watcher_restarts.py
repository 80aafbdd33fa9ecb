"""Law: whatever happens to list and watch, the watcher's records end the same."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.watcher.api import Access, Api
from collector.watcher.api_objects import Pod
from collector.watcher.stream import Stream
from collector.watcher.tables import pod_table
from infra.sim.kube_api import KubeApi
from infra.sim.model import SimCluster, SimContainer, SimPod
from schemas.pods import PodRecord

S = 1_000_000
END_S = 60
FAULTS = ("none", "drop", "restart", "gone", "tokens")


@st.composite
def pods(draw: st.DrawFn) -> tuple[SimPod, ...]:
    """Pods of up to three runs each, some deleted, some of one name after another."""
    found: list[SimPod] = []
    for number in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, 20))
        for life in range(draw(st.integers(1, 2))):
            edges = sorted(draw(st.lists(st.integers(at + 1, at + 18), min_size=2, max_size=6, unique=True)))
            ends = list(zip(edges[::2], edges[1::2], strict=False))
            deleted = ends[-1][1] + draw(st.integers(0, 2)) if life == 0 or draw(st.booleans()) else None
            uid = f"{number}-{life}"
            runs = tuple(SimContainer("main", f"{uid}-{i}", a * S, b * S) for i, (a, b) in enumerate(ends))
            found.append(SimPod(uid, "n", f"p{number}", "n1", at * S, None if deleted is None else deleted * S, runs))
            if deleted is None:
                break
            at = deleted + 1
    return tuple(found)


def _followed(cluster: SimCluster, steps: list[tuple[int, str]]) -> dict[str, PodRecord]:
    """Records after the whole story, read at the steps' times with the steps' faults before each."""
    api, table = KubeApi(cluster), pod_table()
    stream = Stream(Api(Access(api.start())), "/api/v1/pods", Pod, table, 2)
    newest: dict[str, PodRecord] = {}
    for at_s, fault in [(0, "none"), *steps, (END_S, "none")]:
        if fault == "restart":
            api.stop()
            api.start()
        if fault in ("drop", "gone"):
            api.drop_watches()
        api.advance(at_s * S)
        if fault == "gone":
            api.log.forget_history()
        if fault == "tokens":
            api.log.forget_tokens()
        last = api.log.version
        stream.read(at_s * S, 0.2 if at_s < END_S else 0.5, lambda last=last: stream.version == str(last))  # type: ignore[misc]
        newest |= {record.uid: record for record in table.take_changed()}
        table.acknowledged()
    stream.close()
    api.stop()
    return newest


def _content(record: PodRecord) -> PodRecord:
    return msgspec.structs.replace(record, seen_us=0, deleted_us=record.deleted_us and 1)


@settings(max_examples=25, deadline=None)
@given(pods(), st.lists(st.tuples(st.integers(0, END_S), st.sampled_from(FAULTS)), max_size=8))
def test_records_are_the_same_for_any_restarts(story: tuple[SimPod, ...], steps: list[tuple[int, str]]) -> None:
    """Any times of reading and any faults give the same pods, and the same runs wherever the history was not lost."""
    cluster = SimCluster("c", 0, END_S * S, (), story)
    steps = sorted(steps, key=lambda step: step[0])
    undisturbed = _followed(cluster, [(second, "none") for second in range(0, END_S, 5)])
    got = _followed(cluster, steps)
    if all(fault != "gone" for _, fault in steps):
        assert {uid: _content(r) for uid, r in got.items()} == {uid: _content(r) for uid, r in undisturbed.items()}
        return
    # Lost history loses runs and pods that came and went inside the gap, and nothing else.
    for uid, record in got.items():
        known = {run.container_id: run for c in undisturbed[uid].containers for run in c.runs}
        for container in record.containers:
            assert all(run.started_us == known[run.container_id].started_us for run in container.runs)
    living = {uid for uid, record in undisturbed.items() if record.deleted_us is None}
    assert living <= set(got)
    assert all(got[uid].deleted_us is None if uid in living else got[uid].deleted_us for uid in got)
