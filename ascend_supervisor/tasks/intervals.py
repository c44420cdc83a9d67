"""How often to tell that a wait goes on: soon at first, then seldom; pure."""

from __future__ import annotations

from msgspec import Struct


class Interval(Struct, frozen=True):
    """So many ``seconds`` until the next message; each following interval is twice as long.

    None is longer than ``most`` seconds.
    """

    seconds: float
    most: float

    @property
    def longer(self) -> Interval:
        return Interval(min(2 * self.seconds, self.most), self.most)


TABLE = Interval(10.0, 300.0)
"""Between two messages with the same reason."""
CLUSTER = Interval(30.0, 300.0)
RELEASE = Interval(10.0, 60.0)
STOP = Interval(5.0, 60.0)
SWEEP = Interval(3.0, 60.0)
"""After SIGKILL: what is left then is stuck in the kernel."""
