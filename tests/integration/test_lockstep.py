"""The whole simulation against a real broker: API endpoint, nodes with the real agent, the real watcher."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from infra.broker import topics
from infra.broker.kafka import LocalKafka
from infra.sim.lockstep import RUN_ON_US, Simulation, SimulationPlan, aligned_start_us
from infra.sim.member import Member, SimulationError
from schemas.headers import CLOCK, READING, Headers, decode_headers
from schemas.names import GPU_SAMPLES, INPUT_TOPICS, POD_EVENTS, POD_MAPPINGS

START_US = aligned_start_us(1_795_000_000_000_000)
PARTITIONS = 2


def messages(bootstrap: str, topic: str) -> list[Headers]:
    """Headers of everything on a topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found, ends = [], 0
    while ends < PARTITIONS:
        message = consumer.poll(10)
        assert message is not None, f"{topic} was not read to its end"
        if message.error():
            ends += 1
        else:
            found.append(decode_headers(message.headers()))
    consumer.close()
    return found


@pytest.mark.needs_broker
def test_simulation_moves_everyone_to_the_end(own_kafka: LocalKafka, tmp_path: Path) -> None:
    """Fifteen minutes: every reading and clock record is on the broker, the truth is whole, nothing is left behind."""
    topics.apply(own_kafka.bootstrap, partitions=PARTITIONS, replication=1)
    steps: list[int] = []
    with Simulation(SimulationPlan(own_kafka.bootstrap, tmp_path, START_US, scenario="host-process")) as simulation:
        pids = [member.process.pid for member in simulation.members()]
        simulation.run(steps.append)
        end_us = simulation.end_us
    assert steps == sorted(steps) and steps[-1] == end_us + RUN_ON_US
    readings = [headers for headers in messages(own_kafka.bootstrap, GPU_SAMPLES) if headers.record == READING]
    assert len(readings) == 900 // 5 + 1 and [headers.seq for headers in readings] == list(range(1, 182))
    assert end_us - 1_000_000 < readings[-1].complete_to_us <= end_us
    for topic in INPUT_TOPICS:
        clocks = Counter(headers.record for headers in messages(own_kafka.bootstrap, topic))[CLOCK]
        assert clocks == PARTITIONS * ((900 + 480) // 5 + 1)
    assert {headers.record for headers in messages(own_kafka.bootstrap, POD_MAPPINGS)} == {"snapshot", CLOCK}
    assert {headers.record for headers in messages(own_kafka.bootstrap, POD_EVENTS)} == {"pod", "node", CLOCK}
    truth = [json.loads(line) for line in (tmp_path / "truth-node-1.jsonl").read_text().splitlines()]
    assert len({row["window_start_us"] for row in truth}) == 15
    assert {row["pod_name"] for row in truth} == {"tenant", "host"}
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids) and not simulation.files.exists()


@pytest.mark.needs_broker
def test_live_simulation_runs_in_real_time(kafka: str, tmp_path: Path) -> None:
    """Live, the same processes follow the machine's clock: after some seconds there are readings of now."""
    from infra.sim.clock import wall_us

    topics.apply(kafka, partitions=PARTITIONS, replication=1)
    begin_us = wall_us()
    plan = SimulationPlan(kafka, tmp_path, begin_us, scenario="time-slicing", live=True, hours=1)
    with Simulation(plan) as simulation:
        while wall_us() < begin_us + 12_000_000:
            simulation.check()
            simulation.pause(0.5)
    mine = [headers for headers in messages(kafka, GPU_SAMPLES) if headers.record == READING]
    assert len(mine) >= 2 and begin_us < mine[-1].complete_to_us < wall_us()


@pytest.mark.needs_broker
def test_simulation_tells_which_process_died(kafka: str, tmp_path: Path) -> None:
    """A node that is killed ends the run with an error that names it, and nobody is left."""
    topics.apply(kafka, partitions=PARTITIONS, replication=1)
    simulation = Simulation(SimulationPlan(kafka, tmp_path, START_US, scenario="host-process"))
    with pytest.raises(SimulationError, match=r"node-1 ended with exit code -9[\s\S]*node-1\.log"), simulation:
        members = simulation.members()
        simulation.nodes["node-1"].process.kill()
        simulation.run()
    assert all(member.process.poll() is not None for member in members)


def test_member_that_says_nonsense_is_an_error(tmp_path: Path) -> None:
    """An answer that is no JSON object, and none at all, are errors with the log's end."""
    member = Member("zen", "this", [], tmp_path / "zen.log")
    with pytest.raises(SimulationError, match="zen said b'The Zen"):
        member.answer()
    member.finish()
    missing = Member("missing", "infra.sim.no_such_module", [], tmp_path / "missing.log")
    with pytest.raises(SimulationError, match=r"missing ended with exit code 1[\s\S]*no_such_module"):
        missing.answer()
    missing.finish()


def test_simulate_lists_and_refuses() -> None:
    """`gpumeter simulate` lists the scenarios; a scenario that is not there is exit code 2 with the names."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "infra.cli.main", "simulate", *arguments]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, env=dict(os.environ))

    listed = run("--json")
    assert listed.returncode == 0 and "time-slicing" in {row["name"] for row in json.loads(listed.stdout)}
    refused = run("nonsense")
    assert refused.returncode == 2 and "time-slicing" in refused.stderr
