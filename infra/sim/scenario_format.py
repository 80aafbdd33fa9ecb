"""The scenario file: its fields, and errors that name the file, the field and what is allowed.

Durations are "90s", "10m", "1.5h" or a number of seconds; times count from the start of the simulation and may be
negative. Tested in tests/unit/infra/sim/test_scenario.py.
"""

import typing
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from .workload import Divisor, FaultKind, LoadKind

Duration = str | int | float
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
Part = Annotated[float, msgspec.Meta(ge=0, le=1)]
Gib = Annotated[float, msgspec.Meta(ge=0, le=4096)]
Index = Annotated[int, msgspec.Meta(ge=0, le=63)]
Count = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
_UNITS = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_SHIPPED = Path(__file__).parent / "scenarios"


class ScenarioError(ValueError):
    """A scenario cannot be read; the text names the file, the field and what is allowed."""


class LoadSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How busy a process keeps its engine; `duty` 0 to 1; a notebook works for `active` and idles after."""

    kind: LoadKind = "constant"
    duty: Part = 0.5
    active: Duration = "10m"


class ContainerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A container with one process on each GPU index of `gpus`; `slots` asked of each, 0: it asks for none."""

    name: Name = "main"
    kind: Literal["main", "init", "sidecar", "ephemeral"] = "main"
    gpus: list[Index] = msgspec.field(default_factory=lambda: [0])
    slots: Annotated[int, msgspec.Meta(ge=0)] = 1
    memory_gib: Gib = 8.0
    load: LoadSpec = LoadSpec()
    lists: list[Literal["compute", "graphics", "mps"]] = msgspec.field(default_factory=lambda: ["compute"])


class OwnerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The top owner of a pod."""

    kind: str
    name: str


class RepeatSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pod comes again `every` so long, `times` in all, with the same name or numbered."""

    every: Duration
    times: Count
    same_name: bool = False


class PodSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pod: its containers start at `starts` and it lives for `lives` (for ever when absent)."""

    name: Name
    node: str
    namespace: Name = "default"
    containers: list[ContainerSpec] = msgspec.field(default_factory=lambda: [ContainerSpec()])
    starts: Duration = "-10m"
    lives: Duration | None = None
    repeat: RepeatSpec | None = None
    copies: Count = 1
    """So many numbered pods, each on the next GPU."""
    owner: OwnerSpec | None = None
    labels: dict[str, str] = {}


class HostProcessSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A process on a GPU that belongs to no pod."""

    name: Name
    node: str
    gpu: Index = 0
    starts: Duration = "-10m"
    lives: Duration | None = None
    memory_gib: Gib = 1.0
    load: LoadSpec = LoadSpec()


class NodeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node of equal GPUs; `replicas` above 1 is time-slicing."""

    name: Name
    gpus: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    model: str = "NVIDIA A100-SXM4-80GB"
    memory_gib: Gib = 80.0
    replicas: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    resource: str = "nvidia.com/gpu"


class FaultSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fault of one GPU's driver."""

    kind: FaultKind
    node: str
    gpu: Index = 0
    starts: Duration = "0s"
    lives: Duration = "1m"


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fleet and what happens on it."""

    name: str
    summary: str
    nodes: Annotated[list[NodeSpec], msgspec.Meta(min_length=1)]
    pods: list[PodSpec] = []
    host_processes: list[HostProcessSpec] = []
    faults: list[FaultSpec] = []
    cluster: Name = "sim"
    hours: Annotated[float, msgspec.Meta(gt=0, le=1000)] = 0.25
    seed: int = 1
    divisor: Divisor = "all"


def duration_us(value: Duration, where: str) -> int:
    """Microseconds of a duration; ScenarioError names the field."""
    if isinstance(value, int | float):
        return round(value * _UNITS["s"])
    unit = value.lstrip("-+.0123456789")
    try:
        return round(float(value.removesuffix(unit)) * _UNITS[unit.strip() or "s"])
    except (ValueError, KeyError):
        raise ScenarioError(f"{where}: {value!r} is not a duration; write 90s, 10m or 1.5h") from None


def shipped_scenarios() -> list[str]:
    """Names of the scenarios that ship with the product."""
    return sorted(path.stem for path in _SHIPPED.glob("*.yaml"))


def read_scenario(path_or_name: str) -> Scenario:
    """The scenario of a file or a shipped name; ScenarioError says what is wrong and where."""
    path = Path(path_or_name)
    if path.suffix not in (".yaml", ".yml"):
        path = _SHIPPED / f"{path_or_name}.yaml"
    try:
        raw = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        known = ", ".join(shipped_scenarios())
        raise ScenarioError(
            f"scenario {path_or_name!r}: no such file; a path ending in .yaml, or one of: {known}"
        ) from None
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise ScenarioError(f"scenario {path}: cannot be read as YAML: {error}") from error
    _refuse_unknown_fields(raw, Scenario, str(path), "")
    try:
        return msgspec.convert(raw, Scenario)
    except msgspec.ValidationError as error:
        raise ScenarioError(f"scenario {path}: {error}") from error


def _refuse_unknown_fields(raw: Any, kind: Any, path: str, where: str) -> None:
    """ScenarioError for the first field or word that its place does not have, with those it has."""
    if isinstance(raw, list):
        for position, item in enumerate(raw):
            _refuse_unknown_fields(item, kind, path, f"{where}[{position}]")
        return
    words = _words_in(kind)
    if words and isinstance(raw, str) and raw not in words:
        raise ScenarioError(f"scenario {path}: {where}: {raw!r} is not known; allowed: {', '.join(words)}")
    struct = _struct_in(kind)
    if not isinstance(raw, dict) or struct is None:
        return
    fields = typing.get_type_hints(struct)
    for name, value in raw.items():
        place = f"{where}.{name}".lstrip(".")
        if name not in fields:
            raise ScenarioError(f"scenario {path}: unknown field {place!r}; allowed here: {', '.join(fields)}")
        _refuse_unknown_fields(value, fields[name], path, place)


def _struct_in(kind: Any) -> type[msgspec.Struct] | None:
    """The record type inside `X`, `X | None` or `list[X]`, if there is one."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    return next((found for part in typing.get_args(kind) if (found := _struct_in(part))), None)


def _words_in(kind: Any) -> tuple[str, ...]:
    """The words of a Literal, also inside a list."""
    if typing.get_origin(kind) is Literal:
        return typing.get_args(kind)
    return next((found for part in typing.get_args(kind) if (found := _words_in(part))), ())
