"""The ranks' logs, as ctl prints them: with labels, or the bytes of one rank."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from heapq import merge
from pathlib import Path
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from ascend_supervisor.ctl.out import Gathered
from ascend_supervisor.ctl.state import State, StateUnknown
from ascend_supervisor.ctl.table_files import spans
from ascend_supervisor.output.growing_logs import PutBytes, Tail, follow
from ascend_supervisor.output.terminal import Label, named_label, rank_label
from ascend_supervisor.output.text_lines import MOST_SECONDS, UNFINISHED_SECONDS, TextLines
from ascend_supervisor.reporters.status_document import RankStatus, Status
from ascend_supervisor.settings.readers import RankSet
from ascend_supervisor.untrusted_text import Shown, plain

APART = b"--\n"
"""Between groups of lines that do not follow each other, as grep prints it."""


class Wanted(Struct, frozen=True):
    """Whose logs: of the ranks in one of ``sets``; without any, of all processes."""

    sets: tuple[RankSet, ...] = ()

    @property
    def is_one_rank(self) -> bool:
        return len(self.sets) == 1 and sum(map(len, self.sets[0].ranges)) == 1

    def holds(self, rank: int | None) -> bool:
        return not self.sets or (rank is not None and any(rank in one for one in self.sets))

    def missing(self, known: list[int]) -> tuple[RankSet, ...]:
        """The sets that hold none of the ``known`` ranks."""
        return tuple(one for one in self.sets if not any(rank in one for rank in known))

    def gaps(self, known: list[int]) -> RankSet:
        """The ranks of all sets that are not among the ``known`` ones."""
        spans = [span for one in self.sets for span in one.ranges]
        return RankSet(tuple(gap for span in spans for gap in _gaps(span, sorted(known))))


def _gaps(span: range, known: list[int]) -> Iterator[range]:
    """The parts of ``span`` between the ``known`` ranks, which are in order."""
    start = span.start
    for end in (*(rank for rank in known if rank in span), span.stop):
        if start < end:
            yield range(start, end)
        start = end + 1


class LineGroup(NamedTuple):
    """Lines of a log that belong together; ``time`` (since the epoch) is for their order."""

    time: float
    lines: bytes


LineGroups = Generator[LineGroup, None, None]


class ShownLog(Protocol):
    """What is printed of the log at ``path``."""

    path: Path

    @property
    def trouble(self) -> OSError | None:
        """Why it cannot be read."""

    def groups(self) -> LineGroups:
        """What is there now and was not returned yet."""

    def rest(self) -> Iterable[LineGroup]:
        """Its unfinished line, if that was not returned."""


class WholeLog:
    """A log with all that is in it, or with its ``last_lines`` only."""

    def __init__(self, path: Path, last_lines: int | None) -> None:
        self.path = path
        self._tail = Tail(path)
        if last_lines is not None:
            self._tail.skip_to_last(last_lines)

    @property
    def trouble(self) -> OSError | None:
        return self._tail.trouble

    def groups(self) -> LineGroups:
        return (LineGroup(0.0, piece) for piece in self._tail.more())

    def rest(self) -> Iterable[LineGroup]:
        return ()


Printed = Collection[tuple[ShownLog, PutBytes]]
"""Logs, and where each of them goes."""
PutLines = Generator[tuple[PutBytes, bytes], None, None]


class RankLogsShown(Struct):
    """The logs that were named so far, with labels unless one rank is ``wanted``.

    ``source`` opens a log. ``shown`` makes the lines fit for a terminal; None prints one rank's
    bytes unchanged. ``in_colour``: so are the labels. ``is_merged``: in the order of time.
    ``between`` goes between two groups of lines.
    """

    wanted: Wanted
    put: PutBytes
    shown: Shown | None
    source: Callable[[Path], ShownLog]
    in_colour: bool = False
    is_merged: bool = False
    between: bytes = b""
    labelled: list[LabelledLog] = field(default_factory=list)
    _by_path: dict[str, tuple[ShownLog, PutBytes]] = field(default_factory=dict)
    _out: Gathered | None = None

    @property
    def _gathered(self) -> Gathered:
        self._out = self._out or Gathered(self.put)
        return self._out

    @property
    def has_any(self) -> bool:
        return bool(self._by_path)

    def name(self, status: Status) -> None:
        """Take in the logs that ``status`` names."""
        digits = len(str(max((rank.rank or 0 for rank in status.ranks), default=0)))
        for rank in status.ranks:
            if self.wanted.holds(rank.rank) and rank.log not in self._by_path:
                self._by_path[rank.log] = (
                    self.source(Path(rank.log)),
                    self._put_of(rank, digits),
                )

    def print_new(self) -> bool:
        """Print what is there and was not printed; returns whether there was anything."""
        order = in_time if self.is_merged else one_by_one
        found = False
        with closing(order(self._by_path.values())) as lines:
            for put, some in lines:
                put(self.between + some if found else some)
                found = True
        self._gathered.flush()
        return found

    def show_unfinished(self) -> None:
        """Show lines that have been unfinished for long enough."""
        for log in self.labelled:
            log.show_unfinished()
        self._gathered.flush()

    def finish(self) -> None:
        """End unfinished lines; raises StateUnknown if logs could not be read."""
        for source, put in self._by_path.values():
            for group in source.rest():
                put(group.lines)
        for log in self.labelled:
            log.finish()
        self._gathered.flush()
        troubles = [
            f"the log {plain(str(source.path))} cannot be read: "
            f"{source.trouble.strerror or source.trouble}"
            for source, _ in self._by_path.values()
            if source.trouble
        ]
        if troubles:
            raise StateUnknown(*troubles)

    def _put_of(self, rank: RankStatus, digits: int) -> PutBytes:
        if self.shown is None:
            return self._gathered.put
        lines = TextLines(self._label_of(rank, digits), self.shown)
        self.labelled.append(LabelledLog(lines, self._gathered.put))
        return self.labelled[-1].put

    def _label_of(self, rank: RankStatus, digits: int) -> Label:
        if self.wanted.is_one_rank:
            return Label("", "")
        if rank.rank is None:
            return named_label(Path(rank.log).name)
        return rank_label(rank.rank, digits, in_colour=self.in_colour)


def one_by_one(logs: Printed) -> PutLines:
    """What is to be put, and where: log by log."""
    for source, put in logs:
        with closing(source.groups()) as groups:
            for group in groups:
                yield put, group.lines


def in_time(logs: Printed) -> PutLines:
    """The same, what is earlier first; nothing is moved within a log."""
    puts = [put for _, put in logs]
    with ExitStack() as stack:
        streams = [stack.enter_context(closing(source.groups())) for source, _ in logs]
        numbered = (_numbered(number, groups) for number, groups in enumerate(streams))
        for _, number, lines in merge(*numbered):
            yield puts[number], lines


def _numbered(number: int, groups: Iterator[LineGroup]) -> Iterator[tuple[float, int, bytes]]:
    for group in groups:
        yield group.time, number, group.lines


def print_logs(logs: RankLogsShown, state: State, tell: Callable[[str], None]) -> None:
    """Print the logs' current content; raises StateUnknown if what was asked for has none.

    If only a part of it has none, ``tell`` gets the sentence about that.
    """
    logs.name(state.status)
    logs.print_new()
    _finish(logs, state, tell)


def follow_logs(
    logs: RankLogsShown, state: State, read: Callable[[], State], tell: Callable[[str], None]
) -> None:
    """Print the logs and what is appended, until the supervisor is gone or has ended.

    ``read`` returns the current state, or raises StateUnknown: then the last state is used.
    Raises StateUnknown at the end for ranks that had no log.
    """
    latest = state

    def renew() -> bool:
        nonlocal latest
        latest = _renewed(latest, read)  # first: what was written until then is found below
        logs.name(latest.status)
        logs.show_unfinished()
        return not latest.is_final

    def look() -> tuple[bool, bool]:
        goes_on = renew()
        return logs.print_new(), goes_on

    renew()
    if (absent := _absent(logs, latest)) and not latest.is_final:
        tell(f"{absent}; waiting for it")
    follow(look)
    _finish(logs, latest, tell)


def _renewed(state: State, read: Callable[[], State]) -> State:
    try:
        return read()
    except StateUnknown:
        return state


def _finish(logs: RankLogsShown, state: State, tell: Callable[[str], None]) -> None:
    absent = _absent(logs, state)
    if absent and not logs.has_any:
        raise StateUnknown(absent)
    logs.finish()
    if absent:
        raise StateUnknown(absent)
    if gaps := logs.wanted.gaps(_known(state.status)).ranges:
        tell(_not_here(gaps, state.status))


def _absent(logs: RankLogsShown, state: State) -> str:
    """The sentence about what was asked for and is not here; empty if all of it is."""
    status = state.status
    if not status.ranks or not (logs.has_any or logs.wanted.sets):
        about = f": {plain(status.why)}" if status.why else ""
        return f"no rank of {plain(status.pod)} has a log; the phase is {status.phase!r}{about}"
    known = _known(status)
    missing = logs.wanted.missing(known)
    return _not_here(logs.wanted.gaps(known).ranges, status) if missing else ""


def _known(status: Status) -> list[int]:
    return [known.rank for known in status.ranks if known.rank is not None]


def _not_here(gaps: tuple[range, ...], status: Status) -> str:
    are = "rank {} is" if sum(map(len, gaps)) == 1 else "ranks {} are"
    here = spans(_known(status))
    return f"{are.format(RankSet(gaps))} none of the ranks of {plain(status.pod)}, which are {here}"


class LabelledLog:
    """Puts ``lines`` of what it is given; ``now`` is in seconds, from any beginning."""

    def __init__(
        self, lines: TextLines, put: PutBytes, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._lines = lines
        self._put = put
        self._now = now
        self._patience = UNFINISHED_SECONDS
        self._due: float | None = None
        """When the unfinished line is to be shown; None if there is nothing new of it."""

    def put(self, piece: bytes) -> None:
        self._put_some(bytes(self._lines.render(piece, 0.0, None)))
        if b"\n" in piece:
            self._due, self._patience = None, UNFINISHED_SECONDS
        if self._due is None and not piece.endswith(b"\n"):
            self._due = self._now() + self._patience

    def show_unfinished(self) -> None:
        """Show the unfinished line, if it has been unfinished for long enough."""
        if self._due is not None and self._now() >= self._due:
            self._due = None
            self._patience = min(self._patience * self._lines.growth, MOST_SECONDS)
            self._put_some(bytes(self._lines.unfinished()))

    def finish(self) -> None:
        """End the unfinished line."""
        self._put_some(bytes(self._lines.rest(0.0, None)))

    def _put_some(self, lines: bytes) -> None:
        if lines:
            self._put(lines)
