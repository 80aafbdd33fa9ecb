"""What the peers are given and judged by, against a slow count of it."""

import json
from collections import Counter

from infra.bench.peers.samples import SECONDS, START_MS, WINDOW_S, Sums, found, samples, samples_in_all, shape_of, truth
from infra.bench.shape import CLUSTER, GPUS_A_NODE
from schemas.ids import partition_of


def test_truth_is_the_count_of_the_samples() -> None:
    """The sums that a peer must find are those of its own topic's samples, counted one by one."""
    shape = shape_of(2)
    records = [json.loads(payload) for _, _, payload in samples(shape)]
    assert len(records) == samples_in_all(shape) == SECONDS * 2 * GPUS_A_NODE * shape.processes
    first = [record for record in records if record["ts"] < START_MS + WINDOW_S * 1000]
    assert truth(shape) == Sums(len(first), sum(record["sm_util"] for record in first))
    assert truth(shape).points > 0


def test_samples_of_a_pod_stay_on_its_nodes_partition() -> None:
    """Key is the pod, partition the node's: a job keyed by pod needs no second shuffle; times never go back."""
    last = 0
    for partition, key, payload in samples(shape_of(2)):
        record = json.loads(payload)
        assert record["pod"].encode() == key
        assert partition == partition_of(CLUSTER, record["node"], 4)
        assert record["ts"] >= last
        last = record["ts"]


def test_every_pod_has_its_share_of_the_samples() -> None:
    """Each pod of a GPU has as many samples as it has processes, each second."""
    shape = shape_of(1)
    pods = Counter(key for _, key, _ in samples(shape))
    assert len(pods) == GPUS_A_NODE * shape.pods
    assert set(pods.values()) == {SECONDS * shape.processes // shape.pods}


def test_only_the_first_window_of_an_output_counts() -> None:
    """Later windows, which no peer can close in full, are left out."""
    rows = [{"w": START_MS, "n": 3, "s": 50}, {"w": START_MS + 60_000, "n": 9, "s": 9}, {"w": START_MS, "n": 1, "s": 7}]
    assert found(json.dumps(row).encode() for row in rows) == Sums(4, 57)
