"""A look at all ranks: their stacks in files, and who waits where in one sentence.

Nothing is ended by it. It is bounded, and cut short when we are told to stop; what was seen until
then counts. Each look has a directory of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from signal import Signals
from typing import Literal

import anyio
from msgspec import Struct

from ascend_supervisor.events.hangs import StacksTaken
from ascend_supervisor.files.directories import make_directories
from ascend_supervisor.files.watch import SlowFiles
from ascend_supervisor.job_files import Place
from ascend_supervisor.life import Life, NothingSeen
from ascend_supervisor.phrases import counted
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.settings.readers import HangDump
from ascend_supervisor.stacks.pyspy import BESIDE
from ascend_supervisor.stacks.seen import Looked
from ascend_supervisor.stacks.survey import AT_ONCE, KERNEL_SECONDS, Survey
from ascend_supervisor.stacks.whereabouts import page, whereabouts
from ascend_supervisor.stop_requests import Interrupts
from ascend_supervisor.tasks.race import first
from ascend_supervisor.tasks.threads import in_turn
from ascend_supervisor.workers.runtime import Runtime

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
MOST_DIRECTORIES = 1000
NAME_CHARACTERS = 60
_STRANGE = re.compile(r"[^A-Za-z0-9._-]")


class Written(Struct, frozen=True):
    """The names of the files that are complete; ``refusal`` is why not all are."""

    directory: Path
    files: tuple[str, ...] = ()
    refusal: str | None = None


def write_all(wanted: Path, texts: Iterable[tuple[str, str]]) -> Written:
    """Write ``texts``, each after its name, into ``wanted``; if that exists, ``wanted``-2, -3, ...

    An OSError is told as the refusal; a file that could be written in part only is removed.
    """
    done: list[str] = []
    try:
        directory = _made(wanted)
    except OSError as error:
        return Written(wanted, (), error.strerror or str(error))
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for name, text in texts:
                _write_one(handle, name, text.encode(errors="backslashreplace"))
                done.append(name)
        finally:
            os.close(handle)
    except OSError as error:
        with suppress(OSError):
            directory.rmdir()  # only an empty one
        return Written(directory, tuple(done), error.strerror or str(error))
    return Written(directory, tuple(done))


def _made(wanted: Path) -> Path:
    """Make a directory that nobody could have planted; raises OSError."""
    make_directories(wanted.parent)
    for directory in _candidates(wanted):
        with suppress(FileExistsError):
            directory.mkdir(mode=DIRECTORY_MODE)
            return directory
    wanted.mkdir()
    return wanted


def _candidates(wanted: Path) -> Iterator[Path]:
    yield wanted
    for number in range(2, MOST_DIRECTORIES):
        yield wanted.with_name(f"{wanted.name}-{number}")


def _write_one(directory: int, name: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, FILE_MODE, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except OSError:
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)
        raise


def file_names(names: Sequence[str]) -> list[str]:
    """A name of a file for each, all different: ``rank 3`` becomes rank-3.txt."""
    found: list[str] = []
    for name in names:
        plain = _STRANGE.sub("-", name)[:NAME_CHARACTERS].lstrip(".-") or "process"
        file, number = f"{plain}.txt", 1
        while file in found:
            number += 1
            file = f"{plain}-{number}.txt"
        found.append(file)
    return found


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

NO_PYTHON = " (Python stacks need py-spy: pip install py-spy)"
"""Said to an operator only: the cause of a hang is no place for advice about installing."""


class Stacks:
    """Takes the stacks of a generation as ``how`` says, one look at a time.

    py-spy is looked for on PATH and ``beside``.
    """

    def __init__(
        self,
        how: HangDump,
        place: Place,
        runtime: Runtime,
        interrupts: Interrupts,
        beside: Path = BESIDE,
    ) -> None:
        self._how = how
        self._place = place
        self._runtime = runtime
        self._interrupts = interrupts
        self._beside = beside
        self._turn = anyio.Lock()
        self._latest: StacksTaken | None = None
        self._readers = anyio.Semaphore(AT_ONCE)
        self._path = SlowFiles(KERNEL_SECONDS)
        self._writers = anyio.Semaphore(1)

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
        survey = Survey(self._how, self._runtime, self._readers, self._path, self._beside)
        with anyio.move_on_after(SECONDS):
            if occasion == "dump":  # it delays nothing, not even the end of the ranks
                await survey.run(life)
            else:
                await first(partial(survey.run, life), self._interrupted)
        looks = survey.looks
        if not any(looked.processes or looked.has_ended for looked in looks):
            return NothingSeen(_obstacle(looks))
        written = await self._written(looks, life.generation, occasion)
        lack = NO_PYTHON if occasion == "dump" and survey.lacks_pyspy else ""
        event = StacksTaken(
            generation=life.generation,
            directory=str(written.directory),
            files=written.files,
            summary=f"{whereabouts(looks)}{lack}{self._not_asked(looks)}{_refusal(written)}",
            duration_seconds=round(self._runtime.clock.elapsed() - began, 3),
        )
        self._runtime.report(event)
        return event

    def _not_asked(self, looks: Sequence[Looked]) -> str:
        """How many did not get the user's signal, because it would have ended them."""
        count = sum(looked.would_die for looked in looks)
        if not isinstance(self._how, Signals) or not count:
            return ""
        return f" ({self._how.name} was not sent to {counted(count, 'rank')} without a handler)"

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
                return await in_turn(write, self._writers)
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
