"""What the whole table costs: no text makes the scan slow, and a failure takes less than 50 ms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import cycle

import pytest
from msgspec.structs import replace

from ascend_supervisor.causes.cause import CauseRow, Sign
from ascend_supervisor.causes.scan import Match, matches
from ascend_supervisor.causes.table import CAUSES
from ascend_supervisor.evidence.diagnosed import MOST_ERRORS, diagnosis_of
from ascend_supervisor.outcome import ExitStatus, Failure
from tests.causes.healthy import grown, healthy_logs
from tests.cost import cost, cpu_seconds

pytestmark = pytest.mark.thorough

ROWS = tuple(CAUSES.values())
SIGNS = [(row, sign) for row in ROWS for sign in row.signs]
PARTS = [sign.seen.removeprefix("^").split("*") for row in ROWS for sign in row.signs]
LONGEST = [max(parts, key=len) for parts in PARTS]
REVERSED = [part for parts in PARTS for part in reversed(parts) if part]
LETTERS = sorted({letter for parts in LONGEST for letter in parts})
HEALTHY = healthy_logs()["torch"]
MEGABYTE = 1_000_000
SEARCHED = 64 * 1024
MOST_SECONDS = 0.05
SLOW_SECONDS = 1.0
"""Ten times what the slowest costs; more than linear time would be hours."""
LONG = 200_000


def filled(parts: Iterable[str]) -> list[str]:
    """A megabyte of lines, made of these in turn."""
    lines: list[str] = []
    left = MEGABYTE
    for part in cycle(parts):
        if left <= 0:
            break
        lines.append(part)
        left -= len(part) + 1
    return lines


def nearly(sign: Sign) -> list[str]:
    """A long line that has the beginning of the sign all over."""
    part = max(sign.seen.removeprefix("^").split("*"), key=len)[:-1]
    return [part * (LONG // len(part))]


def found_in(row: CauseRow, sign: Sign, lines: Sequence[str]) -> list[Match]:
    return list(matches(lines, sign.where, [replace(row, signs=(sign,))]))


def scanned(lines: Sequence[str]) -> float:
    return cost(lambda: list(matches(lines, "exception", ROWS)))


HOSTILE: Mapping[str, Callable[[], list[str]]] = {
    "a line of one character": lambda: ["a" * MEGABYTE],
    "a line of blanks": lambda: [" " * MEGABYTE],
    "no lines but their ends": lambda: [""] * MEGABYTE,
    "the parts of signs, a line each": lambda: filled(LONGEST),
    "the parts of signs, on one line": lambda: [" ".join(filled(LONGEST))],
    "the parts of signs in the wrong order": lambda: filled(REVERSED),
    "one part of a sign again and again": lambda: filled([max(LONGEST, key=len)]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_megabyte_costs_much_more_than_one_of_a_healthy_log(name: str):
    assert scanned(HOSTILE[name]()) < 6 * scanned(grown(HEALTHY, MEGABYTE))


@pytest.mark.parametrize("letter", LETTERS)
def test_a_megabyte_of_one_character_costs_no_more_than_others(letter: str):
    lines = [letter * MEGABYTE]
    assert cpu_seconds(lambda: list(matches(lines, "exception", ROWS))) < SLOW_SECONDS


def test_no_sign_alone_costs_more_than_linear_time():
    """In a line that is nearly the sign all over: its longest part without the last character."""
    slow = [
        (row.id, sign.seen)
        for row, sign in SIGNS
        if cpu_seconds(partial(found_in, row, sign, nearly(sign))) > SLOW_SECONDS
    ]
    assert slow == []


@pytest.mark.parametrize("status", [1, 3])
@pytest.mark.parametrize("lines", [grown(HEALTHY, SEARCHED), filled(LONGEST)], ids=["log", "parts"])
def test_a_failure_is_known_within_50_ms(lines: list[str], status: int):
    """With all that is searched of an output and of a plog."""
    end = tuple("\n".join(lines)[-SEARCHED:].splitlines())
    failure = Failure("rank 0", 0, 0, ExitStatus.of(status), 1.0, last_lines=end)
    plog = [
        f"[ERROR] HCCL(7,python):2026-11-26 [hccl.cc:{n}] Ret -> {n}" for n in range(MOST_ERRORS)
    ]
    assert cost(lambda: diagnosis_of(failure, plog)) < MOST_SECONDS
