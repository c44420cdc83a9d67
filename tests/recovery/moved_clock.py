"""A program: the supervisor, on a clock that a test moves. Nothing else of it is changed.

The variable CLOCK names a directory with two FIFOs. From ``orders`` it reads words: ``+S`` moves
the clock S seconds forward, ``hold`` stops it, ``run`` lets it follow real time again. Each is
answered with a byte in ``answers``.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from ascend_supervisor.caught_signals import CaughtSignals
from ascend_supervisor.cli import _leave
from ascend_supervisor.program.run import run
from ascend_supervisor.tasks.clock import MonotonicClock, RunningLoop

CLOCK = "TEST_CLOCK"
MOST_BYTES = 4096


class MovedLoop(RunningLoop):
    """Its time is real time and what was added to it, unless it is held.

    What was added shows in reported durations, too.
    """

    def __init__(self) -> None:
        self._ahead = 0.0
        self._held: float | None = None
        super().__init__()

        def elapsed(_: MonotonicClock) -> float:
            return time.monotonic() + self._ahead

        MonotonicClock.elapsed = elapsed  # type: ignore[assignment, method-assign]
        place = Path(os.environ[CLOCK])
        # For reading and writing, so that neither end is ever without the other.
        self._orders = os.open(place / "orders", os.O_RDWR | os.O_NONBLOCK)
        self._answers = os.open(place / "answers", os.O_RDWR)
        self.add_reader(self._orders, self._obey)

    def time(self) -> float:
        real = super().time()
        return (real if self._held is None else self._held) + self._ahead

    def _obey(self) -> None:
        for order in os.read(self._orders, MOST_BYTES).decode().split():
            self._move(order)
            os.write(self._answers, b".")

    def _move(self, order: str) -> None:
        real = super().time()
        if order == "hold":
            self._held = real
        elif order == "run" and self._held is not None:
            self._ahead -= real - self._held
            self._held = None
        elif order.startswith("+"):
            self._ahead += float(order)


def main() -> None:
    heard = CaughtSignals()
    _leave(run(sys.argv[1:], dict(os.environ), heard.listen, _leave, new_loop=MovedLoop))


if __name__ == "__main__":
    main()
