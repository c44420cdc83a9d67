"""The scan for signs of causes: what matches, where, and that its cost is linear."""

from __future__ import annotations

import pytest

from ascend_supervisor.causes.cause import Blame, CauseRow, Sign, Where
from ascend_supervisor.causes.scan import matches
from tests.cost import cost


def cause(seen: str, where: Where = "output") -> CauseRow:
    sign = Sign(seen, "", "", where)
    told = ("some text", "原因说明", "a remedy", "处理办法")
    return CauseRow("disk-full", "host", Blame.OWN, *told, (sign,))


def found(seen: str, *lines: str, where: Where = "output", may: Where = "output") -> list[int]:
    return [match.line for match in matches(lines, where, [cause(seen, may)])]


@pytest.mark.parametrize(
    ("seen", "lines", "at"),
    [
        ("No space left", ["a", "OSError: No space left on device"], [1]),
        ("No space left", ["No space", "left"], []),
        ("No*left*device", ["left No space on device", "No space left on device"], [1]),
        ("^KeyError: ", ["a KeyError: x", "KeyError: x"], [1]),
        ("^KeyError: ", ["KeyError: x"], [0]),
        ("^KeyError: *missing", ["KeyError: x is missing"], [0]),
        ("error*error", ["an error"], []),
        ("error*error", ["an error", "error after error"], [1]),
        ("No space left", ["No space left", "No space left"], [0]),
        ("No space left", [], []),
        ("a  wide gap here", ["a  wide gap here"], [0]),
        ("one two three", ["one two\tthree", "x one two threes"], [1]),
    ],
)
def test_a_sign_is_a_line_with_its_parts_in_their_order(seen, lines, at):
    assert found(seen, *lines) == at


@pytest.mark.parametrize(
    ("where", "may", "is_found"),
    [
        ("exception", "exception", True),
        ("output", "exception", False),
        ("plog", "exception", False),
        ("exception", "output", True),
        ("output", "output", True),
        ("plog", "output", False),
        ("exception", "plog", True),
        ("plog", "plog", True),
    ],
)
def test_what_is_deeper_may_also_be_printed(where, may, is_found):
    assert found("No space left", "No space left", where=where, may=may) == [0] * is_found


def test_more_of_a_line_weighs_more():
    (short,) = matches(["No space left on device"], "output", [cause("No space")])
    (long,) = matches(["No space left on device"], "output", [cause("No space*on device")])
    assert short.weight < long.weight


@pytest.mark.parametrize("seen", ["aaaa*b", "^aaaa*aaaab", "aaaaaaaaaaaaaaaaaaaab"])
@pytest.mark.parametrize("text", [["a" * 1_000_000], ["a" * 9] * 100_000], ids=["line", "lines"])
def test_a_megabyte_of_one_character_costs_no_more_than_another(seen, text):
    assert cost(lambda: found(seen, *text), times=1) < 0.5
    assert found(seen, *text) == []
