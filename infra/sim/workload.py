"""What the simulated engines do: loads by name, the faults of the driver and how it rounds.

Generated loads are piecewise-constant demand, seeded by name, so every process of a simulation sees the same. Must not
know pods or NVML. Tested in tests/unit/infra/sim/test_workload.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from .timeline import Floats, Ints, Load, seed_of

LoadKind = Literal["constant", "training", "inference", "bursts", "notebook", "idle"]
FaultKind = Literal[
    "device_lost", "process_util_not_supported", "process_util_no_permission", "bad_rows", "hang", "energy_reset"
]
Divisor = Literal["all", "busy"]

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one GPU in [start, end); energy_reset happens at its start."""

    kind: FaultKind
    gpu_uuid: str
    start_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Loads by name, faults, and the divisor of smUtil: `all` samples of the span, or the `busy` ones only."""

    loads: Mapping[str, Load]
    faults: tuple[Fault, ...] = ()
    divisor: Divisor = "all"
    seed: int = 0
    notes: tuple[str, ...] = field(default=())
    """What of a trace was left out, in words; empty: nothing."""


def _steps(times_us: Ints, demand: Floats) -> Load:
    return Load(times_us.astype(np.int64), np.clip(demand, 0.0, 1.0))


def _training(rng: np.random.Generator, duty: float, start_us: int, end_us: int) -> Load:
    """Steady for minutes, a dip for a checkpoint about every quarter of an hour."""
    times = np.arange(start_us, end_us, 60 * SECOND_US, dtype=np.int64)
    demand = duty * rng.normal(1.0, 0.05, len(times))
    demand[rng.random(len(times)) < 1 / 15] *= 0.15
    return _steps(times, demand)


def _inference(rng: np.random.Generator, duty: float, start_us: int, end_us: int) -> Load:
    """Requests: high by day, low by night, uneven from one 20 s to the next."""
    times = np.arange(start_us, end_us, 20 * SECOND_US, dtype=np.int64)
    day = 0.6 - 0.4 * np.cos(2 * np.pi * (times % DAY_US) / DAY_US)
    return _steps(times, duty * day * rng.lognormal(0.0, 0.4, len(times)))


def _bursts(rng: np.random.Generator, duty: float, start_us: int, end_us: int) -> Load:
    """On for 20 s, off for 40 s on average."""
    pairs = max(1, (end_us - start_us) // (20 * SECOND_US))
    lengths = rng.exponential(1.0, (pairs, 2)) * np.array([40.0, 20.0]) * SECOND_US
    times = start_us + np.concatenate([[0], np.cumsum(lengths.astype(np.int64).ravel() + 100_000)])
    demand = np.where(np.arange(len(times)) % 2 == 1, duty, 0.0)
    return _steps(times, demand)


def generated_load(kind: LoadKind, duty: float, name: str, seed: int, start_us: int, end_us: int) -> Load:
    """Demand of a process between its start and end; a notebook works in bursts until `end_us` and idles after."""
    rng = np.random.default_rng(seed_of(name, seed))
    if kind == "training":
        return _training(rng, duty, start_us, end_us)
    if kind == "inference":
        return _inference(rng, duty, start_us, end_us)
    if kind in ("bursts", "notebook"):
        load = _bursts(rng, duty, start_us, end_us)
        if kind == "bursts":
            return load
        before = load.times_us < end_us
        return _steps(np.append(load.times_us[before], end_us), np.append(load.demand[before], 0.0))
    return _steps(np.array([start_us]), np.array([duty if kind == "constant" else 0.0]))
