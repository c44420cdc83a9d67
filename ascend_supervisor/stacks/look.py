"""A look at all ranks: their stacks in files, and who waits where in one sentence.

Nothing is ended by it. It is bounded, and cut short when we are told to stop; what was seen until
then counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import anyio

from ascend_supervisor.events.hangs import StacksTaken
from ascend_supervisor.job_files import Place
from ascend_supervisor.life import Life
from ascend_supervisor.received_signals import Interrupts
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.settings.hang_dump import HangDump
from ascend_supervisor.stacks.files import Written, file_names, write_all
from ascend_supervisor.stacks.page import page
from ascend_supervisor.stacks.seen import Looked
from ascend_supervisor.stacks.survey import AT_ONCE, Survey
from ascend_supervisor.stacks.whereabouts import whereabouts
from ascend_supervisor.tasks.race import first
from ascend_supervisor.tasks.threads import Errand
from ascend_supervisor.workers.runtime import Runtime

SECONDS = 15.0
"""For looking; ending what is still running then, and writing, take 3 s more at most."""
WRITE_SECONDS = 2.0
HURRIED_WRITE_SECONDS = 0.5
"""When we were told to stop: the platform's grace runs."""

Occasion = Literal["hang", "dump"]
"""Why a look is taken: a generation hangs, or an operator asks."""
_WHY: Mapping[Occasion, str] = {
    "hang": "taken because it made no progress",
    "dump": "taken because an operator asked",
}


class Stacks:
    """Takes the stacks of a generation as ``how`` says, one look at a time."""

    def __init__(
        self, how: HangDump, place: Place, runtime: Runtime, interrupts: Interrupts
    ) -> None:
        self._how = how
        self._place = place
        self._runtime = runtime
        self._interrupts = interrupts
        self._turn = anyio.Lock()
        self._latest: StacksTaken | None = None
        self._readers = anyio.CapacityLimiter(AT_ONCE)
        self._writers = anyio.CapacityLimiter(1)

    async def look(self, life: Life) -> str:
        """Who waits where, before a hung generation is ended; empty if nothing was seen."""
        taken = await self.take(life, "hang")
        return "" if taken is None else taken.summary

    async def take(self, life: Life, occasion: Occasion) -> StacksTaken | None:
        """The event of a look, which is also reported; None if nothing was seen, or is to be.

        While another look at this generation is being taken, wait for that one's. A look takes
        18 s at most.
        """
        if self._how == "none":
            return None
        before = self._latest
        async with self._turn:
            latest = self._latest
            if latest is None or latest is before or latest.generation != life.generation:
                latest = self._latest = await self._taken(life, occasion)
            return latest

    async def _taken(self, life: Life, occasion: Occasion) -> StacksTaken | None:
        began = self._runtime.clock.elapsed()
        survey = Survey(self._how, self._runtime, self._readers)
        with anyio.move_on_after(SECONDS):
            if occasion == "dump":  # it delays nothing, not even the end of the ranks
                await survey.run(life)
            else:
                await first(partial(survey.run, life), self._interrupted)
        looks = survey.looks
        if not any(looked.processes or looked.has_ended for looked in looks):
            return None
        written = await self._written(looks, life.generation, occasion)
        event = StacksTaken(
            generation=life.generation,
            directory=str(written.directory),
            files=written.files,
            summary=f"{whereabouts(looks)}{_refusal(written)}",
            duration_seconds=round(self._runtime.clock.elapsed() - began, 3),
        )
        self._runtime.report(event)
        return event

    async def _interrupted(self) -> None:
        await self._interrupts.stop()

    async def _written(
        self, looks: Sequence[Looked], generation: int, occasion: Occasion
    ) -> Written:
        wanted = Path(self._place.log_dir, f"{self._place.job_id}-{occasion}-{generation}")
        headline = f"The stacks of generation {generation}, {_WHY[occasion]}"
        is_hurried = await self._interrupts.stop_within(0) is not None
        seconds = HURRIED_WRITE_SECONDS if is_hurried else WRITE_SECONDS
        write = partial(_write, wanted, looks, headline)
        try:
            with anyio.move_on_after(seconds):
                return await Errand(write, self._writers).result()
        except NoThread as error:
            return Written(wanted, (), str(error))
        return Written(wanted, (), f"the disk has not answered within {seconds:g} s")


def _write(wanted: Path, looks: Sequence[Looked], headline: str) -> Written:
    names = file_names([looked.subject.name for looked in looks])
    return write_all(
        wanted, ((name, page(one, headline)) for name, one in zip(names, looks, strict=True))
    )


def _refusal(written: Written) -> str:
    if written.refusal is None:
        return ""
    which = "not all files" if written.files else "no file"
    return f" ({which} could be written to {written.directory}: {written.refusal})"
