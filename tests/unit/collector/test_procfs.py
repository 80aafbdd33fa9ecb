"""The host's /proc."""

import os
from pathlib import Path

import pytest

from collector.procfs import ProcFs


def test_start_ticks_is_field_22_after_the_last_parenthesis(tmp_path: Path) -> None:
    """A command name with spaces and parentheses does not move the start time."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (a) 1 (b c)) S " + " ".join(str(n) for n in range(4, 53)) + "\n")
    assert ProcFs(str(tmp_path)).start_ticks(7) == 22


def test_own_process_is_found() -> None:
    """The real /proc tells this process's start time, cgroup and boot id, and None of a pid that is not there."""
    proc = ProcFs("/proc")
    ticks = proc.start_ticks(os.getpid())
    assert ticks is not None and ticks > 0
    assert proc.cgroup(os.getpid())
    assert len(proc.boot_id()) == 36
    assert proc.start_ticks(2**22) is None and proc.cgroup(2**22) is None


def test_unreadable_cgroup_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may not be read is told as such and not taken for a process that is gone."""

    def refuse(path: str, flags: int) -> int:
        raise PermissionError(path)

    monkeypatch.setattr("collector.procfs.os.open", refuse)
    with pytest.raises(PermissionError):
        ProcFs(str(tmp_path)).cgroup(7)


def test_pid_namespace_is_empty_where_it_cannot_be_seen(tmp_path: Path) -> None:
    """A /proc without ns links, as a simulated one, does not say which namespace it is."""
    assert ProcFs(str(tmp_path)).pid_namespace() == ""
    assert ProcFs("/proc").pid_namespace().startswith("pid:[")
