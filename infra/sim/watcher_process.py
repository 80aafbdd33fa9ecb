"""Process of the unmodified watcher under a simulated clock, led by a coordinator over stdin and stdout.

Decides nothing: the same composition root as `gpumeter watcher`, with another clock
(tests/integration/test_watcher_process.py).
"""

import argparse
import logging
import sys
from collections.abc import Sequence

import msgspec

from collector.clock import Clock
from collector.watcher.app import build_watcher
from collector.watcher.settings import WatcherSettings
from infra.sim.clock import LiveClock, LockstepClock, PipeLink, stop_when_told
from infra.sim.kube_api import WATCHER_NAMESPACE, WATCHER_POD


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Command line of the process."""
    parser = argparse.ArgumentParser(prog="python -m infra.sim.watcher_process", description=__doc__)
    parser.add_argument("--cluster", required=True, help="name of the cluster")
    parser.add_argument("--api-url", required=True, help="URL that kube_process said")
    parser.add_argument("--bootstrap-servers", required=True, help="Kafka, host:port,...")
    parser.add_argument("--start-us", type=int, required=True, help="event time at which the simulation begins")
    parser.add_argument("--clock-key", default="", help="key that signs clock records")
    parser.add_argument("--live", action="store_true", help="follow the machine's clock")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Watches until told to finish."""
    told = arguments(argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    values = {
        "cluster": told.cluster,
        "bootstrap_servers": told.bootstrap_servers,
        "pod_namespace": WATCHER_NAMESPACE,
        "pod_name": WATCHER_POD,
        "api_url": told.api_url,
        "token_file": "",
        "ca_file": "",
        "clock_key": told.clock_key,
    }
    settings = msgspec.convert(values, WatcherSettings)
    link = PipeLink()
    if told.live:
        clock: Clock = LiveClock(0, stop_when_told(link))
        build_watcher(settings, clock).run()
        return 0
    stepped = LockstepClock(told.start_us, 0, link)
    watcher = build_watcher(settings, stepped)
    stepped.flush = watcher.flush
    watcher.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
