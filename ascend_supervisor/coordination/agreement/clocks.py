"""What a decision takes from the world: the time, and chance."""

from __future__ import annotations

from msgspec import Struct


class Clocks(Struct, frozen=True):
    """``now`` is in seconds of CLOCK_BOOTTIME, which goes on while the machine sleeps.

    ``word`` is random and was never used before: job ids and stamps are made of it. ``fraction`` is
    a random number in [0, 1).
    """

    now: float
    word: str
    fraction: float = 0.0
