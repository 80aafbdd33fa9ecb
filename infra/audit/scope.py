"""Which part of a ledger is looked at: a period of windows and a cluster, as SQL with parameters. Pure."""

from dataclasses import dataclass
from typing import Any

_BEGIN_US, _END_US = 0, 4_102_444_800_000_000
"""Every window starts before 2100: the ledger takes no other."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Windows that start in [from_us, to_us), of one cluster or of all (empty)."""

    cluster: str = ""
    from_us: int = _BEGIN_US
    to_us: int = _END_US

    def where(self) -> str:
        """A condition over cluster and window_start_us."""
        cluster = "cluster = {cluster:String} AND " if self.cluster else ""
        return f"{cluster}window_start_us >= {{from_us:Int64}} AND window_start_us < {{to_us:Int64}}"

    def parameters(self) -> dict[str, Any]:
        """What the condition takes."""
        cluster = {"cluster": self.cluster} if self.cluster else {}
        return {**cluster, "from_us": self.from_us, "to_us": self.to_us}
