"""One log whose lines are chosen while it comes, grows, is cut, and is renamed."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ascend_supervisor.ctl.chosen_log import ChosenLog
from ascend_supervisor.ctl.line_patterns import read_pattern
from ascend_supervisor.ctl.line_selection import Criteria
from ascend_supervisor.ctl.out import GATHERED_BYTES, Gathered

WORDS = Criteria(read_pattern("word"))


def printed(log: ChosenLog) -> bytes:
    return b"".join(group.lines for group in log.groups())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_log_that_comes_later_is_read_from_its_beginning(path):
    log = ChosenLog(path, WORDS, None, None)
    assert printed(log) == b""
    assert log.trouble is not None
    assert log.trouble.errno == errno.ENOENT
    append(path, "word 1\nother\n")
    assert printed(log) == b"word 1\n"
    assert log.trouble is None


def test_a_line_is_chosen_when_it_is_whole(path):
    append(path, "word 1\nwo")
    log = ChosenLog(path, WORDS, None, None)
    assert printed(log) == b"word 1\n"
    append(path, "rd 2")
    assert printed(log) == b""
    append(path, "\nother\nword 3")
    assert printed(log) == b"word 2\n"
    assert [group.lines for group in log.rest()] == [b"word 3"]
    assert list(log.rest()) == []


def test_a_log_that_was_cut_in_place_is_read_anew(path):
    append(path, "word 1\nword 2\n")
    log = ChosenLog(path, WORDS, None, None)
    assert printed(log) == b"word 1\nword 2\n"
    path.write_text("word 3\n")
    assert printed(log) == b"word 3\n"


def test_the_end_of_a_renamed_file_comes_before_its_successors(path):
    append(path, "word 1\n")
    log = ChosenLog(path, WORDS, None, None)
    assert printed(log) == b"word 1\n"
    append(path, "word 2")
    path.rename(path.with_name("log.2"))
    path.with_name("log.1").write_text("word 3\n")
    append(path, "word 4\n")
    assert printed(log) == b"word 2word 3\nword 4\n"


def test_a_level_goes_on_from_one_look_to_the_next(path):
    append(path, "ERROR:root:1\n")
    log = ChosenLog(path, Criteria(severity=3), None, None)
    assert printed(log) == b"ERROR:root:1\n"
    append(path, "more of 1\nINFO:root:2\n")
    assert printed(log) == b"more of 1\n"


def test_output_is_gathered_and_nothing_is_kept_back():
    written: list[bytes] = []
    gathered = Gathered(written.append)
    gathered.put(b"a")
    gathered.put(b"b")
    assert written == []
    gathered.flush()
    gathered.flush()
    assert written == [b"ab"]
    gathered.put(bytes(GATHERED_BYTES))
    assert len(written[1]) == GATHERED_BYTES


RECENT = Criteria(since=0.0)
STAMPED = "2026-11-26 10:00:00 step 1\n"


def test_lines_without_times_are_chosen_together(path):
    append(path, f"a\nb\n{STAMPED}c 10:00\nd 1:10:00\n\ne\n")
    groups = [group.lines.decode() for group in ChosenLog(path, RECENT, None, None).groups()]
    assert groups == ["a\nb\n", STAMPED, "c 10:00\nd 1:10:00\n\ne\n"]


@pytest.mark.parametrize(
    "line",
    [
        "a line without a time",
        "step 7 (eta 0:01:23)",
        "saved at 2026-11-26 10:20:30",
    ],
)
def test_a_long_log_without_times_costs_no_look_at_each_line(path, line):
    append(path, f"{line}\n" * 200_000)
    assert len(list(ChosenLog(path, RECENT, None, None).groups())) < 10
    assert printed(ChosenLog(path, RECENT, None, None)) == path.read_bytes()


@pytest.mark.parametrize("count", range(7))
def test_of_lines_that_are_chosen_together_the_last_ones_are_counted(path, count):
    lines = ["a\n", "b\n", STAMPED, "c\n", "\n"]
    append(path, "".join(lines))
    last = lines[len(lines) - count :] if count < len(lines) else lines
    assert printed(ChosenLog(path, RECENT, count, None)).decode() == "".join(last)
