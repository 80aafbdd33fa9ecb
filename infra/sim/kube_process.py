"""Process of the simulated API server: facts of a scenario up to the coordinator's time, over HTTP on 127.0.0.1.

Says {"url": ...} first. In lock-step it answers {"reached_us": T} to each {"advance_to_us": T}; live it follows the
machine's clock until it is told to finish. Decides nothing (tests/integration/test_watcher_process.py).
"""

import argparse
import sys
from collections.abc import Sequence

from infra.sim.clock import LiveClock, PipeLink, stop_when_told
from infra.sim.kube_api import KubeApi
from infra.sim.scenario import load_cluster


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Command line of the process."""
    parser = argparse.ArgumentParser(prog="python -m infra.sim.kube_process", description=__doc__)
    parser.add_argument("--scenario", required=True, help="scenario file or name")
    parser.add_argument("--trace", help="trace file in place of the scenario's pods")
    parser.add_argument("--hours", type=float, help="length; default: the scenario's")
    parser.add_argument("--start-us", type=int, required=True, help="event time at which the simulation begins")
    parser.add_argument("--live", action="store_true", help="follow the machine's clock")
    return parser.parse_args(argv)


def lockstep(api: KubeApi, start_us: int, link: PipeLink) -> None:
    """Follows the coordinator until it says finish."""
    link.reached(start_us)
    while (horizon_us := link.horizon_us()) is not None:
        api.advance(horizon_us)
        link.reached(horizon_us)


def live(api: KubeApi, boot_us: int, link: PipeLink) -> None:
    """Follows the machine's clock until the coordinator says finish."""
    clock = LiveClock(boot_us, stop_when_told(link), on_advance=api.advance)
    while clock.wait_until_us(clock.monotonic_us() + 1_000_000):
        api.advance(clock.event_us())


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until told to finish."""
    told = arguments(argv)
    cluster, _ = load_cluster(told.scenario, start_us=told.start_us, hours=told.hours, trace=told.trace)
    api = KubeApi(cluster, follow_clock=not told.live)
    link = PipeLink()
    link.say(url=api.start())
    try:
        if told.live:
            live(api, told.start_us, link)
        else:
            lockstep(api, told.start_us, link)
    finally:
        api.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
