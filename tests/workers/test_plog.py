"""CANN's logs of a process: the right ones are read, and nothing that others made of them hurts."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_supervisor.job_files import cann_log_root
from ascend_supervisor.workers.examination import END_BYTES, MOST_LOGS, Plogs, last_lines
from tests.running import DEADLINE_SECONDS

PID = 4711
STAMP = 20251124111652406


def log(root: Path, text: str = "EI0006", *, pid: int = PID, stamp: int = STAMP) -> Path:
    path = root / "debug" / "plog" / f"plog-{pid}_{stamp}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def read(root: Path, pids: frozenset[int] | None = frozenset({PID}), since: float = 0.0):
    """The lines, read in a thread as the supervisor does; it may not hang."""
    found: list[tuple[str, ...]] = []
    look = threading.Thread(
        target=lambda: found.append(last_lines(Plogs(root, pids, since))), daemon=True
    )
    look.start()
    look.join(DEADLINE_SECONDS)
    assert not look.is_alive()
    return found[0]


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({}, None),
        ({"HOME": "/root"}, "/root/ascend/log"),
        ({"HOME": "/root", "ASCEND_WORK_PATH": "/work"}, "/work/log"),
        ({"ASCEND_WORK_PATH": "/work", "ASCEND_PROCESS_LOG_PATH": "/logs"}, "/logs"),
        ({"ASCEND_PROCESS_LOG_PATH": "logs"}, "/cwd/logs"),
        ({"ASCEND_PROCESS_LOG_PATH": "", "HOME": "/root"}, "/root/ascend/log"),
    ],
)
def test_the_logs_are_where_cann_puts_them(environ, root):
    assert cann_log_root(environ, Path("/cwd")) == (None if root is None else Path(root))


def test_a_log_of_the_process_is_read(tmp_path):
    log(tmp_path, "one\ntwo\n")
    assert read(tmp_path) == ("one", "two")


@pytest.mark.parametrize("folder", ["debug/plog", "run/plog", "plog"])
def test_each_release_of_cann_has_its_folder(tmp_path, folder):
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / f"plog-{PID}_{STAMP}.log").write_text("here")
    assert read(tmp_path) == ("here",)


def test_the_newest_comes_first_and_few_are_read(tmp_path):
    for age in range(MOST_LOGS + 2):
        log(tmp_path, f"{age}", stamp=STAMP - age)
    assert read(tmp_path) == tuple(map(str, range(MOST_LOGS)))


def test_logs_of_other_processes_are_not_read(tmp_path):
    log(tmp_path, "mine")
    log(tmp_path, "another's", pid=PID + 1)
    assert read(tmp_path) == ("mine",)
    assert sorted(read(tmp_path, None)) == ["another's", "mine"]


def test_a_log_of_an_earlier_process_with_the_same_pid_is_not_read(tmp_path):
    written = log(tmp_path).stat().st_mtime
    assert read(tmp_path, since=written) == ("EI0006",)
    assert read(tmp_path, since=written + 1) == ()


@pytest.mark.parametrize("name", ["plog-4711.log", "plog-4711_x.log", "plog-4711_1.log.1", "4711"])
def test_other_names_are_passed_over(tmp_path, name):
    log(tmp_path).rename(tmp_path / "debug" / "plog" / name)
    assert read(tmp_path, None) == ()


def test_only_the_end_of_a_log_of_10_gigabytes_is_read(tmp_path):
    path = log(tmp_path)
    os.truncate(path, 10 << 30)
    with path.open("ab") as file:
        file.write(b"\nthe end\n")
    lines = read(tmp_path)
    assert lines[-1] == "the end"
    assert sum(map(len, lines)) <= END_BYTES


@pytest.mark.long
def test_a_directory_of_100_000_files_is_searched(tmp_path):
    log(tmp_path, "found")
    folder = f"{tmp_path}/debug/plog"
    for number in range(100_000):
        os.mknod(f"{folder}/plog-{PID + 1 + number}_{STAMP}.log")
    assert read(tmp_path) == ("found",)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def no_text(path: Path) -> None:
    path.symlink_to("/proc/self/mem")


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def terminal(path: Path) -> None:
    path.symlink_to("/dev/tty")


STRANGE = [os.mkfifo, os.mkdir, loop, dangling, no_text, zeros, terminal]


@pytest.mark.parametrize("make", STRANGE)
def test_a_log_that_is_no_file_is_passed_over(tmp_path: Path, make: Callable[[Path], None]):
    log(tmp_path, "found", stamp=STAMP - 1)
    make(tmp_path / "debug" / "plog" / f"plog-{PID}_{STAMP}.log")
    assert read(tmp_path) == ("found",)


@pytest.mark.parametrize("make", STRANGE)
@pytest.mark.parametrize("place", ["", "debug", "debug/plog"])
def test_a_directory_that_is_none_tells_nothing(
    tmp_path: Path, place: str, make: Callable[[Path], None]
):
    root = tmp_path / "logs"
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    make(root / place)
    assert read(root, None) == ()


def test_what_may_not_be_read_tells_nothing(tmp_path):
    path = log(tmp_path)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("root may read everything")
    assert read(tmp_path) == ()


def test_bytes_that_are_no_text_are_read_as_such(tmp_path):
    log(tmp_path).write_bytes(b"\xff\xfe EI0006\n\0")
    assert any("EI0006" in line for line in read(tmp_path))


def test_the_time_is_that_of_the_file_system(tmp_path):
    """The limit is compared with what this file system writes at this moment."""
    before = time.time() - 1
    log(tmp_path)
    assert read(tmp_path, since=before) == ("EI0006",)
