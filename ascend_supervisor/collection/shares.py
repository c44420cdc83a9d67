"""How many bytes of each log are taken where there is no room for all; pure."""

from __future__ import annotations

from collections.abc import Sequence


def shares(sizes: Sequence[int], room: int) -> list[int]:
    """For each log so many bytes, at most ``room`` in all.

    Nobody gets more than it needs, and what it does not need goes to those that need more: no log
    is short while another one has a larger share.
    """
    given = [0] * len(sizes)
    waiting = sorted(range(len(sizes)), key=lambda index: sizes[index])
    for place, index in enumerate(waiting):
        given[index] = min(sizes[index], room // (len(waiting) - place))
        room -= given[index]
    return given


def shares_with_first(sizes: Sequence[int], room: int, first: int) -> list[int]:
    """The same, but of the room half is for the ``first`` of them, if they need it."""
    favoured = shares(sizes[:first], room // 2 if sizes[first:] else room)
    others = shares(sizes[first:], room - sum(favoured))
    left = room - sum(favoured) - sum(others)
    return [*_raised(favoured, sizes[:first], left), *others]


def _raised(given: Sequence[int], sizes: Sequence[int], room: int) -> list[int]:
    """What others have left over goes to these."""
    needs = [size - had for size, had in zip(sizes, given, strict=True)]
    return [had + more for had, more in zip(given, shares(needs, room), strict=True)]
