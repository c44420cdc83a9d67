"""A log file that is rotated between lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_supervisor.output.log_file import UNCUT_BYTES, LogFile, Rotation
from tests.faults.facilities import program

HEADER = b"header\n"


def opened(path: Path, max_bytes: int = 1 << 30, keep: int = 2) -> LogFile:
    file = LogFile(path, Rotation(max_bytes, keep), lambda: HEADER)
    file.open()
    return file


def contents(path: Path) -> list[bytes]:
    """Of the file and those before it, the newest first."""
    files = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, 10))]
    return [file.read_bytes() for file in files if file.exists()]


def test_a_file_starts_with_its_header_and_is_private(tmp_path):
    path = tmp_path / "new" / "rank.txt"
    opened(path).write(b"one\n")
    assert path.read_bytes() == HEADER + b"one\n"
    assert path.stat().st_mode & 0o777 == 0o640 & ~umask()
    assert path.parent.stat().st_mode & 0o777 == 0o750 & ~umask()


def umask() -> int:
    value = os.umask(0)
    os.umask(value)
    return value


def test_what_an_earlier_start_left_is_kept_apart(tmp_path):
    path = tmp_path / "rank.txt"
    for words in (b"first\n", b"second\n", b"third\n", b"fourth\n"):
        opened(path, keep=2).write(words)
    assert contents(path) == [HEADER + b"fourth\n", HEADER + b"third\n", HEADER + b"second\n"]


def test_rotation_cuts_no_line_and_loses_none(tmp_path):
    path = tmp_path / "rank.txt"
    file = opened(path, max_bytes=100, keep=9)
    text = b"".join(b"line %d of many\n" % number for number in range(40))
    for start in range(0, len(text), 7):
        assert file.write(text[start : start + 7]) == len(text[start : start + 7])
    files = contents(path)
    assert len(files) > 5
    assert all(part.startswith(HEADER) and part.endswith(b"\n") for part in files)
    assert b"".join(part.removeprefix(HEADER) for part in reversed(files)) == text


def test_without_any_to_keep_the_full_file_goes(tmp_path):
    path = tmp_path / "rank.txt"
    file = opened(path, max_bytes=10, keep=0)
    file.write(b"a line that fills it\n")
    file.write(b"next\n")
    assert contents(path) == [HEADER + b"next\n"]


def test_a_line_without_end_does_not_stop_rotation_for_ever(tmp_path):
    path = tmp_path / "rank.txt"
    file = opened(path, max_bytes=10, keep=1)
    file.write(b"x" * (UNCUT_BYTES + 20))
    file.write(b"y")
    assert path.read_bytes() == HEADER + b"y"


def test_reopen_waits_for_the_end_of_the_line(tmp_path):
    path = tmp_path / "rank.txt"
    file = opened(path)
    file.write(b"begun ")
    path.rename(tmp_path / "moved.txt")
    file.reopen()
    file.write(b"and ended\nnext\n")
    assert (tmp_path / "moved.txt").read_bytes() == HEADER + b"begun and ended\n"
    assert path.read_bytes() == HEADER + b"next\n"


def test_a_file_that_was_removed_is_made_again(tmp_path):
    path = tmp_path / "logs" / "rank.txt"
    file = opened(path)
    path.unlink()
    path.parent.rmdir()
    file.write(b"after\n")
    assert path.read_bytes() == HEADER + b"after\n"


def test_a_planted_symlink_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "rank.txt").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        opened(tmp_path / "rank.txt")
    assert victim.read_bytes() == b"precious"


def test_what_somebody_else_has_put_there_is_set_aside(tmp_path):
    if os.geteuid():
        pytest.skip("to give a file to somebody else needs root")
    path = tmp_path / "rank.txt"
    path.touch()
    os.chown(path, 1234, -1)
    file = opened(path)
    path.rename(tmp_path / "moved")
    path.write_bytes(b"bait")
    os.chown(path, 1234, -1)
    file.reopen()
    file.write(b"one\n")
    assert contents(path) == [HEADER + b"one\n", b"bait", b""]


def test_a_file_with_another_name_is_set_aside(tmp_path):
    """Whoever may make hard links would have us write into any file of ours."""
    victim = tmp_path / "victim"
    victim.touch()
    (tmp_path / "rank.txt").hardlink_to(victim)
    opened(tmp_path / "rank.txt").write(b"one\n")
    assert victim.read_bytes() == b""


def test_a_fifo_of_somebody_else_is_not_written(tmp_path):
    if os.geteuid():
        pytest.skip("to give a file to somebody else needs root")
    path = tmp_path / "rank.txt"
    os.mkfifo(path)
    os.chown(path, 1234, -1)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(PermissionError, match="another user"):
        opened(path)
    os.close(reader)


def test_what_is_no_regular_file_is_not_rotated(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file = opened(path, max_bytes=1)
    file.write(b"one\n")
    file.write(b"two\n")
    assert os.read(reader, 100) == HEADER + b"one\ntwo\n"
    os.close(reader)


def test_a_full_disk_tells_how_much_was_written(small_disk):
    file = opened(small_disk / "rank.txt")
    written = file.write(b"x" * (16 << 20))
    assert 0 < written < 16 << 20
    with pytest.raises(OSError, match="No space left"):
        file.write(b"more")
    assert (small_disk / "rank.txt").stat().st_size == len(HEADER) + written


NO_NAMES = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int fstat(int fd, struct stat *found) {
    int status = fstatat(fd, "", found, AT_EMPTY_PATH);
    found->st_nlink = 0;
    return status;
}

int fstat64(int fd, struct stat64 *found) { return fstat(fd, (struct stat *)found); }
"""
"""Of an open file it says what some file systems say: that it has no names."""

WRITES_AND_LOSES = """
import os, sys
from pathlib import Path
from ascend_supervisor.output.log_file import LogFile, Rotation
path = Path(sys.argv[1])
file = LogFile(path, Rotation(1 << 30, 2), lambda: b"header\\n")
file.open()
assert os.fstat(0).st_nlink == 0
for words in (b"one\\n", b"two\\n", b"three\\n"):
    file.write(words)
print(path.read_text(), end="", flush=True)
path.unlink()
file.write(b"four\\n")
print(path.read_text(), end="", flush=True)
"""


def test_a_file_system_that_counts_no_names_gets_one_header(tmp_path):
    compiler = program("cc", "gcc")
    source, library = tmp_path / "names.c", tmp_path / "names.so"
    source.write_text(NO_NAMES)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    done = subprocess.run(
        [sys.executable, "-c", WRITES_AND_LOSES, tmp_path / "rank.txt"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "LD_PRELOAD": str(library)},
    )
    assert done.stdout == "header\none\ntwo\nthree\nheader\nfour\n"


def test_a_name_for_the_older_log_that_is_taken_by_something_else_stays(tmp_path):
    path = tmp_path / "rank.txt"
    file = opened(path, max_bytes=10, keep=1)
    os.mkfifo(tmp_path / "rank.txt.1")
    for words in (b"a line that fills it\n", b"next\n"):
        file.write(words)
    assert (tmp_path / "rank.txt.1").is_fifo()
    assert path.read_bytes() == HEADER + b"a line that fills it\nnext\n"
