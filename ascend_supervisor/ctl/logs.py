"""The ranks' logs, as ctl prints them: all with a label, or one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field

from ascend_supervisor.ctl.state import State, StateUnknown
from ascend_supervisor.ctl.text import spans
from ascend_supervisor.output.file_tail import Label, Put, Tail, Tails, follow, print_all
from ascend_supervisor.output.terminal_escapes import Shown
from ascend_supervisor.reporters.state_file import RankStatus, Status
from ascend_supervisor.untrusted_text import plain


class RankTails(Struct):
    """The logs that were named so far: of ``rank``, or of all ranks (None), with labels.

    ``shown`` makes their lines fit for a terminal; None prints one rank's bytes unchanged.
    """

    rank: int | None
    put: Put
    shown: Shown | None
    labels: list[Label] = field(default_factory=list)
    _by_path: dict[str, tuple[Tail, Put]] = field(default_factory=dict)

    @property
    def tails(self) -> Tails:
        return self._by_path.values()

    def name(self, status: Status) -> None:
        """Take in the logs that ``status`` names."""
        for rank in status.ranks:
            if self.rank in (None, rank.rank) and rank.log not in self._by_path:
                self._by_path[rank.log] = (Tail(Path(rank.log)), self._put_of(rank))

    def finish(self) -> None:
        """End unfinished lines; raises StateUnknown if logs could not be read."""
        for label in self.labels:
            label.finish()
        troubles = [
            f"the log {plain(str(tail.path))} cannot be read: "
            f"{tail.trouble.strerror or tail.trouble}"
            for tail, _ in self.tails
            if tail.trouble
        ]
        if troubles:
            raise StateUnknown(*troubles)

    def _put_of(self, rank: RankStatus) -> Put:
        if self.shown is None:
            return self.put
        name = f"rank {rank.rank}" if rank.rank is not None else plain(Path(rank.log).name)
        label = f"[{name}] " if self.rank is None else ""
        self.labels.append(Label(label.encode(errors="backslashreplace"), self.put, self.shown))
        return self.labels[-1].put


def print_logs(logs: RankTails, state: State) -> None:
    """Print the logs' current content; raises StateUnknown if there are no logs."""
    logs.name(state.status)
    if not logs.tails:
        raise StateUnknown(_nothing(state, logs.rank))
    for one in logs.tails:
        print_all([one])
    logs.finish()


def follow_logs(
    logs: RankTails, state: State, read: Callable[[], State], tell: Callable[[str], None]
) -> None:
    """Print the logs and what is appended, until the supervisor is gone or has ended.

    ``read`` returns the current state, or raises StateUnknown: then the last state is used.
    Raises StateUnknown at the end if there was nothing to follow.
    """
    latest = state

    def look() -> tuple[Tails, bool]:
        nonlocal latest
        latest = _renewed(latest, read)
        logs.name(latest.status)
        return logs.tails, not latest.is_final

    if not look()[0] and not latest.is_final:
        tell(f"{_nothing(latest, logs.rank)}; waiting for it")
    follow(look)
    if not logs.tails:
        raise StateUnknown(_nothing(latest, logs.rank))
    logs.finish()


def _renewed(state: State, read: Callable[[], State]) -> State:
    try:
        return read()
    except StateUnknown:
        return state


def _nothing(state: State, rank: int | None) -> str:
    status = state.status
    known = [known.rank for known in status.ranks if known.rank is not None]
    if rank is None or not status.ranks:
        about = f": {plain(status.why)}" if status.why else ""
        return f"no rank of {plain(status.pod)} has a log; the phase is {status.phase!r}{about}"
    return f"rank {rank} is none of the ranks of {plain(status.pod)}, which are {spans(known)}"
