"""`make chaos SEEDS=n [SEED=k] [BREAK=name]`: seeds on one standing cluster, a line each; 1 where one differs.

A run that was interrupted goes on: seeds that passed on the same sources are not run again. State, logs and the table
of faults lie in build/chaos.
"""

import argparse
import hashlib
import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from tests.chaos.breaks import BREAKS
from tests.chaos.checker import shown
from tests.chaos.cluster import Cluster
from tests.chaos.plan import KINDS
from tests.chaos.seed import Result, run_seed

PLACE = Path("build/chaos")
_SOURCES = ("schemas", "stream_jobs", "infra", "tests/chaos", "tests/property")


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


def run(seeds: Iterable[int], state: State | None, break_name: str = "") -> list[Result]:
    """Results of the seeds, those of earlier runs among them."""
    shutil.rmtree(PLACE / "kafka", ignore_errors=True)
    results = []
    todo = [seed for seed in seeds if state is None or seed not in state.passed]
    results = [state.passed[seed] for seed in seeds if state and seed in state.passed]
    if results:
        print(f"{len(results)} seeds passed before on the same sources", flush=True)
    if not todo:
        return results
    with Cluster(PLACE / "kafka") as cluster:
        for seed in todo:
            result = run_seed(seed, cluster, PLACE / f"seed-{seed}", break_name)
            results.append(result)
            print(result.line(), flush=True)
            if result.differences:
                again = f"make chaos SEED={seed}" + (f" BREAK={break_name}" if break_name else "")
                print(f"  again: {again}; logs: {PLACE / f'seed-{seed}'}{shown(result.differences)}", flush=True)
            elif state:
                state.add(result)
    return results


def summary(results: list[Result]) -> str:
    """A table of faults, windows published again, and the last line."""
    faults = sum((result.faults for result in results), Counter[str]())
    lines = ["| fault | times |", "|---|---|", *(f"| {kind} | {faults[kind]} |" for kind in KINDS)]
    windows, again = sum(r.windows for r in results), sum(r.windows_again for r in results)
    lines += [f"| windows published again | {again} of {windows} |"]
    lines += [f"| processes that ended because the outside was away | {sum(r.restarts for r in results)} |"]
    differences = sum(len(r.differences) for r in results)
    last = f"SEEDS {len(results)}, faults {faults.total()}, windows {windows}, differences {differences}"
    return "\n".join([*lines, last])


def _digest() -> str:
    files = sorted(path for folder in _SOURCES for path in Path(folder).rglob("*.py"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _result(line: dict) -> Result:
    return Result(**(line | {"faults": Counter(line["faults"])}))


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="seeds 1 to N")
    parser.add_argument("--seed", type=int, help="this one alone, also if it passed before")
    parser.add_argument(
        "--break", dest="break_name", default="", choices=["", *BREAKS], help="a line broken on purpose"
    )
    options = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    resumable = options.seed is None and not options.break_name
    seeds = range(1, options.seeds + 1) if options.seed is None else [options.seed]
    results = run(seeds, State(PLACE / "passed.jsonl") if resumable else None, options.break_name)
    print(summary(results))
    return 1 if any(result.differences for result in results) else 0


if __name__ == "__main__":
    sys.exit(_main())
