"""Free ports on 127.0.0.1, outside the range from which the kernel takes ports of outgoing connections.

A port of that range may be taken by any client between the moment it is found free and the broker's start.
"""

import random
import socket

from .errors import BrokerError

_LOW, _HIGH = 20_000, 32_000


def free_ports(count: int) -> list[int]:
    """`count` distinct free ports; BrokerError when there are none."""
    found: list[int] = []
    for port in random.sample(range(_LOW, _HIGH), k=min(2_000, _HIGH - _LOW)):
        if _is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise BrokerError(f"no {count} free ports between {_LOW} and {_HIGH} on 127.0.0.1")


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
