"""Composition root of the watcher: builds everything it is made of, in one place, and decides nothing."""

from functools import partial

from collector.clock import Clock
from collector.metrics import serve
from collector.publish import Publisher

from .api import Access, Api
from .figures import WATCHER_METRICS, WatcherFigures
from .remember import remember
from .settings import WatcherSettings
from .watcher import Watcher

AT_ONCE = {"linger.ms": "0", "socket.nagle.disable": "true"}
"""Each tick waits for its acknowledgements, so waiting for more messages only delays the clock."""


def build_watcher(settings: WatcherSettings, clock: Clock) -> Watcher:
    """A watcher on the real API server and broker that the settings name."""
    api = Api(Access(settings.api_url, settings.token_file, settings.ca_file))
    publisher = Publisher(
        settings.cluster,
        settings.bootstrap_servers,
        options=AT_ONCE | settings.kafka_options,
        queue_bytes=256 << 20,
        client_id="gpumeter-watcher",
    )
    ask = partial(remember, settings.cluster, settings.bootstrap_servers, settings.kafka_options)
    watcher = Watcher(settings, clock, api, publisher, ask)
    if settings.metrics_port:
        figures = WatcherFigures(watcher, publisher, clock)
        serve(settings.metrics_address, settings.metrics_port, WATCHER_METRICS, figures.values, figures.health)
    return watcher
