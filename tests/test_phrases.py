"""Phrases that several events and messages share."""

from __future__ import annotations

import pytest

from ascend_supervisor.phrases import duration, listed, run_text, runs


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((-1.0, "0 s"), (0, "0 s"), (0.9, "0 s"), (59, "59 s"), (59.9, "59 s"), (60, "1 min")),
        *((61.0, "1 min 1 s"), (130, "2 min 10 s"), (1800, "30 min"), (3599, "59 min 59 s")),
        *((3600.0, "1 h"), (3605.0, "1 h"), (3900, "1 h 5 min"), (7800.0, "2 h 10 min")),
        *((86_400, "1 d"), (90_061, "1 d 1 h"), (1e12, "11574074 d 1 h")),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds, text):
    assert duration(seconds) == text


def test_of_many_names_the_others_are_counted():
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(range(5), 2) == "0, 1 and 3 more"


def test_numbers_without_a_gap_are_one_run():
    found = runs([9, 2, 0, 1, 2])
    assert found == [range(3), range(9, 10)]
    assert list(map(run_text, found)) == ["0-2", "9"]
