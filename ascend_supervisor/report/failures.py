"""Why generations ended before their work was done; pure.

Each server tells its own end of a generation. Of these, one is the cause and the others follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.causes.diagnosis import Diagnosis
from ascend_supervisor.report.told import (
    ToldEvent,
    known_cause,
    lines,
    number,
    text,
    texts,
)

COMPLETED = "completed"
CONSEQUENCE = "a consequence: "
STOPPED = "told to stop by "


class GenerationEnd(Struct, frozen=True):
    """How a generation ended on one host.

    ``at`` is the first sign that it ends, ``ended`` when nothing of it was left, both in
    microseconds since the epoch. ``cause`` is a sentence of the supervisor. ``quoted`` are the last
    lines of the rank that failed first, or of those that hung. ``places`` says where ranks waited,
    ``files`` where their logs and stacks are. ``known`` is what the table of causes says.
    """

    host: str
    generation: int | None
    began: int
    at: int
    ended: int
    outcome: str
    rank: int | None = None
    cause: str = ""
    quoted: tuple[str, ...] = ()
    places: str = ""
    files: tuple[str, ...] = ()
    is_hang: bool = False
    next: str = ""
    steps_lost: int | None = None
    known: Diagnosis | None = None

    @property
    def weight(self) -> tuple[bool, bool, int]:
        """The least of several ends of one generation is its cause."""
        own = self.rank is not None or self.is_hang
        return CONSEQUENCE in self.cause, not own, self.at


class ReportedFailure(Struct, frozen=True):
    """A generation that ended before its work was done; ``others`` are the ends that followed."""

    first: GenerationEnd
    others: tuple[GenerationEnd, ...]


class GenerationEnds:
    """The ends of the generations of one host, from its events in their order."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._logs: dict[int, str] = {}
        self._open: GenerationEnd | None = None
        self.told: list[GenerationEnd] = []

    def take(self, event: ToldEvent, name: str, at: int) -> None:
        if name == "generation.started":
            found = number(event, "generation")
            self._open = GenerationEnd(self._host, found, at, 0, 0, "")
        elif name == "process.started" and type(event.get("rank")) is int:
            self._logs[event["rank"]] = text(event, "log")
        elif name in {"restart.scheduled", "supervisor.exited"} and self.told:
            self.told[-1] = _explained(self.told[-1], event, name)
        elif name == "training.started" and self.told:
            lost = number(event, "steps_lost")  # where the ranks went on is known only now
            if lost is not None:
                self.told[-1] = replace(self.told[-1], steps_lost=lost)
        elif self._open is not None:
            self._open = self._seen(self._open, event, name, at)

    def _seen(
        self, end: GenerationEnd, event: ToldEvent, name: str, at: int
    ) -> GenerationEnd | None:
        if name == "process.exited" and event.get("first_failure") is True and not end.at:
            rank = number(event, "rank")
            log = "" if rank is None else self._logs.get(rank, "")
            told = replace(end, at=at, rank=rank, cause=text(event, "msg"))
            return replace(told, files=(log,)) if log else told
        if name == "hang.noticed" and not end.at:
            return self._hung(end, event, at)
        if name == "stacks.taken":
            directory = text(event, "directory")
            files = (*end.files, directory) if directory else end.files
            return replace(end, places=text(event, "summary"), files=files)
        if name in {"cluster.incident", "signal.received"} and not end.at:
            return replace(end, at=at, cause=text(event, "msg"))
        if name == "generation.ended":
            self.told.append(_ended(end, event, at))
            return None
        return end

    def _hung(self, end: GenerationEnd, event: ToldEvent, at: int) -> GenerationEnd:
        found = event.get("ranks")
        ranks = found if isinstance(found, list) else []
        ranks = [rank for rank in ranks if type(rank) is int]
        said = zip(ranks, texts(event, "last_lines"), strict=False)
        quoted = tuple(f"rank {rank}: {line}" for rank, line in said)
        first = ranks[0] if ranks and _names_first(event, ranks) else None
        log = "" if first is None else self._logs.get(first, "")
        return replace(
            end,
            at=at,
            rank=first,
            cause=text(event, "msg"),
            quoted=quoted,
            files=(*end.files, log) if log else end.files,
            is_hang=True,
        )


def _names_first(event: ToldEvent, ranks: Sequence[int]) -> bool:
    """Whether the first of ``ranks`` stopped first; where all are silent, that may be unknown."""
    is_of_all = event.get("source") in {"silence", "steps"}
    return not is_of_all or len(ranks) == 1 or "stopped first" in text(event, "msg")


def _ended(end: GenerationEnd, event: ToldEvent, at: int) -> GenerationEnd:
    return replace(
        end,
        at=end.at or at,
        ended=at,
        outcome=text(event, "outcome"),
        cause=text(event, "cause") or end.cause,
        next=text(event, "next"),
        steps_lost=number(event, "steps_lost"),
        known=known_cause(event),
    )


def _explained(end: GenerationEnd, event: ToldEvent, name: str) -> GenerationEnd:
    """With the root cause, which is known when all servers have told theirs."""
    if name == "supervisor.exited" and end.next == "restart":  # it ended later, while it waited
        return end
    end = replace(end, known=known_cause(event) or end.known)
    cause, *quoted = lines(event, "root_cause") or (text(event, "reason"),)
    if name == "restart.scheduled":
        cause = text(event, "cause")
    return replace(end, cause=cause or end.cause, quoted=tuple(quoted) or end.quoted)


def failures(ends: Iterable[GenerationEnd]) -> tuple[ReportedFailure, ...]:
    """In the order of time."""
    failed = (one for one in ends if one.outcome not in {COMPLETED, "interrupted"})
    return tuple(sorted(map(_failure, _together(failed)), key=lambda failure: failure.first.at))


def _together(ends: Iterable[GenerationEnd]) -> Iterator[list[GenerationEnd]]:
    """Those of one generation, which have the same number and ran at the same time."""
    numbered = sorted(ends, key=lambda end: (end.generation or 0, end.began))
    group: list[GenerationEnd] = []
    for end in numbered:
        if group and (
            end.generation != group[0].generation or end.began > max(one.ended for one in group)
        ):
            yield group
            group = []
        group.append(end)
    if group:
        yield group


def _failure(ends: Sequence[GenerationEnd]) -> ReportedFailure:
    first, *others = sorted(ends, key=lambda end: end.weight)
    return ReportedFailure(first, tuple(others))
