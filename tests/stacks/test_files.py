"""The files of one look."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from ascend_supervisor.stacks.look import file_names, write_all

TEXTS = [("rank-0.txt", "zero\n"), ("rank-1.txt", "one\ud800\n")]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_they_are_readable_only_to_us(tmp_path):
    written = write_all(tmp_path / "job-hang-0", TEXTS)
    assert written.refusal is None
    assert written.files == ("rank-0.txt", "rank-1.txt")
    assert mode(written.directory) == 0o700
    assert {mode(path) for path in written.directory.iterdir()} == {0o600}
    assert (written.directory / "rank-1.txt").read_text() == "one\\ud800\n"


def test_a_directory_that_exists_is_left_as_it_is(tmp_path):
    names = [write_all(tmp_path / "job-hang-0", TEXTS).directory.name for _ in range(3)]
    assert names == ["job-hang-0", "job-hang-0-2", "job-hang-0-3"]


def test_what_was_planted_is_not_followed(tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "job-hang-0").symlink_to(tmp_path / "theirs")
    (tmp_path / "job-hang-0-2").symlink_to(tmp_path / "nowhere")
    assert write_all(tmp_path / "job-hang-0", TEXTS).directory.name == "job-hang-0-3"
    assert not list((tmp_path / "theirs").iterdir())
    assert not (tmp_path / "nowhere").exists()


def test_a_log_directory_that_is_none_is_a_refusal(tmp_path):
    (tmp_path / "logs").write_text("")
    written = write_all(tmp_path / "logs" / "job-hang-0", TEXTS)
    assert (written.files, written.refusal) == ((), os.strerror(errno.ENOTDIR))


def test_on_a_full_disk_no_file_is_left_in_part(small_disk):
    texts = [("rank-0.txt", "zero\n"), ("rank-1.txt", (16 << 20) * "x"), ("rank-2.txt", "two\n")]
    written = write_all(small_disk / "job-hang-0", texts)
    assert (written.files, written.refusal) == (("rank-0.txt",), os.strerror(errno.ENOSPC))
    assert [path.name for path in written.directory.iterdir()] == ["rank-0.txt"]


def test_where_nothing_can_be_written_no_directory_is_left(small_disk):
    written = write_all(small_disk / "job-hang-0", [("rank-0.txt", (16 << 20) * "x")])
    assert written.refusal == os.strerror(errno.ENOSPC)
    assert not list(small_disk.iterdir())


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (["rank 3", "torchrun"], ["rank-3.txt", "torchrun.txt"]),
        (["a/../b", "..", "sh", "sh"], ["a-..-b.txt", "process.txt", "sh.txt", "sh-2.txt"]),
        (["\x1b[2J", 200 * "x"], ["2J.txt", f"{60 * 'x'}.txt"]),
    ],
)
def test_names_are_plain_and_all_different(names, files):
    assert file_names(names) == files
