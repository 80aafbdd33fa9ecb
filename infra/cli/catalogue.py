"""Which subcommands `gpumeter` has, where each lives, and which extra installs what it needs.

Data, and the one function that imports by name: nothing is imported until a subcommand is called, so `--help` stays
fast and a node with one extra can run what that extra is for. Tested in tests/unit/infra/test_cli_main.py.
"""

import importlib
from typing import Any, NamedTuple


class Subcommand(NamedTuple):
    """`target` is `module:attribute`; `help` is its line in the main help; `extra` is what installs its libraries."""

    target: str
    help: str
    extra: str
    panel: str


_RUN, _LEDGER, _OPERATE, _TRY = "Meter", "Ask the ledger", "Operate", "Try it on this machine"

SUBCOMMANDS = {
    "demo": Subcommand("infra.cli.demo:demo", "The whole meter on a simulated cluster, with the truth.", "local", _TRY),
    "accuracy": Subcommand("infra.cli.accuracy:accuracy", "Our error beside that of the usual methods.", "local", _TRY),
    "simulate": Subcommand("infra.cli.simulate:simulate", "Play a scenario against a broker.", "local", _TRY),
    "kafka": Subcommand(
        "infra.cli.kafka:app", "A real Apache Kafka on this machine, without Java or Docker.", "local", _TRY
    ),
    "sql": Subcommand("infra.cli.sql:sql", "Ask the ledger in SQL.", "jobs", _LEDGER),
    "top": Subcommand("infra.cli.top:top", "Who uses the GPUs now.", "jobs", _LEDGER),
    "audit": Subcommand("infra.cli.audit:audit", "The ledger's laws, or its checksum.", "jobs", _LEDGER),
    "collector": Subcommand(
        "collector.cli:main", "The node agent: NVML, processes and grants to Kafka.", "collector", _RUN
    ),
    "watcher": Subcommand("infra.cli.watcher:watcher", "Pods, nodes and the clock to Kafka.", "watcher", _RUN),
    "worker": Subcommand("infra.cli.worker:worker", "Kafka to closed windows: join, attribute, publish.", "jobs", _RUN),
    "sink": Subcommand("infra.cli.sink:sink", "Closed windows to ClickHouse.", "jobs", _RUN),
    "doctor": Subcommand(
        "collector.doctor.cli:main", "What is wrong on this node, its cost in truth, the fix.", "collector", _OPERATE
    ),
    "status": Subcommand("infra.cli.status:status", "The pipeline at a glance.", "jobs", _OPERATE),
    "dead-letters": Subcommand(
        "infra.cli.dead_letters:app", "Messages that were refused: list, show, send again.", "jobs", _OPERATE
    ),
    "topics": Subcommand(
        "infra.cli.topics:app", "Create the topics, or compare them with the catalogue.", "jobs", _OPERATE
    ),
    "rules": Subcommand("infra.cli.rules:app", "Length and lateness of windows, from a time on.", "jobs", _OPERATE),
    "migrate": Subcommand("infra.cli.migrate:migrate", "Bring the ledger's tables to this version.", "jobs", _OPERATE),
}

PLAIN = frozenset({"collector", "doctor"})
"""Subcommands that are a `main(argv) -> int` of their own and need neither typer nor rich."""

OWN_PACKAGES = ("schemas", "collector", "stream_jobs", "infra")

EXIT_CODES = (
    "Exit codes: 0 all well; 1 what was asked is not so (a difference, a violation); 2 wrong use, settings or a "
    "missing extra; 3 an outside service failed (broker, ClickHouse, API server); 4 a defect: the process had to stop; "
    "130 interrupted."
)


def load(target: str) -> Any:
    """The object that `module:attribute` names, importing its module now."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)
