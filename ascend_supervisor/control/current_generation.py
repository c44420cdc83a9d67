"""The generation that runs now, as requests find it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from ascend_supervisor.events.hangs import StacksTaken
from ascend_supervisor.life import Life, Start
from ascend_supervisor.outcome import Ended
from ascend_supervisor.stacks.seen import NothingSeen
from ascend_supervisor.workers.generation import Company

Run = Callable[[Life, Company], Awaitable[Ended]]
Dump = Callable[[Life], Awaitable[StacksTaken | NothingSeen]]
"""Takes the stacks of a generation, and reports that."""


class Running(Struct):
    """A generation; ``can_restart`` says whether a request here may end it for another one."""

    life: Life
    dump: Dump
    can_restart: bool


class Current:
    """``running`` is None between generations; ``latest`` stays after the end."""

    def __init__(self) -> None:
        self.running: Running | None = None
        self.latest: Life | None = None

    def watching(self, run: Run, dump: Dump, reaches_all: Callable[[Start], bool]) -> Run:
        """``run``, seen from here; ``reaches_all``: whether a restart here restarts every rank."""

        async def watched(life: Life, company: Company) -> Ended:
            self.running = Running(life, dump, reaches_all(life.plan.start))
            self.latest = life
            try:
                return await run(life, company)
            finally:
                self.running = None

        return watched
