"""Directories that are made, and those that somebody else has made for us."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ascend_supervisor.files.directories import can_be_made, make_directories

STRANGER = 1234


@pytest.fixture
def open_to_all(tmp_path: Path) -> Path:
    """A directory like /tmp."""
    if os.geteuid():
        pytest.skip("to give a directory to somebody else needs root")
    tmp_path.chmod(0o1777)
    return tmp_path


@pytest.mark.parametrize("umask", [0, 0o077])
def test_each_that_is_made_is_private(tmp_path, umask):
    before = os.umask(umask)
    try:
        make_directories(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    modes = {(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b", "a/b/c")}
    assert modes == {0o750 & ~umask}


def test_those_that_are_there_stay_as_they_are(tmp_path):
    (tmp_path / "a").mkdir(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    before = (tmp_path / "a").stat().st_mode
    make_directories(tmp_path / "link" / "b")
    make_directories(tmp_path / "link" / "b")
    assert (tmp_path / "a").stat().st_mode == before


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        make_directories(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        make_directories(tmp_path / "file" / "below")


def test_what_can_be_made_is_known_before_it_is_made(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    assert can_be_made(tmp_path)
    assert can_be_made(tmp_path / "a" / "b")
    assert not can_be_made(tmp_path / "file" / "a")
    assert not can_be_made(tmp_path / "link")
    assert not (tmp_path / "a").exists()


def test_a_directory_of_somebody_else_where_everybody_may_write_is_refused(open_to_all):
    (open_to_all / "his").mkdir()
    os.chown(open_to_all / "his", STRANGER, -1)
    with pytest.raises(PermissionError, match=f"user {STRANGER} has put"):
        make_directories(open_to_all / "his" / "ours")


def test_a_link_of_somebody_else_where_everybody_may_write_is_refused(open_to_all):
    (open_to_all / "home").mkdir()
    link = open_to_all / "link"
    link.symlink_to(open_to_all / "home")
    os.chown(link, STRANGER, -1, follow_symlinks=False)
    with pytest.raises(PermissionError, match=f"user {STRANGER} has put"):
        make_directories(link / "ours")
    assert not (open_to_all / "home" / "ours").exists()


def test_where_only_its_owner_may_write_anybodys_directory_will_do(tmp_path):
    if os.geteuid():
        pytest.skip("to give a directory to somebody else needs root")
    (tmp_path / "his").mkdir()
    os.chown(tmp_path / "his", STRANGER, -1)
    make_directories(tmp_path / "his" / "ours")


def test_what_others_planted_is_refused_each_time_however_much_is_known_to_be_fine(open_to_all):
    made: set[Path] = set()
    make_directories(open_to_all / "ours" / "a", made)
    assert {open_to_all / "ours", open_to_all / "ours" / "a"} < made
    (open_to_all / "his").mkdir()
    os.chown(open_to_all / "his", STRANGER, -1)
    for _ in range(2):
        with pytest.raises(PermissionError, match=f"user {STRANGER} has put"):
            make_directories(open_to_all / "his" / "ours", made)
    make_directories(open_to_all / "ours" / "a" / "b", made)
    assert (open_to_all / "ours" / "a" / "b").is_dir()
