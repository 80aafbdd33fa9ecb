"""Memory and CPU of the node agent: `python -m infra.bench.collector`.

The agent is a process of its own at its default cadences in real time, with a real broker, a simulated /proc, cgroup
tree and kubelet socket of a node with 8 GPUs and 80 processes, and a replayed driver whose own time is subtracted.
Writes build/bench-collector.json. Targets: 45 MiB, 0.5 % of a core.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra.bench.usage import usage_of
from infra.broker import topics
from infra.broker.kafka import LocalKafka
from infra.sim.filesystem import NodeFiles
from infra.sim.model import SimCluster
from infra.sim.podresources import PodResourcesServer
from infra.sim.scenario import load_cluster

TARGET_MIB, TARGET_PCT = 45.0, 0.5
WARM_UP_S = 12
RESULT = Path("build/bench-collector.json")


def measure(seconds: int, metrics_port: int = 0) -> dict[str, float | int | str]:
    """Runs the agent and measures it for `seconds` after it has warmed up."""
    now_us = time.time_ns() // 1000
    cluster, _ = load_cluster("bench", start_us=now_us)
    node = cluster.nodes[0]
    with tempfile.TemporaryDirectory(prefix="gpumeter-bench-") as folder, LocalKafka(Path(folder, "kafka")) as kafka:
        topics.apply(kafka.bootstrap)
        files = NodeFiles(cluster, node)
        kubelet = PodResourcesServer(cluster, node.name, files.root / "kubelet.sock", lambda: now_us + 1_000_000)
        try:
            files.advance(now_us + 1_000_000)
            kubelet.start()
            return _run_agent(cluster, files, kafka.bootstrap, Path(folder), seconds, metrics_port)
        finally:
            kubelet.stop()
            files.close()


def _run_agent(
    cluster: SimCluster, files: NodeFiles, bootstrap: str, folder: Path, seconds: int, metrics_port: int
) -> dict[str, float | int | str]:
    gpus = _gpus(cluster)
    (folder / "gpus.json").write_text(json.dumps(gpus))
    settings = {
        "GPUMETER_CLUSTER": cluster.name,
        "GPUMETER_NODE": cluster.nodes[0].name,
        "GPUMETER_BOOTSTRAP_SERVERS": bootstrap,
        "GPUMETER_PROC_PATH": str(files.proc_path),
        "GPUMETER_CGROUP_PATH": str(files.cgroup_path),
        "GPUMETER_KUBELET_SOCKET": str(files.root / "kubelet.sock"),
        "GPUMETER_SPOOL_PATH": str(folder / "spool"),
        "GPUMETER_METRICS_PORT": str(metrics_port),
    }
    figures = _measure_process(folder, _environment(folder) | settings, seconds)
    return figures | {
        "metrics_port": metrics_port,
        "seconds": seconds,
        "gpus": len(gpus),
        "processes": sum(len(gpu["pids"]) for gpu in gpus),
        "target_cpu_pct_of_core": TARGET_PCT,
        "target_rss_mib": TARGET_MIB,
    }


def _gpus(cluster: SimCluster) -> list[dict[str, Any]]:
    """UUID and pids of each GPU, for the replayed driver."""
    processes = [process for pod in cluster.pods for container in pod.containers for process in container.processes]
    return [
        {"uuid": gpu.uuid, "pids": [process.pid for process in processes if process.gpu_uuid == gpu.uuid]}
        for gpu in cluster.nodes[0].gpus
    ]


def _measure_process(folder: Path, environment: dict[str, str], seconds: int) -> dict[str, float | int | str]:
    """Starts the agent, lets it warm up, and takes its CPU time and memory over `seconds`."""
    command = [sys.executable, "-m", "infra.bench.agent_process", str(folder / "gpus.json"), str(folder / "spent.json")]
    # As installed: with bytecode, which a first import writes.
    subprocess.run(
        [sys.executable, "-c", "import infra.bench.agent_process, prometheus_client"], env=environment, check=True
    )
    agent = subprocess.Popen(command, env=environment)
    try:
        begin = time.monotonic()
        time.sleep(WARM_UP_S)
        warm, warm_at = usage_of(agent.pid), time.monotonic()
        time.sleep(seconds)
        end, end_at = usage_of(agent.pid), time.monotonic()
        agent.send_signal(signal.SIGTERM)
        if agent.wait(30) != 0:
            raise RuntimeError(f"the agent ended with exit code {agent.returncode}")
    finally:
        if agent.poll() is None:
            agent.kill()
            agent.wait()
    spent_pct = json.loads((folder / "spent.json").read_text())["spent_ns"] / 1e7 / (end_at - begin)
    gross_pct = (end.cpu_s - warm.cpu_s) / (end_at - warm_at) * 100
    return {
        "cpu_pct_of_core": round(gross_pct - spent_pct, 3),
        "rss_mib": round(end.rss_mib, 1),
        "peak_rss_mib": round(end.peak_mib, 1),
        "cpu_pct_with_driver": round(gross_pct, 3),
        "driver_pct_of_core": round(spent_pct, 3),
    }


def _environment(folder: Path) -> dict[str, str]:
    """This process's environment without settings of ours, and a place for bytecode."""
    given = os.environ  # noqa: TID251 it is passed on, not read
    kept = {name: value for name, value in given.items() if not name.startswith(("GPUMETER_", "PYTHONDONTWRITE"))}
    return kept | {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints and writes the result; 0 whether or not the targets are met, which the result says."""
    parser = argparse.ArgumentParser(prog="infra.bench.collector", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="length of the measurement (default 60)")
    parser.add_argument("--out", type=Path, default=RESULT, help=f"where the result goes (default {RESULT})")
    parser.add_argument("--metrics-port", type=int, default=0, help="measure with metrics served (8 MiB more)")
    options = parser.parse_args(argv)
    result = measure(options.seconds, options.metrics_port)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    sys.stdout.write(
        f"node agent, {result['gpus']} GPUs, {result['processes']} processes, {result['seconds']} s, default cadences\n"
        f"  memory   {result['rss_mib']} MiB   (target {TARGET_MIB:g} MiB)\n"
        f"  CPU      {result['cpu_pct_of_core']} % of a core   (target {TARGET_PCT:g} %; "
        f"replayed driver {result['driver_pct_of_core']} % subtracted)\n"
        f"  written to {options.out}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
