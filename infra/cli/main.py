"""Entry of the `gpumeter` command: finds the subcommand, imports only that, and turns its end into an exit code.

Knows nothing of what the subcommands do. Laws: `--help` imports no subcommand and no heavy library; every way to end
has the exit code that the main help documents (tests/unit/infra/test_cli_main.py).
"""

import errno
import sys
import traceback
from collections.abc import Sequence

from infra.cli.catalogue import OWN_PACKAGES, PLAIN, SUBCOMMANDS, load

USAGE, OUTSIDE, DEFECT, INTERRUPTED = 2, 3, 4, 130
AWAY = (("collector.errors", "Retry"), ("stream_jobs.errors", "Retry"), ("infra.broker.errors", "BrokerError"))
"""Errors that mean an outside service failed: (module, class), looked up only where the module was loaded."""
REFUSED = frozenset(
    (
        errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT,
        errno.ENAMETOOLONG, errno.EADDRINUSE,
    )
)  # fmt: skip
"""What the system says where a file, a directory or a port that was named cannot be used, or the disk is full."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (default: the process's own) and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = arguments[0] if arguments else ""
    try:
        if name in PLAIN:
            return int(load(SUBCOMMANDS[name].target)(arguments[1:]) or 0)
        from infra.cli.group import root_command

        root_command().main(args=arguments, prog_name="gpumeter")
    except SystemExit as end:
        return _code(end)
    except KeyboardInterrupt:
        return INTERRUPTED
    except ModuleNotFoundError as error:
        return _explain_missing(name, error)
    except Exception as error:  # noqa: BLE001 the outermost frame: whatever got here decides the exit code
        return _explain_failure(name, error)
    return 0


def _code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return int(end.code or 0)
    sys.stderr.write(f"{end.code}\n")
    return USAGE


def _explain_missing(name: str, error: ModuleNotFoundError) -> int:
    """What is not installed and which extra brings it; a missing module of our own is a defect."""
    package = (error.name or "").partition(".")[0]
    if package in OWN_PACKAGES and name not in SUBCOMMANDS:
        return _explain_failure(name, error)
    if package in OWN_PACKAGES:
        sys.stderr.write(f"gpumeter {name}: this build has no module {error.name!r}; reinstall gpumeter.\n")
        return DEFECT
    extra = "cli" if package in ("typer", "rich") or name not in SUBCOMMANDS else SUBCOMMANDS[name].extra
    sys.stderr.write(
        f"gpumeter {name}: the Python package {package!r} is not installed here. It comes with the extra {extra!r}:\n"
        f"    pip install 'gpumeter[{extra}]'      (from a clone: pip install '.[{extra}]')\n"
    )
    return USAGE


def _explain_failure(name: str, error: Exception) -> int:
    """One line for an outside service that is away or a file that cannot be; the whole traceback for a defect."""
    away = tuple(getattr(sys.modules[module], kind) for module, kind in AWAY if module in sys.modules)
    if isinstance(error, away) or (isinstance(error, OSError) and error.errno in REFUSED):
        sys.stderr.write(f"gpumeter {name}: {error}\n")
        return OUTSIDE
    traceback.print_exception(error)
    sys.stderr.write(f"gpumeter {name}: stopped by a defect: {type(error).__name__}: {error}\n")
    return DEFECT


if __name__ == "__main__":
    sys.exit(main())
