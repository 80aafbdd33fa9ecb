"""Settings of the watcher: what cannot be used is refused."""

import msgspec
import pytest

from collector.watcher.api import Access, Api
from collector.watcher.settings import WatcherSettings

GOOD = {"cluster": "c", "bootstrap_servers": "k:9092", "pod_namespace": "n", "pod_name": "p"}


@pytest.mark.parametrize(
    "wrong",
    [{"cluster": ""}, {"pod_name": ""}, {"api_url": "kubernetes"}, {"page_size": 0}, {"echo_timeout_us": 0}],
)
def test_wrong_value_is_refused(wrong: dict[str, object]) -> None:
    """An empty name, an address that is no URL and a size of nothing are refused with the field's name."""
    with pytest.raises(msgspec.ValidationError, match=next(iter(wrong))):
        msgspec.convert(GOOD | wrong, WatcherSettings)


def test_ca_file_that_is_not_there_is_named() -> None:
    """A CA file that cannot be read is told by its name at the start."""
    with pytest.raises(ValueError, match=r"missing\.crt"):
        Api(Access("https://127.0.0.1:1", ca_file="missing.crt"))
