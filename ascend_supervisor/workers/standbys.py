"""The standbys of this server: started one after another, watched, and given to the next ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NoReturn

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from ascend_supervisor.events import Report
from ascend_supervisor.events.generations import StandbysReady
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.job_files import CANN_LOGS
from ascend_supervisor.process_spec import ProcessSpec, changed
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.children import Child, Children
from ascend_supervisor.processes.guardian_link import Guardian
from ascend_supervisor.settings.command_words import PythonProgram
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import first
from ascend_supervisor.workers.standby import (
    SILENT,
    RankAnswer,
    Standby,
    Warmed,
    WarmStart,
    has_cann,
    obstacle,
    read_too_early,
    warm_program,
)

LOOK_SECONDS, WARMING_ROOM_SECONDS = 5.0, 0.1
"""How often the free memory is looked at: while standbys wait, and while one makes its imports.

So often those that wait are asked whether they are there, too."""
WARM_SECONDS = 600.0
"""How long the imports of one may take."""
SPARE_PART, LEAST_SPARE, MOST_SPARE = 16, 64 << 20, 1 << 30
"""Standbys leave a sixteenth of the memory free, between 64 MiB and 1 GiB (bytes)."""
END_SECONDS = 5.0
SHORT = "there is too little memory beside the ranks"
TOO_EARLY = "the last generation ended before one was begun, as is done after its first step"


class Room(Struct, frozen=True):
    """``free`` tells how many bytes processes here may still take; None: unknown."""

    free: Callable[[], int | None]
    spare: int

    @classmethod
    def beside_ranks(cls, free: Callable[[], int | None]) -> Room:
        """A sixteenth of what is free now stays free."""
        part = (free() or 0) // SPARE_PART
        return cls(free, min(max(part, LEAST_SPARE), MOST_SPARE))

    @property
    def is_short(self) -> bool:
        free = self.free()
        return free is not None and free < self.spare


class Wish(Struct, frozen=True):
    """Standbys of these ranks, ``after`` so many seconds; ``at_once``, or one after another."""

    specs: tuple[ProcessSpec, ...] = ()
    after: float = 0.0
    at_once: bool = False

    @property
    def local_ranks(self) -> frozenset[int | None]:
        return frozenset(spec.local_rank for spec in self.specs)


class NewRank(Struct, frozen=True):
    """A process that was a standby; ``is_warm``: it had made its imports, and starts as it is."""

    child: Child
    is_warm: bool


class Standbys:
    """None are started before a wish; ``keep`` runs beside the job, until ``end``.

    They inherit ``environ``, changed as the spec of a rank says, and import ``imports``, too.
    """

    def __init__(
        self,
        children: Children,
        guardian: Guardian,
        environ: Mapping[str, str],
        imports: Sequence[str],
        room: Room,
        clock: Clock,
        report: Report,
    ) -> None:
        self._children = children
        self._guardian = guardian
        self._environ = environ
        self._imports = imports
        self._room = room
        self._clock = clock
        self._report = report
        self._standbys: list[Standby] = []
        self._wish = self._later = Wish()
        self._is_starting = self._has_started = False
        self._change = anyio.Event()
        self._told: set[str] = set()

    def want(self, wish: Wish) -> None:
        """From now on this, and nothing else, is to be ready; or once all ranks have started."""
        if self._is_starting:
            self._later = wish
        elif wish != self._wish:
            self._replace(wish)

    def _replace(self, wish: Wish) -> None:
        for standby in tuple(self._standbys):
            if not (standby.is_ready and any(self._is_for(standby, spec) for spec in wish.specs)):
                self._drop(standby)
        self._told = set()
        self._wish_now(wish)

    def halt(self) -> None:
        """A generation is about to start: start no more of them until ``go_on``."""
        self._is_starting, self._later = True, Wish()
        self._wish_now(Wish())

    def go_on(self) -> None:
        """All ranks have started: those that are left are of no use."""
        self._drop_all()
        self._is_starting, self._has_started = False, True
        self._told = set()
        self.want(self._later)

    def _wish_now(self, wish: Wish) -> None:
        self._wish = wish
        self._change.set()
        self._change = anyio.Event()

    def dismiss(self) -> None:
        """No restart follows."""
        self._drop_all()
        self.halt()

    async def become(
        self, spec: ProcessSpec, environ: Mapping[str, str], output: int
    ) -> NewRank | None:
        """The process of a standby that now is the rank of ``spec``; None if none can be it.

        One that still makes its imports is ahead of a new process, too, but not warm.
        """
        program = warm_program(spec)
        if isinstance(program, str):
            return None
        for standby in sorted(
            self._standbys, key=lambda one: one.spec.local_rank != spec.local_rank
        ):
            if not self._suits(standby, spec, program, environ):
                continue
            self._standbys.remove(standby)
            start = WarmStart(environ, program.words, str(spec.cwd))
            try:
                answer = await standby.become(start, output)
            except OSError as error:
                self._tell(spec, f"it cannot be told to go on: {error.strerror}")
                self._forget(standby)
                continue
            except BaseException:
                self._forget(standby)
                raise
            if answer is not None and answer.cold is not None:
                self._tell(spec, answer.cold)
            return NewRank(standby.child, answer == RankAnswer(None))
        if self._has_started and not self._told:
            self._tell(spec, TOO_EARLY)
        return None

    def _is_for(self, standby: Standby, spec: ProcessSpec) -> bool:
        """Whether it could become this rank now; if not, it never will."""
        program = warm_program(spec)
        if standby.spec.local_rank != spec.local_rank or isinstance(program, str):
            return False
        return self._suits(standby, spec, program, changed(self._environ, spec.environ))

    def _suits(
        self,
        standby: Standby,
        spec: ProcessSpec,
        program: PythonProgram,
        environ: Mapping[str, str],
    ) -> bool:
        if (
            not standby.lives
            or standby.cwd != str(spec.cwd)
            or not standby.program.is_same(program)
        ):
            return False
        others = set(read_too_early(standby.environ, environ))
        with suppress(OSError):  # if it cannot be seen, it may have
            # It differs between ranks, and is read when CANN's own library is loaded.
            if CANN_LOGS in others and not has_cann(standby.child.pid):
                others.discard(CANN_LOGS)
        if others and standby.spec.local_rank == spec.local_rank:
            name = min(others)
            self._tell(spec, f"it was started with another {name}, which is read only once")
        return not others

    async def keep(self) -> NoReturn:
        """Start what is wanted, and end what is of no use; for ever, or none is left."""
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    change = self._change
                    await first(partial(self._warm, tasks), change.wait)
        finally:
            self._drop_all()
        raise AssertionError

    async def _warm(self, tasks: TaskGroup) -> None:
        """Fulfil the wish, then watch the memory, and whether each is there."""
        await self._clock.sleep(self._wish.after)
        if self._wish.specs:
            await self._fulfil(self._wish, tasks)
        while self._standbys:
            await self._clock.sleep(LOOK_SECONDS)
            for standby in tuple(self._standbys):
                if not standby.ask():
                    self._refuse(standby, SILENT)
            if self._standbys and self._room.is_short:
                self._refuse(self._standbys[-1], SHORT)
        await anyio.sleep_forever()

    async def _fulfil(self, wish: Wish, tasks: TaskGroup) -> None:
        began = self._clock.elapsed()
        missing = wish.local_ranks - {standby.spec.local_rank for standby in self._standbys}
        begun = []
        for spec in wish.specs:
            if spec.local_rank in missing:
                standby = self._begin(spec, tasks)
                if standby is None or not (wish.at_once or await self._is_fit(standby)):
                    break
                begun.append(standby)
        if wish.at_once:
            for standby in begun:
                await self._is_fit(standby)
        taken = 0
        if self._standbys:
            with suppress(OSError), self._children.spare_descriptor():
                taken = sum(proc.resident_bytes(one.child.pid) for one in self._standbys)
            seconds = round(self._clock.elapsed() - began, 3)
            self._report(StandbysReady(len(self._standbys), seconds, taken))

    def _begin(self, spec: ProcessSpec, tasks: TaskGroup) -> Standby | None:
        """Start one; None if that cannot be, which is told."""
        program = warm_program(spec)
        if isinstance(program, str):
            self._tell(spec, program)
            return None
        if self._room.is_short:
            self._tell(spec, SHORT)
            return None
        environ = changed(self._environ, spec.environ)
        try:
            standby = Standby(spec, program, environ, self._imports, self._children)
        except OSError as error:
            self._tell(spec, f"it cannot be started: {error.strerror}")
            return None
        self._standbys.append(standby)
        self._guardian.watch(standby.identity)
        tasks.start_soon(self._watch, standby)
        return standby

    async def _is_fit(self, standby: Standby) -> bool:
        """Whether it is ready, and may become a rank; else it is ended."""
        told = await first(standby.warmed, self._out_of_room, self._too_slow)
        refused = told.refused or self._obstacle(standby)
        if refused:
            self._refuse(standby, refused)
        return not refused

    def _obstacle(self, standby: Standby) -> str | None:
        try:
            with self._children.spare_descriptor():
                return obstacle(standby.child.pid)
        except OSError as error:
            return f"what it has opened cannot be seen: {error.strerror}"

    async def _watch(self, standby: Standby) -> None:
        await standby.live()
        if standby in self._standbys and standby.is_ready:
            self._tell(standby.spec, standby.ending)
        self._drop(standby)  # its descriptors are closed by now

    async def _out_of_room(self) -> Warmed:
        while not self._room.is_short:
            await self._clock.sleep(WARMING_ROOM_SECONDS)
        return Warmed(refused=SHORT)

    async def _too_slow(self) -> Warmed:
        await self._clock.sleep(WARM_SECONDS)
        return Warmed(refused=f"its imports take more than {WARM_SECONDS:g} s")

    def _refuse(self, standby: Standby, why: str) -> None:
        self._tell(standby.spec, why)
        self._drop(standby)

    def _tell(self, spec: ProcessSpec, why: str) -> None:
        """One sentence for all ranks that have no standby for the same reason."""
        if why not in self._told:
            self._told.add(why)
            self._report(Diagnostic("--warm", f"{spec.name} has no standby: {why}", None))

    def _drop(self, standby: Standby) -> None:
        """End it, unless it is a rank by now, or was dropped already."""
        if standby in self._standbys:
            self._standbys.remove(standby)
            self._forget(standby)

    def _forget(self, standby: Standby) -> None:
        self._guardian.ended(standby.identity)
        standby.end()

    def _drop_all(self) -> None:
        for standby in tuple(self._standbys):
            self._drop(standby)

    async def end(self) -> None:
        """The job is over: none is left when this returns, or after END_SECONDS."""
        children = [standby.child for standby in self._standbys]
        self.dismiss()
        with anyio.move_on_after(END_SECONDS):
            for child in children:
                await child.ended()
