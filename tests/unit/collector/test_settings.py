"""Settings of the node agent."""

import pytest

from collector.errors import SettingsError
from collector.settings import HELP, AgentSettings, settings_from, shown

NEEDED = {"GPUMETER_CLUSTER": "c", "GPUMETER_NODE": "n", "GPUMETER_BOOTSTRAP_SERVERS": "k:9092"}


def test_settings_have_defaults_and_types() -> None:
    """Numbers, truths and objects are read from text; what is not set has its default."""
    more = {
        "GPUMETER_NVML_PERIOD_US": "2000000",
        "GPUMETER_KAFKA_OPTIONS": '{"a": "b"}',
        "GPUMETER_FOREIGN_PIDS": "true",
    }
    settings = settings_from({**NEEDED, **more, "PATH": "/bin"}, AgentSettings)
    assert (settings.nvml_period_us, settings.kafka_options, settings.foreign_pids) == (2_000_000, {"a": "b"}, True)
    assert (settings.cgroup_period_us, settings.grants_period_us) == (1_000_000, 10_000_000)


def test_settings_tell_every_fault_at_once() -> None:
    """Unknown, missing and unreadable names are all in one error, with what is wrong with each."""
    wrong = {"GPUMETER_NODE": "n", "GPUMETER_NODES": "n", "GPUMETER_NVML_PERIOD_US": "soon", "GPUMETER_CLUSTER": ""}
    with pytest.raises(SettingsError) as caught:
        settings_from(wrong, AgentSettings)
    text = str(caught.value)
    for name in (
        "GPUMETER_NODES",
        "GPUMETER_NVML_PERIOD_US",
        "GPUMETER_CLUSTER",
        "GPUMETER_BOOTSTRAP_SERVERS: missing",
    ):
        assert name in text


def test_settings_refuse_readings_slower_than_the_ring() -> None:
    """A reading period above 10 s would lose samples for ever and is refused."""
    with pytest.raises(SettingsError, match="NVML_PERIOD"):
        settings_from({**NEEDED, "GPUMETER_NVML_PERIOD_US": "10000001"}, AgentSettings)


def test_settings_never_show_secrets() -> None:
    """Broker options may hold a password: neither the log line nor an error shows them."""
    secret = '{"sasl.password": "hunter2"}'
    assert "hunter2" not in str(shown(settings_from({**NEEDED, "GPUMETER_KAFKA_OPTIONS": secret}, AgentSettings)))
    with pytest.raises(SettingsError) as caught:
        settings_from({**NEEDED, "GPUMETER_KAFKA_OPTIONS": secret + "x"}, AgentSettings)
    assert "hunter2" not in str(caught.value)


def test_settings_are_all_explained() -> None:
    """Every setting has its line of help and no line is of a setting that is gone."""
    assert set(HELP) == set(AgentSettings.__struct_fields__)
