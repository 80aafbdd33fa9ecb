"""`gpumeter watcher`: pods, nodes and the clock of one cluster to Kafka. Shell of collector/watcher.

Decides nothing; signals end the clock, the clock ends the watcher. Tested in tests/integration/test_watcher_cli.py.
"""

from collections.abc import Mapping
from typing import Annotated

import typer


def watcher(
    cluster: Annotated[str, typer.Option(envvar="GPUMETER_CLUSTER", help="Name of the cluster.")],
    bootstrap_servers: Annotated[str, typer.Option(envvar="GPUMETER_BOOTSTRAP_SERVERS", help="Kafka, host:port,...")],
    pod_namespace: Annotated[str, typer.Option(envvar="GPUMETER_POD_NAMESPACE", help="Namespace of its own pod.")],
    pod_name: Annotated[
        str, typer.Option(envvar="GPUMETER_POD_NAME", help="Its own pod; an annotation on it proves the clock.")
    ],
    api_url: Annotated[
        str, typer.Option(envvar="GPUMETER_API_URL", help="API server.")
    ] = "https://kubernetes.default.svc",
    token_file: Annotated[
        str | None, typer.Option(envvar="GPUMETER_TOKEN_FILE", help="Bearer token; default: the service account's.")
    ] = None,
    ca_file: Annotated[
        str | None, typer.Option(envvar="GPUMETER_CA_FILE", help="The API server's CA; default: the service account's.")
    ] = None,
    clock_key: Annotated[
        str, typer.Option(envvar="GPUMETER_CLOCK_KEY", help="Signs clock records. Empty: unsigned.", show_default=False)
    ] = "",
    kafka_options: Annotated[
        str, typer.Option(envvar="GPUMETER_KAFKA_OPTIONS", help="JSON object of librdkafka options.")
    ] = "{}",
    metrics_port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, envvar="GPUMETER_METRICS_PORT", help="Port of /metrics, /healthz, /readyz; 0: none."
        ),
    ] = 0,
    metrics_address: Annotated[
        str, typer.Option(envvar="GPUMETER_METRICS_ADDRESS", help="Address of that port; probes need the pod's.")
    ] = "127.0.0.1",
) -> None:
    """Watch pods and nodes of a cluster and publish them, and the clock, to Kafka; until SIGTERM.

    One for each cluster. It needs get, list and watch on pods and nodes, and patch on its own pod. While the API
    server or Kafka is away no clock goes out, so no window closes on half a picture.

    Example: gpumeter watcher --cluster east --bootstrap-servers kafka:9092 --pod-namespace meter --pod-name watcher-0
    """
    files = {"token_file": token_file, "ca_file": ca_file}
    own = {"cluster": cluster, "bootstrap_servers": bootstrap_servers, "pod_namespace": pod_namespace}
    rest = {"pod_name": pod_name, "api_url": api_url, "clock_key": clock_key}
    page = {"metrics_port": metrics_port, "metrics_address": metrics_address}
    _run({**own, **rest, **page, **{name: path for name, path in files.items() if path is not None}}, kafka_options)


def _run(values: Mapping[str, object], kafka_options: str) -> None:
    import logging
    import signal

    import msgspec

    from collector.clock import SystemClock
    from collector.watcher.app import build_watcher
    from collector.watcher.settings import WatcherSettings

    clock = SystemClock()
    try:
        options = msgspec.json.decode(kafka_options)
        settings = msgspec.convert({**values, "kafka_options": options}, WatcherSettings)
        process = build_watcher(settings, clock)
    except (ValueError, OSError) as error:
        typer.echo(f"gpumeter watcher: settings cannot be used: {error}", err=True)
        raise typer.Exit(2) from error
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: clock.stop())
    process.run()
