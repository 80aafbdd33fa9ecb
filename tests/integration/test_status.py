"""`gpumeter status` over a real pipeline: well, wrong in one place after the other, and without its broker."""

from pathlib import Path

import pytest

from infra.broker.kafka import LocalKafka
from infra.broker.ports import free_ports
from infra.broker.topics import apply
from schemas.names import DEAD_LETTERS, GPU_SAMPLES, GPU_USAGE
from tests.integration import fleet, harness
from tests.integration.pages import gpumeter, gpumeter_json, wait_ready
from tests.integration.sinks import SinkProcess

pytestmark = pytest.mark.needs_broker


@pytest.mark.slow
def test_status_names_what_is_behind_or_wrong(own_kafka: LocalKafka, tmp_path: Path) -> None:
    """All well is 0 with every figure; refused records, a sink and a worker that are gone are each named, with 1."""
    kafka = own_kafka.bootstrap
    apply(kafka, partitions=2)
    worker_port, sink_port = free_ports(2)
    worker = harness.WorkerProcess(kafka, tmp_path / "worker.log", GPUMETER_WORKER_METRICS_PORT=str(worker_port))
    sink = SinkProcess(kafka, tmp_path / "ledger", "--metrics-port", str(sink_port))
    fleet.publish(kafka, fleet.messages(4, 5, 2))
    for port, explain in ((worker_port, worker.tail), (sink_port, sink.text)):
        wait_ready(port, explain)
    asked = [
        "status", "--bootstrap-servers", kafka, "--directory", str(tmp_path / "ledger"),
        "--metrics", f"127.0.0.1:{worker_port}", "--metrics", f"127.0.0.1:{sink_port}",
    ]  # fmt: skip
    harness.wait_until(lambda: bool(sink.status().get("rows")), 30, sink.text)
    code, well = gpumeter_json(*asked)
    assert (code, well["findings"], well["healthy"]) == (0, [], True), well
    topics = {(row["topic"], row["partition"]): row for row in well["topics"]}
    assert topics[GPU_SAMPLES, 0]["records"] > 0
    assert all(row["newest_age_s"] < 60 for key, row in topics.items() if key[0] == GPU_SAMPLES)
    assert well["dead_letters"] == 0
    assert well["ledger"]["state"] == "running"
    kinds = {process["process"]: process for process in well["processes"]}
    assert kinds["worker"]["ready"] and kinds["worker"]["figures"]["violations"] == 0
    assert kinds["sink"]["figures"]["rows"] > 0
    code, text, _ = gpumeter(*asked)
    assert code == 0
    assert "all well" in text and GPU_USAGE in text and "workers: gpumeter 1" in text

    fleet.publish(kafka, [fleet.Sent(GPU_SAMPLES, 0, b"k", [], b"garbage")] * 2)
    harness.wait_until(lambda: bool(harness.read_all(kafka, [DEAD_LETTERS])), 20, worker.tail)
    code, refused = gpumeter_json(*asked)
    assert (code, refused["dead_letters"]) == (1, 2)
    assert [finding for finding in refused["findings"] if "2 dead letters" in finding]

    assert worker.terminate() == 0
    assert sink.end() == 0
    code, gone = gpumeter_json(*asked)
    assert code == 1
    found = "\n".join(gone["findings"])
    for word in ("no worker is in group gpumeter", "no sink answers", f"127.0.0.1:{worker_port} does not answer"):
        assert word in found
    code, text, _ = gpumeter(*asked)
    assert code == 1 and "! no worker is in group gpumeter" in text

    own_kafka.stop()
    code, _, said = gpumeter("status", "--bootstrap-servers", kafka)
    assert code == 3 and "does not answer" in said


def test_status_of_an_empty_broker_says_what_is_missing(own_kafka: LocalKafka) -> None:
    """Without topics every one of them is named with the command that makes it, and nothing else is asked."""
    code, answer = gpumeter_json("status", "--bootstrap-servers", own_kafka.bootstrap)
    assert code == 1
    assert sum("gpumeter topics apply" in finding for finding in answer["findings"]) == 5
    assert answer["topics"] == []
