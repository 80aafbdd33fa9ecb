"""What a worker is told, read once at start from the environment (GPUMETER_*) or the command line.

Law: an unknown GPUMETER_WORKER_* name or a wrong value stops the start with the whole list
(tests/unit/stream_jobs/test_settings.py).
"""

import os
from typing import Any

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.health import LONGEST_TURN_S
from schemas.names import ALL_TOPICS

from .core.settings import MeterSettings

_PREFIX = "GPUMETER_WORKER_"
_LIVE_S = 2.0


class SettingsError(ValueError):
    """The settings cannot be used; lists every fault by the name of its variable."""


class WorkerSettings(BaseSettings):
    """Settings of one worker process."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, frozen=True, extra="forbid", populate_by_name=True)

    bootstrap_servers: str = Field("127.0.0.1:9092", validation_alias="GPUMETER_BOOTSTRAP_SERVERS")
    """Broker addresses, comma between them."""
    group: str = "gpumeter"
    """Consumer group; workers of one group share the partitions."""
    instance: str | None = None
    """Slot name of this worker (static membership): a restart within the session keeps its partitions."""
    clock_key: SecretStr = Field(SecretStr(""), validation_alias="GPUMETER_CLOCK_KEY")
    """Key of the clock records' signature; empty: unsigned records count."""
    simulated_time: bool = Field(False, validation_alias="GPUMETER_SIMULATED_TIME")
    """Event time is simulated: append times do not judge clock records."""
    window_s: int = Field(60, ge=15, le=3600)
    """Length of a window."""
    lateness_s: int = Field(120, ge=0, le=86_400)
    """How long a window waits after its end."""
    reach_s: int = Field(518_400, ge=3600, le=31_536_000)
    """How long after its end a window is still revised by late records; less than the retention of the topics."""
    step_s: float = Field(0.25, gt=0, le=60)
    """Time between two rounds of decode, close, publish."""
    progress_s: float = Field(10.0, gt=0, le=3600)
    """Time between two progress records of a partition."""
    status_s: float = Field(10.0, gt=0, le=3600)
    """Time between two status lines in the log."""
    buffer_messages: int = Field(8_000, ge=1)
    """Messages held between two rounds; more makes the reader wait."""
    buffer_mib: int = Field(96, ge=1)
    """Size of messages held between two rounds; more makes the reader wait."""
    held_mib: int = Field(2048, ge=1)
    """Size of the readings that open windows hold; more pauses gpu-samples where it is ahead of the other topics."""
    skew_windows: int = Field(5, ge=1)
    """A topic that is this many windows ahead of the slowest one waits for it."""
    watcher_away_s: float = Field(180.0, gt=0)
    """A watcher without a clock record for this long is away: the worker writes the clock in its place."""
    metrics_port: int = Field(0, ge=0, le=65_535)
    """Port of /metrics, /healthz and /readyz; 0: none."""
    metrics_address: str = "127.0.0.1"
    """Address of that port; a kubelet's probes need the pod's own."""
    live_s: float | None = Field(None, ge=0, le=60)
    """Least time between two provisional figures of a node; 0: none. Not set: 2 s, in simulated time none."""
    live_share: float = Field(0.25, gt=0, le=1)
    """Most of a processor that provisional figures may take; with more nodes they come less often."""
    health_s: float = Field(LONGEST_TURN_S, gt=0)
    """A loop that has not turned for so long is not healthy."""

    @property
    def live_every_s(self) -> float:
        """`live_s`, or what it is where it is not set."""
        return (0.0 if self.simulated_time else _LIVE_S) if self.live_s is None else self.live_s

    def meter(self) -> MeterSettings:
        """The settings that change numbers."""
        return MeterSettings(
            window_us=self.window_s * 1_000_000,
            lateness_us=self.lateness_s * 1_000_000,
            reach_us=self.reach_s * 1_000_000,
            simulated_time=self.simulated_time,
            clock_key=self.clock_key.get_secret_value().encode(),
        )

    def shown(self) -> dict[str, Any]:
        """Effective settings for the log, secrets masked."""
        return self.model_dump(mode="json")


def load_settings(**given: Any) -> WorkerSettings:
    """Settings from the environment, `given` first; SettingsError with every fault at once."""
    names = {str(f.validation_alias or f"{_PREFIX}{n.upper()}") for n, f in WorkerSettings.model_fields.items()}
    unknown = sorted(name for name in os.environ if name.startswith(_PREFIX) and name not in names)  # noqa: TID251
    faults = [f"{name}: there is no such setting; known are {', '.join(sorted(names))}" for name in unknown]
    try:
        settings = WorkerSettings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        faults += [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise SettingsError("; ".join(faults)) from error
    if settings.group in ALL_TOPICS or not settings.group:
        faults.append(f"group: {settings.group!r} cannot name a group")
    if faults:
        raise SettingsError("; ".join(faults))
    return settings
