"""Text in the columns of a terminal."""

from __future__ import annotations

from itertools import product

import pytest

from ascend_supervisor.ctl.columns import columns_of, cut, facts, folded, size, table


@pytest.mark.parametrize(
    ("text", "columns"),
    [("", 0), ("abc", 3), ("训练", 4), ("e\u0301", 1), ("😀", 2), ("a\u200bb", 2), ("é", 1)],
)
def test_the_columns_of_a_text(text, columns):
    assert columns_of(text) == columns


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "ab..."),
        ("abcdef", 3, "abc"),
        ("abcdef", 1, "a"),
        ("abcdef", 0, ""),
        ("abcdef", -1, ""),
        ("训练卡死", 8, "训练卡死"),
        ("训练卡死", 7, "训练..."),
        ("训练卡死", 6, "训..."),
        ("训练", 3, "训"),
        ("e\u0301e\u0301", 1, "e\u0301"),
    ],
)
def test_a_text_is_cut_to_its_columns(text, most, expected):
    assert cut(text, most) == expected
    assert columns_of(cut(text, most)) <= max(most, 0)


def test_columns_are_aligned_by_what_they_take_on_a_terminal():
    lines = table(("A", "B"), [("训练", 1), ("abc", None), ("a\tb\x1b[2J", "")])
    ends = {columns_of(line[: -len(last)]) for line, last in zip(lines, "B1--", strict=True)}
    assert ends == {13}
    assert lines[3] == "a\\tb\\x1b[2J  -"


def test_a_fact_without_a_value_is_left_out_and_lines_of_one_are_aligned():
    named = [("one", 0), ("two", None), ("three", ""), ("four", "a\nb\x1b")]
    assert facts(named) == ["one   0", "four  a", "      'b\\x1b'"]
    assert facts([]) == []


CAUSE = "root cause  rank 3 failed first, in generation 0: it exited with status 1"


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (80, [CAUSE]),
        (
            40,
            [
                "root cause  rank 3 failed first, in",
                "            generation 0: it exited with",
                "            status 1",
            ],
        ),
        (23, [CAUSE]),
        (0, [CAUSE]),
    ],
)
def test_a_fact_is_folded_below_its_value_unless_there_is_no_room(most, expected):
    assert folded(CAUSE, most) == expected


@pytest.mark.parametrize("text", ["训练" * 40, "x" * 99, "a  " * 30, " " * 50, "e\u0301" * 60])
def test_folded_lines_are_not_too_wide_and_nothing_is_lost(text):
    for fact, most in product((text, f"why  {text}"), range(1, 45)):
        lines = folded(fact, most)
        assert len(lines) == 1 or all(columns_of(line) <= most for line in lines)
        assert "".join(lines).replace(" ", "") == fact.replace(" ", "")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1_258_291, "1.2 MiB"),
        (5 * 1024**4, "5.0 TiB"),
        (10**18, "909494.7 TiB"),
    ],
)
def test_a_size_has_one_unit(number, text):
    assert size(number) == text
