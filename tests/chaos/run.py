"""`make chaos SEEDS=n [SEED=k] [BREAK=name] [LANES=n]`: seeds on standing clusters, a line each; 1 where one differs.

A run that was interrupted goes on: seeds that passed on the same sources are not run again. State, logs and the table
of faults lie in build/chaos.
"""

import argparse
import hashlib
import json
import queue
import shutil
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from infra.sim.interrupt import Interrupt
from tests.chaos.breaks import BREAKS, CAUGHT_ON
from tests.chaos.checker import shown
from tests.chaos.cluster import Cluster
from tests.chaos.plan import KINDS
from tests.chaos.seed import Result, run_seed

PLACE = Path("build/chaos")
Job = tuple[int, str]
"""A seed, and the line that is broken in its workers, if any."""
_SOURCES = ("schemas", "collector", "stream_jobs", "infra", "tests/chaos", "tests/property")


class State:
    """Results of seeds that passed, one a line of JSON; forgotten when the sources are others."""

    def __init__(self, path: Path) -> None:
        self._path, self._sources = path, _digest()
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        self.passed = {line["seed"]: _result(line) for line in lines if line.pop("sources") == self._sources}

    def add(self, result: Result) -> None:
        """Remembers a seed that passed."""
        with self._path.open("a") as file:
            file.write(
                json.dumps({f.name: getattr(result, f.name) for f in fields(result)} | {"sources": self._sources})
                + "\n"
            )


def run(jobs: Sequence[Job], state: State | None, lanes: int = 1) -> list[Result]:
    """Results of seeds, those of earlier runs among them; each lane has a cluster of its own."""
    results = [state.passed[seed] for seed, _ in jobs if state and seed in state.passed]
    if results:
        print(f"{len(results)} seeds passed before on the same sources", flush=True)
    todo: queue.Queue[Job] = queue.Queue()
    for job in jobs:
        if state is None or job[0] not in state.passed:
            todo.put(job)
    left, done = todo.qsize(), queue.Queue[Result]()
    starting = threading.Lock()
    for lane in range(min(lanes, left)):
        # A daemon: whoever interrupts the run need not wait for its seed; the kernel ends all processes with it.
        threading.Thread(target=_lane, args=(lane, todo, done, starting), daemon=True).start()
    for _ in range(left):
        result = done.get()
        results.append(result)
        print(result.line(), flush=True)
        place = _place(result.seed, result.break_name)
        for crash in result.crashes:
            print(f"  CRASH: {crash}; its log with the stack: {place}", flush=True)
        if result.differences:
            again = f"make chaos SEED={result.seed}" + (f" BREAK={result.break_name}" if result.break_name else "")
            print(f"  again: {again}; logs: {place}{shown(result.differences)}", flush=True)
        elif state:
            state.add(result)
    return results


def _place(seed: int, break_name: str) -> Path:
    return PLACE / (f"seed-{seed}-{break_name}" if break_name else f"seed-{seed}")


def _lane(number: int, todo: "queue.Queue[Job]", done: "queue.Queue[Result]", starting: threading.Lock) -> None:
    """Runs seeds until none is left; after one that broke off, on a new cluster."""
    while not todo.empty():
        shutil.rmtree(PLACE / f"kafka-{number}", ignore_errors=True)
        cluster = Cluster(PLACE / f"kafka-{number}")
        with starting:
            cluster.__enter__()
        try:
            while _one(todo, done, cluster):
                pass
        finally:
            cluster.__exit__(None, None, None)


def _one(todo: "queue.Queue[Job]", done: "queue.Queue[Result]", cluster: Cluster) -> bool:
    """Runs the next seed; False where there is none, or the cluster is not to be trusted any more."""
    try:
        seed, break_name = todo.get_nowait()
    except queue.Empty:
        return False
    try:
        result = run_seed(seed, cluster, _place(seed, break_name), break_name)
    except Exception as error:  # noqa: BLE001 the other seeds go on; this one has not passed
        reason = f"broke off: {type(error).__name__}: {error}\n{traceback.format_exc()}"
        done.put(Result(seed, break_name, differences=[reason]))
        return False
    done.put(result)
    return True


def summary(results: list[Result]) -> str:
    """A table of what was done to processes and what the logs held, and the last line."""
    faults = sum((result.faults for result in results), Counter[str]())
    story = sum((result.story for result in results), Counter[str]())
    windows, again = sum(r.windows for r in results), sum(r.windows_again for r in results)
    lines = ["| fault | times |", "|---|---|", *(f"| {kind} | {faults[kind]} |" for kind in KINDS)]
    lines += ["| in the input logs | times |", "|---|---|", *(f"| {what} | {story[what]} |" for what in sorted(story))]
    lines += ["| outcome | |", "|---|---|"]
    lines += [f"| windows published again | {again} of {windows} |"]
    lines += [f"| rows, and copies of them | {sum(r.rows for r in results)}, {sum(r.copies for r in results)} |"]
    lines += [f"| revisions (window and minute) | {sum(r.revisions for r in results)} |"]
    lines += [f"| processes that ended because the outside was away | {sum(r.restarts for r in results)} |"]
    lines += [f"| crashes | {sum(len(r.crashes) for r in results)} |"]
    differences = sum(len(r.differences) for r in results)
    last = f"SEEDS {len(results)}, faults {faults.total()}, windows {windows}, differences {differences}"
    return "\n".join([*lines, last])


def _digest() -> str:
    files = sorted(path for folder in _SOURCES for path in Path(folder).rglob("*.py"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _result(line: dict) -> Result:
    return Result(**(line | {name: Counter(line[name]) for name in ("faults", "story")}))


def _breaks(lanes: int) -> int:
    results, left = list[Result](), dict(CAUGHT_ON)
    while left:
        results += run([(seeds[0], name) for name, seeds in left.items()], None, lanes)
        caught = {result.break_name for result in results if result.differences}
        left = {name: seeds[1:] for name, seeds in left.items() if seeds[1:] and name not in caught}
    print("| line broken | seed | differences | the first |\n|---|---|---|---|")
    for r in results:
        first = r.differences[0].splitlines()[0][:120] if r.differences else ""
        print(f"| {r.break_name} | {r.seed} | {len(r.differences)} | {first} |")
    missed = set(CAUGHT_ON) - {result.break_name for result in results if result.differences}
    print(f"not caught: {', '.join(sorted(missed)) or 'none'}")
    return 1 if missed else 0


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="seeds 1 to N")
    parser.add_argument("--seed", type=int, help="this one alone, also if it passed before")
    parser.add_argument(
        "--break", dest="break_name", default="", choices=["", *BREAKS], help="a line broken on purpose"
    )
    parser.add_argument("--breaks", action="store_true", help="every line broken once; 1 where one is not caught")
    parser.add_argument("--lanes", type=int, default=1, help="so many seeds side by side, each on its own brokers")
    options = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    if options.breaks:
        return _breaks(options.lanes)
    resumable = options.seed is None and not options.break_name
    seeds = range(1, options.seeds + 1) if options.seed is None else [options.seed]
    state = State(PLACE / "passed.jsonl") if resumable else None
    results = run([(seed, options.break_name) for seed in seeds], state, options.lanes)
    print(summary(results))
    return 1 if any(result.differences for result in results) else 0


if __name__ == "__main__":
    Interrupt().listen()
    sys.exit(_main())
