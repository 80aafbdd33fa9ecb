"""How a fault behaves in the node agent and the watcher: try again, or end the process.

Owns the behaviours and nothing else; whoever catches one of them decides nothing but what its name says. What the
driver or the kubelet says wrongly is data or a count, so there is no dead letter on this side.
"""


class Retry(Exception):
    """Something outside is away (broker, kubelet, API server, driver not loaded): the same call may succeed later."""


class Kept(Retry):
    """The broker is away, and everything unsent lies in the spool on disk: the next process sends it first."""


class Stop(Exception):
    """The process must end and be started anew; `exit_code` is 3 where an outside service is at fault, 4 else."""

    def __init__(self, message: str, exit_code: int = 4) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class SettingsError(ValueError):
    """The environment cannot be used; the message lists every fault of it at once."""
