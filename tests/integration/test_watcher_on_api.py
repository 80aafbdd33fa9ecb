"""The unmodified watcher against the simulated API server over HTTP."""

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.errors import Retry
from collector.watcher.remember import Memory
from schemas.names import INPUT_TOPICS
from schemas.pods import PodRecord, Run
from tests.integration.watcher_site import PARTITIONS, START, STORY, TEN, S, Site


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A site with the pods of the test's parameter."""
    made = Site(getattr(request, "param", ()))
    yield made
    made.watcher.close()
    made.api.stop()


@pytest.mark.parametrize("site", [TEN], indirect=True)
def test_first_tick_publishes_all_then_the_clock(site: Site) -> None:
    """Everything listed, in chunks, goes out before the clock, which goes to each partition of each input topic."""
    site.tick(0)
    kinds = [headers.record for _, _, headers, _ in site.out.sent]
    assert kinds == ["pod"] * 11 + ["node"] + ["clock"] * 3 * PARTITIONS
    assert set(site.out.pods()) == {pod.uid for pod in TEN} | {"0a7c4e50-0000-4000-8000-000000000000"}
    assert site.out.nodes()["n1"].capacity == {"nvidia.com/gpu": 4}
    assert site.out.nodes()["n1"].labels["nvidia.com/gpu.product"] == "NVIDIA-H200-SHARED"
    clocks = [(topic, partition) for topic, partition, headers, _ in site.out.sent if headers.record == "clock"]
    assert sorted(clocks) == sorted((topic, n) for topic in INPUT_TOPICS for n in range(PARTITIONS))
    identities = [(topic, headers.boot_id, headers.epoch_us, headers.seq) for topic, _, headers, _ in site.out.sent]
    assert len(set(identities)) == len(identities)


@pytest.mark.parametrize("site", [TEN], indirect=True)
def test_quiet_cluster_publishes_nothing_but_the_clock(site: Site) -> None:
    """Without changes a tick publishes the clock alone, although the own pod's annotation changes each time."""
    site.tick(0)
    before = len(site.out.sent)
    site.tick(5)
    assert [headers.record for _, _, headers, _ in site.out.sent[before:]] == ["clock"] * 3 * PARTITIONS
    assert site.out.clocks() == [START, START + 5 * S]


@pytest.mark.parametrize("site", [TEN], indirect=True)
def test_everything_is_republished_every_hour(site: Site) -> None:
    """After an hour of the clock all records go out again."""
    site.tick(0)
    site.tick(3599)
    before = len(site.out.sent)
    site.tick(3600)
    assert [headers.record for _, _, headers, _ in site.out.sent[before:]].count("pod") == 11


@pytest.mark.parametrize("site", [TEN], indirect=True)
def test_watcher_that_begins_republishes_what_it_remembers(site: Site) -> None:
    """Watchers that never live an hour still let no record grow older than the meter reads back."""
    site.tick(0)
    memory = Memory()
    memory.pods, memory.nodes = site.out.pods(), site.out.nodes()
    site.watcher.close()
    site.watcher, before = site.new_watcher(memory), len(site.out.sent)
    site.tick(3000)
    assert [headers.record for _, _, headers, _ in site.out.sent[before:]].count("pod") == 11


@pytest.mark.parametrize("site", [STORY], indirect=True)
def test_story_is_told_whole(site: Site) -> None:
    """A pod of 2 s between two ticks, two restarts and a re-created name are all in the records."""
    for at_s in range(0, 80, 5):
        site.tick(at_s)
    pods = site.out.pods()
    runs = {
        uid: [(r.started_us - START, (r.finished_us or START) - START) for r in _runs(p)] for uid, p in pods.items()
    }
    assert runs["uid-short"] == [(11 * S, 13 * S)]
    assert pods["uid-short"].deleted_us == START + 15 * S
    assert runs["uid-restarts"] == [(2 * S, 22 * S), (22 * S, 42 * S), (42 * S, 62 * S)]
    assert runs["uid-a"] == [(3 * S, 20 * S)]
    assert pods["uid-a"].deleted_us == START + 25 * S
    assert runs["uid-b"] == [(23 * S, 0)]
    assert pods["uid-b"].deleted_us is None
    assert pods["uid-b"].containers[0].requests == {"nvidia.com/gpu": 1}


def _runs(pod: PodRecord) -> list[Run]:
    return [run for container in pod.containers for run in container.runs]


def _lives(site: Site) -> dict[str, tuple[list[Run], int | None]]:
    return {uid: (_runs(pod), pod.deleted_us) for uid, pod in site.out.pods().items()}


@pytest.mark.parametrize("site", [STORY], indirect=True)
@pytest.mark.parametrize("fault", ["drop_watches", "restart", "restart_without_history", "gone"])
def test_nothing_is_lost_over_a_fault_between_ticks(site: Site, fault: str) -> None:
    """Whatever happens to the watch between two ticks, the records at the end are the undisturbed ones."""
    for at_s in range(0, 80, 5):
        site.api.stop() if fault.startswith("restart") else site.api.drop_watches()
        site.api.advance(START + at_s * S)
        if fault in ("restart_without_history", "gone"):
            site.api.log.forget_history()
        if fault.startswith("restart"):
            site.api.start()
        site.tick(at_s)
    undisturbed = Site(STORY)
    for at_s in range(0, 80, 5):
        undisturbed.tick(at_s)
    undisturbed.api.stop()
    expected, got = _lives(undisturbed), _lives(site)
    if fault in ("restart_without_history", "gone"):
        # A run that came and went inside one gap of the history was told to nobody; the pod's deletion is known.
        assert expected["uid-short"] != got["uid-short"] == ([], START + 15 * S)
        del expected["uid-short"], got["uid-short"]
    assert got == expected
    assert len(site.out.clocks()) == 16


@pytest.mark.parametrize("site", [STORY], indirect=True)
def test_pod_missing_after_lost_history_is_deleted_at_the_relist(site: Site) -> None:
    """A pod deleted while history was lost gets the time of the new list as its deletion."""
    site.tick(0)
    site.tick(10)
    site.api.drop_watches()
    site.api.advance(START + 24 * S)
    site.api.log.forget_history()
    site.tick(30)
    assert site.out.pods()["uid-a"].deleted_us == START + 30 * S
    assert site.out.pods()["uid-b"].deleted_us is None


@pytest.mark.parametrize("site", [TEN], indirect=True)
def test_list_whose_token_expires_begins_again(site: Site) -> None:
    """A 410 between two chunks leads to a whole list, and nothing is taken for deleted."""
    expire = site.api.log.next_chunk
    calls = []

    def once_expired(token: str, limit: int) -> object:
        calls.append(token)
        if len(calls) == 2:
            site.api.log.forget_tokens()
        return expire(token, limit)

    site.api.log.next_chunk = once_expired  # type: ignore[assignment,method-assign]
    site.tick(0)
    assert len(site.out.pods()) == 11
    assert all(pod.deleted_us is None for pod in site.out.pods().values())


@pytest.mark.parametrize("site", [TEN], indirect=True)
def test_no_clock_while_the_server_is_away(site: Site) -> None:
    """A stopped, refusing or lying server gives Retry and no clock; when it is back the clock goes on."""
    site.tick(0)
    site.api.stop()
    with pytest.raises(Retry):
        site.tick(5)
    site.api.start()
    site.api.refuse_status = 503
    with pytest.raises(Retry, match="503"):
        site.tick(10)
    site.api.refuse_status = 0
    site.api.lost_patches = 1
    with pytest.raises(Retry, match="not back within"):
        site.tick(15)
    site.tick(20)
    assert site.out.clocks() == [START, START + 20 * S]


@pytest.mark.parametrize("site", [STORY], indirect=True)
def test_no_clock_before_records_are_acknowledged(site: Site) -> None:
    """While the broker is away or the queue full there is no clock, and what was on the way is published again."""
    site.tick(0)
    site.out.away = True
    with pytest.raises(Retry, match="away"):
        site.tick(15)
    site.out.away, site.out.full = False, True
    site.out.sent.clear()
    with pytest.raises(Retry, match="full"):
        site.tick(20)
    assert site.out.sent == []
    site.out.full = False
    site.tick(25)
    assert {"uid-short", "uid-a", "uid-b"} <= set(site.out.pods())
    assert site.out.clocks() == [START + 25 * S]


@pytest.mark.parametrize("site", [TEN], indirect=True)
def test_clock_never_goes_back(site: Site) -> None:
    """A wall clock set back is not asserted until it has passed the newest assertion."""
    site.tick(60)
    with pytest.raises(Retry, match="went back"):
        site.tick(30)
    site.tick(65)
    assert site.out.clocks() == [START + 60 * S, START + 65 * S]


@pytest.mark.parametrize("site", [TEN], indirect=True)
def test_run_goes_on_after_faults(site: Site) -> None:
    """The loop ticks every 5 s, backs off while the server refuses, and asserts again afterwards."""
    site.clock.end_us = START + 20 * S
    site.watcher.run()
    assert site.out.clocks() == [START + n * 5 * S for n in range(5)]
    site.api.refuse_status = 500
    site.clock.end_us = START + 60 * S
    site.watcher.run()
    assert len(site.out.clocks()) == 5
    assert site.watcher.retries == 6
    site.api.refuse_status = 0
    site.clock.end_us = START + 100 * S
    site.watcher.run()
    assert site.out.clocks()[-1] > START + 60 * S


def test_token_is_read_anew_and_refused_without(tmp_path: Path) -> None:
    """A rotated token works at the next call; a wrong one is Retry with the server's word."""
    token = tmp_path / "token"
    token.write_text("one\n")
    site = Site(TEN, token_file=str(token))
    site.api.token = "one"
    site.tick(0)
    site.api.token = "two"
    with pytest.raises(Retry, match="401"):
        site.tick(5)
    token.write_text("two\n")
    site.tick(10)
    site.watcher.close()
    site.api.stop()
    assert len(site.out.clocks()) == 2


def test_server_is_known_by_its_certificate(tmp_path: Path) -> None:
    """Over TLS the watcher works with the server's CA and refuses a server that another CA signed."""
    for name in ("right", "wrong"):
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        command += ["-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
        command += ["-keyout", str(tmp_path / f"{name}.key"), "-out", str(tmp_path / f"{name}.crt")]
        subprocess.run(command, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "right.crt", tmp_path / "right.key")
    site = Site(TEN, tls, ca_file=str(tmp_path / "right.crt"))
    site.tick(0)
    site.tick(5)
    site.watcher.close()
    site.settings["ca_file"] = str(tmp_path / "wrong.crt")
    site.watcher = site.new_watcher()
    with pytest.raises(Retry, match="CERTIFICATE"):
        site.tick(10)
    site.api.stop()
    assert len(site.out.clocks()) == 2


@pytest.mark.parametrize("site", [TEN], indirect=True)
def test_clock_counts_only_when_acknowledged(site: Site) -> None:
    """A clock that the broker did not acknowledge is not taken for asserted."""
    site.tick(0)
    site.out.away = True
    with pytest.raises(Retry, match="away"):
        site.tick(5)
    assert site.watcher.asserted_us == START
