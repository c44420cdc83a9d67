"""What a rank wrote, as a terminal is shown it: every character is there, and none steers it."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ascend_supervisor.ctl.logs import LabelledLog
from ascend_supervisor.output.terminal import Label, rank_label
from ascend_supervisor.output.text_lines import TextLines, visible
from ascend_supervisor.untrusted_text import coloured, divided, harmless
from tests.terminals import COLOUR, WORDS, steering

PARTS = st.one_of(
    st.binary(max_size=20),
    st.text(max_size=20).map(str.encode),
    st.sampled_from([word.encode() for word in WORDS]),
    st.sampled_from(
        [b"\n", b"\r", b"\r\n", b"\0", b"\t", b"\x1b[1;31m", b"\x1b[0m", b"\x1b", b"["]
    ),
)
COLOUR_BYTES = re.compile(rb"\x1b\[[0-9;:]{0,64}m")
WRITTEN = st.lists(PARTS, max_size=20).map(b"".join)


@given(WRITTEN)
@pytest.mark.parametrize("shown", [harmless, coloured])
def test_nothing_steers_the_terminal_whatever_was_written(shown, data):
    text = shown(data).decode()
    assert not steering(text)
    assert text.count("\n") == data.count(b"\n")
    if shown is harmless:
        assert "\x1b" not in text


@given(WRITTEN)
def test_what_is_shown_is_what_was_written(data):
    """But NUL, colours, and the CR of CR LF; what would steer as Python writes it."""
    written = COLOUR_BYTES.sub(b"", data.replace(b"\0", b"")).replace(b"\r\n", b"\n")
    text = written.decode("utf-8", "backslashreplace")
    assert harmless(data).decode() == "".join(map(as_python_writes_it, text))


def as_python_writes_it(one: str) -> str:
    return repr(one)[1:-1] if steering(one) else one


@pytest.mark.parametrize("word", WORDS)
def test_what_would_steer_is_shown_as_python_writes_it(word):
    assert harmless(f"before {word} after".encode()).decode() == "before {} after".format(
        "".join(map(as_python_writes_it, COLOUR.sub("", word)))
    )


def test_colours_survive_and_end_with_their_line():
    line = b"\x1b[1;31mred\x1b[0m and \x1b[38:5:208morange"
    assert coloured(line + b"\nplain\n") == line + b"\x1b[0m\nplain\n"
    assert harmless(line + b"\nplain\n") == b"red and orange\nplain\n"


def test_colours_survive_beside_what_must_not():
    assert coloured("\x1b[31m训练\x1b[2J\x9b\n".encode()) == (
        "\x1b[31m训练\\x1b[2J\\x9b\x1b[0m\n".encode()
    )


def test_what_a_colour_hides_makes_no_other_sequence():
    assert harmless(b"\x1b\x1b[0m[2J") == rb"\x1b[2J"
    assert coloured(b"\x1b\0[2J\x1b[0m") == b"\\x1b[2J\x1b[0m\x1b[0m"


@pytest.mark.parametrize("text", ["", "plain\n", "a\tb\n", "训练 — “ok”\n", "é\n\n", "👩‍💻 क्ष\n"])
@pytest.mark.parametrize("shown", [harmless, coloured])
def test_ordinary_text_is_shown_as_it_is(shown, text):
    assert shown(text.encode()) == text.encode()


WHOLE = "aé中\U0001f525\x1b[38;5;208mz\r\n".encode()


@pytest.mark.parametrize("place", range(len(WHOLE) + 1))
def test_a_cut_is_never_within_a_character_or_a_colour(place):
    data = WHOLE[:place]
    whole, begun = divided(data)
    assert whole + begun == data
    assert whole.decode(errors="strict").count("\x1b") == len(COLOUR.findall(whole.decode()))
    assert not whole.endswith(b"\r")


@given(WRITTEN, st.lists(st.integers(0, 400), max_size=8))
@example(b"\n\0", [])
def test_labelled_lines_are_the_same_however_the_pieces_were_cut(data, places):
    edges = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    put: list[bytes] = []
    log = LabelledLog(TextLines(rank_label(3, 1, in_colour=False), coloured), put.append)
    for start, end in pairwise(edges):
        log.put(data[start:end])
    log.finish()
    seen = visible(data.replace(b"\0", b""))
    whole, begun = seen[: seen.rfind(b"\n") + 1], seen[seen.rfind(b"\n") + 1 :]
    lines = coloured(whole + (begun + b"\n" if begun.strip() else b"")).split(b"\n")[:-1]
    assert b"".join(put) == b"".join(b"[rank 3] %b\n" % line for line in lines)


def test_a_line_without_an_end_is_put_in_parts_that_cut_no_character():
    put: list[bytes] = []
    log = LabelledLog(TextLines(Label("", ""), harmless), put.append)
    text = "x训练" * 40_000
    data = text.encode()
    for start in range(0, len(data), 10_001):
        log.put(data[start : start + 10_001])
    log.finish()
    assert len(put) > 2
    assert b"".join(put).decode().replace("\n", "") == text


def test_an_unfinished_line_is_put_after_half_a_second_and_then_ever_less_often():
    put: list[bytes] = []
    now = [0.0]
    log = LabelledLog(TextLines(Label("", ""), harmless), put.append, lambda: now[0])
    shown_at = []
    for tick in range(100):
        now[0] = tick / 10
        log.put(b"\r%d%%" % tick)
        before = len(put)
        log.show_unfinished()
        shown_at += [now[0]] * (len(put) - before)
    assert shown_at == [0.5, 1.6, 3.7, 7.8]
    log.put(b"\n")
    assert put == [b"5%\n", b"16%\n", b"37%\n", b"78%\n", b"99%\n"]
