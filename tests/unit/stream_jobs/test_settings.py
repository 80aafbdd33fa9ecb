import json

import pytest

from stream_jobs.settings import SettingsError, load_settings


def test_settings_take_environment_and_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given wins over the environment, which wins over the default."""
    monkeypatch.setenv("GPUMETER_BOOTSTRAP_SERVERS", "a:1")
    monkeypatch.setenv("GPUMETER_WORKER_GROUP", "env")
    assert load_settings().bootstrap_servers == "a:1"
    assert load_settings(bootstrap_servers="b:2", instance=None).bootstrap_servers == "b:2"
    assert (load_settings().group, load_settings(group="given").group) == ("env", "given")


def test_all_faults_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown name and a wrong value are both in the one error."""
    monkeypatch.setenv("GPUMETER_WORKER_WINDOWS", "60")
    monkeypatch.setenv("GPUMETER_WORKER_WINDOW_S", "sixty")
    with pytest.raises(SettingsError) as error:
        load_settings(metrics_port=70_000)
    for name in ("GPUMETER_WORKER_WINDOWS", "window_s", "metrics_port", "GPUMETER_CLOCK_KEY"):
        assert name in str(error.value)


def test_secret_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of the clock reaches the meter and never the log."""
    monkeypatch.setenv("GPUMETER_CLOCK_KEY", "hidden")
    settings = load_settings()
    assert settings.meter().clock_key == b"hidden"
    assert "hidden" not in json.dumps(settings.shown())
