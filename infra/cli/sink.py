"""`gpumeter sink`: closed windows from Kafka into the ledger. Composition root of the sink; decides nothing.

Tested in tests/integration/test_sink.py.
"""

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from infra.front.server import Front
    from stream_jobs.ledger import Ledger
    from stream_jobs.sink import Sink

_GROUP = "gpumeter-sink"


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


def sink(
    bootstrap_servers: Brokers = "127.0.0.1:9092",
    url: Url = None,
    directory: Directory = Path("build/demo/ledger"),
    port: Port = 0,
    flush_s: FlushSeconds = 0.5,
    flush_rows: FlushRows = 50_000,
    from_beginning: FromBeginning = False,
    accept_loss: AcceptLoss = False,
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

    log.configure()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        ledger = _ready_ledger(url, directory)
        try:
            options = {"flush_s": flush_s, "flush_rows": flush_rows}
            _run(
                ledger, bootstrap_servers, None if url else directory, port, from_beginning, accept_loss, options, stop
            )
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
    from_beginning: bool,
    accept_loss: bool,
    options: dict[str, Any],
    stop: threading.Event,
) -> None:
    from schemas.names import GPU_USAGE
    from stream_jobs import log
    from stream_jobs.publish import Publisher
    from stream_jobs.sink import Sink, SinkSettings, next_offsets
    from stream_jobs.usage_reader import UsageReader

    logger = log.logger("sink")
    reader = UsageReader(bootstrap_servers, GPU_USAGE, _GROUP)
    try:
        topic_id = reader.topic_id()
        known = {} if from_beginning else next_offsets(ledger, GPU_USAGE, topic_id)
        starts = reader.start(known, accept_loss=accept_loss)
        settings = SinkSettings(topic=GPU_USAGE, topic_id=topic_id, **options)
        process = Sink(reader, ledger, Publisher(bootstrap_servers, _GROUP), settings)
        process.begin({start.partition: start.offset for start in starts})
        for start in starts:
            logger.info("starts", topic=GPU_USAGE, partition=start.partition, offset=start.offset, why=start.why)
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
