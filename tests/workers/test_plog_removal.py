"""CANN's logs of processes that have ended are removed, and nothing else is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path, PurePath

import pytest

from ascend_supervisor.workers.plog_removal import LogTree, Removed, Writers, remove_plogs

STAMP = 20251124111652406
BEGAN, ENDED = 1000.0, 2000.0
PLACE = PurePath("job", "process_log", "rank_0")
FOLDERS = ["debug/plog", "run/plog", "security/plog", "operation/plog", "debug/device-7", "plog"]
SECONDS = 60.0


@pytest.fixture
def pid() -> int:
    """One that no process has, nor any after it: the kernel gives none so high."""
    return int(Path("/proc/sys/kernel/pid_max").read_text()) + 1


def log(
    top: Path,
    pid: int,
    *,
    folder: str = "debug/plog",
    name: str = "",
    stamp: int = STAMP,
    written: float = BEGAN,
) -> Path:
    kind = PurePath(folder).name.partition("-")[0]
    path = top / PLACE / folder / (name or f"{kind}-{pid}_{stamp}.log")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("EI0006")
    os.utime(path, (written, written))
    return path


def remove(top: Path, *pids: int, seconds: float = SECONDS) -> Removed:
    tree = LogTree(top, PLACE, is_of_job=True)
    return remove_plogs([Writers(tree, frozenset(pids), BEGAN, ENDED)], seconds)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("written", [BEGAN, ENDED])
def test_a_log_that_was_written_while_its_process_lived_is_removed(tmp_path, pid, folder, written):
    path = log(tmp_path, pid, folder=folder, written=written)
    assert remove(tmp_path, pid) == Removed(1, len("EI0006"))
    assert not path.exists()
    assert path.parent.is_dir()


def test_all_logs_of_all_processes_are_removed(tmp_path, pid):
    for folder in FOLDERS:
        for number in range(10):
            log(tmp_path, pid, folder=folder, stamp=STAMP + number, written=BEGAN + number)
    assert remove(tmp_path, pid, pid + 1).files == 10 * len(FOLDERS)


def test_logs_of_other_processes_stay(tmp_path, pid):
    others = [log(tmp_path, pid + 1), log(tmp_path, int(f"{pid}0")), log(tmp_path, 1)]
    assert remove(tmp_path, pid) == Removed()
    assert all(path.exists() for path in others)


@pytest.mark.parametrize("written", [0.0, BEGAN - 0.001])
def test_a_log_of_an_earlier_process_with_the_same_pid_stays(tmp_path, pid, written):
    earlier = log(tmp_path, pid, written=written)
    ours = log(tmp_path, pid, stamp=STAMP + 1)
    assert remove(tmp_path, pid).files == 1
    assert earlier.exists()
    assert not ours.exists()


def test_where_a_process_with_the_same_pid_has_written_since_all_of_that_pid_stays(tmp_path, pid):
    """It may be one in another container, and have written those before, too."""
    in_doubt = [
        log(tmp_path, pid),
        log(tmp_path, pid, folder="run/plog", written=ENDED + 0.001),
    ]
    log(tmp_path, pid + 1)
    assert remove(tmp_path, pid, pid + 1).files == 1
    assert all(path.exists() for path in in_doubt)


def test_the_log_of_a_pid_that_is_in_use_stays(tmp_path):
    path = log(tmp_path, os.getpid())
    assert remove(tmp_path, os.getpid()) == Removed()
    assert path.exists()


@pytest.mark.parametrize(
    "name",
    [
        *("plog-{}.log", "plog-{}_x.log", "plog-{}_1.log.1", "plog-{}_1.LOG", "plog-{}_1.log\n"),
        *("plog-0{}_1.log", "xplog-{}_1.log", "device-app-{}_1.log", "rank-{}_1.log", "{}"),
    ],
)
def test_other_names_stay(tmp_path, pid, name):
    path = log(tmp_path, pid, name=name.format(pid))
    assert remove(tmp_path, pid) == Removed()
    assert path.exists()


@pytest.mark.parametrize("folder", ["", "debug", "debug/other", "debug/plog/plog", "x/plog"])
def test_other_folders_are_left_alone(tmp_path, pid, folder):
    path = log(tmp_path, pid, folder=folder, name=f"plog-{pid}_{STAMP}.log")
    assert remove(tmp_path, pid) == Removed()
    assert path.exists()


def test_a_log_of_another_user_stays(tmp_path, pid):
    if os.geteuid():
        pytest.skip("only root can give a file away")
    path = log(tmp_path, pid)
    os.chown(path, 12345, 12345)
    assert remove(tmp_path, pid) == Removed()
    assert path.exists()


def link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def directory(path: Path, target: Path) -> None:
    path.mkdir()
    target.rename(path / target.name)


def pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [link, directory, pipe])
def test_what_is_no_regular_file_stays(tmp_path: Path, pid: int, make: Callable[..., None]):
    target = tmp_path / "precious"
    target.write_text("precious")
    os.utime(target, (BEGAN, BEGAN))
    path = log(tmp_path, pid)
    path.unlink()
    make(path, target)
    os.utime(path, (BEGAN, BEGAN), follow_symlinks=False)
    assert remove(tmp_path, pid) == Removed()
    assert os.path.lexists(path)
    assert [found.read_text() for found in tmp_path.rglob("precious")] == ["precious"]


@pytest.mark.parametrize("place", ["job", "job/process_log", str(PLACE)])
def test_no_link_is_followed_to_the_logs(tmp_path, pid, place):
    path = log(tmp_path, pid)
    real = tmp_path / place
    real.rename(tmp_path / "elsewhere")
    real.symlink_to(tmp_path / "elsewhere")
    assert path.exists()
    assert remove(tmp_path, pid) == Removed()
    assert path.exists()


@pytest.mark.parametrize("folder", ["debug", "debug/plog", "debug/device-0"])
@pytest.mark.parametrize("make", [link, pipe])
def test_a_folder_that_cannot_be_read_leaves_everything_in_doubt(tmp_path, pid, folder, make):
    elsewhere = tmp_path / "elsewhere"
    theirs = log(elsewhere, pid).rename(elsewhere / f"plog-{pid}_{STAMP}.log")
    in_doubt = log(tmp_path, pid, folder="run/plog")
    path = tmp_path / PLACE / folder
    path.parent.mkdir(exist_ok=True)
    make(path, elsewhere)
    assert remove(tmp_path, pid) == Removed()
    assert in_doubt.exists()
    assert theirs.exists()


def test_where_nothing_was_logged_nothing_is_removed(tmp_path, pid):
    assert remove(tmp_path, pid) == Removed()
    assert remove(tmp_path / "missing", pid) == Removed()


def test_when_the_time_is_over_it_stops_and_says_so(tmp_path, pid):
    path = log(tmp_path, pid)
    assert remove(tmp_path, pid, seconds=-1.0) == Removed(is_all=False)
    assert path.exists()


@pytest.mark.long
def test_a_directory_of_100_000_files_is_searched(tmp_path, pid):
    path = log(tmp_path, pid)
    for number in range(100_000):
        os.mknod(path.with_name(f"plog-{pid + 1 + number}_{STAMP}.log"))
    assert remove(tmp_path, pid).files == 1
    assert not path.exists()
    assert sum(1 for _ in path.parent.iterdir()) == 100_000
