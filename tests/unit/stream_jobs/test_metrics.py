from stream_jobs.metrics import _Gauges


def test_gauges_carry_partition_and_value() -> None:
    """Every number of every partition becomes one gauge sample, labelled with its partition."""
    gauges = _Gauges("gpumeter_worker", lambda: {0: {"rows": 5}, 3: {"rows": 7, "nodes": 1}})
    samples = {(s.name, s.labels["partition"], s.value) for family in gauges.collect() for s in family.samples}
    assert samples == {
        ("gpumeter_worker_rows", "0", 5.0),
        ("gpumeter_worker_rows", "3", 7.0),
        ("gpumeter_worker_nodes", "3", 1.0),
    }
