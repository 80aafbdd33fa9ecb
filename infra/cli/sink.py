"""`gpumeter sink`: closed windows from Kafka into the ledger. Composition root of the sink; decides nothing.

Tested in tests/integration/test_sink.py.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.cli.options import SINK_GROUP
from schemas.health import LONGEST_TURN_S

if TYPE_CHECKING:
    from infra.front.server import Front
    from stream_jobs.ledger import Ledger
    from stream_jobs.live_sink import LiveCounts
    from stream_jobs.sink import Sink
    from stream_jobs.sink_page import SinkPage

_LIVE_PATIENCE_S = 5.0

Brokers = Annotated[
    str, typer.Option(envvar="GPUMETER_BOOTSTRAP_SERVERS", help="Broker addresses, host:port, comma between them.")
]
Url = Annotated[
    str | None,
    typer.Option(
        envvar="GPUMETER_CLICKHOUSE_URL",
        help="A ClickHouse server, http(s)://user:password@host:port/database. Without it: the embedded engine.",
    ),
]
Directory = Annotated[
    Path, typer.Option(envvar="GPUMETER_LEDGER_DIRECTORY", help="Directory of the embedded ledger; made if absent.")
]
Port = Annotated[
    int,
    typer.Option(
        min=0, max=65535, envvar="GPUMETER_FRONT_PORT", help="Port of the embedded engine's front on 127.0.0.1; 0: any."
    ),
]
FlushSeconds = Annotated[float, typer.Option(min=0.01, envvar="GPUMETER_SINK_FLUSH_S", help="Longest time rows wait.")]
FlushRows = Annotated[int, typer.Option(min=1, envvar="GPUMETER_SINK_FLUSH_ROWS", help="Rows of a block.")]
FromBeginning = Annotated[
    bool, typer.Option("--from-beginning", help="Read the whole topic again; rows that are there stay as they are.")
]
AcceptLoss = Annotated[
    bool, typer.Option("--accept-loss", help="Go on where messages left the log before they reached the ledger.")
]
MetricsPort = Annotated[
    int,
    typer.Option(
        min=0, max=65535, envvar="GPUMETER_SINK_METRICS_PORT", help="Port of /metrics, /healthz, /readyz; 0: none."
    ),
]
MetricsAddress = Annotated[
    str, typer.Option(envvar="GPUMETER_SINK_METRICS_ADDRESS", help="Address of that port; probes need the pod's.")
]
HealthSeconds = Annotated[
    float,
    typer.Option(min=0.1, envvar="GPUMETER_SINK_HEALTH_S", help="A loop that has not turned so long is unhealthy."),
]
ReadyLagSeconds = Annotated[
    float,
    typer.Option(min=0.0, envvar="GPUMETER_SINK_READY_LAG_S", help="Ready only so close to the end of gpu-usage."),
]

TakesLive = Annotated[
    bool, typer.Option("--live/--no-live", envvar="GPUMETER_SINK_LIVE", help="Take provisional figures too.")
]


def sink(
    bootstrap_servers: Brokers = "127.0.0.1:9092",
    url: Url = None,
    directory: Directory = Path("build/demo/ledger"),
    port: Port = 0,
    flush_s: FlushSeconds = 0.5,
    flush_rows: FlushRows = 50_000,
    from_beginning: FromBeginning = False,
    accept_loss: AcceptLoss = False,
    metrics_port: MetricsPort = 0,
    metrics_address: MetricsAddress = "127.0.0.1",
    health_s: HealthSeconds = LONGEST_TURN_S,
    ready_lag_s: ReadyLagSeconds = 60.0,
    takes_live: TakesLive = True,
) -> None:
    """Write closed windows from gpu-usage into the ledger, until SIGTERM.

    With --url the tables must be there (gpumeter migrate). Else the ledger is the ClickHouse engine embedded in this
    process, brought to this version at start; while it runs, `gpumeter sql` and any ClickHouse client can ask it by the
    URL in DIRECTORY/front.json. What can never be a row goes to dead-letters. Where to go on is kept in the ledger, so
    a kill at any moment loses and doubles nothing.

    Example: gpumeter sink --bootstrap-servers 127.0.0.1:9092 --directory build/demo/ledger
    """
    from infra.clickhouse.migrate import MigrationError
    from stream_jobs import log
    from stream_jobs.errors import Stop
    from stream_jobs.ledger import LedgerError, NoLedger
    from stream_jobs.sink_page import SinkPage

    log.configure()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    page = SinkPage(health_s=health_s, ready_lag_s=ready_lag_s)
    try:
        if metrics_port:
            page.serve(metrics_address, metrics_port)
        ledger = _ready_ledger(url, directory)
        try:
            options = {"flush_s": flush_s, "flush_rows": flush_rows}
            start = {"from_beginning": from_beginning, "accept_loss": accept_loss}
            with _live(bootstrap_servers, url, directory, stop) if takes_live else nullcontext() as live:
                _run(ledger, bootstrap_servers, None if url else directory, port, start, options, page, live, stop)
        finally:
            ledger.close()
    except (Stop, MigrationError, LedgerError, ValueError, OSError) as error:
        typer.echo(f"gpumeter sink: {error}", err=True)
        code = {NoLedger: 3, Stop: 4, OSError: 3}.get(type(error), 2)
        raise typer.Exit(code) from error


def _ready_ledger(url: str | None, directory: Path) -> "Ledger":
    from infra.clickhouse import migrate
    from stream_jobs.ledger import open_ledger

    ledger = open_ledger(url=url) if url else open_ledger(directory=directory, create=True)
    try:
        if not url:
            migrate.apply(ledger, migrate.load())
        missing = [state.name for state in migrate.status(ledger, migrate.load()) if not state.applied]
        if missing:
            raise migrate.MigrationError(
                f"{ledger.place} lacks {', '.join(missing)}; run `gpumeter migrate --url ...` first"
            )
    except BaseException:
        ledger.close()
        raise
    return ledger


def _run(
    ledger: "Ledger",
    bootstrap_servers: str,
    embedded: Path | None,
    port: int,
    start: dict[str, bool],
    options: dict[str, Any],
    page: "SinkPage",
    live: "LiveCounts | None",
    stop: threading.Event,
) -> None:
    from schemas.names import GPU_USAGE
    from stream_jobs import log
    from stream_jobs.publish import Publisher
    from stream_jobs.sink import Sink, SinkSettings, next_offsets
    from stream_jobs.usage_reader import UsageReader

    logger = log.logger("sink")
    reader = UsageReader(bootstrap_servers, GPU_USAGE, SINK_GROUP)
    try:
        topic_id = reader.topic_id()
        known = {} if start["from_beginning"] else next_offsets(ledger, GPU_USAGE, topic_id)
        starts = reader.start(known, accept_loss=start["accept_loss"])
        settings = SinkSettings(topic=GPU_USAGE, topic_id=topic_id, **options)
        process = Sink(reader, ledger, Publisher(bootstrap_servers, SINK_GROUP), settings)
        process.begin({begin.partition: begin.offset for begin in starts})
        for begin in starts:
            logger.info("starts", topic=GPU_USAGE, partition=begin.partition, offset=begin.offset, why=begin.why)
        page.attach(process, live)
        front = _open_front(embedded, process, port) if embedded else None
        logger.info("ready", ledger=ledger.place, front=front.url if front else None)
        try:
            process.run(stop)
        finally:
            if front and embedded:
                _close_front(embedded, front)
        logger.info("stopped", **process.status())
    finally:
        reader.close()


@contextmanager
def _live(bootstrap_servers: str, url: str | None, directory: Path, stop: threading.Event) -> "Iterator[LiveCounts]":
    """Takes provisional figures meanwhile, over a connection of its own."""
    from schemas.names import GPU_LIVE
    from stream_jobs.ledger import open_ledger
    from stream_jobs.live_sink import LiveSink
    from stream_jobs.usage_reader import UsageReader

    reader = UsageReader(bootstrap_servers, GPU_LIVE, f"{SINK_GROUP}-live")
    live = LiveSink(reader, lambda: open_ledger(url=url) if url else open_ledger(directory=directory))
    thread = live.start(stop)
    try:
        yield live.counts
    finally:
        stop.set()
        thread.join(_LIVE_PATIENCE_S)
        if not thread.is_alive():
            reader.close()


def _open_front(directory: Path, process: "Sink", port: int) -> "Front":
    from infra.front.engine import Engine
    from infra.front.place import announce, own_pid
    from infra.front.server import Front
    from stream_jobs.ledger import ENGINE

    front = Front(Engine(directory / ENGINE), process.status, port=port)
    front.start()
    announce(directory, front.url, own_pid())
    return front


def _close_front(directory: Path, front: "Front") -> None:
    from infra.front.place import own_pid, withdraw

    withdraw(directory, own_pid())
    front.stop()
