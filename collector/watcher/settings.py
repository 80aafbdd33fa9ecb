"""Settings of the cluster watcher. Their values come from the command line (infra/cli/watcher.py) or from a caller.

Law: a value that cannot be used is refused at start (tests/unit/collector/test_watcher_settings.py).
"""

from typing import Annotated

import msgspec

from collector.settings import Port, Text

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class WatcherSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the watcher needs to know; `clock_key` is a secret that no node's collector has."""

    cluster: Text
    bootstrap_servers: Text
    pod_namespace: Text
    pod_name: Text
    """Its own pod, whose annotation proves that the watch is up to date."""
    api_url: Annotated[str, msgspec.Meta(pattern="^https?://.")] = "https://kubernetes.default.svc"
    token_file: str = ACCOUNT + "/token"
    ca_file: str = ACCOUNT + "/ca.crt"
    clock_key: str = ""
    """Signs clock records; empty: they are not signed."""
    kafka_options: dict[str, str] = {}
    metrics_port: Port = 0
    metrics_address: Text = "127.0.0.1"
    page_size: Annotated[int, msgspec.Meta(ge=1)] = 500
    echo_timeout_us: Annotated[int, msgspec.Meta(gt=0)] = 10_000_000
    """Longest wait for the own annotation to come back on the watch."""
    flush_timeout_us: Annotated[int, msgspec.Meta(gt=0)] = 30_000_000
