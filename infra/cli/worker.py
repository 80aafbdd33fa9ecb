"""`gpumeter worker`: runs one streaming worker. Shell of stream_jobs/worker.py.

Tested in tests/integration/test_worker.py.
"""

from typing import Annotated

import typer

Brokers = Annotated[
    str | None, typer.Option(envvar="GPUMETER_BOOTSTRAP_SERVERS", help="Broker addresses. Default 127.0.0.1:9092.")
]
Group = Annotated[str | None, typer.Option(envvar="GPUMETER_WORKER_GROUP", help="Consumer group. Default gpumeter.")]
Instance = Annotated[
    str | None,
    typer.Option(envvar="GPUMETER_WORKER_INSTANCE", help="Slot name (static membership), so that a restart is quick."),
]
SimulatedTime = Annotated[
    bool | None,
    typer.Option("--simulated-time/--real-time", envvar="GPUMETER_SIMULATED_TIME", help="Event time is simulated."),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(envvar="GPUMETER_WORKER_METRICS_PORT", help="Port of /metrics, /healthz, /readyz; 0 or absent: none."),
]
ProgressSeconds = Annotated[
    float | None,
    typer.Option(envvar="GPUMETER_WORKER_PROGRESS_S", help="Seconds between progress records. Default 10."),
]


def worker(
    bootstrap_servers: Brokers = None,
    group: Group = None,
    instance: Instance = None,
    simulated_time: SimulatedTime = None,
    metrics_port: MetricsPort = None,
    progress_s: ProgressSeconds = None,
) -> None:
    """Meter: read the input topics, close windows, publish them to gpu-usage; until SIGTERM.

    Start as many as you like, up to the partition count; they share the partitions. A worker keeps nothing on disk: a
    restart goes on from the progress in Kafka. More settings (environment only): GPUMETER_WORKER_WINDOW_S,
    _LATENESS_S, _STEP_S, _STATUS_S, _BUFFER_MESSAGES, _HEALTH_S, _METRICS_ADDRESS, and GPUMETER_CLOCK_KEY.

    Example: gpumeter worker --bootstrap-servers 127.0.0.1:9092
    """
    from stream_jobs import log
    from stream_jobs.errors import Stop
    from stream_jobs.settings import SettingsError, load_settings
    from stream_jobs.worker import Worker

    try:
        settings = load_settings(
            bootstrap_servers=bootstrap_servers,
            group=group,
            instance=instance,
            simulated_time=simulated_time,
            metrics_port=metrics_port,
            progress_s=progress_s,
        )
    except SettingsError as error:
        typer.echo(f"gpumeter worker: {error}", err=True)
        raise typer.Exit(2) from error
    log.configure()
    try:
        process = Worker(settings)
    except Stop as error:
        typer.echo(f"gpumeter worker: {error}", err=True)
        raise typer.Exit(4) from error
    code = process.run()
    raise typer.Exit(0 if code == 0 else 3)
