"""The root command, whose children are one-line stubs until called; the only module that builds on typer's classes.

Law: listing, help and completion of names import no subcommand (tests/unit/infra/test_cli_main.py).
"""

import importlib.metadata
import inspect
import re
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from infra.cli.catalogue import EXIT_CODES, PLAIN, SUBCOMMANDS, load


class LazyGroup(TyperGroup):
    """Children from the catalogue; a child's module is imported when it is resolved to be run or completed."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {
            name: TyperCommand(name, help=entry.help, rich_help_panel=entry.panel)
            for name, entry in SUBCOMMANDS.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The called child, now imported: (name, command, remaining arguments)."""
        name, stub, rest = super().resolve_command(ctx, args)
        if name is None or name in PLAIN:
            return name, stub, rest
        return name, _command(name), rest


def root_command() -> Any:
    """The command `gpumeter` itself."""
    app = typer.Typer(cls=LazyGroup, no_args_is_help=True, epilog=EXIT_CODES, rich_markup_mode="rich")
    app.callback()(_root)
    return typer.main.get_command(app)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"gpumeter {importlib.metadata.version('gpumeter')}")
        raise typer.Exit(0)


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """GPU-seconds per Kubernetes pod that add up to the hardware.

    Example: [bold]gpumeter demo[/bold], then [bold]gpumeter sql "SELECT count() FROM conservation_violations"[/bold]
    """


def _command(name: str) -> Any:
    target = load(SUBCOMMANDS[name].target)
    app = target if isinstance(target, typer.Typer) else typer.Typer(rich_markup_mode="rich")
    if app is not target:
        app.command(name)(target)
    app._add_completion = False
    command = typer.main.get_command(app)
    command.name = name
    _unwrap(command)
    return command


def _unwrap(command: Any) -> None:
    """Paragraphs of the help without the source's line ends: the terminal is wider or narrower than the source."""
    command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.help or ""))
    for child in getattr(command, "commands", {}).values():
        _unwrap(child)
