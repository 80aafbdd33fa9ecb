"""Command line of the node agent, `gpumeter-collector`: argparse and stdlib logging, for the node's memory."""

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from .app import build_agent
from .clock import SystemClock
from .errors import Kept, Retry, SettingsError, Stop
from .publish import Outlet
from .settings import HELP, PREFIX, AgentSettings, agent_settings, shown

EXIT_SETTINGS, EXIT_OUTSIDE = 2, 3
EXAMPLE = """\
Example:
  GPUMETER_CLUSTER=prod GPUMETER_NODE=gpu-07 GPUMETER_BOOTSTRAP_SERVERS=kafka:9092 gpumeter-collector

Needs the host's pid namespace (hostPID), its /proc and cgroup tree, the kubelet's PodResources socket and the driver.

Settings, from the environment:
"""
EXITS = """
Exit codes: 0 stopped as asked; 2 wrong use or settings; 3 the driver or the broker failed for good; 4 must not run.
"""


class _Silent:
    """Outlet of `--once`: nothing is sent."""

    def produce(self, topic: str, node: str, headers: object, payload: bytes) -> bool:
        """Takes everything."""
        return True

    def poll(self) -> None:
        """Nothing to serve."""

    def flush(self, timeout_s: float) -> None:
        """Nothing to wait for."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the node agent; the process's exit code."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(level=arguments.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        settings = agent_settings()
        if arguments.check_settings:
            _say(shown(settings))
            return 0
        return _once(settings) if arguments.once else _run(settings)
    except SettingsError as error:
        sys.stderr.write(f"gpumeter-collector: {error}\n")
        return EXIT_SETTINGS
    except Kept as error:
        logging.getLogger(__name__).warning("%s", error)
        return 0
    except Retry as error:
        sys.stderr.write(f"gpumeter-collector: {error}\n")
        return EXIT_OUTSIDE
    except Stop as error:
        sys.stderr.write(f"gpumeter-collector: {error}\n")
        return error.exit_code


def _run(settings: AgentSettings) -> int:
    clock = SystemClock()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: clock.stop())
    build_agent(settings, clock).run()
    return 0


def _once(settings: AgentSettings) -> int:
    """One reading over one period, as JSON; nothing is sent."""
    clock = SystemClock()
    signal.signal(signal.SIGINT, lambda *_: clock.stop())
    outlet: Outlet = _Silent()
    agent = build_agent(settings, clock, outlet)
    agent.take_reading()
    if clock.wait_until_us(clock.monotonic_us() + settings.nvml_period_us):
        _say([reading.as_json() for reading in agent.take_reading()])
    return 0


def _say(value: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    return "default " + ("{}" if field.default is msgspec.NODEFAULT else str(field.default))


def _parser() -> argparse.ArgumentParser:
    fields = {field.name: field for field in msgspec.structs.fields(AgentSettings)}
    lines = [f"  {PREFIX}{name.upper():<22} {text} ({_default(fields[name])})" for name, text in HELP.items()]
    parser = argparse.ArgumentParser(
        prog="gpumeter-collector",
        description="Node agent: reads the driver, says who is who on the node, sends both to Kafka.",
        epilog=EXAMPLE + "\n".join(lines) + "\n" + EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--check-settings", action="store_true", help="print the effective settings as JSON and end")
    parser.add_argument("--once", action="store_true", help="print one reading as JSON, send nothing, and end")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
