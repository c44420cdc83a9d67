"""The faults of a generation: every source is asked until the generation has ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

import anyio

from ascend_supervisor.errors import DEFECT
from ascend_supervisor.outcome import Fault, Remedy
from ascend_supervisor.tasks.clock import Clock

ASK_AGAIN_SECONDS = 1.0
"""A source answers at once while its answer holds; so it is asked again after a pause."""

Ending = Callable[[], Awaitable[Fault]]
"""Waits until the generation must end, and says why; answers at once while that still holds."""


class Faults:
    """The faults that the sources have reported, each once, in the order in which they came."""

    def __init__(self, endings: Sequence[Ending], clock: Clock) -> None:
        self._endings = endings
        self._clock = clock
        self._told: list[Fault] = []
        self._defect: Exception | None = None
        self._news = anyio.Event()

    @property
    def told(self) -> tuple[Fault, ...]:
        """The faults so far."""
        return tuple(self._told)

    async def first(self) -> Fault:
        """The first fault; if a source raises before that, a fault for its exception."""
        while not self._told:
            if self._defect is not None:
                return Fault(f"a defect: {self._defect!r}", DEFECT, Remedy.FINAL)
            await self._news.wait()
        return self._told[0]

    def check(self) -> None:
        """Raise the exception of a source, a defect; called when the generation has ended."""
        if self._defect is not None:
            raise self._defect

    async def more_than(self, known: int) -> None:
        """Return when there are more than ``known`` faults."""
        while len(self._told) <= known:
            await self._news.wait()

    async def listen(self) -> NoReturn:
        """Ask all sources, for as long as the generation lives; to be cancelled at its end."""
        async with anyio.create_task_group() as tasks:
            for ending in self._endings:
                tasks.start_soon(self._ask, ending)
            await anyio.sleep_forever()
        raise AssertionError

    async def _ask(self, ending: Ending) -> None:
        while True:
            try:
                fault = await ending()
            except Exception as error:  # noqa: BLE001  (raised by ``check`` when the generation has ended)
                self._defect = error
                self._tell()
                return
            if fault not in self._told:
                self._told.append(fault)
                self._tell()
            await self._clock.sleep(ASK_AGAIN_SECONDS)

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()
