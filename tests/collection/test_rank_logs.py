"""Whose bytes are taken where there is no room for all."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies

from ascend_supervisor.collection.rank_logs import shares, shares_with_first

SIZES = strategies.lists(strategies.integers(0, 1000), max_size=20)
ROOM = strategies.integers(0, 5000)


@pytest.mark.parametrize(
    ("sizes", "room", "found"),
    [
        ([], 10, []),
        ([5, 5], 10, [5, 5]),
        ([1, 100, 100], 21, [1, 10, 10]),
        ([100, 1, 100], 0, [0, 0, 0]),
        ([3, 3, 3], 10, [3, 3, 3]),
    ],
)
def test_who_needs_little_gets_it_and_the_others_the_same(sizes, room, found):
    assert shares(sizes, room) == found


@pytest.mark.parametrize(
    ("sizes", "room", "found"),
    [
        ([100, 100, 100], 100, [50, 25, 25]),
        ([10, 100, 100], 100, [10, 45, 45]),
        ([100, 5, 5], 100, [90, 5, 5]),
        ([100], 60, [60]),
    ],
)
def test_who_failed_first_has_half_of_the_room_and_what_others_leave(sizes, room, found):
    assert shares_with_first(sizes, room, 1) == found


@given(SIZES, ROOM, strategies.integers(0, 20))
def test_nobody_gets_more_than_it_has_and_no_room_is_wasted(sizes, room, first):
    given_out = shares_with_first(sizes, room, first)
    assert all(0 <= had <= size for had, size in zip(given_out, sizes, strict=True))
    assert sum(given_out) <= room
    missing = sum(sizes) - sum(given_out)
    assert not missing or room - sum(given_out) <= 2 * len(sizes)
