"""The ranks' logs, as ctl prints them: with labels, or the bytes of one rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct, field

from ascend_supervisor.ctl.state import State, StateUnknown
from ascend_supervisor.ctl.table_files import spans
from ascend_supervisor.output.growing_logs import PutBytes, Tail, Tails, follow, print_all
from ascend_supervisor.output.labelled_log import LabelledLog
from ascend_supervisor.output.terminal import Label, named_label, rank_label
from ascend_supervisor.output.terminal_escapes import Shown
from ascend_supervisor.output.text_lines import TextLines
from ascend_supervisor.reporters.job_status import RankStatus, Status
from ascend_supervisor.settings.readers import RankSet
from ascend_supervisor.untrusted_text import plain


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


class RankTails(Struct):
    """The logs that were named so far, with labels unless one rank is ``wanted``.

    ``shown`` makes their lines fit for a terminal; None prints one rank's bytes unchanged.
    ``last_lines`` is how many lines of each log are printed of what it holds at first; None for
    all of them. ``in_colour``: so are the labels.
    """

    wanted: Wanted
    put: PutBytes
    shown: Shown | None
    last_lines: int | None = None
    in_colour: bool = False
    labelled: list[LabelledLog] = field(default_factory=list)
    _by_path: dict[str, tuple[Tail, PutBytes]] = field(default_factory=dict)

    @property
    def tails(self) -> Tails:
        return self._by_path.values()

    def name(self, status: Status) -> None:
        """Take in the logs that ``status`` names."""
        digits = len(str(max((rank.rank or 0 for rank in status.ranks), default=0)))
        for rank in status.ranks:
            if self.wanted.holds(rank.rank) and rank.log not in self._by_path:
                self._by_path[rank.log] = (self._tail_of(rank), self._put_of(rank, digits))

    def show_unfinished(self) -> None:
        """Show lines that have been unfinished for long enough."""
        for log in self.labelled:
            log.show_unfinished()

    def finish(self) -> None:
        """End unfinished lines; raises StateUnknown if logs could not be read."""
        for log in self.labelled:
            log.finish()
        troubles = [
            f"the log {plain(str(tail.path))} cannot be read: "
            f"{tail.trouble.strerror or tail.trouble}"
            for tail, _ in self.tails
            if tail.trouble
        ]
        if troubles:
            raise StateUnknown(*troubles)

    def _tail_of(self, rank: RankStatus) -> Tail:
        tail = Tail(Path(rank.log))
        if self.last_lines is not None:
            tail.skip_to_last(self.last_lines)
        return tail

    def _put_of(self, rank: RankStatus, digits: int) -> PutBytes:
        if self.shown is None:
            return self.put
        lines = TextLines(self._label_of(rank, digits), self.shown)
        self.labelled.append(LabelledLog(lines, self.put))
        return self.labelled[-1].put

    def _label_of(self, rank: RankStatus, digits: int) -> Label:
        if self.wanted.is_one_rank:
            return Label("", "")
        if rank.rank is None:
            return named_label(Path(rank.log).name)
        return rank_label(rank.rank, digits, in_colour=self.in_colour)


def print_logs(logs: RankTails, state: State, tell: Callable[[str], None]) -> None:
    """Print the logs' current content; raises StateUnknown if what was asked for has none.

    If only a part of it has none, ``tell`` gets the sentence about that.
    """
    logs.name(state.status)
    for one in logs.tails:
        print_all([one])
    _finish(logs, state, tell)


def follow_logs(
    logs: RankTails, state: State, read: Callable[[], State], tell: Callable[[str], None]
) -> None:
    """Print the logs and what is appended, until the supervisor is gone or has ended.

    ``read`` returns the current state, or raises StateUnknown: then the last state is used.
    Raises StateUnknown at the end for ranks that had no log.
    """
    latest = state

    def look() -> tuple[Tails, bool]:
        nonlocal latest
        latest = _renewed(latest, read)
        logs.name(latest.status)
        logs.show_unfinished()
        return logs.tails, not latest.is_final

    look()
    if (absent := _absent(logs, latest)) and not latest.is_final:
        tell(f"{absent}; waiting for it")
    follow(look)
    _finish(logs, latest, tell)


def _renewed(state: State, read: Callable[[], State]) -> State:
    try:
        return read()
    except StateUnknown:
        return state


def _finish(logs: RankTails, state: State, tell: Callable[[str], None]) -> None:
    absent = _absent(logs, state)
    if absent and not logs.tails:
        raise StateUnknown(absent)
    logs.finish()
    if absent:
        raise StateUnknown(absent)
    if gaps := logs.wanted.gaps(_known(state.status)).ranges:
        tell(_not_here(gaps, state.status))


def _absent(logs: RankTails, state: State) -> str:
    """The sentence about what was asked for and is not here; empty if all of it is."""
    status = state.status
    if not status.ranks or not (logs.tails or logs.wanted.sets):
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
