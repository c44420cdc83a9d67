"""A look at all ranks: their stacks in files, and who waits where in one sentence.

Nothing is ended by it. It is bounded, and cut short when we are told to stop; what was seen until
then counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from signal import Signals
from typing import Literal

import anyio

from ascend_supervisor.events.hangs import StacksTaken
from ascend_supervisor.files.watch import SlowFiles
from ascend_supervisor.job_files import Place
from ascend_supervisor.life import Life
from ascend_supervisor.received_signals import Interrupts
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.settings.hang_dump import HangDump
from ascend_supervisor.stacks.files import Written, file_names, write_all
from ascend_supervisor.stacks.seen import Looked, NothingSeen
from ascend_supervisor.stacks.stack_file_text import page
from ascend_supervisor.stacks.survey import AT_ONCE, KERNEL_SECONDS, Survey
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
        self._path = SlowFiles(KERNEL_SECONDS)
        self._writers = anyio.CapacityLimiter(1)

    async def look(self, life: Life) -> str:
        """Who waits where, and where the files are, before a hung generation is ended.

        Empty if nothing was seen.
        """
        taken = await self.take(life, "hang")
        return taken.sentence if isinstance(taken, StacksTaken) else ""

    async def take(self, life: Life, occasion: Occasion) -> StacksTaken | NothingSeen:
        """The event of a look, which is also reported.

        While another look at this generation is being taken, wait for that one's. A look takes
        18 s at most.
        """
        if self._how == "none":
            return NothingSeen("--hang-dump none was given")
        before = self._latest
        async with self._turn:
            latest = self._latest
            if latest is not None and latest is not before and latest.generation == life.generation:
                return latest
            taken = await self._taken(life, occasion)
            self._latest = taken if isinstance(taken, StacksTaken) else None
            return taken

    async def _taken(self, life: Life, occasion: Occasion) -> StacksTaken | NothingSeen:
        began = self._runtime.clock.elapsed()
        survey = Survey(self._how, self._runtime, self._readers, self._path)
        with anyio.move_on_after(SECONDS):
            if occasion == "dump":  # it delays nothing, not even the end of the ranks
                await survey.run(life)
            else:
                await first(partial(survey.run, life), self._interrupted)
        looks = survey.looks
        if not any(looked.processes or looked.has_ended for looked in looks):
            return NothingSeen(_obstacle(looks))
        written = await self._written(looks, life.generation, occasion)
        event = StacksTaken(
            generation=life.generation,
            directory=str(written.directory),
            files=written.files,
            summary=f"{whereabouts(looks)}{self._not_asked(looks)}{_refusal(written)}",
            duration_seconds=round(self._runtime.clock.elapsed() - began, 3),
        )
        self._runtime.report(event)
        return event

    def _not_asked(self, looks: Sequence[Looked]) -> str:
        """How many did not get the user's signal, because it would have ended them."""
        count = sum(looked.would_die for looked in looks)
        if not isinstance(self._how, Signals) or not count:
            return ""
        who = "1 rank without a handler" if count == 1 else f"{count} ranks without a handler"
        return f" ({self._how.name} was not sent to {who})"

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


def _obstacle(looks: Sequence[Looked]) -> str:
    notes = [note for looked in looks for note in looked.notes]
    if not looks:
        return "no process has been started yet"
    return notes[0] if notes else f"/proc has not answered within {SECONDS:g} s"


def _refusal(written: Written) -> str:
    if written.refusal is None:
        return ""
    which = "not all files" if written.files else "no file"
    return f" ({which} could be written to {written.directory}: {written.refusal})"
