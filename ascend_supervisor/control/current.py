"""The generation that runs now, as requests find it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from ascend_supervisor.events.hangs import StacksTaken
from ascend_supervisor.life import Life
from ascend_supervisor.outcome import Ended
from ascend_supervisor.stacks.seen import NothingSeen
from ascend_supervisor.workers.generation import Company

Run = Callable[[Life, Company], Awaitable[Ended]]
Dump = Callable[[Life], Awaitable[StacksTaken | NothingSeen]]
"""Takes the stacks of a generation, and reports that."""


class Running(Struct):
    """A generation; ``can_restart`` says whether this server alone may end it for another one."""

    life: Life
    dump: Dump
    can_restart: bool


class Current:
    """``running`` is None between generations; ``latest`` stays after the end."""

    def __init__(self) -> None:
        self.running: Running | None = None
        self.latest: Life | None = None

    def watching(self, run: Run, dump: Dump, *, joins_others: bool) -> Run:
        """``run``, seen from here; ``joins_others``: the ranks need a process in another pod."""

        async def watched(life: Life, company: Company) -> Ended:
            alone = life.plan.start.holds_all_ranks and not joins_others
            self.running, self.latest = Running(life, dump, alone), life
            try:
                return await run(life, company)
            finally:
                self.running = None

        return watched
