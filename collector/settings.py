"""Settings of the node agent from its environment, read once at start; the only module of it that sees the environment.

Every name is GPUMETER_ and the field in capitals. An unknown name, a missing one and a value that cannot be read are
all told at once (tests/unit/collector/test_settings.py).
"""

import os
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from .errors import SettingsError

PREFIX = "GPUMETER_"
MASKED = "(set)"
S = TypeVar("S", bound=msgspec.Struct)
Period = Annotated[int, msgspec.Meta(gt=0)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a node agent needs to know; periods in microseconds."""

    cluster: Text
    node: Text
    bootstrap_servers: Text
    kafka_options: dict[str, str] = {}
    proc_path: str = "/proc"
    cgroup_path: str = "/sys/fs/cgroup"
    kubelet_socket: str = "/var/lib/kubelet/pod-resources/kubelet.sock"
    kubelet_timeout_us: Period = 2_000_000
    nvml_period_us: Annotated[int, msgspec.Meta(gt=0, le=10_000_000)] = 5_000_000
    cgroup_period_us: Period = 1_000_000
    grants_period_us: Period = 10_000_000
    snapshot_period_us: Period = 60_000_000
    flush_period_us: NotNegative = 0
    queue_bytes: Annotated[int, msgspec.Meta(ge=1 << 20)] = 16 << 20
    spool_path: str = "/var/lib/gpumeter/spool"
    spool_bytes: Annotated[int, msgspec.Meta(ge=16 << 20)] = 256 << 20
    flush_timeout_us: Period = 30_000_000
    driver_wait_us: Period = 600_000_000
    metrics_port: Port = 0
    metrics_address: Text = "127.0.0.1"
    foreign_pids: bool = False


HELP = {
    "cluster": "name of the cluster",
    "node": "name of this node, as the API server spells it",
    "bootstrap_servers": "Kafka, host:port,...",
    "kafka_options": "JSON object of librdkafka options, e.g. security.protocol (a secret: never shown)",
    "proc_path": "where the host's /proc is",
    "cgroup_path": "where the host's cgroup file system is",
    "kubelet_socket": "PodResources socket of the kubelet",
    "kubelet_timeout_us": "longest wait for the kubelet",
    "nvml_period_us": "from reading to reading; at most 10 s, since the driver keeps 12 to 14 s",
    "cgroup_period_us": "how often the containers' processes are noted",
    "grants_period_us": "how often the kubelet is asked who holds what",
    "snapshot_period_us": "longest time without a new snapshot",
    "flush_period_us": "readings of so long go into one message; 0: each at once",
    "queue_bytes": "unsent messages kept in memory where the spool's disk cannot be written",
    "spool_path": "directory of unsent messages, this agent's alone; empty: memory only",
    "spool_bytes": "bound of the spool; then the oldest are dropped, and told downstream as a gap",
    "flush_timeout_us": "longest wait for acknowledgements at the end",
    "driver_wait_us": "how long a driver that is not loaded is waited for before the process ends",
    "metrics_port": "port of /metrics, /healthz and /readyz; 0: none",
    "metrics_address": "address of that port; a kubelet's probes need the pod's own",
    "foreign_pids": "go on outside the host's pid namespace (processes are then not those of NVML)",
}
SECRET = frozenset({"kafka_options"})


def settings_from(environment: Mapping[str, str], kind: type[S]) -> S:
    """Settings of `kind` from GPUMETER_ names; SettingsError lists every unknown, missing and unreadable one."""
    faults: list[str] = []
    values: dict[str, Any] = {}
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for name, text in sorted(environment.items()):
        if not name.startswith(PREFIX):
            continue
        field = fields.get(name.removeprefix(PREFIX).lower())
        if field is None:
            faults.append(f"{name}: no such setting; --help lists all of them")
            continue
        try:
            raw = msgspec.json.decode(text) if text.startswith("{") else text
            values[field.name] = msgspec.convert(raw, field.type, strict=False)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            faults.append(f"{name}={MASKED if field.name in SECRET else repr(text)}: {error}")
    for field in fields.values():
        if field.required and PREFIX + field.name.upper() not in environment:
            faults.append(f"{PREFIX}{field.name.upper()}: missing; {HELP.get(field.name, 'must be set')}")
    if faults:
        raise SettingsError("settings cannot be used:\n  " + "\n  ".join(faults))
    return kind(**values)


def agent_settings() -> AgentSettings:
    """Settings of the node agent from the process's environment; SettingsError where they cannot be used."""
    return settings_from(os.environ, AgentSettings)  # noqa: TID251 this is the settings module


def usable_settings() -> tuple[AgentSettings, str]:
    """Settings as far as the environment can be used, with defaults for the rest, and what SettingsError would say."""
    try:
        return agent_settings(), ""
    except SettingsError as error:
        complaint = str(error)
    usable = {PREFIX + name: "unknown" for name in ("CLUSTER", "NODE", "BOOTSTRAP_SERVERS")}
    for name, text in os.environ.items():  # noqa: TID251 this is the settings module
        if name.startswith(PREFIX) and _is_usable(usable | {name: text}):
            usable[name] = text
    return settings_from(usable, AgentSettings), complaint


def _is_usable(environment: Mapping[str, str]) -> bool:
    try:
        settings_from(environment, AgentSettings)
    except SettingsError:
        return False
    return True


def mps_enumeration() -> str | None:
    """NVML_MPS_DEVICE_ENUMERATION of the process's environment; None: not set."""
    return os.environ.get("NVML_MPS_DEVICE_ENUMERATION")  # noqa: TID251 this is the settings module


def leave_mps_enumeration() -> None:
    """Unsets NVML_MPS_DEVICE_ENUMERATION, under which handles are not physical GPUs and most calls fail (nvml.h)."""
    os.environ.pop("NVML_MPS_DEVICE_ENUMERATION", None)  # noqa: TID251 this is the settings module


def shown(settings: msgspec.Struct) -> dict[str, Any]:
    """Effective settings as they may be logged: secrets masked."""
    values = msgspec.structs.asdict(settings)
    return {name: MASKED if name in SECRET and value else value for name, value in values.items()}
