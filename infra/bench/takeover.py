"""How long a partition is without its worker: `python -m infra.bench.takeover`; build/bench-takeover.json.

Three things on this machine, broker and fleet included: a worker that is killed reads five minutes of a fleet's log
again; of two workers over a live fleet, at the shipped settings, one with a slot of its own is killed and started again
at once; one is killed and stays away, and the other takes over. Printed with the part of each step.
"""

import argparse
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from infra.bench.errors import BenchError
from infra.bench.fleet_log import messages
from infra.bench.kafka_log import broker, fill
from infra.bench.lives import Life, wait_until
from infra.bench.shape import GPUS_A_NODE, SECOND_US, FleetShape
from infra.bench.steady import SteadyFleet
from infra.sim.interrupt import Interrupt

RESULT, LOGS = Path("build/bench-takeover.json"), Path("build/bench-takeover")
REREAD_S = 300
WARM_UP_GOAL_S, TAKE_OVER_GOAL_S, RESTART_GOAL_S = 30.0, 20.0, 12.0
_PATIENCE_S, _READING_S, _PROGRESS_S = 180.0, 5, 12.0
_LATE_US = 30_000_000
"""A fleet that falls behind only sends later; how far is in the result."""
Steps = dict[str, float]


def warm_up(gpus: int) -> dict[str, Any]:
    """Steps of a worker that reads five minutes of a filled log again; its windows wait that long, so it has to."""
    shape = FleetShape(nodes=gpus // GPUS_A_NODE, windows=1, lateness_s=REREAD_S)
    settings = {"GPUMETER_WORKER_LATENESS_S": str(REREAD_S), "GPUMETER_WORKER_PROGRESS_S": "2"}
    with broker(None, partitions=shape.partitions) as bootstrap:
        filled = fill(bootstrap, messages(shape))
        first = Life("warm-up-first", bootstrap, LOGS, "--simulated-time", **settings)
        try:
            read_s = wait_until(lambda: first.lag() == 0, _PATIENCE_S, [first], "the log's end") - first.began_s
            time.sleep(5.0)
        finally:
            first.kill()
        again = Life("warm-up", bootstrap, LOGS, "--simulated-time", **settings)
        try:
            wait_until(_is_caught_up(again), _PATIENCE_S, [again], "the place where it was")
            steps = _steps(again, again.began_s, "start")
        finally:
            cpu_s = _children_cpu_s()
            again.end()
    cpu_s = _children_cpu_s() - cpu_s
    reread = sum(event.told["reread_records"] for event in again.events() if event.name == "caught up")
    return {
        "gpus": gpus, "messages": filled.messages, "bytes": filled.bytes, "whole_log_s": read_s,
        "reread_records": reread, "steps": steps, "seconds": sum(steps.values()), "goal_s": WARM_UP_GOAL_S,
        "cpu_s": cpu_s,
    }  # fmt: skip


def live(nodes: int, before_s: int) -> dict[str, Any]:
    """A member's restart at once, then a take-over, under a live fleet that has run for `before_s`."""
    start_us = (time.time_ns() // 1000 // SECOND_US // 5 + 3) * 5 * SECOND_US
    windows = (before_s + 180) // 60
    shape = FleetShape(
        nodes=nodes, windows=windows, lateness_s=120, reading_s=_READING_S, flush_s=_READING_S, start_us=start_us
    )
    with broker(None, partitions=shape.partitions) as bootstrap:
        fleet = SteadyFleet(bootstrap, shape, late_us=_LATE_US)
        lives = [_life(f"slot-{number}", 0, bootstrap) for number in range(2)]
        try:
            wait_until(lambda: all(life.is_ready() for life in lives), 60, lives, "two workers that are ready")
            fleet.start()
            _let(before_s, fleet, lives)
            found = {"restart": _restart(bootstrap, lives)}
            _let(_PROGRESS_S * 2, fleet, lives)
            found["take_over"] = _take_over(lives)
            fleet.check()
        finally:
            for life in lives:
                life.end()
    return {"nodes": nodes, "behind_its_pace_s": fleet.latest_us / 1e6, **found}


def _life(slot: str, number: int, bootstrap: str) -> Life:
    return Life(f"{slot}-{number}", bootstrap, LOGS, "--real-time", GPUMETER_WORKER_INSTANCE=slot)


def _let(seconds: float, fleet: SteadyFleet, lives: Sequence[Life]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not fleet.check():
            raise BenchError("the fleet's log ended before the measurement")
        for life in lives:
            life.check()
        time.sleep(0.2)


def _restart(bootstrap: str, lives: list[Life]) -> dict[str, Any]:
    killed_s = lives[1].kill()
    lives[1] = _life("slot-1", 1, bootstrap)
    wait_until(_is_caught_up(lives[1]), _PATIENCE_S, lives, "the restarted worker's old place")
    steps = _steps(lives[1], killed_s, "start")
    disturbed = lives[0].times("partitions closed", killed_s)
    return {
        "steps": steps,
        "seconds": sum(steps.values()),
        "goal_s": RESTART_GOAL_S,
        "other_disturbed": bool(disturbed),
    }


def _take_over(lives: list[Life]) -> dict[str, Any]:
    killed_s = lives[1].kill()
    survivor = lives[0]
    del lives[1]
    wait_until(lambda: survivor.times("all opened", killed_s), _PATIENCE_S, lives, "a new assignment")
    wait_until(_is_caught_up(survivor), _PATIENCE_S, lives, "the killed worker's place")
    steps = _steps(survivor, killed_s, "partitions closed")
    return {"steps": steps, "seconds": sum(steps.values()), "goal_s": TAKE_OVER_GOAL_S}


def _is_caught_up(life: Life) -> Callable[[], bool]:
    def reached() -> bool:
        opened = [event for event in life.events() if event.name == "all opened"]
        return bool(opened) and life.is_ready()

    return reached


def _steps(life: Life, killed_s: float, first: str) -> Steps:
    """Seconds of each step, in order; together the time from the kill to the last partition where it was.

    `first` is the event that ends the first step: the process's start, or the end of the old assignment.
    """
    begun_s = min(life.times(first, killed_s))
    opened = next(event for event in life.events(killed_s) if event.name == "all opened")
    load_s = float(opened.told["seconds"])
    caught_s = max([opened.at_s, *life.times("caught up", killed_s)])
    name = "process start" if first == "start" else "session timeout and the group's notice"
    return {
        name: begun_s - killed_s,
        "join": opened.at_s - load_s - begun_s,
        "progress load": load_s,
        "read again": caught_s - opened.at_s,
    }


def _children_cpu_s() -> float:
    """CPU seconds of all processes started here that have ended: of a worker, from before its end to after it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _line(what: str, told: dict[str, Any]) -> str:
    steps = ", ".join(f"{name} {seconds:.1f}" for name, seconds in told["steps"].items())
    return f"{what}: {told['seconds']:.1f} s (goal {told['goal_s']:g} s): {steps}\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints and writes; 0 whether or not the goals are met, which the result says."""
    parser = argparse.ArgumentParser(prog="infra.bench.takeover", description=__doc__)
    parser.add_argument("--gpus", type=int, default=10_000, help="of the fleet whose log is read again")
    parser.add_argument("--nodes", type=int, default=1_000, help="of the live fleet")
    parser.add_argument("--before-s", type=int, default=240, help="how long the live fleet runs before the first kill")
    parser.add_argument("--only", choices=("warm-up", "live"))
    options = parser.parse_args(argv)
    shutil.rmtree(LOGS, ignore_errors=True)
    result: dict[str, Any] = {}
    if options.only != "live":
        result["warm_up"] = warm_up(options.gpus)
        told = result["warm_up"]
        sys.stdout.write(_line(f"warm-up, {told['gpus']:,} GPUs, {told['reread_records']:,} records", told))
        sys.stdout.write(f"  of the worker {told['cpu_s']:.1f} s of CPU from its start to its end\n")
    if options.only != "warm-up":
        result |= live(options.nodes, options.before_s)
        other = "disturbed" if result["restart"]["other_disturbed"] else "undisturbed"
        sys.stdout.write(
            _line(f"member restarted at once, {options.nodes:,} nodes, the other {other}", result["restart"])
        )
        sys.stdout.write(_line(f"member killed, taken over, {options.nodes:,} nodes", result["take_over"]))
    result["load_average"] = os.getloadavg()
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    sys.stdout.write(
        f"load average {', '.join(f'{load:.1f}' for load in result['load_average'])}; written to {RESULT}\n"
    )
    return 0


if __name__ == "__main__":
    Interrupt().listen()
    sys.exit(main())
