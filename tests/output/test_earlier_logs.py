"""Logs of earlier starts: named by their start, never overwritten, never rotated away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ascend_supervisor.output.earlier_logs import set_aside, start_words
from ascend_supervisor.output.log_file import LogFile, Rotation

NAME = "rank.txt"


def started(
    folder: Path, label: str, *words: bytes, max_bytes: int = 1 << 30, keep: int = 2
) -> None:
    """A log of the start with this label that has written ``words``."""

    def header() -> bytes:
        return f"[ours] log of rank 0{start_words(label)}\n".encode()

    file = LogFile(folder / NAME, Rotation(max_bytes, keep, label), header)
    file.open()
    for part in words:
        file.write(part)
    file.close()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def last_line(path: Path) -> bytes:
    return path.read_bytes().splitlines()[-1]


def test_each_start_has_its_own_log_and_the_current_one_the_usual_name(tmp_path):
    labels = ("s1-p1", "s1-p2", "s2-p1", "s2-p2", "s2-p3")
    for label in labels:
        started(tmp_path, label, label.encode())
    earlier = [f"{NAME}.{label}" for label in labels[:-1]]
    assert names(tmp_path) == [NAME, *earlier]
    assert last_line(tmp_path / NAME) == b"s2-p3"
    assert [last_line(tmp_path / name) for name in earlier] == [b.encode() for b in labels[:-1]]


def test_rotation_deletes_nothing_of_an_earlier_start(tmp_path):
    for label in ("s1-p1", "s1-p2"):
        lines = [f"{number} of {label} and much more\n".encode() for number in range(9)]
        started(tmp_path, label, *lines, max_bytes=30)
    kept = [NAME, f"{NAME}.1", f"{NAME}.2"]
    aside = [f"{NAME}.s1-p1", f"{NAME}.s1-p1.1", f"{NAME}.s1-p1.2"]
    assert names(tmp_path) == [*kept, *aside]
    assert all(b"s1-p2" in (tmp_path / name).read_bytes() for name in kept)
    assert all(b"s1-p1" in (tmp_path / name).read_bytes() for name in aside)


def test_the_same_start_rotates_as_ever(tmp_path):
    """The boot command may start a supervisor twice; the platform counts it once."""
    for words in (b"first", b"second"):
        started(tmp_path, "s1-p1", words)
    assert names(tmp_path) == [NAME, f"{NAME}.1"]
    assert last_line(tmp_path / f"{NAME}.1") == b"first"


def test_without_counts_nothing_changes(tmp_path):
    for words in (b"first", b"second"):
        started(tmp_path, "", words)
    assert names(tmp_path) == [NAME, f"{NAME}.1"]


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"loss 0.5\n",
        b"x" * 5000,
        b"log of rank 0, start s1-p1",
        b"log, start s-p\n",
        b"\xff\n",
    ],
)
def test_a_log_that_names_no_start_is_from_before_this_one(tmp_path, head):
    content = head + b"words"
    (tmp_path / NAME).write_bytes(content)
    (tmp_path / f"{NAME}.7").write_bytes(b"older")
    started(tmp_path, "s1-p2", b"new")
    before = f"{NAME}.before-s1-p2"
    assert names(tmp_path) == [NAME, before, f"{before}.7"]
    assert (tmp_path / before).read_bytes() == content
    assert (tmp_path / f"{before}.7").read_bytes() == b"older"


def test_nothing_is_overwritten_where_the_name_is_taken(tmp_path):
    for label in ("s1-p1", "s1-p2", "s1-p1", "s1-p2"):  # a platform that counts anew
        started(tmp_path, label, label.encode())
    assert names(tmp_path) == [NAME, f"{NAME}.s1-p1", f"{NAME}.s1-p1-2", f"{NAME}.s1-p2"]


def test_only_regular_files_with_content_are_renamed(tmp_path):
    (tmp_path / NAME).touch()
    (tmp_path / f"{NAME}.1").mkdir()
    (tmp_path / f"{NAME}.2").symlink_to("elsewhere")
    os.mkfifo(tmp_path / f"{NAME}.3")
    (tmp_path / f"{NAME}.4.gz").write_bytes(b"of others")
    before = names(tmp_path)
    set_aside(tmp_path / NAME, "s1-p2")
    assert names(tmp_path) == before


def test_a_directory_that_does_not_exist_holds_nothing(tmp_path):
    set_aside(tmp_path / "nowhere" / NAME, "s1-p2")
    assert names(tmp_path) == []


def test_what_cannot_be_renamed_stays_and_the_start_goes_on(tmp_path):
    (tmp_path / NAME).write_bytes(b"log, start s1-p1\n")
    taken = [f"{NAME}.s1-p1", *(f"{NAME}.s1-p1-{number}" for number in range(2, 100))]
    for name in taken:
        (tmp_path / name).touch()
    started(tmp_path, "s1-p2", b"new")
    assert (tmp_path / f"{NAME}.1").read_bytes() == b"log, start s1-p1\n"
    assert last_line(tmp_path / NAME) == b"new"
