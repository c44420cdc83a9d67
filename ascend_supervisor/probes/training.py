"""Reads the steps of the training from what ranks write and notify, and notices that none comes.

It is asleep while the ranks are quiet, and looks at their output so often as ``rest_after`` says.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.events import Event, Report
from ascend_supervisor.events.supervisor import Diagnostic, defect
from ascend_supervisor.events.training import TrainingStalled, TrainingStarted
from ascend_supervisor.life import Life, Notified
from ascend_supervisor.outcome import Fault, Reached
from ascend_supervisor.output.last_lines import Activity, to_nobody
from ascend_supervisor.probes import Probe
from ascend_supervisor.probes.hang import Hang, SilentRank
from ascend_supervisor.probes.read_output import LOOK_BYTES, ReadOutput, rest_after
from ascend_supervisor.probes.signs_of_life import voices
from ascend_supervisor.progress.account import KeptAccount
from ascend_supervisor.progress.pattern_format import PatternFormat
from ascend_supervisor.progress.progress import SharedSteps
from ascend_supervisor.progress.reader import Reader
from ascend_supervisor.progress.reading import Reading
from ascend_supervisor.progress.record import TrainingRecord
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import first

OTHERS_SECONDS = 1.0
"""How often the output of ranks is looked at when another one tells the steps."""
MOST_SECONDS = 3600.0
START_SECONDS = 0.05
"""How often to look for further processes while a generation is being started."""
NOTIFIED = "notify"
"""The format of steps that come over the notify socket."""


class Attention(Struct, frozen=True):
    """Whether steps are read (``is_on``), also by the ``patterns`` of the user.

    ``tells_stalls``: report that no step comes; ``ends_hangs``: end the generation then. The first
    step is overdue after ``startup`` seconds at the earliest.
    """

    is_on: bool = True
    patterns: tuple[PatternFormat, ...] = ()
    tells_stalls: bool = True
    ends_hangs: bool = False
    startup: float | None = None


LOOK_SECONDS = 20.0
"""How long a look at ranks that make no step may take."""


class Training(Probe):
    """Keeps ``record`` up to date; ``look`` says where the ranks are that make no step."""

    def __init__(
        self,
        record: TrainingRecord,
        attention: Attention,
        look: Callable[[Life], Awaitable[str]],
        clock: Clock,
        report: Report,
    ) -> None:
        self._record = record
        self._attention = attention
        self._look_at_ranks = look
        self._clock = clock
        self._report = report
        self._life: Life | None = None
        self._sources: dict[int, ReadOutput] = {}
        self._notified: dict[int, Notified] = {}
        self._step_at = 0.0
        self._steps_told = record.steps_told
        self._has_stepped = anyio.Event()
        self._is_told = False
        self._fault: Fault | None = None
        self._is_broken = False
        self._told_patterns: dict[PatternFormat, str] = {}

    async def released(self) -> None:
        """A generation is being prepared: the time from now on goes to waiting."""
        self._record.wait(self._clock.elapsed())

    def begin(self, life: Life) -> None:
        """To be called before the first process of ``life``."""
        self._life, self._sources, self._notified = life, {}, {}
        self._step_at, self._is_told, self._fault = self._clock.now(), False, None
        self._is_broken = False
        self._has_stepped = anyio.Event()
        self._record.begin(life.generation, self._clock.elapsed())

    def stop(self, *, hung: bool, completed: bool) -> None:
        """To be called at the first reason to end: the ranks ``hung``, or all is ``completed``."""
        if self._life is not None and self._attention.is_on and not self._is_broken:
            with self._harmless():  # steps that were not looked at yet are no silence
                self._look(self._life)
        with self._harmless():
            self._record.stop(self._clock.elapsed(), hung=hung, completed=completed)

    def end(self, life: Life) -> Reached:
        """How far ``life`` came; to be called when all its output has been read."""
        if self._attention.is_on and not self._is_broken:
            with self._harmless():
                self._finish(life)
        return self._record.end(self._clock.elapsed())

    def _finish(self, life: Life) -> None:
        self._find_sources(life)
        for source in self._sources.values():
            at = self._heard_at(source)
            self._take(source.rank, source.read(at))
            self._take(source.rank, source.reader.end(at))
        self._hear(life)
        self._tell_slow_patterns()

    async def must_end(self, life: Life) -> Fault:
        """A hang that is noticed by the steps, with --hang-timeout auto."""
        if self._fault is not None:
            return self._fault
        if self._attention.is_on and not self._is_broken:
            with self._harmless():
                return await self._hang(life)
        await anyio.sleep_forever()
        raise AssertionError

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        """A defect of ours in here is reported; no further step of this generation is read then."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  (the ranks do not need their steps read)
            self._is_broken = True
            self._report(defect(error))

    async def _hang(self, life: Life) -> Fault:
        while True:
            await self._news(life)
            began = self._clock.elapsed()
            read = self._look(life)
            spent = self._clock.elapsed() - began
            if self._overdue(life) <= 0:
                fault = await self._stalled(life)
                if fault is not None:
                    self._fault = fault
                    return fault
            await self._clock.sleep(rest_after(spent, read))

    async def _news(self, life: Life) -> None:
        """Return when there is output or a message, or when a step is overdue."""
        news = anyio.Event()
        self._find_sources(life)
        activities = [source.activity for source in self._sources.values()]
        if any(source.seen < source.activity.bytes for source in self._sources.values()):
            return
        for activity in activities:
            activity.tell = news.set
        life.listeners.add(news.set)
        wait = min(self._overdue(life), MOST_SECONDS)
        if len(life.processes) < len(life.plan.specs):
            wait = min(wait, START_SECONDS)
        try:
            await first(partial(self._clock.sleep, wait), news.wait)
        finally:
            life.listeners.remove(news.set)
            for activity in activities:
                activity.tell = to_nobody

    def _look(self, life: Life) -> int:
        """Read what is new; where a rank tells the steps, the others only now and then.

        Gives the number of bytes that were read.
        """
        read, now, teller = 0, self._clock.elapsed(), self._record.teller
        for source in self._sources.values():
            is_other = teller is not None and source.rank != teller
            if is_other and now - source.looked_at < OTHERS_SECONDS:
                continue
            read += min(source.activity.bytes - source.seen, LOOK_BYTES)
            source.looked_at = now
            self._take(source.rank, source.read(self._heard_at(source), LOOK_BYTES))
        self._hear(life)
        self._tell_slow_patterns()
        return read

    def _heard_at(self, source: ReadOutput) -> float:
        """When its latest output came, by ``elapsed``: a look may be half a second later."""
        age = max(self._clock.now() - source.activity.spoke_at, 0.0)
        return self._clock.elapsed() - age

    def told(self) -> SharedSteps | None:
        """What the ranks of this server have told, for the other servers."""
        return self._record.told(self._clock.elapsed())

    async def first_step(self) -> None:
        """Return when this generation has told a step."""
        await self._has_stepped.wait()

    @property
    def reached(self) -> Reached:
        """How far this generation has come, by all that is known here."""
        return self._record.reached

    def go_on(self, account: KeptAccount) -> None:
        """Go on with the account of the job, which was there before this server."""
        self._record.go_on(account, self._clock.elapsed())

    def hear(self, steps: SharedSteps) -> None:
        """Take in what another server has told."""
        with self._harmless():
            self._tell(self._record.hear(steps, self._clock.elapsed()))

    def _tell_slow_patterns(self) -> None:
        for pattern in self._attention.patterns:
            if pattern.slowness != self._told_patterns.get(pattern, ""):
                self._told_patterns[pattern] = pattern.slowness
                self._report(Diagnostic("--progress-pattern", pattern.slowness, None))

    def _find_sources(self, life: Life) -> None:
        for rank, activity in _outputs(life):
            if id(activity) not in self._sources:
                reader = Reader(self._attention.patterns)
                self._sources[id(activity)] = ReadOutput(rank, activity, reader)

    def _hear(self, life: Life) -> None:
        """Take in what ranks have told over the notify socket."""
        for rank, told in life.notified.items():
            before = self._notified.get(rank)
            self._notified[rank] = told
            if _says_something(told) and (before is None or _steps(before) != _steps(told)):
                is_step = before is None or before.step_at != told.step_at
                at = told.step_at if is_step and told.step is not None else told.heard_at
                self._take(rank, [_reading(told, self._clock.elapsed() - self._clock.now() + at)])

    def _take(self, rank: int | None, readings: list[Reading]) -> None:
        self._tell(self._record.take(readings, rank))

    def _tell(self, events: list[Event]) -> None:
        """Report what follows from news; a step may be among them."""
        for event in events:
            self._report(self._completed(event))
        if self._record.steps_told != self._steps_told:
            self._steps_told = self._record.steps_told
            self._step_at, self._is_told = self._clock.now(), False
            self._has_stepped.set()

    def _completed(self, event: Event) -> Event:
        """With what only the processes show."""
        if not isinstance(event, TrainingStarted) or self._life is None:
            return event
        ranks = [living for living in self._life.processes if living.spec.significant]
        return replace(event, warm=bool(ranks) and all(living.is_warm for living in ranks))

    def _overdue(self, life: Life) -> float:
        """In how many seconds a step is overdue; inf if nobody is to be told.

        Whatever a rank prints meanwhile shows that it works. It may also have asked for more time.
        """
        limit = self._record.limit(told_here=life.plan.start.holds_all_ranks)
        wanted = self._attention.ends_hangs or (self._attention.tells_stalls and not self._is_told)
        if limit is None or not wanted or not life.processes or life.is_ending:
            return inf
        heard = max((activity.spoke_at for _, activity in _outputs(life)), default=self._step_at)
        asked = max((told.extended_until for told in life.notified.values()), default=0.0)
        due = max(heard, self._step_at, asked - limit) + limit
        if self._record.step is None and self._attention.startup is not None:
            due = max(due, self._step_at + self._attention.startup)
        return due - self._clock.now()

    async def _stalled(self, life: Life) -> Fault | None:
        """Tell that no step comes; the fault, if that ends the generation."""
        limit, step = self._record.limit(told_here=True) or 0.0, self._record.step
        if self._attention.ends_hangs:
            hang = _hang(life, step, limit, self._clock.now())
            self._report(hang.event(life.generation))
            return hang.fault
        seen = ""
        with anyio.move_on_after(LOOK_SECONDS):
            seen = await self._look_at_ranks(life)
        self._look(life)
        if self._overdue(life) > 0:
            return None
        silent = self._clock.now() - self._step_at
        self._is_told = True
        self._record.stalled(self._clock.elapsed() - silent, seen)
        self._report(
            TrainingStalled(life.generation, step, round(silent, 3), round(limit, 3), seen)
        )
        return None


def _outputs(life: Life) -> Iterator[tuple[int | None, Activity]]:
    """Those of ranks; of a launcher's pipe the rank is unknown."""
    for living in life.processes:
        if living.spec.significant:
            yield living.spec.rank, living.activity
            logs = zip(living.spec.worker_logs, living.activity_of_workers, strict=True)
            yield from ((log.rank, activity) for log, activity in logs)


def _says_something(told: Notified) -> bool:
    return told.step is not None or told.checkpoint is not None


def _steps(told: Notified) -> tuple[object, ...]:
    return told.step, told.step_at, told.steps, told.step_seconds, told.checkpoint


def _reading(told: Notified, at: float) -> Reading:
    return Reading(
        at,
        NOTIFIED,
        step=told.step,
        steps=told.steps,
        seconds=told.step_seconds,
        checkpoint=told.checkpoint,
    )


def _hang(life: Life, step: int | None, limit: float, now: float) -> Hang:
    living = [voice for voice in voices(life, ()).outputs if not voice.has_ended]
    silent = tuple(
        SilentRank(voice.name, voice.ranks, now - voice.heard_at, voice.last_line, voice.talked)
        for voice in living
    )
    is_extended = any(voice.extended_until > voice.heard_at + limit for voice in living)
    last = "the first step has not come"
    awaited = last if step is None else f"no step has come after step {step:,}"
    return Hang("steps", limit, silent, awaited=awaited, is_extended=is_extended)
