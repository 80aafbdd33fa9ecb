"""Runs a demo for a person: signals, progress, report, exit code.

Law: INT and TERM end it in order, with nothing left running, and exit code 130 (0 where it ran live), also in the
background of a script (tests/e2e/test_demo_interrupted.py).
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from infra.broker.errors import BrokerError
from infra.demo.errors import Busy, DemoError
from infra.demo.picture import save_picture
from infra.demo.plan import Plan
from infra.demo.report import print_report
from infra.demo.result import Result
from infra.demo.run import Demo
from infra.sim.interrupt import Interrupt
from infra.sim.member import SimulationError
from infra.sim.scenario_format import ScenarioError
from infra.sim.traces import TraceError
from stream_jobs.errors import Retry

PLAIN_WIDTH = 150
OK, NOT_SO, USAGE, OUTSIDE, DEFECT, INTERRUPTED = 0, 1, 2, 3, 4, 130


def show(plan: Plan, as_json: bool, picture: Path | None = None) -> int:
    """Runs a demo and prints its result; the exit code, 1 where a window does not add up."""
    said = Console(stderr=as_json)
    if not said.is_terminal:
        said = Console(stderr=as_json, width=PLAIN_WIDTH)

    def tell(result: Result) -> None:
        if as_json:
            sys.stdout.write(json.dumps(result.summary, indent=2) + "\n")
        else:
            print_report(said, *result, directory="" if plan.ledger == Plan().ledger else str(plan.ledger))
        if picture:
            save_picture(picture, result)

    return run(plan, said, tell)


def run(plan: Plan, said: Console, tell: Callable[[Result], None]) -> int:
    """Exit code of a demo whose result is told; what went wrong is on stderr."""
    interrupt = Interrupt().listen()
    try:
        with Demo(plan, said, interrupt.check) as demo:
            if plan.live:
                demo.live()
            result = demo.run()
            if plan.keep:
                tell(result)
                demo.keep()
        tell(result)
    except KeyboardInterrupt:
        said.print("interrupted; nothing is left running")
        return OK if plan.live else INTERRUPTED
    except (ScenarioError, TraceError, Busy) as error:
        return _failed(str(error), USAGE)
    except (BrokerError, Retry) as error:
        return _failed(str(error), OUTSIDE)
    except (DemoError, SimulationError) as error:
        return _failed(f"{error}\nAll logs: {plan.logs} and {plan.simulation / 'logs'}", DEFECT)
    return OK if result.summary["conservation_violations"] == 0 else NOT_SO


def _failed(text: str, code: int) -> int:
    Console(stderr=True).print(f"gpumeter demo: {text}", markup=False, emoji=False, highlight=False, soft_wrap=True)
    return code
