"""How long ranks may be silent, and whether they have been for too long; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.events.hangs import HangSource
from ascend_supervisor.probes.hang import Hang, Silent
from ascend_supervisor.probes.signs_of_life import Voice, Voices


class Limits(Struct, frozen=True):
    """The options, in seconds; None is off.

    ``startup`` stands in place of the others until a rank's first sign of life. With a watchdog
    that is READY=1 or WATCHDOG=1, else its first byte or message.
    """

    hang: float | None = None
    rank_hang: float | None = None
    watchdog: float | None = None
    startup: float | None = None

    @property
    def shortest(self) -> float:
        given = (self.hang, self.rank_hang, self.watchdog, self.startup)
        return min((limit for limit in given if limit is not None), default=inf)

    def starts_one_by_one(self, heard: Voices) -> bool:
        """Whether each rank must give a sign of life.

        If ``hang`` judges all together, those of others will do: most may print nothing.
        """
        judges_together = self.hang is not None and self.watchdog is self.rank_hang is None
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
        Silent(one.voice.name, one.voice.ranks, now - one.since, one.voice.last_line)
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
