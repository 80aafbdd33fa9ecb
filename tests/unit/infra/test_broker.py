"""What a local broker is told and fed, without starting one."""

from pathlib import Path

import pytest

from infra.broker import install
from infra.broker.errors import BrokerError
from infra.broker.ports import free_ports
from infra.broker.properties import Ports, server_properties


def test_broker_listens_on_loopback_only() -> None:
    """Every address in server.properties is 127.0.0.1."""
    text = server_properties(0, [Ports(1, 2), Ports(3, 4), Ports(5, 6)], "/data", {})
    settings = dict(line.split("=", 1) for line in text.splitlines())
    for name in ("listeners", "advertised.listeners"):
        assert all("://127.0.0.1:" in address for address in settings[name].split(","))
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:2,2@127.0.0.1:4,3@127.0.0.1:6"
    assert settings["min.insync.replicas"] == "2"


def test_free_ports_are_distinct() -> None:
    """Ports of one call differ from each other."""
    assert len(set(free_ports(6))) == 6


def test_unknown_jar_is_refused(tmp_path: Path) -> None:
    """A jar whose content is not that of jars.toml, or that is not named there, stops the start."""
    (tmp_path / "kafka" / "jars").mkdir(parents=True)
    (tmp_path / "kafka" / "jars" / "kafka_2.13-4.4.0.jar").write_bytes(b"not the real one")
    with pytest.raises(BrokerError, match=r"kafka_2\.13-4\.4\.0\.jar"):
        install._verify(tmp_path / "kafka", {"kafka_2.13-4.4.0.jar": "00"})


def test_failed_fetch_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When jgo cannot fetch, the error tells its output and what a person can do."""
    monkeypatch.setattr(install.sys, "executable", "/bin/false")
    with pytest.raises(BrokerError, match="GPUMETER_KAFKA_HOME"):
        install.ensure_kafka(tmp_path)
