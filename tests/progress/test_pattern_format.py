"""Patterns of the user: what they tell, what is refused, and one that would take for ever."""

from __future__ import annotations

from time import process_time, thread_time

import pytest

from ascend_supervisor.progress.pattern_format import PatternFormat, format_of_pattern
from ascend_supervisor.progress.reader import Reader
from ascend_supervisor.progress.reading import Reading
from ascend_supervisor.progress.step_format import Numbers

ALL = (
    r"at (?P<step>[\d,]+) of (?P<steps>[\d,]+), epoch (?P<epoch>\d+), (?P<seconds>[\w.]+) s"
    r"(?:, kept (?P<checkpoint>\d+))?(?:, from (?P<resumed>\d+))?"
)


def test_a_pattern_tells_all_that_its_groups_name():
    reader = Reader([format_of_pattern(ALL)])
    line = b"at 1,200 of 5,000, epoch 3, 2.5 s, kept 1000, from 900\n"
    assert reader.read(line, 7.0) == [
        Reading(7.0, "pattern", resumed=900),
        Reading(7.0, "pattern", 1200, 5000, 3, 2.5),
        Reading(7.0, "pattern", checkpoint=1000),
    ]


@pytest.mark.parametrize(
    ("said", "numbers"),
    [
        ("at 7 of 9, epoch 1, nan s", Numbers(7, 9, 1)),
        ("at 7 of 1000000000001, epoch 1, 1 s", Numbers(7, None, 1, seconds=1.0)),
        (f"at {10**30} of {10**12}, epoch 1, 1.5.2 s", Numbers(None, 10**12, 1)),
        ("at ٣ of ,,, epoch 1, 1 s", Numbers(None, None, 1, seconds=1.0)),
    ],
)
def test_what_is_no_number_is_not_told(said: str, numbers: Numbers):
    assert format_of_pattern(ALL).find(said) == numbers


def test_steps_of_the_pattern_come_before_those_of_known_formats():
    reader = Reader([format_of_pattern(r"^my (?P<step>\d+)")])
    known = b"step:5 - loss:0.1\n"
    assert [one.step for one in reader.read(known, 0)] == [5]
    assert [one.step for one in reader.read(b"my 500\n", 0)] == [500]
    assert reader.read(b"step:6 - loss:0.1\n", 0) == []
    saved = b"  successfully saved checkpoint from iteration     100 to /c\n"
    assert [one.checkpoint for one in reader.read(saved, 0)] == [100]


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        (
            "(?P<step>",
            "a regular expression, which this is not (missing ) at position 9)",
        ),
        (
            r"step (\d+)",
            "a regular expression with a group (?P<step>...) or (?P<checkpoint>...)",
        ),
    ],
)
def test_what_cannot_tell_a_step_is_refused(expression: str, sentence: str):
    with pytest.raises(ValueError) as refused:  # noqa: PT011  (its sentence is compared)
        format_of_pattern(expression)
    assert str(refused.value) == sentence


def test_a_pattern_that_backtracks_for_ever_is_switched_off_for_all_readers():
    pattern: PatternFormat = format_of_pattern(r"^(([a-z])+.)+[A-Z](?P<step>\d)+$")
    readers = [Reader([pattern]), Reader([pattern])]
    before = process_time()
    for reader in readers:
        for _ in range(100):
            assert reader.read(b"a" * 4000 + b"\n", 0) == []
    assert pattern.is_slow
    assert process_time() - before < 1.0
    assert [one.step for one in readers[1].read(b"step:5 - loss:0.1\n", 0)] == [5]


def test_lines_that_are_almost_too_slow_do_not_add_up():
    pattern = format_of_pattern(r"^(?:(?P<step>\d+)|(([a-z])+.)+[A-Z])$", thread_time)
    reader = Reader([pattern])
    slow = (b"a" * 18 + b"\n") * 20_000
    before = thread_time()
    told = reader.read(b"7\n" + slow + b"8\n", 0)
    assert thread_time() - before < 0.7  # all of them would take twice as long
    assert not pattern.is_slow
    assert [one.step for one in told] == [7]
    assert [one.step for one in reader.read(b"9\n", 0)] == [9]
