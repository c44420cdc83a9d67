"""A rank's lines for people: labels, colours, and lines that are not finished."""

from __future__ import annotations

from itertools import count

import pytest

from ascend_supervisor.output.footer import Drawing
from ascend_supervisor.output.terminal import Label, named_label, rank_label
from ascend_supervisor.output.text_lines import RawLines, TerminalLines, TextLines
from ascend_supervisor.untrusted_text import coloured

LABEL = rank_label(3, 1, in_colour=False)
NUMBERS = count()


class Kept:
    """The words that are kept below all lines, as somebody sees them."""

    def __init__(self) -> None:
        self.words: Drawing | None = None
        self.lines = TerminalLines(LABEL, coloured, self.keep)

    def keep(self, words: Drawing | None) -> None:
        self.words = words

    def write(self, chunk: bytes) -> bytes:
        return bytes(self.lines.render(chunk, 0.0, NUMBERS))

    def seen(self, columns: int = 79) -> str | None:
        return None if self.words is None else self.words(columns)


@pytest.mark.parametrize(
    ("rank", "digits", "text"), [(3, 1, "[rank 3] "), (3, 2, "[rank  3] "), (12, 2, "[rank 12] ")]
)
def test_labels_are_aligned(rank, digits, text):
    assert rank_label(rank, digits, in_colour=False) == Label(text, text)


def test_ranks_differ_in_colour_and_the_space_after_the_label_has_none():
    painted = [rank_label(rank, 1, in_colour=True).painted for rank in range(8)]
    assert painted[0] == "\x1b[36m[rank 0]\x1b[0m "
    assert len({label[:5] for label in painted}) == 8
    assert not any(label.startswith("\x1b[31m") for label in painted)


def test_the_name_of_a_program_steers_nothing():
    assert named_label("a\x1b[2Jb").painted == r"[a\x1b[2Jb] "


def test_a_progress_bar_is_shown_as_it_is_in_the_end():
    lines = TextLines(LABEL)
    shown = b"".join(lines.render(b"\r %d%%" % part, 0.0, NUMBERS) for part in range(101))
    shown += lines.render(b"\nnext\r\n", 0.0, NUMBERS)
    assert shown == b"[rank 3]  100%\n[rank 3] next\n"


def test_an_unfinished_line_is_shown_from_its_beginning_and_only_if_it_has_changed():
    lines = TextLines(LABEL)
    assert lines.render(b"compiling ...", 0.0, NUMBERS) == b""
    assert lines.unfinished() == b"[rank 3] compiling ...\n"
    assert lines.unfinished() == b""
    assert lines.render(b" done\nnext\n", 0.0, NUMBERS) == (
        b"[rank 3] compiling ... done\n[rank 3] next\n"
    )
    assert lines.unfinished() == b""


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_that_was_shown_as_it_ended_is_not_shown_again(end):
    lines = TextLines(LABEL)
    shown = lines.render(b"compiling ...", 0.0, NUMBERS) + lines.unfinished()
    shown += lines.render(end, 0.0, NUMBERS) if end else lines.rest(0.0, NUMBERS)
    shown += lines.render(b"compiling ...\n", 0.0, NUMBERS)
    assert shown == b"[rank 3] compiling ...\n" * 2


def test_an_erased_progress_bar_leaves_no_line():
    lines = TextLines(LABEL)
    assert lines.render(b"\r 50%\r    \r", 0.0, NUMBERS) == b""
    assert lines.unfinished() == b""
    assert lines.rest(0.0, NUMBERS) == b""


def test_on_a_terminal_an_unfinished_line_is_below_the_others_until_it_ends():
    kept = Kept()
    assert kept.write(b"\r 10%\t\x1b[31mof 9\x1b[2J") == b""
    assert kept.seen() is None
    assert kept.lines.unfinished() == b""
    assert kept.seen() == r"[rank 3]  10% of 9\x1b[2J"
    assert kept.write(b"\r 20%") == b""
    assert kept.lines.unfinished() == b""
    assert kept.seen() == "[rank 3]  20%"
    assert kept.write(b"\n") == b"[rank 3]  20%\n"
    assert kept.seen() is None


@pytest.mark.parametrize("columns", [79, 20, 12, 9, 5, 1])
def test_it_is_never_wider_than_the_window(columns):
    kept = Kept()
    kept.write(("训练" * 100).encode())
    kept.lines.unfinished()
    seen = kept.seen(columns)
    assert seen is not None
    assert sum(2 if one in "训练" else 1 for one in seen) <= columns


@pytest.mark.parametrize("ending", ["rest", "cut"])
def test_nothing_stays_below_when_the_rank_ends_or_is_dropped(ending):
    kept = Kept()
    kept.write(b"compiling ...")
    kept.lines.unfinished()
    assert kept.seen()
    shown = kept.lines.rest(0.0, NUMBERS) if ending == "rest" else kept.lines.cut()
    assert kept.seen() is None
    assert shown == (b"[rank 3] compiling ...\n" if ending == "rest" else b"")


def test_raw_shows_whole_lines_and_then_the_rest():
    lines = RawLines()
    assert lines.render(b"one\ntw", 0.0, NUMBERS) == b"one\n"
    assert lines.render(b"o\nthree \xe4", 0.0, NUMBERS) == b"two\n"
    assert lines.unfinished() == b"three "
    assert lines.unfinished() == b""
    assert lines.render(b"\xb8\xad\n", 0.0, NUMBERS) == "中\n".encode()
    assert lines.cut() == b""


def test_raw_marks_the_cut_of_a_line_of_which_a_part_was_shown():
    lines = RawLines()
    lines.render(b"begun", 0.0, NUMBERS)
    assert lines.unfinished() == b"begun"
    assert lines.cut() == b" ...(cut)...\n"
    assert lines.render(b"next", 0.0, NUMBERS) == b""
    assert lines.cut() == b""
