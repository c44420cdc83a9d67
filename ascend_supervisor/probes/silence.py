"""Notices that ranks hang: they write nothing, or do not notify, for longer than they may.

Nothing is written and nothing is polled meanwhile: a look says when the next one is due.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from math import inf

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.events import Report
from ascend_supervisor.events.hangs import HangSource
from ascend_supervisor.life import Life, Living
from ascend_supervisor.outcome import Fault
from ascend_supervisor.probes import Probe
from ascend_supervisor.probes.hang import Hang, SilentRank
from ascend_supervisor.probes.signs_of_life import Voice, Voices, voices
from ascend_supervisor.processes import proc
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import first


class Limits(Struct, frozen=True):
    """The options, in seconds; None is off.

    ``startup`` stands in place of the others until a rank's first sign of life. With a watchdog
    that is READY=1 or WATCHDOG=1, else its first byte or message. ``learns_hang``: the limit of
    all together is learnt elsewhere, from the steps.
    """

    hang: float | None = None
    rank_hang: float | None = None
    watchdog: float | None = None
    startup: float | None = None
    learns_hang: bool = False

    @property
    def shortest(self) -> float:
        given = (self.hang, self.rank_hang, self.watchdog, self.startup)
        return min((limit for limit in given if limit is not None), default=inf)

    @property
    def must_notify(self) -> bool:
        """Whether the ranks are to speak on their notify socket."""
        return self.watchdog is not None or self.startup is not None

    def starts_one_by_one(self, heard: Voices) -> bool:
        """Whether each rank must give a sign of life.

        If ``hang`` judges all together, those of others will do: most may print nothing.
        """
        has_hang = self.hang is not None or self.learns_hang
        judges_together = has_hang and self.watchdog is self.rank_hang is None
        return not (judges_together and any(voice.has_been_heard for voice in heard.outputs))

    @property
    def awaited(self) -> str:
        """What ends the start of a rank."""
        return "given a sign of life" if self.watchdog is None else "sent READY=1 or WATCHDOG=1"

    def of_start(self, voice: Voice) -> float | None:
        """The limit for the start, as long as it applies to ``voice``."""
        has_begun = voice.has_been_heard if self.watchdog is None else voice.is_up
        return None if has_begun or voice.has_ended else self.startup


class Deadline(Struct, frozen=True):
    """From the moment ``at`` on, ``voice`` hangs: what it owes was last seen at ``since``.

    ``at`` is later than ``limit`` seconds after that, if a rank has extended its limits.
    """

    source: HangSource
    voice: Voice
    since: float
    limit: float
    at: float

    @property
    def is_extended(self) -> bool:
        """Whether its rank has asked for more time (EXTEND_TIMEOUT_USEC)."""
        return self.voice.extended_until > self.since + self.limit


def judged(heard: Voices, limits: Limits, began: float, now: float) -> Hang | float:
    """The hang, if there is one ``now``; else after how many seconds to ask again.

    Until then there is none, unless a rank says so itself (WATCHDOG=trigger). ``began`` is when the
    processes were started.
    """
    deadlines = list(_deadlines(heard, limits, began))
    passed = [deadline for deadline in deadlines if deadline.at <= now]
    if passed:
        return _hang(passed, heard, limits, now)
    earliest = min((deadline.at for deadline in deadlines), default=inf)
    return min(earliest - now, limits.shortest)  # what starts later has no deadline before that


def _hang(passed: list[Deadline], heard: Voices, limits: Limits, now: float) -> Hang:
    first = min(passed, key=lambda deadline: deadline.at)
    silent = tuple(
        SilentRank(
            one.voice.name,
            one.voice.ranks,
            now - one.since,
            one.voice.last_line,
            one.voice.talked,
        )
        for one in passed
        if one.source == first.source
    )
    extended = [one for one in passed if one.source == first.source and one.is_extended]
    named = {one.ranks for one in silent}
    others = [now - voice.heard_at for voice in heard.ranks if voice.ranks not in named]
    return Hang(
        first.source,
        first.limit,
        silent,
        min(others, default=None),
        limits.awaited,
        is_extended=bool(extended),
    )


def _deadlines(heard: Voices, limits: Limits, began: float) -> Iterator[Deadline]:
    """Of all limits; of those that pass at the same moment, the one that says most comes first."""
    one_by_one = limits.starts_one_by_one(heard)
    for voice in heard.ranks:
        if triggered := [one.gave_up_at for one in voice.notified if one.gave_up_at is not None]:
            yield Deadline("trigger", voice, triggered[0], 0.0, triggered[0])
        if one_by_one and (limit := limits.of_start(voice)) is not None:
            yield _deadline("startup", voice, began, limit)
    if limits.hang is not None:
        yield from _of_all(heard.outputs, limits.hang, limits, began)
    for voice in heard.ranks:
        if limits.of_start(voice) is None:
            yield from _of_one(voice, limits, began)


def _of_all(
    outputs: Iterable[Voice], limit: float, limits: Limits, began: float
) -> Iterator[Deadline]:
    """They hang when the last of them does; the last words of ranks that have ended count, too."""
    silences = [_deadline("silence", voice, voice.heard_at, limit) for voice in outputs]
    last = max((_unless_starting(one, limits, began).at for one in silences), default=inf)
    for one in silences:
        if not one.voice.has_ended:
            yield replace(one, at=last)


def _unless_starting(silence: Deadline, limits: Limits, began: float) -> Deadline:
    limit = limits.of_start(silence.voice)
    return silence if limit is None else _deadline("startup", silence.voice, began, limit)


def _of_one(voice: Voice, limits: Limits, began: float) -> Iterator[Deadline]:
    if limits.watchdog is not None:
        yield from _of_watchdog(voice, limits.watchdog, began)
    if limits.rank_hang is not None:
        yield _deadline("rank_silence", voice, voice.heard_at, limits.rank_hang)


def _of_watchdog(voice: Voice, usual: float, began: float) -> Iterator[Deadline]:
    """A rank may choose its own limit (0 is none), and has none when it is stopping."""
    if voice.notified and all(one.is_stopping for one in voice.notified):
        return
    own = [one.watchdog_seconds for one in voice.notified if one.watchdog_seconds is not None]
    signs = [at for one in voice.notified for at in (one.ready_at, one.watchdog_at)]
    since = max((began, *(at for at in signs if at is not None)))
    if limit := min(own, default=usual):
        yield _deadline("watchdog", voice, since, limit)


def _deadline(source: HangSource, voice: Voice, since: float, limit: float) -> Deadline:
    extended = -inf if voice.has_ended else voice.extended_until
    return Deadline(source, voice, since, limit, max(since + limit, extended))


LOOK_AGAIN_SECONDS = 1.0
"""After a look at /proc for which no descriptor was left."""
MOST_SECONDS = 3600.0


class Silence(Probe):
    """Ends a generation that passes one of ``limits``, or that a rank itself calls hung."""

    def __init__(self, limits: Limits, clock: Clock, report: Report) -> None:
        self._limits = limits
        self._clock = clock
        self._report = report
        self._noticed: tuple[Life, Fault] | None = None

    async def must_end(self, life: Life) -> Fault:
        """The first hang of this life, which is reported once.

        Nothing is a hang any more when the generation is being ended: ranks that write a last
        checkpoint are silent.
        """
        if self._noticed is None or self._noticed[0] is not life:
            hang = await self._hang(life)
            self._report(hang.event(life.generation))
            self._noticed = life, hang.fault
        return self._noticed[1]

    async def _hang(self, life: Life) -> Hang:
        began = self._clock.now()
        while True:
            found = self._look(life, began)
            if isinstance(found, Hang):
                return found
            await self._wait(life, min(found, MOST_SECONDS))
            if life.is_ending:
                await anyio.sleep_forever()

    def _look(self, life: Life, began: float) -> Hang | float:
        try:
            gone = _gone(life)
        except OSError:
            return LOOK_AGAIN_SECONDS
        return judged(voices(life, gone), self._limits, began, self._clock.now())

    async def _wait(self, life: Life, seconds: float) -> None:
        """Sleep for so long, or until a rank says that it hangs or changes its own limit."""
        news = anyio.Event()
        before = _own_limits(life)

        def look_for_news() -> None:
            gave_up = any(one.gave_up_at is not None for one in life.notified.values())
            if gave_up or _own_limits(life) != before:
                news.set()

        life.listeners.add(look_for_news)
        try:
            await first(partial(self._clock.sleep, seconds), news.wait)
        finally:
            life.listeners.remove(look_for_news)


def _own_limits(life: Life) -> dict[int, float | None]:
    return {rank: one.watchdog_seconds for rank, one in life.notified.items()}


def _gone(life: Life) -> frozenset[int]:
    """The workers of launchers that have ended; raises OSError at EMFILE and the like."""
    return frozenset(
        pid
        for living in life.processes
        for pid in living.ranks_of_workers
        if not _lives(pid, living)
    )


def _lives(pid: int, launcher: Living) -> bool:
    """Another process that has got the number is not the launcher's child."""
    found = proc.stat(pid)
    return found is not None and found.parent == launcher.pid and not found.is_dead
